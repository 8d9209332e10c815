"""Producer snapshots (`.snapshot`): what a broker knew of each producer at an offset."""

from typing import Final, NamedTuple

import numpy as np

from ottla.errors import CorruptLogError, Rule, Violation
from ottla.format.layout import PRODUCER_SNAPSHOT_ENTRY, PRODUCER_SNAPSHOT_HEAD, position_of
from ottla.format.names import Kind
from ottla.kernels.bytes.crc import crc32c
from ottla.log.files.index_file import Entries
from ottla.log.files.partition import Partition
from ottla.log.files.small_files import read_small
from ottla.region import padded
from ottla.storage.object_store import StorageOptions

CURRENT_VERSION: Final = 1
_CRC_START: Final = position_of(
    "count", PRODUCER_SNAPSHOT_HEAD
)  # the CRC covers all that follows it


class ProducerSnapshot(NamedTuple):
    """The producers that were known before an offset."""

    offset: int
    entries: Entries


def find_newest_snapshot(
    partition: Partition, limit: int, storage: StorageOptions
) -> tuple[ProducerSnapshot | None, list[Violation]]:
    """The newest readable snapshot at a segment's base, not above `limit`; why newer ones are not.

    A broker deletes those at other offsets (`strays`), so nothing begins there.
    """
    snapshots = {
        name.offset: entry
        for name, entry in partition.settled.live
        if name.kind is Kind.PRODUCER_SNAPSHOT
    }
    bases = [segment.base_offset for segment in partition.segments]
    problems: list[Violation] = []
    for base in reversed(bases):
        if base not in snapshots or base > limit:
            continue
        entry = snapshots[base]
        try:
            entries = read_producer_snapshot(read_small(entry, storage), entry.path)
        except CorruptLogError as error:
            problems.append(error.violation)
            continue
        return ProducerSnapshot(base, entries), problems
    return None, problems


def read_producer_snapshot(data: bytes, file: str) -> Entries:
    """One entry per producer; a snapshot that Kafka calls corrupt raises (ProducerStateManager)."""
    head_size = PRODUCER_SNAPSHOT_HEAD.itemsize
    if len(data) < head_size:
        raise _unreadable(file, "shorter than its fixed part", str(len(data)), f">= {head_size}")
    head = np.frombuffer(data, dtype=PRODUCER_SNAPSHOT_HEAD, count=1)[0]
    if head["version"] != CURRENT_VERSION:
        raise _unreadable(file, "unknown version", str(head["version"]), str(CURRENT_VERSION))
    computed = crc32c(padded(data), _CRC_START, len(data))
    if computed != head["crc"]:
        raise _unreadable(file, "CRC-32C differs", f"{computed:#010x}", f"{int(head['crc']):#010x}")
    expected = head_size + int(head["count"]) * PRODUCER_SNAPSHOT_ENTRY.itemsize
    if head["count"] < 0 or len(data) < expected:
        raise _unreadable(file, "fewer entries than counted", str(len(data)), str(expected))
    return np.frombuffer(data, PRODUCER_SNAPSHOT_ENTRY, int(head["count"]), offset=head_size)


def write_producer_snapshot(entries: Entries) -> bytes:
    """The bytes of a snapshot; the order of entries is the caller's (Kafka's is a hash map's)."""
    head = np.zeros(1, dtype=PRODUCER_SNAPSHOT_HEAD)
    head["version"] = CURRENT_VERSION
    head["count"] = entries.size
    covered = head.tobytes()[_CRC_START:] + entries.astype(PRODUCER_SNAPSHOT_ENTRY).tobytes()
    head["crc"] = crc32c(padded(covered), 0, len(covered))
    return head.tobytes()[:_CRC_START] + covered


def _unreadable(file: str, detail: str, found: str, expected: str) -> CorruptLogError:
    return CorruptLogError(
        Violation(Rule.SNAPSHOT_READABLE, detail, file, 0, found=found, expected=expected)
    )
