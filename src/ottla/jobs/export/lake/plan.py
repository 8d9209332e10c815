"""Plan an export to a table from what the table says that it has."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from ottla.catalog.chosen import ChosenLogs
from ottla.catalog.logs import Log
from ottla.errors import OptionError, PublishError, Term
from ottla.format.names import TopicPartition
from ottla.jobs.export.lake.commit import AFTER, Registration
from ottla.jobs.export.lake.delta import DeltaLake
from ottla.jobs.export.lake.iceberg import open_iceberg
from ottla.jobs.export.lake.layout import Layout, decoded_columns, layout_of
from ottla.jobs.export.lake.state import (
    LakeTable,
    TableState,
    encode_offsets,
    of_names,
    same_topics,
)
from ottla.jobs.export.plan import export_part, export_parts, form_of, payload_plans
from ottla.jobs.export.source import Source, check_source, identify
from ottla.jobs.export.types import describe, find_retyped
from ottla.jobs.finish import finish_committed
from ottla.jobs.output import OutputJob, choose_inputs, nothing_to_close
from ottla.options.export import ExportOptions, FileFormat, TableColumns
from ottla.publish.account import FILE as ACCOUNT_FILE
from ottla.publish.checked import read_json
from ottla.publish.job import Job
from ottla.publish.journal import committed_journals
from ottla.schemas.plans import NO_PLANS, PayloadPlans
from ottla.storage.listing import list_names
from ottla.storage.object_store import StorageOptions

_NO_STATE: Final = TableState()


def plan_table_export(chosen: ChosenLogs, target: str, options: ExportOptions) -> OutputJob:
    """Export what is chosen, as far as the table does not have it already."""
    check_table_options(options)
    plans = payload_plans(chosen, chosen.user_logs(), options)
    layout = _one_layout(chosen.user_logs(), options, plans)
    table = _open(target, options, layout, chosen.storage)
    logs = choose_inputs(chosen, table.location, with_internal=False)
    finish_committed(table.location, chosen.storage)
    form = _form(chosen, options)
    state = table.read_state([log.name for log in logs])
    if state is None:
        _require_empty(table.location, form, chosen.storage)
    else:
        _check_form(table.location, form, state.form)
        _check_columns(table, layout)
    known = state or _NO_STATE
    ids, anew = _check_sources(table.location, logs, options, known, chosen.storage)
    after = of_names(same_topics(known, ids), [log.name for log in logs])
    done = {name: offset - 1 for name, offset in after.items() if name not in anew}
    return OutputJob(
        title="export",
        out=table.location,
        logs=logs,
        options={
            "command": "export",
            "selection": chosen.described(),
            "options": options,
            AFTER: encode_offsets(after),
            **form,
        },
        storage=chosen.storage,
        parts=export_parts(logs, chosen, options, plans, done),
        stage=export_part,
        closing=nothing_to_close,
        close=export_part,
        log_starts={},
        register=Registration(table, layout, form, ids, after),
    )


def check_table_options(options: ExportOptions) -> None:
    """Refuse what makes no sense together."""
    if options.each:
        raise OptionError("a table has one schema: a table for each type of records is for files")
    if options.catalog is not None and options.format is not FileFormat.ICEBERG:
        raise OptionError("a catalog is for tables of Iceberg")
    if options.batch_columns and options.columns is TableColumns.KAFKA:
        raise OptionError("the columns kafka have what batches say: leave the batch columns out")


def _open(
    target: str, options: ExportOptions, layout: Layout, storage: StorageOptions
) -> LakeTable:
    if options.format is FileFormat.DELTA:
        return DeltaLake(target, layout, storage)
    return open_iceberg(target, options, layout)


def _one_layout(
    logs: Sequence[Log], options: ExportOptions, plans: Mapping[str, PayloadPlans]
) -> Layout:
    """The one layout of all topics; where there is none, of no topic at all."""
    topics = sorted({str(log.name.topic) for log in logs})
    layouts = {
        topic: layout_of(options, decoded_columns(options, plans.get(topic, NO_PLANS)))
        for topic in topics
    }
    first = next(iter(layouts), None)
    if first is None:
        return layout_of(options, decoded_columns(options, NO_PLANS))
    for topic, layout in layouts.items():
        if not layout.table.equals(layouts[first].table):
            raise OptionError(
                f"{first} and {topic} have different columns, and a table has one schema: export"
                " each topic to a table of its own"
            )
    return layouts[first]


def _form(chosen: ChosenLogs, options: ExportOptions) -> dict[str, str | None]:
    """What all exports to one table have in common."""
    form = {name: value for name, value in form_of(chosen, options).items() if name != "each"}
    return form | {"columns": str(options.columns), "partitionBy": str(options.partition_by)}


def _check_form(out: str, form: Mapping[str, str | None], before: Mapping[str, Any]) -> None:
    wrong = [name for name in form if form[name] != before.get(name)]
    if wrong:
        told = ", ".join(f"{name} is {before.get(name)}, not {form[name]}" for name in wrong)
        raise OptionError(
            f"{out} holds another export ({told}): go on with that, or choose another TABLE"
        )


def _check_columns(table: LakeTable, layout: Layout) -> None:
    """TableColumns may come; none may go, or become another type, unseen."""
    there = describe(pa.struct(list(table.read_columns())))
    retyped = find_retyped(there, describe(pa.struct(list(layout.table))))
    if retyped is not None:
        raise OptionError(f"{table.location} has other columns ({retyped}): choose another TABLE")


def _check_sources(
    out: str,
    logs: Sequence[Log],
    options: ExportOptions,
    state: TableState,
    storage: StorageOptions,
) -> tuple[dict[str, str], set[TopicPartition]]:
    """The ids of all topics, and which partitions begin anew.

    A topic that was made anew has offsets of its own: they say nothing of what is in the table.
    """
    before = [
        Source(TopicPartition(topic, 0), topic_id or None, None)
        for topic, topic_id in state.ids.items()
    ]
    ids, anew = dict(state.ids), set()
    for log in logs:
        mine, topic = identify(log, storage), str(log.name.topic)
        next_offset = state.next.get(log.name)
        last = None if next_offset is None else next_offset - 1
        difference = check_source(log, mine._replace(cluster_id=None), before, last, storage)
        if difference is None:
            ids.setdefault(topic, mine.topic_id or "")
        elif options.recreated:
            ids[topic] = mine.topic_id or ""
            anew.add(log.name)
        else:
            raise OptionError(
                f"{log.partition.path} is another topic than the one that was exported to {out}"
                f" ({difference}): if it was made anew, ",
                Term.RECREATED,
                " adds it from its beginning; else choose another TABLE",
            )
    return ids, anew


def _require_empty(out: str, form: Mapping[str, Any], storage: StorageOptions) -> None:
    """Refuse to make a table of a folder that holds more than what a killed export left."""
    journals = [Job(out, name, storage) for name in committed_journals(out, storage)]
    accounts = [read_json(job.path(ACCOUNT_FILE), storage).get("options") for job in journals]
    forms = [each.get("format") if isinstance(each, dict) else None for each in accounts]
    left = bool(journals) and all(each == form["format"] for each in forms)
    there = [] if left else list_names(out, storage)
    if there:
        raise PublishError(f"{out} holds {there[0]}, and is no table: choose another TABLE")
