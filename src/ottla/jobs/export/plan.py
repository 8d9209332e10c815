"""Export records as tables: decoded and written where they are read, a file for each slice.

Files lie in `topic=T/partition=P/` and are named by their first and last offset, so that what is
there says what was exported: a second run goes on after it.
"""

import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ottla.batch.count import count_records
from ottla.catalog.chosen import ChosenLogs
from ottla.catalog.logs import Log
from ottla.catalog.slices import Cutting, Slice, cut_log
from ottla.catalog.stable import find_stable
from ottla.errors import CorruptLogError, OptionError, PublishError, Rule, Violation
from ottla.format.names import TopicPartition
from ottla.jobs.export.lake.layout import refuse_table, table_target
from ottla.jobs.export.source import (
    Remembered,
    Source,
    check_source,
    identify,
    name_sources,
    parse_sources,
    refuse_source,
    remember_record,
)
from ottla.jobs.export.table import export_schema, to_export
from ottla.jobs.export.tables import Table, Tables
from ottla.jobs.export.types import describe_types, find_retyped
from ottla.jobs.finish import finish_committed
from ottla.jobs.output import OutputJob, choose_inputs, nothing_to_close
from ottla.jobs.read.records import read_for_connector
from ottla.jobs.read.rows import core_columns, decoders_of, in_pieces
from ottla.jobs.schemas.resolve import Asked, resolve_topics
from ottla.log.files.transaction_index import read_transaction_index
from ottla.log.read.mode import Isolation
from ottla.log.read.records import obey
from ottla.log.read.windows import Window
from ottla.options.export import ExportOptions, ValueAs
from ottla.options.read import SliceAccess
from ottla.publish.account import FILE as ACCOUNT_FILE
from ottla.publish.account import account_row
from ottla.publish.checked import FinishedPartition, StagedFile, read_json
from ottla.publish.job import Job, journal_folder
from ottla.publish.journal import committed_journals, staged_path
from ottla.rules.producers.transactions import aborted_mask
from ottla.schemas.decoding import PayloadDecoder
from ottla.schemas.plans import NO_PLANS, PayloadPlans
from ottla.storage.files import open_file
from ottla.storage.listing import exists, list_files
from ottla.storage.object_store import StorageOptions
from ottla.storage.paths import join

Accounts = dict[str, dict[str, Any]]
_FILE: Final = re.compile(r"topic=([^/]+)/partition=([0-9]+)/[0-9]{20}-([0-9]{20})\.\w+")


@dataclass(frozen=True, slots=True)
class ExportPart:
    """A slice to be written as one file."""

    slice: Slice
    options: ExportOptions
    storage: StorageOptions
    plans: PayloadPlans = NO_PLANS

    @property
    def size(self) -> int:
        return self.slice.size


def plan_export(chosen: ChosenLogs, out: str, options: ExportOptions) -> OutputJob:
    """Export what is chosen, as far as it is not in OUT already."""
    if options.format.is_table:
        from ottla.jobs.export.lake.plan import plan_table_export  # which plans by this module

        return plan_table_export(chosen, out, options)
    refuse_table(out, options, chosen.storage)
    logs = choose_inputs(chosen, out, with_internal=False)
    finish_committed(out, chosen.storage)
    plans = payload_plans(chosen, logs, options)
    form = form_of(chosen, options)
    done = exported_offsets(out, chosen.storage)
    identities = [identify(log, chosen.storage) for log in logs]
    if done:
        accounts = _read_accounts(out, chosen.storage)
        _check_form(out, form, accounts)
        _check_types(out, plans, accounts)
        _check_sources(out, logs, identities, accounts, done, chosen.storage)
    after = {str(name): offset for name, offset in sorted(done.items())}
    return OutputJob(
        title="export",
        out=out,
        logs=logs,
        options={
            "command": "export",
            "selection": chosen.described(),
            "options": options,
            "after": json.dumps(after),
            "types": {topic: describe_types(each) for topic, each in plans.items()},
            **form,
        },
        storage=chosen.storage,
        parts=export_parts(logs, chosen, options, plans, done),
        stage=export_part,
        closing=nothing_to_close,
        close=export_part,
        log_starts={},
        remember=partial(name_sources, identities),
    )


def export_parts(
    logs: Iterable[Log],
    chosen: ChosenLogs,
    options: ExportOptions,
    plans: Mapping[str, PayloadPlans],
    done: Mapping[TopicPartition, int],
) -> dict[str, ExportPart]:
    """What tasks write of logs, after the last offsets that are done."""
    parts = {}
    for log in logs:
        for part in _new_slices(log, chosen, options, done):
            name = f"{part.name}.{posixpath.basename(part.log.path)}.{part.start}"
            of_topic = plans.get(str(part.name.topic), NO_PLANS)
            parts[name] = ExportPart(part, options, chosen.storage, of_topic)
    return parts


def _new_slices(
    log: Log,
    chosen: ChosenLogs,
    options: ExportOptions,
    done: Mapping[TopicPartition, int],
) -> Iterator[Slice]:
    bounds, stable = chosen.bounds_of(log), None
    if options.isolation is Isolation.READ_COMMITTED:
        stable = find_stable(log.partition, None, chosen.storage)
        stop = stable.last_stable_offset
        bounds = replace(bounds, stop=stop if bounds.stop is None else min(stop, bounds.stop))
    if log.name in done:
        bounds = replace(bounds, start=max(done[log.name] + 1, bounds.start or 0))
    cutting = Cutting(options.split_bytes, where=options.where)
    yield from cut_log(log, bounds, cutting, chosen.storage, stable)


def exported_offsets(out: str, storage: StorageOptions) -> dict[TopicPartition, int]:
    """The last offset of each partition that files below OUT hold."""
    if not exists(out, storage):
        return {}
    done: dict[TopicPartition, int] = {}
    for entry in list_files(out, storage):
        # By the end of its path: in front of it a listing may spell OUT otherwise (s3a, //).
        found = _FILE.fullmatch("/".join(entry.path.split("/")[-3:]))
        if found:
            name = TopicPartition(found[1], int(found[2]))
            done[name] = max(done.get(name, -1), int(found[3]))
    return done


def form_of(chosen: ChosenLogs, options: ExportOptions) -> dict[str, str | None]:
    """What all exports to one OUT must have in common.

    No reader could read two kinds of files together; and only with one beginning for all is
    everything between it and the last offset in OUT there.
    """
    start = chosen.limits.start
    return {
        "format": str(options.format),
        "valueAs": str(options.value_as),
        "keyAs": str(options.key_as),
        "each": str(options.each),
        "isolationLevel": str(options.isolation),
        "batchColumns": str(options.batch_columns),
        "from": str(start) if start else None,
        "where": str(options.where) if options.where else None,
    }


# Of exports that were made before one could choose.
_AT_FIRST: Final = {
    "isolationLevel": str(Isolation.READ_UNCOMMITTED),
    "batchColumns": "False",
    "keyAs": str(ValueAs.BINARY),
    "each": "False",
}


def payload_plans(
    chosen: ChosenLogs, logs: Sequence[Log], options: ExportOptions
) -> dict[str, PayloadPlans]:
    """How each topic is decoded, where that takes schemas."""
    if options.each and not options.value_as.needs_schemas:
        raise OptionError("a table for each type of records needs values with schemas")
    if not (options.key_as.needs_schemas or options.value_as.needs_schemas):
        return {}
    asked = Asked(options.key_as, options.value_as, options.wire)
    return resolve_topics(chosen.catalog, logs, asked, options.schemas)


def _require_offset(offset: int, part: Slice) -> None:
    """Files are named by offsets; below 0 is what passed 2^63-1, and what no broker gives out."""
    if offset < 0:
        raise CorruptLogError(
            Violation(
                Rule.OFFSETS_RISE,
                "an offset below 0",
                part.log.path,
                part.start,
                found=str(offset),
                expected="0 or more",
            )
        )


def _check_form(out: str, form: Mapping[str, str | None], accounts: Accounts) -> None:
    if not accounts:
        raise OptionError(
            f"{out} holds an export, but {journal_folder(out)} has no account of it:"
            " choose another OUT"
        )
    for account in accounts.values():
        before = {name: account["options"].get(name, _AT_FIRST.get(name)) for name in form}
        wrong = [name for name in form if form[name] != before[name]]
        if wrong:
            told = ", ".join(f"{name} is {before[name]}, not {form[name]}" for name in wrong)
            raise OptionError(
                f"{out} holds another export ({told}): go on with that, or choose another OUT"
            )


def _check_types(out: str, plans: Mapping[str, PayloadPlans], accounts: Accounts) -> None:
    """Columns may come with new schemas; none may go, or become another type, unseen."""
    for account in accounts.values():
        before = account["options"].get("types")
        for topic, each in plans.items():
            told = before.get(topic) if isinstance(before, dict) else None
            retyped = find_retyped(told, describe_types(each))
            if retyped is not None:
                raise OptionError(
                    f"{out} holds {topic} with other columns ({retyped}): choose another OUT"
                )


def _check_sources(
    out: str,
    logs: Sequence[Log],
    identities: Sequence[Source],
    accounts: Accounts,
    done: Mapping[TopicPartition, int],
    storage: StorageOptions,
) -> None:
    before = [source for path, one in accounts.items() for source in parse_sources(one, path)]
    for log, mine in zip(logs, identities, strict=True):
        difference = check_source(log, mine, before, done.get(mine.name), storage)
        if difference is not None:
            raise refuse_source(log, out, difference)


def _read_accounts(out: str, storage: StorageOptions) -> Accounts:
    """The accounts of the exports that were committed to OUT, by their path."""
    accounts: Accounts = {}
    for name in committed_journals(out, storage):
        path = Job(out, name, storage).path(ACCOUNT_FILE)
        if not exists(path, storage):
            continue  # a save has none
        account = read_json(path, storage)
        options = account.get("options")
        if not isinstance(options, dict):
            raise PublishError(f"{path} holds no account of a job: choose another OUT")
        if options.get("command") == "export":
            accounts[path] = account
    return accounts


@dataclass(slots=True)
class _SliceTaken:
    """What was taken of a slice so far; `remembered` are its first and last record."""

    counts: dict[str, int]
    first: int | None = None
    last: int | None = None
    remembered: list[Remembered] = field(default_factory=list)

    def see(self, windows: Iterator[Window], part: ExportPart) -> Iterator[Window]:
        """Count what is read, and what a read_committed reader leaves out of it."""
        aborted = read_transaction_index(part.slice.aborted) if part.slice.aborted else None
        for window in windows:
            batches = window.batches
            self.counts["readBatches"] += batches.position.size
            self.counts["readRecords"] += count_records(window.region, batches)
            if aborted is not None:
                self.counts["skippedBatches"] += int(aborted_mask(batches, aborted).sum())
            yield window

    def add(self, records: pa.RecordBatch, part: Slice) -> None:
        offsets = records.column("offset")
        self.counts["writtenRecords"] += len(offsets)
        extremes = pc.min_max(offsets)
        low, high = extremes["min"].as_py(), extremes["max"].as_py()
        _require_offset(low, part)
        self.first = low if self.first is None else min(self.first, low)
        self.last = high if self.last is None else max(self.last, high)
        ends = [remember_record(records, row) for row in (0, len(offsets) - 1)]
        self.remembered = [min(self.remembered + ends), max(self.remembered + ends)]

    def leave_out(self, violations: Sequence[Violation]) -> None:
        self.counts["skippedBatches"] += len(violations)
        self.counts["violations"] += len(violations)


_COUNTED: Final = ("readBatches", "readRecords", "writtenRecords", "skippedBatches", "violations")


def export_part(job: Job, part: ExportPart) -> FinishedPartition:
    """Write the records of a slice, in the order of the log, as one staged file.

    With `each`, as one for each type of records.
    """
    name = part.slice.name
    taken = _SliceTaken(dict.fromkeys(_COUNTED, 0))
    schema = export_schema(part.options, part.plans)
    decoders = decoders_of(part.plans, schema)
    value = part.plans.value
    types = [] if value is None else [one.column for one in value.types]
    with closing(Tables(job, part.options, schema, str(name.topic), types)) as tables:
        _write_records(part, taken, tables, decoders)
    files = []
    for table in tables.opened.values():
        with open_file(staged_path(job, table.staged), job.storage) as file:
            files.append(StagedFile(table.staged, _target(part, table), file.size))
    row = account_row(
        name.topic,
        name.partition,
        readBytes=part.slice.size,
        writtenBytes=sum(file.size for file in files),
        firstOffset=taken.first,
        lastOffset=taken.last,
        **taken.counts,
    )
    if decoders:
        row["payloads"] = {
            side: {"decoded": dict(each.decoded), "failed": dict(each.failed)}
            for side, each in decoders.items()
        }
    return FinishedPartition(files, row | {"remembered": taken.remembered})


def _write_records(
    part: ExportPart, taken: _SliceTaken, tables: Tables, decoders: Mapping[str, PayloadDecoder]
) -> None:
    columns = core_columns(tables.schema.names, decoders)
    access = SliceAccess(part.storage, where=part.options.where)
    readings = read_for_connector(
        part.slice, columns, access, lambda windows: taken.see(windows, part)
    )
    for reading in obey(part.options.mode, readings):
        taken.leave_out(reading.violations)
        records = reading.to_arrow(columns)
        if records is not None and records.num_rows:
            taken.add(records, part.slice)
            for piece, decoded in in_pieces(records, decoders):
                name = part.slice.name
                rows = to_export(piece, part.slice.log.path, tables.schema, decoded, name)
                tables.write(rows, piece)


def _target(part: ExportPart, table: Table) -> str:
    """Where the file belongs: its name says which offsets it holds."""
    name = part.slice.name
    if part.options.format.is_table:
        offsets = f"{table.first:020d}-{table.last:020d}"
        return table_target(part.options, name, table.folders, f"{offsets}-{table.staged[:32]}")
    return join(
        *table.folders,
        f"topic={name.topic}",
        f"partition={name.partition}",
        f"{table.first:020d}-{table.last:020d}.{part.options.format}",
    )
