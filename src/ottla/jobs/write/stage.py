"""Rows to staged logs: what one task of the Spark sink does.

Nobody knows yet at which offset its records will be: those of every partition are counted from 0,
and `jobs.write_commit` moves them when all tasks are done.
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.arrow.from_arrow import records_from_arrow
from ottla.batch.encode import encode_batches, split
from ottla.batch.records import take_records
from ottla.errors import OptionError, Term
from ottla.format.names import is_topic_name
from ottla.format.sentinels import INT32_MAX
from ottla.kernels.tables import Batches, Int64s, RecordBuffers
from ottla.log.write.segment_writer import LogWriter
from ottla.options.write import WriteOptions
from ottla.publish.checked import StagedFile
from ottla.publish.job import Job
from ottla.region import Region
from ottla.rules.producers.partitioner import Partitioner
from ottla.storage.retries import Requests

_ROUND_BYTES: Final = 32 << 20  # rows are collected so that each partition gets whole batches
_MICROSECONDS: Final = 1000
_NOT_CHOSEN: Final = -1
_CLOSERS: Final = 8


@dataclass(frozen=True, slots=True)
class Writing:
    """What every task of a save knows: the partitions that there are, and the time it began."""

    options: WriteOptions
    existing: Mapping[str, int]
    now: int

    def partition_count(self, topic: str) -> int | None:
        """How many partitions a topic has or shall have, if that is known."""
        options = self.options
        wanted = options.partition_counts.get(topic, options.partition_count)
        there = self.existing.get(topic)
        if wanted is not None and there is not None and wanted < there:
            raise OptionError(
                Term.PARTITION_COUNT, f": topic {topic} has {there} partitions, not {wanted}"
            )
        return there if wanted is None else wanted


class StagedPart(NamedTuple):
    """What a task staged of one partition: the files are named as if the log began at 0."""

    topic: str
    partition: int
    files: tuple[StagedFile, ...]
    first_offset: int
    next_offset: int
    batch_count: int
    record_count: int
    requests: int
    request_bytes: int


def stage_rows(
    job: Job, writing: Writing, task: int, batches: Iterable[pa.RecordBatch]
) -> list[StagedPart]:
    """Stage the rows of a task; the same task of the same job always stages the same."""
    writer = _TaskWriter(job, writing, seed=zlib.crc32(f"{job.name}/{task}".encode()))
    for rows in _collect(batches):
        writer.write(rows)
    return writer.close()


def _collect(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in fewer and larger batches."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size >= _ROUND_BYTES:
            yield pa.concat_batches(held)
            held, size = [], 0
    if held:
        yield pa.concat_batches(held)


@dataclass(slots=True)
class _StagedPartition:
    """The log of a partition as far as this task has written it."""

    log: LogWriter
    first_offset: int
    next_offset: int
    batch_count: int = 0
    record_count: int = 0
    requests: Requests = field(default_factory=Requests)

    def append(self, region: Region, batches: Batches) -> None:
        with self.requests.counting():
            self.log.append(region, batches)

    def close(self) -> tuple[StagedFile, ...]:
        with self.requests.counting():
            return tuple(self.log.close())


class _TaskWriter:
    """Logs of all partitions that a task has rows for."""

    def __init__(self, job: Job, writing: Writing, seed: int) -> None:
        self.job = job
        self.writing = writing
        self.new_batch = writing.options.new_batch
        self.partitioner = Partitioner(seed, writing.options.batch_bytes)
        self.topics: list[str] = []
        self.partitions: dict[tuple[str, int], _StagedPartition] = {}

    def write(self, rows: pa.RecordBatch) -> None:
        """Write rows to the partitions that they name, or that are chosen for them."""
        if not rows.num_rows:
            return
        topics = self._number_topics(rows)
        records = records_from_arrow(_record_columns(rows, self.writing))
        chosen = self._choose(rows, topics, records)
        place = topics * (INT32_MAX + 1) + chosen
        order = np.argsort(place, kind="stable")
        ends = np.flatnonzero(np.diff(place[order], append=-1)) + 1
        for first, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True):
            row = order[first]
            name = (self.topics[topics[row]], int(chosen[row]))
            self._append(name, take_records(records, order[first:end]))

    def close(self) -> list[StagedPart]:
        """Finish all logs, some at once: that is to wait for the disk, log after log."""
        named = sorted(self.partitions.items())
        with ThreadPoolExecutor(_CLOSERS) as closers:
            files = list(closers.map(lambda one: one[1].close(), named))
        return [
            StagedPart(
                topic,
                partition,
                its_files,
                each.first_offset,
                each.next_offset,
                each.batch_count,
                each.record_count,
                *each.requests.take(),
            )
            for ((topic, partition), each), its_files in zip(named, files, strict=True)
        ]

    def _number_topics(self, rows: pa.RecordBatch) -> Int64s:
        """The number of each row's topic in `topics`; the option wins over the column."""
        if self.writing.options.topic is not None:
            self.topics = [self.writing.options.topic]
            return np.zeros(rows.num_rows, dtype=np.int64)
        column = rows.column("topic")
        if column.null_count:
            raise OptionError(
                "null topic present in the data. Use ", Term.TOPIC, " for setting a topic."
            )
        encoded = column.dictionary_encode()
        numbers = [self._number(topic) for topic in encoded.dictionary.to_pylist()]
        topics: Int64s = np.array(numbers, dtype=np.int64)[encoded.indices.to_numpy()]
        return topics

    def _number(self, topic: str) -> int:
        if topic not in self.topics:
            if not is_topic_name(topic):
                raise OptionError(f"topic {topic!r} in the data is no name for a topic")
            self.topics.append(topic)
        return self.topics.index(topic)

    def _choose(self, rows: pa.RecordBatch, topics: Int64s, records: RecordBuffers) -> Int64s:
        known = [self.writing.partition_count(topic) for topic in self.topics]
        counts = np.array([0 if count is None else count for count in known], dtype=np.int64)
        given = np.full(rows.num_rows, _NOT_CHOSEN, dtype=np.int64)
        if "partition" in rows.schema.names:
            given = _given_partitions(rows.column("partition"))
        count = counts[topics]
        outside = np.flatnonzero((given >= count) & (count > 0))
        if outside.size:
            row = outside[0]
            raise OptionError(
                f"partition {given[row]} of topic {self.topics[topics[row]]} is not in the range"
                f" [0...{count[row] - 1}]; ",
                Term.PARTITION_COUNT,
                " adds partitions",
            )
        unknown = np.flatnonzero((given == _NOT_CHOSEN) & (count == 0))
        if unknown.size:
            topic = self.topics[topics[unknown[0]]]
            raise OptionError(
                f"topic {topic} is new: ",
                Term.PARTITION_COUNT,
                " must say how many partitions it has, or the column partition to which of them"
                " each row goes",
            )
        return self.partitioner.choose(records, topics, counts, given)

    def _append(self, name: tuple[str, int], records: RecordBuffers) -> None:
        options = self.writing.options
        count = records.offset.size
        part = self.partitions.get(name)
        if part is None:
            first = int(records.offset[0]) if options.keep_offsets else 0
            log = LogWriter(self.job, f"{name[0]}-{name[1]}", first, options.config)
            part = self.partitions[name] = _StagedPartition(log, first, first)
        if options.keep_offsets:
            _check_rising(records.offset, part, name)
        else:
            offsets = np.arange(part.next_offset, part.next_offset + count)
            records = records._replace(offset=offsets)
        bounds = split(records, self.new_batch, options.batch_bytes)
        encoded = encode_batches(records, bounds, self.new_batch)
        part.append(Region(encoded.data, encoded.data.size, "", 0), encoded.batches)
        part.next_offset = int(records.offset[-1]) + 1
        part.batch_count += encoded.batches.position.size
        part.record_count += count


def _given_partitions(column: pa.Array) -> Int64s:
    numbers = column.cast(pa.int64())
    least = pc.min(numbers).as_py()
    if least is not None and least < 0:
        raise OptionError(f"partition {least} in the data: a partition is a number from 0 on")
    given: Int64s = numbers.fill_null(_NOT_CHOSEN).to_numpy()
    return given


def _record_columns(rows: pa.RecordBatch, writing: Writing) -> pa.RecordBatch:
    """The columns of records, with Kafka's numbers."""
    columns = {name: rows.column(name) for name in ("key", "value") if name in rows.schema.names}
    if "headers" in rows.schema.names:
        columns["headers"] = rows.column("headers")
    columns["timestamp"] = _timestamps(rows, writing.now)
    if writing.options.keep_offsets:
        columns["offset"] = rows.column("offset")
    return pa.RecordBatch.from_pydict(columns)


def _timestamps(rows: pa.RecordBatch, now: int) -> pa.Array:
    """Milliseconds; rows without a time were made when the save began, as by a producer's clock."""
    if "timestamp" not in rows.schema.names:
        return pa.array(np.full(rows.num_rows, now))
    microseconds = rows.column("timestamp").cast(pa.int64()).fill_null(now * _MICROSECONDS)
    return pa.array(microseconds.to_numpy() // _MICROSECONDS)


def _check_rising(offsets: Int64s, part: _StagedPartition, name: tuple[str, int]) -> None:
    if offsets[0] < max(0, part.next_offset) or (np.diff(offsets) <= 0).any():
        raise OptionError(
            Term.KEEP_OFFSETS,
            f": offsets of {name[0]}-{name[1]} do not rise in a task; sort the rows by topic,"
            " partition and offset first (sort, or repartition and sortWithinPartitions)",
        )
