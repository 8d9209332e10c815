"""The report: survey, verify, cleaning and what-if, one after another; what runs them is given."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from ottla.catalog.logs import Log
from ottla.catalog.selection import Selection, choose_logs, choose_partitions
from ottla.jobs.compact.cleanability import CLEANABILITY_SCHEMA, judge_cleaning, plan_cleaning
from ottla.jobs.report.rows import (
    ReportOptions,
    Row,
    cleaning_rows,
    head_row,
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
from ottla.jobs.report.what_if import MEASURED_SCHEMA, Setting, Source, plan_what_if, try_unit
from ottla.jobs.verify.findings import collect_findings
from ottla.jobs.verify.plan import VerifyOptions
from ottla.log.files.partition import Partition, read_log_directories


class Sized(Protocol):
    """What a task is given; its size tells how far all of them are."""

    @property
    def size(self) -> int: ...


class Runner(Protocol):
    """Runs tasks, on Spark or wherever."""

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


def build_report(
    runner: Runner,
    selection: Selection,
    options: ReportOptions,
    settings: Sequence[Setting],
    now: int,
) -> list[Row]:
    """Every row of the report, the one about all of it first."""
    logs = choose_logs(selection)
    parts = plan_survey(logs, options.split_bytes, selection.storage)
    surveyed = runner.map("survey", parts, survey_part, SURVEY_SCHEMA)
    surveys = read_surveys(surveyed, len(logs))
    wholes = [add_up(segments.values()) for segments in surveys]
    rows = list(topic_rows(logs, surveys))
    rows += _findings(runner, selection, options)
    judged = _judge(runner, logs, wholes, selection, options, now)
    for number, log in enumerate(logs):
        rows += cleaning_rows(log, wholes[number], judged[number])
    if options.what_if:
        sources = _sources(logs, wholes, judged)
        rows += _what_if(runner, sources, selection, options, settings)
        rows += overhead_rows(rows)
    return [head_row(selection, now, options, rows), *rows]


def _findings(runner: Runner, selection: Selection, options: ReportOptions) -> list[Row]:
    partitions = choose_partitions(selection)
    wanted = VerifyOptions(split_bytes=options.split_bytes, storage=selection.storage)
    return collect_findings(runner.verify(partitions, wanted), partitions, selection.paths)


def _judge(
    runner: Runner,
    logs: Sequence[Log],
    wholes: Sequence[Survey],
    selection: Selection,
    options: ReportOptions,
    now: int,
) -> dict[int, Row]:
    """Transactions and cleaning of every log, by its number."""
    keyed = [options.compaction and survey.keyed > 0 for survey in wholes]
    directories = read_log_directories(selection.paths, selection.storage)
    parts = plan_cleaning(logs, keyed, directories, now, selection.storage)
    found = runner.map("compaction", parts, judge_cleaning, CLEANABILITY_SCHEMA)
    return {row["log"]: json.loads(row["row"]) for row in found}


def _sources(
    logs: Sequence[Log], wholes: Sequence[Survey], judged: Mapping[int, Row]
) -> dict[str, list[Source]]:
    sources: dict[str, list[Source]] = {}
    for number, log in enumerate(logs):
        assert log.name is not None
        found = judged[number]
        aborted, stable = bytes.fromhex(found["aborted"]), found["lastStableOffset"]
        source = Source(wholes[number].units, aborted, stable)
        sources.setdefault(log.name.topic, []).append(source)
    return sources


def _what_if(
    runner: Runner,
    sources: Mapping[str, Sequence[Source]],
    selection: Selection,
    options: ReportOptions,
    settings: Sequence[Setting],
) -> list[Row]:
    plans = plan_what_if(
        sources,
        settings,
        sample_bytes=options.sample_bytes,
        seed=options.seed,
        storage=selection.storage,
    )
    trials = [trial for plan in plans for trial in plan.trials]
    measured = runner.map("what-if", trials, try_unit, MEASURED_SCHEMA)
    sizes = {(row["unit"], row["setting"]): row["size"] for row in measured}
    return [
        what_if_row(plan, setting, plan.estimate(sizes, number), options, selection)
        for plan in plans
        for number, setting in enumerate(settings)
    ]
