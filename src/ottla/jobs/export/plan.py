"""Export records as tables: decoded and written where they are read, a file for each slice.

Files lie in `topic=T/partition=P/` and are named by their first and last offset, so that what is
there says what was exported: a second run goes on after it.
"""

import json
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
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
from ottla.jobs.export.table import export_schema
from ottla.jobs.export.writers import WRITERS
from ottla.jobs.finish import finish_committed
from ottla.jobs.output import OutputJob, choose_inputs, nothing_to_close
from ottla.jobs.read.records import read_for_connector
from ottla.jobs.read.rows import core_columns
from ottla.log.files.transaction_index import read_transaction_index
from ottla.log.read.mode import Isolation
from ottla.log.read.records import obey
from ottla.log.read.windows import Window
from ottla.options.export import ExportOptions
from ottla.options.read import SliceAccess
from ottla.publish.account import FILE as ACCOUNT_FILE
from ottla.publish.account import account_row
from ottla.publish.checked import FinishedPartition, StagedFile, read_json
from ottla.publish.job import Job, journal_folder
from ottla.publish.journal import committed_journals, new_staged_name, staged_path
from ottla.rules.producers.transactions import aborted_mask
from ottla.storage.files import open_file
from ottla.storage.listing import exists, list_files
from ottla.storage.object_store import StorageOptions
from ottla.storage.paths import join
from ottla.storage.writing import open_output

Accounts = dict[str, dict[str, Any]]
_FILE: Final = re.compile(r"topic=([^/]+)/partition=([0-9]+)/[0-9]{20}-([0-9]{20})\.\w+")


@dataclass(frozen=True, slots=True)
class ExportPart:
    """A slice to be written as one file."""

    slice: Slice
    options: ExportOptions
    storage: StorageOptions

    @property
    def size(self) -> int:
        return self.slice.size


def plan_export(chosen: ChosenLogs, out: str, options: ExportOptions) -> OutputJob:
    """Export what is chosen, as far as it is not in OUT already."""
    logs = choose_inputs(chosen, out, with_internal=False)
    finish_committed(out, chosen.storage)
    form = _form(chosen, options)
    done = exported_offsets(out, chosen.storage)
    identities = [identify(log, chosen.storage) for log in logs]
    if done:
        accounts = _read_accounts(out, chosen.storage)
        _check_form(out, form, accounts)
        _check_sources(out, logs, identities, accounts, done, chosen.storage)
    parts = {}
    for log in logs:
        for part in _new_slices(log, chosen, options, done):
            name = f"{part.name}.{posixpath.basename(part.log.path)}.{part.start}"
            parts[name] = ExportPart(part, options, chosen.storage)
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
            **form,
        },
        storage=chosen.storage,
        parts=parts,
        stage=export_part,
        closing=nothing_to_close,
        close=export_part,
        log_starts={},
        remember=partial(name_sources, identities),
    )


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


def _form(chosen: ChosenLogs, options: ExportOptions) -> dict[str, str | None]:
    """What all exports to one OUT must have in common.

    No reader could read two kinds of files together; and only with one beginning for all is
    everything between it and the last offset in OUT there.
    """
    start = chosen.limits.start
    return {
        "format": str(options.format),
        "valueAs": str(options.value_as),
        "isolationLevel": str(options.isolation),
        "batchColumns": str(options.batch_columns),
        "from": str(start) if start else None,
        "where": str(options.where) if options.where else None,
    }


# Of exports that were made before one could choose.
_AT_FIRST: Final = {"isolationLevel": str(Isolation.READ_UNCOMMITTED), "batchColumns": "False"}


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
    """Write the records of a slice, in the order of the log, as one staged file."""
    options, name = part.options, part.slice.name
    taken = _SliceTaken(dict.fromkeys(_COUNTED, 0))
    staged = new_staged_name(f"{name.topic}.{options.format}")
    path = staged_path(job, staged)
    with (
        open_output(path, job.storage) as stream,
        closing(WRITERS[options.format](stream, part.slice.log.path, options)) as writer,
    ):
        _write_records(part, taken, writer)
    files = []
    if taken.first is not None:
        with open_file(path, job.storage) as file:
            size = file.size
        files.append(StagedFile(staged, _target(part, taken), size))
    row = account_row(
        name.topic,
        name.partition,
        readBytes=part.slice.size,
        writtenBytes=sum(file.size for file in files),
        firstOffset=taken.first,
        lastOffset=taken.last,
        **taken.counts,
    )
    return FinishedPartition(files, row | {"remembered": taken.remembered})


def _write_records(part: ExportPart, taken: _SliceTaken, writer: Any) -> None:
    columns = core_columns(export_schema(part.options).names)
    access = SliceAccess(part.storage, where=part.options.where)
    readings = read_for_connector(
        part.slice, columns, access, lambda windows: taken.see(windows, part)
    )
    for reading in obey(part.options.mode, readings):
        taken.leave_out(reading.violations)
        records = reading.to_arrow(columns)
        if records is not None and records.num_rows:
            taken.add(records, part.slice)
            writer.write(records)


def _target(part: ExportPart, taken: _SliceTaken) -> str:
    """Where the file belongs: its name says which offsets it holds."""
    name = part.slice.name
    return join(
        f"topic={name.topic}",
        f"partition={name.partition}",
        f"{taken.first:020d}-{taken.last:020d}.{part.options.format}",
    )
