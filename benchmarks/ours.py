"""Our side of every benchmark: the one file to change when the functions it calls do."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.corpus import Case
from ottla.api import read_segment
from ottla.arrow.from_arrow import records_from_arrow
from ottla.arrow.to_arrow import records_to_arrow, wanted_flags
from ottla.batch.decode import Decoder
from ottla.batch.encode import encode_batches
from ottla.batch.memory import allocate_from_pool
from ottla.batch.new_batch import NewBatch
from ottla.errors import Violation
from ottla.format.attributes import Codec
from ottla.kernels.bytes.crc import compute_crcs
from ottla.kernels.records.scan import scan, scan_and_check
from ottla.kernels.tables import Batches, Wanted, allocate_batches, take_batches
from ottla.log.check.partition import Seen, check_seen, see_tail, see_window
from ottla.log.files.partition import Partition, Segment
from ottla.log.read import buffer
from ottla.log.read.walk import walk_file
from ottla.log.read.windows import read_windows
from ottla.region import PADDING, Region, padded
from ottla.storage.files import open_file

COLUMNS = ("key", "value", "offset", "timestamp", "headers")
WINDOW_BYTES = buffer.WINDOW_BYTES
CHUNK_ROWS = 20_000

Bytes = npt.NDArray[np.uint8]


def hold(data: bytes) -> Bytes:
    """A segment in memory, as kernels want it."""
    return padded(data)


def decode(data: Bytes) -> int:
    """Every record to Arrow, CRC checked; returns how many."""
    decoder = Decoder(wanted_flags(COLUMNS), allocate=allocate_from_pool)
    rows = 1 << 10
    size = data.size - PADDING
    count = at = 0
    while at < size:
        stop = min(size, at + WINDOW_BYTES)
        table = allocate_batches(max(1 << 10, 2 * rows), allocate_from_pool)
        rows, stopped, _, needed = scan_and_check(data, at, stop, 0, table)
        if rows == 0:  # one batch larger than a window
            rows, stopped, _, _ = scan_and_check(data, at, min(size, at + needed), 0, table)
        batches = take_batches(table, slice(0, rows))
        for chunk, broken in decoder.decode(Region(data, size, "memory", 0), batches):
            assert not broken
            count += 0 if chunk is None else records_to_arrow(chunk, COLUMNS).num_rows
        at = stopped
    rest = decoder.flush()
    return count + (records_to_arrow(rest, COLUMNS).num_rows if rest is not None else 0)


Window = tuple[Region, Batches]


def windows(path: Path) -> list[Window]:
    """The windows of a file, in memory."""
    data = hold(path.read_bytes())
    found = []
    at = 0
    while at < data.size - PADDING:
        table = allocate_batches(1 << 16)
        stop = min(data.size - PADDING, at + WINDOW_BYTES)
        rows, at, _, _ = scan(data, at, stop, 0, table)
        batches = take_batches(table, slice(0, rows))
        compute_crcs(data, 0, batches)
        found.append((Region(data, data.size - PADDING, "memory", 0), batches))
    return found


def rows(path: Path, records_per_batch: int) -> list[pa.RecordBatch]:
    """The records of a segment as a writer is given them: Arrow, CHUNK_ROWS at a time."""
    table = pa.Table.from_batches(read_segment(str(path), columns=COLUMNS)).combine_chunks()
    return table.to_batches(max_chunksize=CHUNK_ROWS // records_per_batch * records_per_batch)


def encode(chunks: list[pa.RecordBatch], case: Case) -> list[Bytes]:
    """Every record into batches of so many, with the codec at its default level."""
    new = NewBatch(codec=Codec[case.codec.upper()])
    return [_encode_chunk(chunk, case.records_per_batch, new) for chunk in chunks]


def encoded_bytes(chunks: list[pa.RecordBatch], case: Case) -> int:
    """As `encode`, but of the batches only their size is kept, as a writer keeps none of them."""
    new = NewBatch(codec=Codec[case.codec.upper()])
    return sum(_encode_chunk(chunk, case.records_per_batch, new).size for chunk in chunks)


def _encode_chunk(chunk: pa.RecordBatch, records_per_batch: int, new: NewBatch) -> Bytes:
    bounds = np.append(np.arange(0, chunk.num_rows, records_per_batch), chunk.num_rows)
    return encode_batches(records_from_arrow(chunk), bounds, new).data


def walk(path: Path) -> int:
    """Every batch header of a file, without reading its records; returns the bytes passed."""
    with open_file(str(path)) as file:
        return [part.stop for part in walk_file(file)][-1]


def header_positions(path: Path) -> npt.NDArray[np.int64]:
    """Where the batches of a file begin."""
    with open_file(str(path)) as file:
        return np.concatenate([part.batches.position for part in walk_file(file)])


def walk_headers(path: Path) -> int:
    """Every batch header of a file; returns the bytes walked over."""
    return _read_to_the_end(path, check_crcs=False)


def verify(path: Path) -> int:
    """The CRC of every batch of a file; returns the bytes checked."""
    return _read_to_the_end(path, check_crcs=True)


def _read_to_the_end(path: Path, *, check_crcs: bool) -> int:
    stop = 0
    with open_file(str(path)) as file:
        for window in read_windows(file, check_crcs=check_crcs):
            if check_crcs:
                assert (window.batches.crc == window.batches.computed_crc).all()
            stop = window.stop
    return stop


def check_partition(partition: Partition) -> Iterator[Violation]:
    """Every violation of a partition, from beginning to end."""
    return check_seen(partition, (_see_segment(segment) for segment in partition.segments))


def _see_segment(segment: Segment) -> Iterator[Seen]:
    decoder = Decoder(Wanted.CONTROL)
    with open_file(segment.log) as file:
        window = None
        for window in read_windows(file):
            yield see_window(window, decoder)
        yield see_tail(file, window)
