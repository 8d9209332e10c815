"""Segments as Arrow, and Arrow as a segment; and logs as DataFrames of Spark."""

import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from ottla.arrow.from_arrow import records_from_arrow
from ottla.arrow.schema import RECORD_SCHEMA
from ottla.arrow.to_arrow import batches_to_arrow, wanted_flags
from ottla.batch.attributes import last_sequences
from ottla.batch.decode import DEFAULT_MAX_BATCH_BYTES
from ottla.batch.encode import encode_batches, split
from ottla.batch.new_batch import NewBatch
from ottla.errors import CorruptLogError, OptionError, PublishError, Rule, Violation
from ottla.format.attributes import Codec, codec_of
from ottla.format.sentinels import MAX_SEQUENCE
from ottla.kernels.tables import Int64s
from ottla.log.read.one_segment import OneSegment, open_segment
from ottla.log.read.records import Mode, RecordRequest, read_records, to_batches
from ottla.log.read.windows import read_windows
from ottla.publish.job import has_siblings
from ottla.publish.locks import refuse_claimed
from ottla.storage.paths import Path, is_remote, local_path
from ottla.storage.writing import open_output, sync_directory

if TYPE_CHECKING:
    from ottla.spark.log import Frame, Option, Session

PRODUCER_BATCH_BYTES: Final = 16384  # the default of a producer's batch.size


def read_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """The batch headers of a segment with their CRC verdicts; no record is opened.

    After bytes that are no batch reading goes on at the next batch that the index beside the file
    knows, or ends; `ottla verify` names such bytes.
    """
    segment = _open_segment(path)
    with segment.file as file:
        for window in read_windows(file, find_next=segment.find_next):
            if window.batches.position.size:
                yield batches_to_arrow(window.batches)


def read_segment(
    path: Path,
    *,
    columns: Sequence[str] = tuple(RECORD_SCHEMA.names),
    mode: str = Mode.FAILFAST,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
) -> Iterator[pa.RecordBatch]:
    """The records of a segment, control records left out.

    FAILFAST raises CorruptLogError at the first violation; DROPMALFORMED leaves broken batches out.
    PERMISSIVE also gives one row for each of them, null but for `_corrupt`, the last column. After
    bytes that are no batch reading goes on at the next batch that the index beside the file knows.
    """
    if mode not in list(Mode):
        raise OptionError(f"no mode {mode!r}; modes are {', '.join(Mode)}")
    flags = wanted_flags(columns)
    segment = _open_segment(path)
    with segment.file as file:
        wanted = RecordRequest(flags, name=segment.name, max_batch_bytes=max_batch_bytes)
        windows = read_windows(file, find_next=segment.find_next, max_batch_bytes=max_batch_bytes)
        yield from to_batches(read_records(windows, wanted), columns, Mode(mode))


def read_log(
    path: str,
    *,
    columns: Sequence[str] | None = None,
    spark: "Session | None" = None,
    **options: "Option",
) -> "Frame":
    """Logs below `path` as a DataFrame; options are those of `format("kafka-log")`.

    `columns` leaves the others undecoded, which Spark cannot ask a Python source for by itself.
    """
    from ottla.spark import log  # it needs Spark, which may not be here

    return log.read_log(path, columns=columns, spark=spark, **options)


def write_log(frame: "Frame", path: str, **options: "Option") -> None:
    """Append the rows of a DataFrame to logs below `path`; options as of `format("kafka-log")`."""
    from ottla.spark import log

    log.write_log(frame, path, **options)


def _open_segment(path: Path) -> OneSegment:
    """A segment; a directory of them is for `ottla.open`."""
    if not is_remote(path) and os.path.isdir(local_path(path)):
        raise OptionError(
            f"{local_path(path)} is a directory, and this reads the file of one segment:"
            f" ottla.open({os.fspath(path)!r}).scan() reads all that is in it"
        )
    return open_segment(path)


def write_segment(
    batches: Iterable[pa.RecordBatch],
    path: Path,
    *,
    new_batch: NewBatch = NewBatch(),  # noqa: B008  (frozen)
    codec: str | Codec | None = None,
    batch_bytes: int = PRODUCER_BATCH_BYTES,
) -> int:
    """Write records as a new segment and return its bytes; it appears under its name when whole.

    The columns key, value, offset, timestamp and headers are written, each if it is there. Records
    are cut into batches as a producer with `batch.size` does; sequences go on from batch to batch.
    A `codec`, or its name, stands for that of `new_batch`.
    """
    if codec is not None:
        new_batch = replace(new_batch, codec=codec_of(codec))
    if is_remote(path):
        raise OptionError(
            f"{path}: write_segment writes local files; the Spark sink writes to stores"
        )
    target = local_path(path)
    if os.path.exists(target):
        raise PublishError(f"{target} exists; Ottla does not overwrite segments")
    _refuse_claimed(target)
    staged = f"{target}.{uuid.uuid4().hex}.tmp"
    try:
        with open_output(staged) as out:
            size = _write_batches(batches, out, target, new_batch, batch_bytes)
        os.link(staged, target)  # unlike a rename, this never replaces
        sync_directory(os.path.dirname(target) or ".")
    finally:
        if os.path.exists(staged):
            os.unlink(staged)
    return size


def _refuse_claimed(target: str) -> None:
    """Fail if a job writes to the log directory that the segment would be in."""
    out = os.path.dirname(os.path.dirname(os.path.realpath(target)))
    if has_siblings(out):
        refuse_claimed(out)


def _write_batches(
    batches: Iterable[pa.RecordBatch], out: Any, path: str, new_batch: NewBatch, batch_bytes: int
) -> int:
    size = 0
    following = new_batch
    next_offset = new_batch.base_offset or 0
    last_offset: int | None = None
    for batch in batches:
        if batch.num_rows == 0:
            continue
        records = records_from_arrow(batch, first_offset=next_offset)
        _require_rising(records.offset, last_offset, path)
        encoded = encode_batches(records, split(records, following, batch_bytes), following)
        out.write(encoded.data)
        size += encoded.data.size
        last_offset = int(encoded.batches.last_offset[-1])
        next_offset = last_offset + 1
        sequence = int(last_sequences(encoded.batches)[-1])
        following = replace(
            following,
            base_offset=None,
            base_sequence=-1 if sequence < 0 else (sequence + 1) % (MAX_SEQUENCE + 1),
        )
    return size


def _require_rising(offsets: Int64s, last: int | None, path: str) -> None:
    """Offsets rise within a segment, whatever batches the records are cut into."""
    before = offsets[0] - 1 if last is None else last
    falling = np.flatnonzero(np.diff(offsets, prepend=before) <= 0)
    if falling.size:
        row = int(falling[0])
        detail = f"an offset is not above the one before it (row {row})"
        offset = int(offsets[row])
        raise CorruptLogError(Violation(Rule.RECORD_OFFSETS_RISE, detail, path, 0, offset=offset))
