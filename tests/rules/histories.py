"""Batches as producers and coordinators write them, and the tables read from their bytes."""

import struct
from collections.abc import Sequence

import numpy as np

import builders
from builders import Row
from ottla.batch.attributes import is_control
from ottla.format.arrays import Bools
from ottla.kernels.producers.state import Markers
from ottla.kernels.records.scan import scan
from ottla.kernels.tables import Batches, allocate_batches, take_batches
from ottla.region import Region, padded
from ottla.rules.producers.producer import Producer, ProducerState, entry
from ottla.rules.producers.transactions import Entries, aborted_mask, read_markers

TRANSACTIONAL = 0x10
CONTROL = 0x20
ABORT = 0
COMMIT = 1


def data_batch(
    offset: int,
    count: int = 1,
    *,
    producer: tuple[int, int, int] = (-1, -1, -1),
    transactional: bool = False,
    timestamp: int = 0,
    codec: int = 0,
) -> bytes:
    """A batch of `count` records from `offset` on; `producer` is id, epoch and base sequence."""
    rows = [Row(offset + at, timestamp, b"key %d" % at) for at in range(count)]
    attributes = TRANSACTIONAL if transactional else 0
    return builders.batch(rows, attributes=attributes, producer=producer, codec=codec)


def marker(
    offset: int,
    producer_id: int,
    epoch: int,
    control_type: int,
    *,
    coordinator_epoch: int = 0,
    timestamp: int = 0,
    codec: int = 0,
) -> bytes:
    """The batch with which a coordinator ends a transaction."""
    key = struct.pack(">hh", 0, control_type)
    value = struct.pack(">hi", 0, coordinator_epoch)
    return builders.batch(
        [Row(offset, timestamp, key, value)],
        attributes=TRANSACTIONAL | CONTROL,
        producer=(producer_id, epoch, -1),
        codec=codec,
    )


def empty_marker(offset: int, producer_id: int, epoch: int) -> bytes:
    """What compaction leaves of a marker that holds a producer's last epoch."""
    return builders.batch_of(
        b"",
        count=0,
        attributes=TRANSACTIONAL | CONTROL,
        base_offset=offset,
        timestamps=(-1, 0),
        producer=(producer_id, epoch, -1),
    )


def tables(data: bytes | Sequence[bytes]) -> tuple[Region, Batches, Markers]:
    """The batches of some bytes, and what their markers say."""
    joined = data if isinstance(data, bytes) else b"".join(data)
    region = Region(padded(joined), len(joined), "memory", 0)
    room = allocate_batches(len(joined) // 26 + 1)
    rows, stopped, _, _ = scan(region.data, 0, region.size, 0, room)
    assert stopped == len(joined)
    batches = take_batches(room, np.arange(rows))
    return region, batches, read_markers(region, batches)


def known_producers(state: ProducerState) -> list[Producer]:
    """All producers, in the order in which they were first seen."""
    found = [entry(state, known) for known in state.producers.producer_id[: state.count].tolist()]
    return [producer for producer in found if producer is not None]


def committed_mask(
    batches: Batches, aborted: Entries, last_stable_offset: int | None = None
) -> Bools:
    """What a consumer that reads committed records is given."""
    mask: Bools = ~aborted_mask(batches, aborted) & ~is_control(batches)
    if last_stable_offset is not None:
        mask &= batches.last_offset < last_stable_offset
    return mask
