"""What a read_committed reader must know of a partition before it reads any part of it.

Aborted transactions come from the transaction indexes and open ones from the newest producer
snapshot and what was written after it. Where these files are missing or broken, one pass over the
whole partition finds both, which costs a read of all its bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ottla.errors import CorruptLogError
from ottla.format.names import Kind
from ottla.format.sentinels import INT64_MAX
from ottla.kernels.tables import take_batches
from ottla.log.files.index_file import Entries
from ottla.log.files.partition import Partition, Segment
from ottla.log.files.producer_snapshot import find_newest_snapshot
from ottla.log.files.small_files import read_small
from ottla.log.files.transaction_index import (
    aborted_transactions,
    check_transaction_index,
    read_transaction_index,
)
from ottla.log.read.index_entries import entries_of
from ottla.log.read.windows import read_windows
from ottla.rules.producers.snapshots import from_snapshot
from ottla.rules.producers.transactions import Transactions, read_markers
from ottla.storage.files import open_remaining
from ottla.storage.object_store import StorageOptions


@dataclass(frozen=True, slots=True)
class Stable:
    """The aborted transactions of a partition, and the offset from which nothing is decided."""

    aborted: Entries
    last_stable_offset: int


def find_stable(
    partition: Partition, high_watermark: int | None, storage: StorageOptions
) -> Stable:
    """From the files beside the log if all of them check out, else from the log."""
    indexed = _read_indexes(partition, storage)
    snapshot, _ = find_newest_snapshot(partition, INT64_MAX, storage)
    if indexed is None or snapshot is None:
        first = partition.segments[0].base_offset if partition.segments else 0
        transactions = _fold(Transactions(end_offset=first), partition.segments, storage)
        return Stable(transactions.aborted(), transactions.last_stable_offset(high_watermark))
    started = Transactions(from_snapshot(snapshot.entries), snapshot.offset)
    after = [segment for segment in partition.segments if segment.base_offset >= snapshot.offset]
    tail = _fold(started, after, storage)
    return Stable(_unite(indexed, tail.aborted()), tail.last_stable_offset(high_watermark))


def _fold(
    transactions: Transactions, segments: Sequence[Segment], storage: StorageOptions
) -> Transactions:
    """Add what segments hold; a batch with a wrong CRC opens and ends nothing."""
    for segment in segments:
        transactions.begin_segment(segment.base_offset)
        with open_remaining(segment.log, storage) as file:
            index = segment.side_files.get(Kind.OFFSET_INDEX)
            find_next = entries_of(file, index, segment.base_offset, storage)
            for window in read_windows(file, find_next=find_next):
                intact = window.batches.crc == window.batches.computed_crc
                batches = take_batches(window.batches, intact)
                transactions.add(batches, read_markers(window.region, batches))
    return transactions


def _unite(indexed: Entries, found: Entries) -> Entries:
    """What either names; a transaction is known by where its marker is.

    The index of the active segment may be missing: a copy taken while the broker ran, or a crash
    before the file was flushed. The log itself may be damaged where the index is not.
    """
    unknown = ~np.isin(found["last_offset"], indexed["last_offset"])
    both = np.concatenate([indexed, found[unknown]])
    return both[np.argsort(both["last_offset"], kind="stable")]


def _read_indexes(partition: Partition, storage: StorageOptions) -> Entries | None:
    """All entries; None if one is broken, or if indexes were not kept with the logs."""
    tables = [aborted_transactions([])]
    for segment in partition.segments:
        entry = segment.side_files.get(Kind.TRANSACTION_INDEX)
        if entry is None:
            # A broker makes the file with the first abort; only its other indexes say it was here.
            if Kind.OFFSET_INDEX not in segment.side_files:
                return None
            continue
        try:
            data = read_small(entry, storage)
        except CorruptLogError:
            return None
        if next(check_transaction_index(data, segment.base_offset, entry.path), None) is not None:
            return None
        tables.append(read_transaction_index(data))
    return np.concatenate(tables)
