"""Export records as tables: decoded and written where they are read, a file for each slice.

Files lie in `topic=T/partition=P/` and are named by their first and last offset, so that what is
there says what was exported: a second run goes on after it.
"""

import json
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ottla.arrow.schema import HEADERS_TYPE
from ottla.catalog.chosen import ChosenLogs
from ottla.catalog.logs import Log
from ottla.catalog.slices import Slice, cut_log
from ottla.connector import TIMESTAMP_TYPE, headers_or_null, microseconds
from ottla.errors import CorruptLogError, OptionError, PublishError, Rule, Violation
from ottla.format.names import TopicPartition
from ottla.jobs.export.json_lines import json_lines
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
from ottla.jobs.finish import finish_committed
from ottla.jobs.output import OutputJob, choose_inputs, nothing_to_close
from ottla.jobs.read.records import read_for_connector
from ottla.log.read.records import obey
from ottla.options.export import ExportOptions as ExportOptions
from ottla.options.export import FileFormat as FileFormat
from ottla.options.export import ValueAs as ValueAs
from ottla.options.read import SliceAccess
from ottla.publish.account import FILE as ACCOUNT_FILE
from ottla.publish.account import account_row
from ottla.publish.checked import FinishedPartition, StagedFile, read_json
from ottla.publish.job import Job, journal_folder
from ottla.publish.journal import committed_journals, new_staged_name, staged_path
from ottla.storage.files import exists, join, list_files, open_file, open_output
from ottla.storage.object_store import StorageOptions

_COLUMNS: Final = ("key", "value", "offset", "timestamp", "timestampType", "headers")
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
    bounds = chosen.bounds_of(log)
    if log.name in done:
        bounds = replace(bounds, start=max(done[log.name] + 1, bounds.start or 0))
    yield from cut_log(log, bounds, options.split_bytes, chosen.storage)


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
        "from": str(start) if start else None,
    }


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
        before = {name: account["options"].get(name) for name in form}
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


def export_part(job: Job, part: ExportPart) -> FinishedPartition:
    """Write the records of a slice, in the order of the log, as one staged file."""
    options, name = part.options, part.slice.name
    access = SliceAccess(part.storage)
    rows = violations = 0
    first = last = None
    remembered: list[Remembered] = []
    staged = new_staged_name(f"{name.topic}.{options.format}")
    path = staged_path(job, staged)
    with (
        open_output(path, job.storage) as stream,
        closing(_WRITERS[options.format](stream, options)) as writer,
    ):
        for reading in obey(options.mode, read_for_connector(part.slice, _COLUMNS, access)):
            violations += len(reading.violations)
            records = reading.to_arrow(_COLUMNS)
            if records is None or not records.num_rows:
                continue
            offsets = records.column("offset")
            rows += len(offsets)
            extremes = pc.min_max(offsets)
            low, high = extremes["min"].as_py(), extremes["max"].as_py()
            _require_offset(low, part.slice)
            first = low if first is None else min(first, low)
            last = high if last is None else max(last, high)
            writer.write(records)
            ends = [remember_record(records, row) for row in (0, len(offsets) - 1)]
            remembered = [min(remembered + ends), max(remembered + ends)]
    files = []
    if rows:
        with open_file(path, job.storage) as file:
            size = file.size
        target = join(
            f"topic={name.topic}",
            f"partition={name.partition}",
            f"{first:020d}-{last:020d}.{options.format}",
        )
        files.append(StagedFile(staged, target, size))
    row = account_row(
        name.topic,
        name.partition,
        readBytes=part.slice.size,
        readRecords=rows,
        writtenRecords=rows,
        writtenBytes=sum(file.size for file in files),
        skippedBatches=violations,
        violations=violations,
        firstOffset=first,
        lastOffset=last,
    )
    return FinishedPartition(files, row | {"remembered": remembered})


def export_schema(options: ExportOptions) -> pa.Schema:
    """The columns of a file; topic and partition are in its path."""
    value: list[pa.Field] = {
        ValueAs.BINARY: [pa.field("value", pa.binary())],
        ValueAs.UTF8: [pa.field("value", pa.string()), pa.field("valueRaw", pa.binary())],
        ValueAs.JSON: [
            pa.field("value", pa.json_(pa.string())),
            pa.field("valueRaw", pa.binary()),
        ],
    }[options.value_as]
    return pa.schema(
        [
            pa.field("key", pa.binary()),
            *value,
            pa.field("offset", pa.int64(), nullable=False),
            pa.field("timestamp", TIMESTAMP_TYPE, nullable=False),
            pa.field("timestampType", pa.int32(), nullable=False),
            pa.field("headers", HEADERS_TYPE),
        ]
    )


def to_export(records: pa.RecordBatch, options: ExportOptions) -> pa.RecordBatch:
    """Records of the core with the columns of a file."""
    columns = {name: records.column(name) for name in records.schema.names}
    columns["timestamp"] = microseconds(columns["timestamp"])
    columns["headers"] = headers_or_null(columns["headers"], HEADERS_TYPE)
    if options.value_as is not ValueAs.BINARY:
        columns["value"], columns["valueRaw"] = _as_text(columns["value"], options.value_as)
    schema = export_schema(options)
    arrays = [columns[field.name] for field in schema]
    if options.value_as is ValueAs.JSON:
        number = schema.get_field_index("value")
        arrays[number] = pa.ExtensionArray.from_storage(schema.field(number).type, arrays[number])
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _as_text(values: pa.Array, value_as: ValueAs) -> tuple[pa.Array, pa.Array]:
    """Values as text, and the bytes of those that are not."""
    try:
        texts = values.cast(pa.string())
    except pa.ArrowInvalid:
        texts = pa.array([_text(value) for value in values.to_pylist()], pa.string())
    if value_as is ValueAs.JSON:
        valid = pa.array([text is not None and _is_json(text) for text in texts.to_pylist()])
        texts = pc.if_else(valid, texts, pa.scalar(None, pa.string()))
    lost = pc.and_(pc.is_valid(values), pc.is_null(texts))
    return texts, pc.if_else(lost, values, pa.scalar(None, pa.binary()))


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _is_json(text: str) -> bool:
    try:
        _JSON.decode(text)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")  # though Python reads and writes it


# Numbers stay texts: Python refuses to convert those of many digits.
_JSON: Final = json.JSONDecoder(parse_constant=_refuse_constant, parse_int=str, parse_float=str)


class _ParquetFile:
    """Row groups by size: records are held until there are enough."""

    def __init__(self, stream: Any, options: ExportOptions) -> None:
        self.options = options
        self.held: list[pa.RecordBatch] = []
        self.size = 0
        self.schema = export_schema(options)
        self.writer = pq.ParquetWriter(
            stream,
            self.schema,
            compression="zstd",
            compression_level=options.level,
            use_dictionary=["timestampType"],  # keys and values are seldom worth the try
            write_page_index=True,
        )

    def write(self, records: pa.RecordBatch) -> None:
        batch = to_export(records, self.options)
        self.held.append(batch)
        self.size += batch.nbytes
        if self.size >= self.options.row_group_bytes:
            self._write_row_group()

    def _write_row_group(self) -> None:
        table = pa.Table.from_batches(self.held, self.schema)
        self.writer.write_table(table, row_group_size=max(1, table.num_rows))
        self.held, self.size = [], 0

    def close(self) -> None:
        if self.held:
            self._write_row_group()
        self.writer.close()


class _JsonLines:
    """One object for each record."""

    def __init__(self, stream: Any, options: ExportOptions) -> None:
        self.stream = stream
        self.options = options

    def write(self, records: pa.RecordBatch) -> None:
        rows = to_export(records, self.options)
        value_is_json = self.options.value_as is ValueAs.JSON
        timestamps = records.column("timestamp")
        self.stream.write(json_lines(rows, timestamps, value_is_json=value_is_json))

    def close(self) -> None:
        return


_WRITERS: Final[dict[FileFormat, Any]] = {
    FileFormat.PARQUET: _ParquetFile,
    FileFormat.JSONL: _JsonLines,
}
