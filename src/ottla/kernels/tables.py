"""The two tables that carry everything: one row per batch, one row per record, for every magic."""

from collections.abc import Callable
from enum import IntFlag
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ottla.format.arrays import Bytes, Int32s, Int64s

__all__ = [
    "Allocate",
    "Batches",
    "Int32s",
    "Int64s",
    "Payloads",
    "RecordBuffers",
    "Wanted",
    "allocate_batches",
    "allocate_bytes",
    "allocate_payloads",
    "concat_batches",
    "take_batches",
]


class Batches(NamedTuple):
    """One row per batch. What a magic does not have holds Kafka's sentinel.

    `position` is absolute in the file and `size` counts the 12 bytes of offset and length.
    `base_offset` of a compressed v0/v1 wrapper is NO_OFFSET: only its records know. `count` is
    NO_COUNT for magic 0 and 1. `attributes` are raw and unsigned. For magic 0 and 1
    `base_timestamp` is NO_TIMESTAMP and `max_timestamp` the message's own.
    """

    position: Int64s
    size: Int64s
    magic: Int64s
    base_offset: Int64s
    last_offset: Int64s
    partition_leader_epoch: Int64s
    crc: Int64s
    computed_crc: Int64s
    attributes: Int64s
    last_offset_delta: Int64s
    base_timestamp: Int64s
    max_timestamp: Int64s
    producer_id: Int64s
    producer_epoch: Int64s
    base_sequence: Int64s
    count: Int64s  # type: ignore[assignment]  # not tuple.count: nobody counts columns


def allocate_bytes(size: int) -> Bytes:
    """Room for bytes, uninitialised."""
    return np.empty(size, dtype=np.uint8)


Allocate = Callable[[int], Bytes]


def _columns(count: int, rows: int, allocate: Allocate) -> npt.NDArray[np.int64]:
    """One block of columns, each a cache line further on in its page than the one before.

    Columns at equal places of their pages would fight for the same few lines of the cache.
    """
    stride = rows + (8 - rows) % 512
    return allocate(count * stride * 8).view(np.int64).reshape(count, stride)[:, :rows]


def allocate_batches(capacity: int, allocate: Allocate = allocate_bytes) -> Batches:
    """Make room for `capacity` rows."""
    return Batches(*_columns(len(Batches._fields), capacity, allocate))


def take_batches(
    batches: Batches, rows: slice | npt.NDArray[np.int64] | npt.NDArray[np.bool_]
) -> Batches:
    """The chosen rows of every column."""
    return Batches(*(column[rows] for column in batches))


def concat_batches(tables: list[Batches]) -> Batches:
    """Tables one after another."""
    if not tables:
        return allocate_batches(0)
    return Batches(*(np.concatenate(columns) for columns in zip(*tables, strict=True)))


class Payloads(NamedTuple):
    """One row per batch of a window: where its records are, and how decoding them went.

    `start` and `stop` point into the window, or into the arena where `in_arena` is not 0. `status`
    is OK until something breaks; `failed_index` and `failed_at` then say at which record and byte.
    `rows` counts the records that the current chunk holds of the batch. Of v0 and v1 wrappers,
    `shift` makes inner offsets absolute, and `opened` is 1 once the base offset is known. `codec`
    is what must be decompressed first, else 0.
    """

    start: Int64s
    stop: Int64s
    in_arena: Int64s
    status: Int64s
    failed_index: Int64s
    failed_at: Int64s
    rows: Int64s
    shift: Int64s
    opened: Int64s
    codec: Int64s


def allocate_payloads(capacity: int, allocate: Allocate = allocate_bytes) -> Payloads:
    """Zeroed rows."""
    block = _columns(len(Payloads._fields), capacity, allocate)
    block.fill(0)
    return Payloads(*block)


class Wanted(IntFlag):
    """What of records is asked for."""

    OFFSETS = 0  # and timestamps: these are always there
    KEYS = 1
    VALUES = 2
    HEADERS = 4
    INDEXES = 8  # of records in their batch
    INNER_CRCS = 16  # checks of the messages in a wrapper
    CONTROL = 32  # records of control batches too


class RecordBuffers(NamedTuple):
    """Room for a chunk of records, in Arrow's own layout: bounds, bytes and validity bits.

    Validity bits are preset to valid. Columns that nobody asked for have no room.
    """

    offset: Int64s
    timestamp: Int64s
    index: Int64s  # type: ignore[assignment]
    key_bounds: Int32s
    key_bytes: Bytes
    key_valid: Bytes
    value_bounds: Int32s
    value_bytes: Bytes
    value_valid: Bytes
    header_bounds: Int32s
    header_key_bounds: Int32s
    header_key_bytes: Bytes
    header_value_bounds: Int32s
    header_value_bytes: Bytes
    header_value_valid: Bytes
