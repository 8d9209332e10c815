"""What the attribute bits of `Batches` say, as columns."""

import numpy as np

from ottla.format.arrays import Bools
from ottla.format.attributes import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
)
from ottla.kernels.producers.sequences import add_sequences
from ottla.kernels.tables import Batches, Int64s


def codec_ids(batches: Batches) -> Int64s:
    """The codec ids, known or not."""
    return batches.attributes & CODEC_MASK


def timestamp_types(batches: Batches) -> Int64s:
    """-1 for magic 0, else whether the broker's clock was used."""
    append_time = (batches.attributes & LOG_APPEND_TIME) // LOG_APPEND_TIME
    return np.where(batches.magic == 0, -1, append_time)


def _flag(batches: Batches, mask: int) -> Bools:
    flagged: Bools = (batches.magic >= 2) & (batches.attributes & mask != 0)
    return flagged


def is_transactional(batches: Batches) -> Bools:
    """Only magic 2 has transactions."""
    return _flag(batches, TRANSACTIONAL)


def is_control(batches: Batches) -> Bools:
    """Only magic 2 has control batches."""
    return _flag(batches, CONTROL)


def has_delete_horizon(batches: Batches) -> Bools:
    """Whether `base_timestamp` is a delete horizon (KIP-534)."""
    return _flag(batches, DELETE_HORIZON)


def add_sequence(base: Int64s, increment: Int64s) -> Int64s:
    """Sequences after `base`; they wrap to 0 (DefaultRecordBatch.incrementSequence).

    >>> add_sequence(np.array([2147483647, 2147483642, 3]), np.array([1, 10, 0])).tolist()
    [0, 4, 3]
    """
    sequences = np.empty(base.size, dtype=np.int64)
    add_sequences(base, increment, sequences)
    return sequences


def last_sequences(batches: Batches) -> Int64s:
    """The sequence of each batch's last record, -1 where there is none."""
    last = add_sequence(batches.base_sequence, batches.last_offset_delta)
    return np.where(batches.base_sequence == -1, -1, last)
