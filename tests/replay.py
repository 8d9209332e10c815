"""A partition replayed through our rules, to be compared with the files that its broker wrote."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from ottla.log.files.producer_snapshot import read_producer_snapshot
from ottla.log.files.transaction_index import read_transaction_index
from ottla.log.read.windows import read_windows
from ottla.rules.producers.snapshots import from_snapshot, to_snapshot
from ottla.rules.producers.transactions import Transactions, read_markers
from ottla.storage.files import open_file

Entries = list[dict[str, int]]


def differences(partition: Path) -> list[str]:
    """Where a replay ends with other producers or aborted transactions than the broker's files."""
    segments = sorted(partition.glob("*.log"))
    transactions = _begin(partition, int(segments[0].stem))
    found: list[str] = []
    for segment in segments:
        known = len(transactions.aborted())
        end_offset = _add(transactions, segment)
        aborted = _rows(transactions.aborted()[known:])
        index = segment.with_suffix(".txnindex")
        kept = _rows(read_transaction_index(index.read_bytes())) if index.exists() else []
        if aborted != kept:
            found.append(f"{index}: replayed {aborted}, found {kept}")
        snapshot = partition / f"{end_offset:020}.snapshot"
        if snapshot.exists():
            replayed = _by_producer(_rows(to_snapshot(transactions.state)))
            stored = _by_producer(_rows(_read_snapshot(snapshot)))
            if replayed != stored:
                found.append(f"{snapshot}: replayed {replayed}, found {stored}")
    return found


def _begin(partition: Path, first_offset: int) -> Transactions:
    """A broker that lost its first segments goes on from the snapshot taken where they ended."""
    snapshot = partition / f"{first_offset:020}.snapshot"
    if not snapshot.exists():
        return Transactions()
    return Transactions(from_snapshot(_read_snapshot(snapshot)), first_offset)


def _add(transactions: Transactions, segment: Path) -> int:
    """Replay one segment and return the offset after it."""
    end_offset = int(segment.stem)
    with open_file(str(segment)) as file:
        for window in read_windows(file):
            refused = transactions.add(window.batches, read_markers(window.region, window.batches))
            assert not refused, refused
            if window.batches.position.size:
                end_offset = int(window.batches.last_offset[-1]) + 1
    return end_offset


def _read_snapshot(path: Path) -> npt.NDArray[np.void]:
    return read_producer_snapshot(path.read_bytes(), str(path))


def _rows(entries: npt.NDArray[np.void]) -> Entries:
    names = entries.dtype.names or ()
    return [dict(zip(names, map(int, entry), strict=True)) for entry in entries.tolist()]


def _by_producer(entries: Entries) -> Entries:
    """Kafka writes them in the order of a hash map."""
    return sorted(entries, key=lambda entry: entry["producer_id"])
