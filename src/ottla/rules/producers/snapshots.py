"""Producer snapshots: what of the state survives in one, and which of them a broker keeps.

Mirrors ProducerStateManager. Files are the matter of `log/files/producer_snapshot.py`; here is
only what their entries and their offsets mean.
"""

from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from ottla.format.layout import PRODUCER_SNAPSHOT_ENTRY
from ottla.format.sentinels import NO_OFFSET, NO_SEQUENCE
from ottla.kernels.producers import state as kernels
from ottla.kernels.producers.state import WINDOW
from ottla.rules.producers.producer import (
    DEFAULT_EXPIRATION_MS,
    FIRST_CAPACITY,
    ProducerState,
    empty_state,
    remove_expired,
)

Entries = npt.NDArray[np.void]


def from_snapshot(
    entries: Entries, now: int | None = None, expiration_ms: int = DEFAULT_EXPIRATION_MS
) -> ProducerState:
    """The state that a broker loads: one batch of each window, expired producers left out.

    Without `now` nobody has expired, as when the history of a log is read.
    """
    state = empty_state(max(FIRST_CAPACITY, entries.size))
    count = entries.size
    producers, windows = state.producers, state.windows
    producers.producer_id[:count] = entries["producer_id"]
    producers.producer_epoch[:count] = entries["producer_epoch"]
    producers.coordinator_epoch[:count] = entries["coordinator_epoch"]
    producers.last_timestamp[:count] = entries["timestamp"]
    producers.appended[:count] = entries["last_offset"] >= 0
    producers.first_offset[:count] = NO_OFFSET
    ring = slice(0, count * WINDOW, WINDOW)
    windows.last_sequence[ring] = entries["last_sequence"]
    windows.last_offset[ring] = entries["last_offset"]
    windows.offset_delta[ring] = entries["offset_delta"]
    windows.timestamp[ring] = entries["timestamp"]
    state.cursor[kernels.COUNT] = count
    kernels.fill_slots(count, state.slots, producers.producer_id)
    first_offsets = entries["current_transaction_first_offset"].astype(np.int64)
    for row in np.argsort(first_offsets, kind="stable").tolist():
        if first_offsets[row] != NO_OFFSET:
            kernels.open_transaction(row, int(first_offsets[row]), producers, state.cursor)
    return state if now is None else remove_expired(state, now, expiration_ms)


def to_snapshot(state: ProducerState) -> Entries:
    """The entries that a broker writes (writeSnapshot): of each window the newest batch."""
    count = state.count
    producers = state.producers
    entries = np.zeros(count, dtype=PRODUCER_SNAPSHOT_ENTRY)
    entries["producer_id"] = producers.producer_id[:count]
    entries["producer_epoch"] = producers.producer_epoch[:count]
    entries["timestamp"] = producers.last_timestamp[:count]
    entries["coordinator_epoch"] = producers.coordinator_epoch[:count]
    entries["current_transaction_first_offset"] = producers.first_offset[:count]
    appended = producers.appended[:count]
    newest = np.arange(count) * WINDOW + (appended - 1) % WINDOW
    for name, column, absent in (
        ("last_sequence", state.windows.last_sequence, NO_SEQUENCE),
        ("last_offset", state.windows.last_offset, NO_OFFSET),
        ("offset_delta", state.windows.offset_delta, 0),
    ):
        entries[name] = np.where(appended > 0, column[newest], absent)
    return entries


def out_of_range(offsets: Collection[int], log_start: int, log_end: int) -> list[int]:
    """Snapshots that a broker deletes when it truncates a log to this range (truncateAndReload)."""
    return sorted(offset for offset in offsets if offset > log_end or offset <= log_start)


def strays(offsets: Collection[int], segment_bases: Collection[int]) -> list[int]:
    """Snapshots that a broker deletes because they belong to no segment (removeStraySnapshots).

    The newest of them stays if it is past all segments: a clean stop wrote it.
    """
    without_segment = sorted(set(offsets) - set(segment_bases))
    if without_segment and without_segment[-1] >= max(segment_bases, default=0):
        without_segment.pop()
    return without_segment
