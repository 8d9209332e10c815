"""The report: survey, verify, cleaning and what-if, one after another; an engine runs them.

What cleaning would leave of compacted topics is counted by the tasks of `ottla compact --explain`,
but of logs without any key.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from ottla.catalog.chosen import ChosenLogs
from ottla.errors import Row
from ottla.format.names import TopicPartition
from ottla.jobs.compact.plan import Compaction, plan_explanation
from ottla.jobs.compact.run import explain_surveyed, survey
from ottla.jobs.compact.survey import (
    CompactOptions,
    Surveyed,
)
from ottla.jobs.engine import Engine, JobStep
from ottla.jobs.report.policy import find_compacted
from ottla.jobs.report.rows import (
    ReportOptions,
    compaction_row,
    head_row,
    open_transaction_rows,
    overhead_rows,
    topic_rows,
    what_if_row,
)
from ottla.jobs.report.schemas import schema_rows
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
    Cost,
    SampledPartition,
    Setting,
    plan_what_if,
    try_unit,
)
from ottla.jobs.verify.findings import collect_findings
from ottla.jobs.verify.plan import VerifyOptions
from ottla.jobs.verify.run import verify
from ottla.log.files.transaction_index import write_transaction_index
from ottla.rules.cleaner.cleanable import CleanerConfig

# As in the command that the report names.
_CLEANING: Final = CompactOptions(config=CleanerConfig(), includes_active=True)


def build_report(
    engine: Engine,
    scratch: str,
    chosen: ChosenLogs,
    options: ReportOptions,
    settings: Sequence[Setting],
    now: int,
) -> list[Row]:
    """Every row of the report, the one about all of it first.

    Tasks leave files for each other beside `scratch` while they run.
    """
    logs = chosen.logs()
    parts = plan_survey(logs, options.split_bytes, chosen.storage)
    sizes = [part.size for part in parts]
    surveyed = engine.run(JobStep("survey", parts, sizes, survey_part, SURVEY_SCHEMA))
    surveys = read_surveys(surveyed, len(logs))
    wholes = {
        log.name: add_up(segments.values()) for log, segments in zip(logs, surveys, strict=True)
    }
    rows = list(topic_rows(logs, surveys))
    rows += schema_rows(engine, chosen.catalog, logs)
    rows += _findings(engine, chosen, options)
    cleaning = plan_explanation(chosen, logs, scratch, _CLEANING, now)
    known = survey(engine, cleaning, now)
    for each in known:
        rows += open_transaction_rows(each, now)
    if options.compaction:
        compacted = find_compacted(chosen, options.compacted, cleaning.checkpoints)
        cleaned = [each for each in known if each.log.name.topic in compacted]
        rows += _compaction(engine, cleaning, cleaned, wholes, now)
    if options.what_if:
        sources = _sources(known, wholes)
        rows += _what_if(engine, sources, chosen, options, settings)
        rows += overhead_rows(rows)
    return [head_row(chosen, now, options, rows), *rows]


def _findings(engine: Engine, chosen: ChosenLogs, options: ReportOptions) -> list[Row]:
    partitions = chosen.partitions
    wanted = VerifyOptions(split_bytes=options.split_bytes, storage=chosen.storage)
    return collect_findings(verify(engine, partitions, wanted, []), partitions)


def _compaction(
    engine: Engine,
    plan: Compaction,
    cleaned: Sequence[Surveyed],
    wholes: Mapping[TopicPartition, Survey],
    now: int,
) -> list[Row]:
    counted = [each for each in cleaned if wholes[each.log.name].keyed]
    rows = explain_surveyed(engine, plan, counted, now) if counted else []
    explained = {each.log.name: row for each, row in zip(counted, rows, strict=True)}
    return [
        compaction_row(each, explained.get(each.log.name), wholes[each.log.name])
        for each in cleaned
    ]


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
    engine: Engine,
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
    sizes = [trial.size for trial in trials]
    measured = engine.run(JobStep("what-if", trials, sizes, try_unit, MEASURED_SCHEMA))
    tried = {
        (row["unit"], row["setting"]): Cost(row["size"], row["write"], row["read"])
        for row in measured
    }
    return [
        what_if_row(plan, setting, plan.estimate(tried, number), options)
        | dict(zip(("writeSeconds", "readSeconds"), plan.seconds(tried, number), strict=True))
        for plan in plans
        for number, setting in enumerate(settings)
    ]
