"""Which files of a partition are its log, when a broker died while it replaced segments.

A cleaning or a split writes new segments as `.cleaned`, renames them to `.swap` from the last to
the first, marks the old ones as `.deleted`, and takes the `.swap` away (LocalLog.replaceSegments).
LogLoader finishes that when a broker starts: it takes swaps for complete if no `.cleaned` file is
left at or below them. This is the one place that knows; recovery and every reader ask it.
"""

import logging
from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import cache
from typing import Final, NamedTuple

from ottla.format.names import FileName, FileState, Kind
from ottla.storage.listing import Entry
from ottla.storage.object_store import StorageOptions

_LOGGER: Final = logging.getLogger(__name__)

Named = tuple[FileName, Entry]


class Reason(StrEnum):
    """Why a broker deletes a file before it loads a log."""

    MARKED = "marked as deleted"
    UNFINISHED = "of a cleaning or a split that did not finish"
    REPLACED = "replaced by a swapped segment"


class Settled(NamedTuple):
    """`live` are the files that a broker loads, by the names that they then have.

    It deletes the others, in this order, and then renames what it swaps in.
    """

    live: tuple[Named, ...]
    deleted: tuple[tuple[Entry, Reason], ...] = ()
    swapped: tuple[Named, ...] = ()

    def explain(self) -> Iterator[tuple[Entry, str]]:
        """What a user should know of swaps that did not finish: a file of each kind, and why."""
        abandoned = [entry for entry, _ in self.deleted if entry.path.endswith(FileState.SWAP)]
        if abandoned:
            yield (
                abandoned[0],
                "a broker stopped before all files of a swap had this suffix: it will delete them,"
                " and what they were to replace is read",
            )
        if self.swapped:
            replaced = sum(reason is Reason.REPLACED for _, reason in self.deleted)
            yield (
                self.swapped[0][1],
                f"a broker stopped in the middle of a swap: {len(self.swapped)} files are read as"
                f" if they had lost this suffix, and {replaced} that they replace are not read",
            )


def tell_swaps(settled: Settled) -> None:
    """Say once which files are taken that are not named like a log, or left out."""
    for entry, detail in settled.explain():
        _tell(f"{entry.path}: {detail}")


@cache
def _tell(message: str) -> None:
    """A process lists the same files many times."""
    _LOGGER.warning("%s", message)


def settle(named: Sequence[Named], options: StorageOptions) -> Settled:
    """The files of a partition as a broker has them when it has dealt with what was under way."""
    by_state: dict[FileState, list[Named]] = {state: [] for state in FileState}
    for name, entry in named:
        by_state[name.state].append((name, entry))
    marked = [one for one in by_state[FileState.DELETED] if _is_of_segment(one)]
    cleaned = by_state[FileState.CLEANED]
    # KAFKA-6264: renames go from the last segment to the first, so these are not all there.
    first = min((name.offset for name, _ in cleaned), default=None)
    complete: list[Named] = []
    abandoned: list[Named] = []
    for one in by_state[FileState.SWAP]:
        (complete if first is None or one[0].offset < first else abandoned).append(one)
    live, replaced = _swap_in(complete, by_state[FileState.LIVE], options)
    reasons = (
        *((entry, Reason.MARKED) for _, entry in marked),
        *((entry, Reason.UNFINISHED) for _, entry in (*abandoned, *cleaned)),
        *((entry, Reason.REPLACED) for _, entry in replaced),
    )
    return Settled(tuple(sorted(live, key=_order)), reasons, tuple(complete))


def _is_of_segment(named: Named) -> bool:
    """Snapshots of the metadata log are the business of its own loader (KafkaMetadataLog)."""
    return named[0].kind is not Kind.METADATA_SNAPSHOT


def _order(named: Named) -> tuple[int, Kind]:
    return named[0].offset, named[0].kind


def _swap_in(
    swaps: Sequence[Named], live: Sequence[Named], options: StorageOptions
) -> tuple[list[Named], list[Named]]:
    """The files that are live when swaps have taken their places, and those that had to go."""
    logs = [one for one in swaps if one[0].kind is Kind.LOG]
    low = min((name.offset for name, _ in logs), default=0)
    high = max((_next_offset(one, swaps, options) for one in logs), default=0)
    taken = {_order(one) for one in swaps}
    kept: list[Named] = [(FileName(name.offset, name.kind), entry) for name, entry in swaps]
    replaced: list[Named] = []
    for one in live:
        within = low <= one[0].offset < high or _order(one) in taken
        (replaced if within and _is_of_segment(one) else kept).append(one)
    return kept, replaced


def _next_offset(log: Named, swaps: Sequence[Named], options: StorageOptions) -> int:
    from ottla.log.read.next_offset import read_next_offset  # with kernels, and hardly ever needed

    name, entry = log
    wanted = (name.offset, Kind.OFFSET_INDEX)
    index = next((other for one, other in swaps if (one.offset, one.kind) == wanted), None)
    return read_next_offset(entry, index, name.offset, options)
