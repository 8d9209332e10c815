"""The first pass of compaction, in tasks: which offsets of which segments stay.

Tasks read slices and give entries of keys by bucket; a bucket has all entries of its keys and gives
the offsets that stay, by part; those of a part are written to one file. What travels are blobs of
many entries each: nothing is done for each record outside of kernels. A log that can not be cleaned
stops no other: what is wrong with it travels in a row of its own.
"""

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ottla.batch.decode import Decoder
from ottla.batch.records import Reused, decode_sound_groups
from ottla.catalog.slices import Slice, Task
from ottla.errors import CorruptLogError, OptionError, Term
from ottla.jobs.rewrite.plan import sound_windows
from ottla.kernels.tables import Int64s, Wanted, take_batches
from ottla.log.files.transaction_index import read_transaction_index
from ottla.publish.job import Job
from ottla.publish.journal import new_staged_name, staged_path
from ottla.rules.cleaner.cleaning import UNCLEANABLE
from ottla.rules.cleaner.survivors import (
    KeyEntries,
    Learning,
    NewestKeys,
    concat_entries,
    find_entries,
    has_unkeyed,
    pack_offsets,
    read_entries,
    sort_entries,
    unpack_offsets,
)
from ottla.storage.files import open_file
from ottla.storage.object_store import StorageOptions
from ottla.storage.writing import write_file

ENTRY_SCHEMA: Final = pa.schema(
    [
        pa.field("bucket", pa.int32(), nullable=False),
        pa.field("log", pa.int32(), nullable=False),
        pa.field("hashes", pa.binary(), nullable=False),
        pa.field("offsets", pa.binary(), nullable=False),
        pa.field("sizes", pa.binary(), nullable=False),
        pa.field("keys", pa.binary(), nullable=False),
        pa.field("error", pa.binary()),
    ]
)
# The offsets of a bucket that stay in a part, and how many of them are the newest of a key.
SURVIVOR_SCHEMA: Final = pa.schema(
    [
        pa.field("part", pa.int32(), nullable=False),
        pa.field("keys", pa.int64(), nullable=False),
        pa.field("offsets", pa.binary(), nullable=False),
        pa.field("error", pa.binary()),
    ]
)
FOUND_SCHEMA: Final = pa.schema(
    [
        pa.field("part", pa.int32(), nullable=False),
        pa.field("keys", pa.int64(), nullable=False),
        pa.field("file", pa.string(), nullable=False),
        pa.field("error", pa.binary()),
    ]
)
_BUCKET_BYTES: Final = 16 << 20  # of the log for each bucket: all cores hold the keys of one
_MAX_BUCKETS: Final = 2048
_FLUSH_BYTES: Final = 16 << 20
_ENTRY_BYTES: Final = 24


class LearnLog(NamedTuple):
    """What tasks must know of a log; its parts begin at `part_bases`, the first is `first_part`."""

    told: Learning
    part_bases: tuple[int, ...]
    first_part: int
    drops_unkeyed: bool


@dataclass(frozen=True, slots=True)
class Found:
    """The file with the offsets of a part that stay, and how many keys have their newest there."""

    file: str
    keys: int


class Learnt(NamedTuple):
    """What the first pass found, by part; `uncleanable` is by the first part of a log."""

    found: dict[int, Found]
    uncleanable: dict[int, Exception]


def choose_bucket_count(size: int) -> int:
    """
    >>> choose_bucket_count(0), choose_bucket_count(1 << 32), choose_bucket_count(1 << 50)
    (1, 256, 2048)
    """
    return min(_MAX_BUCKETS, max(1, -(-size // _BUCKET_BYTES)))


def learn_task(
    task: Task,
    logs: Mapping[str, tuple[int, LearnLog]],
    bucket_count: int,
    storage: StorageOptions,
    max_batch_bytes: int,
) -> Iterator[pa.RecordBatch]:
    """The entries of slices; `logs` are known by the name of their partition."""
    decoder = _key_decoder(max_batch_bytes)
    for part in task:
        number, log = logs[str(part.name)]
        try:
            for entries in _flushes(_slice_entries(part, log, decoder, storage)):
                yield _entry_rows(entries, number, bucket_count)
        except UNCLEANABLE as error:
            yield failure(ENTRY_SCHEMA, error, log=number)
            decoder = _key_decoder(max_batch_bytes)  # the other stopped in the middle of a window


def _key_decoder(max_batch_bytes: int) -> Decoder:
    return Decoder(Wanted.KEYS, max_batch_bytes=max_batch_bytes, allocate=Reused())


def _flushes(windows: Iterable[KeyEntries]) -> Iterator[KeyEntries]:
    """The entries of windows, many at once."""
    held: list[KeyEntries] = []
    size = 0
    for entries in windows:
        held.append(entries)
        size += _ENTRY_BYTES * entries.hashes.size + entries.key_bytes.size
        if size >= _FLUSH_BYTES:
            yield concat_entries(held)
            held, size = [], 0
    if held:
        yield concat_entries(held)


def _slice_entries(
    part: Slice, log: LearnLog, decoder: Decoder, storage: StorageOptions
) -> Iterator[KeyEntries]:
    aborted = read_transaction_index(part.aborted)
    with open_file(part.log, storage) as file:
        for window in sound_windows(file, part, decoder.max_batch_bytes):
            for span, decoded in decode_sound_groups(decoder, window.region, window.batches):
                batches = take_batches(window.batches, span)
                if not log.drops_unkeyed and has_unkeyed(log.told, batches, decoded, aborted):
                    raise OptionError(
                        f"{file.path}: records without a key, which compaction would drop; name the"
                        " topics that are compacted with ",
                        Term.TOPICS,
                        ", or say ",
                        Term.DROP_UNKEYED,
                    )
                yield find_entries(log.told, batches, decoded, aborted)


def _entry_rows(entries: KeyEntries, log: int, bucket_count: int) -> pa.RecordBatch:
    """A row for each bucket that has entries; its blobs are spans of the sorted columns."""
    ordered, starts = sort_entries(entries, bucket_count)
    buckets = np.flatnonzero(np.diff(starts))
    bounds = np.append(starts[buckets], starts[-1])
    key_ends = np.concatenate([[0], np.cumsum(ordered.key_sizes)])
    columns = [
        pa.array(buckets.astype(np.int32)),
        pa.array(np.full(buckets.size, log, dtype=np.int32)),
        *(_spans(column, bounds * column.itemsize) for column in ordered[:3]),
        _spans(ordered.key_bytes, key_ends[bounds]),
        pa.nulls(buckets.size, pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ENTRY_SCHEMA)


def _spans(data: npt.NDArray[Any], bounds: Int64s) -> pa.Array:
    """Neighbouring spans of an array's bytes as values of a binary column."""
    buffers = [None, pa.py_buffer(bounds.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), bounds.size - 1, buffers)


def failure(schema: pa.Schema, error: Exception, **known: int) -> pa.RecordBatch:
    """A row that only says why a task failed, to be handed on to the driver."""
    return _failure(schema, pickle.dumps(error), **known)


def _failure(schema: pa.Schema, error: bytes, **known: int) -> pa.RecordBatch:
    empty = {pa.int32(): 0, pa.int64(): 0, pa.binary(): b"", pa.string(): ""}
    row = {field.name: empty[field.type] for field in schema} | known | {"error": error}
    return pa.RecordBatch.from_pylist([row], schema=schema)


def merge_bucket(
    batches: Iterable[pa.RecordBatch], logs: Sequence[LearnLog]
) -> Iterator[pa.RecordBatch]:
    """What stays of the keys of a bucket, from all its entries in any order."""
    tables: dict[int, NewestKeys] = {}
    for batch in batches:
        numbers, errors = batch.column("log").to_pylist(), batch.column("error").to_pylist()
        blobs = [batch.column(name) for name in ("hashes", "offsets", "sizes", "keys")]
        for row, (number, error) in enumerate(zip(numbers, errors, strict=True)):
            if error is not None:
                yield _failure(SURVIVOR_SCHEMA, error, part=logs[number].first_part)
                continue
            entries = read_entries(*(blob[row].as_buffer() for blob in blobs))
            tables.setdefault(number, NewestKeys()).put(entries)
    for number, table in tables.items():
        yield _survivor_rows(table, logs[number])


def _survivor_rows(table: NewestKeys, log: LearnLog) -> pa.RecordBatch:
    newest, confirmed = table.newest(), table.confirmed()
    bases = log.part_bases[1:]
    cuts = zip(
        np.split(newest, np.searchsorted(newest, bases)),
        np.split(confirmed, np.searchsorted(confirmed, bases)),
        strict=True,
    )
    rows = [
        (log.first_part + at, learnt.size, pack_offsets(_union(learnt, asked)), None)
        for at, (learnt, asked) in enumerate(cuts)
        if learnt.size or asked.size
    ]
    names = SURVIVOR_SCHEMA.names
    return pa.RecordBatch.from_pylist(
        [dict(zip(names, row, strict=True)) for row in rows], schema=SURVIVOR_SCHEMA
    )


def _union(learnt: Int64s, asked: Int64s) -> Int64s:
    return np.sort(np.concatenate([learnt, asked]))


def write_survivors(job: Job, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the offsets of parts, of which all rows are here, each to a file under `staging`."""
    blobs: dict[int, list[bytes]] = {}
    keys: dict[int, int] = {}
    for batch in batches:
        for part, count, offsets, error in zip(*(each.to_pylist() for each in batch), strict=True):
            if error is not None:
                yield _failure(FOUND_SCHEMA, error, part=part)
                continue
            blobs.setdefault(part, []).append(offsets)
            keys[part] = keys.get(part, 0) + count
    for part, its_blobs in blobs.items():
        offsets = np.sort(np.concatenate([unpack_offsets(blob) for blob in its_blobs]))
        name = new_staged_name("survivors")
        write_file(staged_path(job, name), pack_offsets(offsets), job.storage)
        yield pa.RecordBatch.from_pylist(
            [{"part": part, "keys": keys[part], "file": name, "error": None}], schema=FOUND_SCHEMA
        )


def read_learnt(rows: Iterable[Mapping[str, Any]]) -> Learnt:
    """What the tasks of a job found; what is wrong with more than one log is raised."""
    learnt = Learnt({}, {})
    for row in rows:
        part = row["part"]
        if row["error"] is None:
            learnt.found[part] = Found(row["file"], row["keys"])
            continue
        error = pickle.loads(row["error"])  # noqa: S301  from a task of this job
        if not isinstance(error, UNCLEANABLE):
            raise error
        known = learnt.uncleanable.setdefault(part, error)
        learnt.uncleanable[part] = min(known, error, key=_place)
    return learnt


def _place(error: Exception) -> tuple[str, int]:
    """Where a log is broken: tasks may find several places, in any order."""
    if isinstance(error, CorruptLogError):
        return error.violation.file, error.violation.position
    return "", 0
