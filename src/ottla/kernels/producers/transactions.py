"""Read the markers of control batches, and tell which batches belong to aborted transactions."""

import numpy as np
import numpy.typing as npt

from ottla.format.arrays import Bytes, Int64s
from ottla.format.attributes import CODEC_MASK, CONTROL, LOG_APPEND_TIME, TRANSACTIONAL
from ottla.format.layout import BATCH_OVERHEAD, CRC_COVERS
from ottla.kernels._jit import inlined, kernel
from ottla.kernels.bytes.crc import crc32c_inlined
from ottla.kernels.bytes.ints import read_i16, read_i32, wrapping_add
from ottla.kernels.producers.state import NO_MARKER, Markers, ends_transaction
from ottla.kernels.records.v2 import locate_record
from ottla.kernels.search.walk import view_at
from ottla.kernels.status import OK, TABLE_FULL
from ottla.kernels.tables import Batches

NOT_READ = -3  # the control type of a control batch that must be opened otherwise

_KEY_SIZE = 4  # version and type, int16 each (ControlRecordType)
_VALUE_SIZE = 6  # version int16, coordinator epoch int32 (EndTransactionMarker)


@inlined
def read_marker(data: Bytes, at: int, stop: int) -> tuple[int, int, int]:
    """Type, coordinator epoch and timestamp delta of the control record at `at`.

    Kafka reads newer versions as version 0, and refuses negative ones.
    """
    record = locate_record(data, at, stop)
    unreadable = NO_MARKER, -1, 0
    if record.status != OK or record.key_size < _KEY_SIZE or read_i16(data, record.key_at) < 0:
        return unreadable
    control_type = read_i16(data, record.key_at + 2)
    if not ends_transaction(control_type):
        return control_type, -1, record.timestamp_delta
    if record.value_size < _VALUE_SIZE or read_i16(data, record.value_at) < 0:
        return unreadable
    return control_type, read_i32(data, record.value_at + 2), record.timestamp_delta


@inlined
def view_marker(
    data: Bytes, held: int, origin: int, batches: Batches, markers: Markers, row: int
) -> int:
    """Fill a row of `markers`, and the computed CRC of a batch that is opened; 1 if NOT_READ."""
    markers.control_type[row] = NO_MARKER
    markers.coordinator_epoch[row] = -1
    markers.timestamp[row] = -1
    attributes = batches.attributes[row]
    if batches.magic[row] < 2 or attributes & CONTROL == 0:
        return 0
    at = batches.position[row] - origin
    stop = at + batches.size[row]
    if stop > held:
        markers.control_type[row] = NOT_READ
        return 1
    if batches.size[row] < BATCH_OVERHEAD:
        return 0
    batches.computed_crc[row] = crc32c_inlined(data, at + CRC_COVERS, stop)
    if batches.count[row] <= 0 or batches.computed_crc[row] != batches.crc[row]:
        return 0
    if attributes & CODEC_MASK:
        markers.control_type[row] = NOT_READ
        return 1
    control_type, coordinator_epoch, delta = read_marker(data, at + BATCH_OVERHEAD, stop)
    markers.control_type[row] = control_type
    markers.coordinator_epoch[row] = coordinator_epoch
    if attributes & LOG_APPEND_TIME:
        markers.timestamp[row] = batches.max_timestamp[row]
    else:
        markers.timestamp[row] = wrapping_add(batches.base_timestamp[row], delta)
    return 0


@kernel
def read_markers(
    data: Bytes, held: int, origin: int, batches: Batches, markers: Markers, first: int, end: int
) -> int:
    """Fill `markers` of rows `first` to `end`.

    data[:held] is what the file has at `origin`. A control batch that is compressed, or not held,
    is left at NOT_READ; returns how many there are. One with a wrong CRC says nothing.
    """
    missed = 0
    for row in range(first, end):
        missed += view_marker(data, held, origin, batches, markers, row)
    return missed


@kernel
def walk_markers(
    data: Bytes,
    held: int,
    origin: int,
    end: int,
    batches: Batches,
    first: int,
    markers: Markers,
) -> tuple[int, int, int, int]:
    """As `search.walk.walk`, and as `read_markers` of each batch while it is in the cache."""
    at = 0
    row = first
    while row < batches.position.size:
        status, size = view_at(data, held, origin, end, at, batches, row)
        if status != OK:
            return row, at, status, size
        view_marker(data, held, origin, batches, markers, row)
        at += size
        row += 1
    return row, at, TABLE_FULL, 0


@kernel
def mark_aborted(
    batches: Batches,
    producer_ids: Int64s,
    first_offsets: Int64s,
    last_offsets: Int64s,
    aborted: npt.NDArray[np.bool_],
) -> None:
    """Set `aborted` for data batches inside an aborted transaction of their producer.

    The transactions are sorted by producer, then by first offset; one producer's do not overlap.
    """
    for row in range(batches.position.size):
        aborted[row] = False
        producer_id = batches.producer_id[row]
        if producer_id < 0 or batches.attributes[row] & (TRANSACTIONAL | CONTROL) != TRANSACTIONAL:
            continue
        offset = batches.last_offset[row]
        low, high = 0, producer_ids.size
        while low < high:
            middle = (low + high) // 2
            if producer_ids[middle] < producer_id or (
                producer_ids[middle] == producer_id and first_offsets[middle] <= offset
            ):
                low = middle + 1
            else:
                high = middle
        if low > 0 and producer_ids[low - 1] == producer_id:
            aborted[row] = offset <= last_offsets[low - 1]
