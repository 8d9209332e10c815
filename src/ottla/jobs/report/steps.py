"""The report: survey, verify, cleaning and what-if, one after another; what runs them is given.

What cleaning would leave is counted by the tasks of `ottla compact --explain`. Logs without any key
are not counted: nobody means to compact their topics.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

import pyarrow as pa

from ottla.catalog.chosen import ChosenLogs
from ottla.errors import Row
from ottla.format.names import TopicPartition
from ottla.jobs.compact.plan import Compaction, plan_explanation, plan_surveys
from ottla.jobs.compact.survey import (
    SURVEYED_SCHEMA,
    CompactOptions,
    Surveyed,
    read_surveyed,
    survey_task,
)
from ottla.jobs.report.rows import (
    ReportOptions,
    compaction_row,
    head_row,
    open_transaction_rows,
    overhead_rows,
    topic_rows,
    what_if_row,
)
from ottla.jobs.report.survey import (
    SURVEY_SCHEMA,
    Survey,
    add_up,
    plan_survey,
    read_surveys,
    survey_part,
)
from ottla.jobs.report.what_if import (
    MEASURED_SCHEMA,
    SampledPartition,
    Setting,
    plan_what_if,
    try_unit,
)
from ottla.jobs.verify.findings import collect_findings
from ottla.jobs.verify.plan import VerifyOptions
from ottla.log.files.partition import Partition
from ottla.log.files.transaction_index import write_transaction_index
from ottla.rules.cleaner.cleanable import CleanerConfig

# As in the command that the report names.
_CLEANING: Final = CompactOptions(config=CleanerConfig(), includes_active=True)


class Sized(Protocol):
    """What a task is given; its size tells how far all of them are."""

    @property
    def size(self) -> int: ...


class Runner(Protocol):
    """Runs tasks, on Spark or wherever; these may leave files beside `scratch` while they run."""

    @property
    def scratch(self) -> str: ...

    def map(
        self,
        title: str,
        parts: Sequence[Sized],
        work: Callable[[Any], Iterable[pa.RecordBatch]],
        schema: pa.Schema,
    ) -> Iterable[Row]:
        """What `work` gives for each part, as rows."""

    def verify(self, partitions: Sequence[Partition], options: VerifyOptions) -> Iterable[Row]:
        """The violations of partitions."""

    def explain(self, plan: Compaction, surveyed: Sequence[Surveyed], now: int) -> Sequence[Row]:
        """What a cleaner would leave of each log."""


def build_report(
    runner: Runner,
    chosen: ChosenLogs,
    options: ReportOptions,
    settings: Sequence[Setting],
    now: int,
) -> list[Row]:
    """Every row of the report, the one about all of it first."""
    logs = chosen.logs()
    parts = plan_survey(logs, options.split_bytes, chosen.storage)
    surveyed = runner.map("survey", parts, survey_part, SURVEY_SCHEMA)
    surveys = read_surveys(surveyed, len(logs))
    wholes = {
        log.name: add_up(segments.values()) for log, segments in zip(logs, surveys, strict=True)
    }
    rows = list(topic_rows(logs, surveys))
    rows += _findings(runner, chosen, options)
    cleaning = plan_explanation(chosen, logs, runner.scratch, _CLEANING, now)
    known = _survey_headers(runner, cleaning, now)
    counted = [each for each in known if options.compaction and wholes[each.log.name].keyed]
    explained = _explain(runner, cleaning, counted, now)
    for each in known:
        rows.append(compaction_row(each, explained.get(each.log.name), wholes[each.log.name]))
        rows += open_transaction_rows(each, now)
    if options.what_if:
        sources = _sources(known, wholes)
        rows += _what_if(runner, sources, chosen, options, settings)
        rows += overhead_rows(rows)
    return [head_row(chosen, now, options, rows), *rows]


def _findings(runner: Runner, chosen: ChosenLogs, options: ReportOptions) -> list[Row]:
    partitions = chosen.partitions
    wanted = VerifyOptions(split_bytes=options.split_bytes, storage=chosen.storage)
    return collect_findings(runner.verify(partitions, wanted), partitions)


def _survey_headers(runner: Runner, plan: Compaction, now: int) -> list[Surveyed]:
    parts = plan_surveys(plan, now)
    return read_surveyed(runner.map("headers", parts, survey_task, SURVEYED_SCHEMA))


def _explain(
    runner: Runner, plan: Compaction, counted: Sequence[Surveyed], now: int
) -> dict[TopicPartition, Row]:
    rows = runner.explain(plan, counted, now) if counted else []
    return {each.log.name: row for each, row in zip(counted, rows, strict=True)}


def _sources(
    known: Sequence[Surveyed], wholes: Mapping[TopicPartition, Survey]
) -> dict[str, list[SampledPartition]]:
    sources: dict[str, list[SampledPartition]] = {}
    for each in known:
        aborted = write_transaction_index(each.facts.aborted)
        source = SampledPartition(wholes[each.log.name].units, aborted, each.last_stable_offset)
        sources.setdefault(each.log.name.topic, []).append(source)
    return sources


def _what_if(
    runner: Runner,
    sources: Mapping[str, Sequence[SampledPartition]],
    chosen: ChosenLogs,
    options: ReportOptions,
    settings: Sequence[Setting],
) -> list[Row]:
    plans = plan_what_if(
        sources,
        settings,
        sample_bytes=options.sample_bytes,
        seed=options.seed,
        storage=chosen.storage,
    )
    trials = [trial for plan in plans for trial in plan.trials]
    measured = runner.map("what-if", trials, try_unit, MEASURED_SCHEMA)
    sizes = {(row["unit"], row["setting"]): row["size"] for row in measured}
    return [
        what_if_row(plan, setting, plan.estimate(sizes, number), options)
        for plan in plans
        for number, setting in enumerate(settings)
    ]
