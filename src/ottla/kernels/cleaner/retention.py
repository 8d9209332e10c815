"""Which batches and records a round of cleaning keeps, once the newest of each key are known."""

from typing import NamedTuple

import numpy as np

from ottla.format.arrays import Bools, Bytes, Int64s
from ottla.format.attributes import CONTROL, DELETE_HORIZON
from ottla.format.sentinels import NO_TIMESTAMP
from ottla.kernels._jit import inlined, kernel
from ottla.kernels.tables import Batches, RecordBuffers

# What is written for a batch.
DROPPED = 0
COPIED = 1  # byte for byte
REBUILT = 2  # with fewer records, or with a delete horizon
EMPTIED = 3  # its header alone


class RoundNumbers(NamedTuple):
    """What decides of a window; `latest` is the offset up to which newest records are known."""

    now: int
    new_horizon: int
    latest: int
    keeps_legacy_tombstones: bool


class Verdicts(NamedTuple):
    """What becomes of batches, and which of their records stay; `tombstones` are of those."""

    keep: Bools
    outcome: Int64s
    delete_horizon: Int64s
    kept: Int64s
    tombstones: Int64s


@inlined
def is_valid(bits: Bytes, row: int) -> bool:
    """Whether a value is not null."""
    return bool((bits[row >> 3] >> np.uint8(row & 7)) & np.uint8(1))


@inlined
def keep_records(
    records: RecordBuffers,
    first: int,
    stop: int,
    is_newest: Bools,
    keeps_all: bool,
    keeps_tombstones: bool,
    latest: int,
    keep: Bools,
) -> tuple[int, int, int]:
    """Fill `keep` (Cleaner.shouldRetainRecord) for a batch that is not discarded as a whole.

    Returns how many records stay, how many of these have no value, and how many had no key where a
    key is needed.
    """
    staying = 0
    empty = 0
    without_key = 0
    for row in range(first, stop):
        has_value = is_valid(records.value_valid, row)
        if keeps_all or records.offset[row] > latest:
            stays = True
        elif not is_valid(records.key_valid, row):
            stays = False
            without_key += 1
        else:
            stays = is_newest[row] and (has_value or keeps_tombstones)
        keep[row] = stays
        staying += stays
        empty += stays and not has_value
    return staying, empty, without_key


@kernel
def check_retention(
    batches: Batches,
    discardable: Bools,
    stays_empty: Bools,
    rows: Int64s,
    records: RecordBuffers,
    is_newest: Bools,
    round_: RoundNumbers,
    found: Verdicts,
) -> int:
    """Fill `found`; rows[b] records are of batch b (Cleaner.checkBatchRetention, filterTo).

    Returns how many records had no key where a key is needed.
    """
    unkeyed = 0
    first = 0
    for batch in range(rows.size):
        stop = first + rows[batch]
        modern = batches.magic[batch] >= 2
        control = modern and batches.attributes[batch] & CONTROL != 0
        has_horizon = modern and batches.attributes[batch] & DELETE_HORIZON != 0
        expired = has_horizon and batches.base_timestamp[batch] <= round_.now
        kept, tombstones, without_key = 0, 0, 0
        # A marker goes in the second round after its transaction is gone (KIP-534).
        if discardable[batch] and (expired or not control):
            found.keep[first:stop] = False
        else:
            keeps_tombstones = not expired if modern else round_.keeps_legacy_tombstones
            kept, tombstones, without_key = keep_records(
                records,
                first,
                stop,
                is_newest,
                control,
                keeps_tombstones,
                round_.latest,
                found.keep,
            )
        orphaned = discardable[batch] and control
        delays = modern and not has_horizon and (tombstones > 0 or orphaned)
        if kept > 0:
            found.outcome[batch] = COPIED if kept == rows[batch] and not delays else REBUILT
        else:
            found.outcome[batch] = EMPTIED if stays_empty[batch] else DROPPED
        found.delete_horizon[batch] = NO_TIMESTAMP
        if delays:
            found.delete_horizon[batch] = round_.new_horizon
        elif has_horizon:
            found.delete_horizon[batch] = batches.base_timestamp[batch]
        found.kept[batch] = kept
        found.tombstones[batch] = tombstones
        unkeyed += without_key
        first = stop
    return unkeyed
