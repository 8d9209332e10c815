"""Which partition a record goes to: the murmur2 of its key, or one that sticks for a while.

Utils.murmur2 and BuiltInPartitioner of Kafka's producer. Java's ints are kept in 64 unsigned bits
here, where the product of two of them still fits.
"""

from typing import NamedTuple

import numpy as np

from ottla.format.arrays import Bytes, Int64s
from ottla.kernels._jit import i64, inlined, kernel
from ottla.kernels.bytes.writing import span
from ottla.kernels.records.v2_write import fields_size
from ottla.kernels.tables import RecordBuffers

MASK = np.uint64(0xFFFFFFFF)
MULTIPLIER = np.uint64(0x5BD1E995)
SEED = np.uint64(0x9747B28C)
RECORD_OVERHEAD = 21  # DefaultRecord.MAX_RECORD_OVERHEAD


class Sticky(NamedTuple):
    """By topic: the partition of records without a key, its bytes, and how many were drawn."""

    partition: Int64s
    produced: Int64s
    drawn: Int64s


@inlined
def multiply(value: np.uint64) -> np.uint64:
    """Java's int product with the multiplier."""
    return (value * MULTIPLIER) & MASK


@inlined
def hash_bytes(data: Bytes, start: int, size: int) -> int:
    """Kafka's murmur2, as an unsigned int."""
    state = SEED ^ np.uint64(size)
    stop = start + size - size % 4
    for at in range(start, stop, 4):
        word = np.uint64(data[at]) | (np.uint64(data[at + 1]) << np.uint64(8))
        word |= np.uint64(data[at + 2]) << np.uint64(16)
        word |= np.uint64(data[at + 3]) << np.uint64(24)
        word = multiply(word)
        word = multiply(word ^ (word >> np.uint64(24)))
        state = multiply(state) ^ word
    for index in range(size % 4):
        state ^= np.uint64(data[stop + index]) << np.uint64(8 * index)
    if size % 4:
        state = multiply(state)
    state = multiply(state ^ (state >> np.uint64(13)))
    return i64(state ^ (state >> np.uint64(15)))


@inlined
def draw(topic: int, seed: int, count: int, sticky: Sticky) -> None:
    """Choose another partition for records without a key, each with the same chance.

    Kafka asks a random generator. Here the seed decides, so that a task that is tried again
    writes what it wrote before.
    """
    state = np.uint64((seed + sticky.drawn[topic]) & i64(0xFFFFFFFF))
    for _ in range(3):
        state = multiply(state ^ (state >> np.uint64(15)))
    sticky.drawn[topic] += 1
    sticky.produced[topic] = 0
    sticky.partition[topic] = i64(state ^ (state >> np.uint64(13))) % count


@kernel
def choose_partitions(
    records: RecordBuffers,
    topics: Int64s,
    counts: Int64s,
    seed: int,
    batch_bytes: int,
    sticky: Sticky,
    chosen: Int64s,
) -> None:
    """Fill `chosen` where it is negative; counts[topics[row]] partitions are there, at least one.

    BuiltInPartitioner.updatePartitionInfo: another partition after a batch's worth of bytes.
    """
    for row in range(chosen.size):
        if chosen[row] >= 0:
            continue
        topic = topics[row]
        start, size = span(records.key_bounds, records.key_valid, row)
        if size >= 0:
            hashed = hash_bytes(records.key_bytes, start, size)
            chosen[row] = (hashed & i64(0x7FFFFFFF)) % counts[topic]
            continue
        if sticky.partition[topic] < 0:
            draw(topic, seed, counts[topic], sticky)
        chosen[row] = sticky.partition[topic]
        sticky.produced[topic] += fields_size(records, row) + RECORD_OVERHEAD
        if sticky.produced[topic] >= batch_bytes:
            draw(topic, seed, counts[topic], sticky)
