"""Save what can be saved of a damaged partition, and account for every other byte.

A broker truncates at the first bad batch. Here every intact batch is found, wherever it lies, and
the chain of them with rising offsets that has the most bytes is kept, byte for byte. All else is
quarantined with the rule that it breaks: kept and quarantined together are the input.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ottla.batch.decode import Decoder
from ottla.errors import PublishError, Rule, Stage, Violation
from ottla.kernels import status
from ottla.kernels.search import salvage
from ottla.kernels.tables import (
    Batches,
    Int64s,
    Wanted,
    allocate_batches,
    concat_batches,
    take_batches,
)
from ottla.log.check.order import first_offsets
from ottla.log.files.partition import Partition, Segment
from ottla.log.read.buffer import WINDOW_BYTES, Buffer
from ottla.region import Region
from ottla.storage.files import File

_TABLE_ROWS: Final = 1 << 14
_RULES: Final = {str(rule): rule for rule in Rule}


class FoundBatches(NamedTuple):
    """The batches of a segment whose CRC matches, in order of position.

    `broken` are those that are no part of the log, whatever their offsets: by row.
    """

    batches: Batches
    broken: dict[int, Violation]


class SegmentPlan(NamedTuple):
    """What is kept of a segment, and a violation for each span that is not, in order."""

    segment: Segment
    kept: Batches
    quarantined: list[Violation]


def plan_from(partition: Partition, found: list[FoundBatches]) -> list[SegmentPlan]:
    """Decide for every byte from the intact batches of each segment."""
    masks = choose_chain(found)
    edges = _kept_edges(found, masks)
    return [
        SegmentPlan(
            segment, take_batches(its.batches, mask), list(_account(segment, its, mask, edge))
        )
        for segment, its, mask, edge in zip(partition.segments, found, masks, edges, strict=True)
    ]


def find_intact(file: File, base_offset: int, max_batch_bytes: int) -> FoundBatches:
    """Every batch of a file whose CRC matches; records are decoded to see that they hold."""
    tables: list[Batches] = []
    broken: dict[int, Violation] = {}
    decoder = Decoder(Wanted.OFFSETS, max_batch_bytes=max_batch_bytes)
    rows = 0
    for region, batches, kinds in _search(file, max_batch_bytes):
        for _, left_out in decoder.decode(region, batches):
            # A single bad message inside a wrapper does not cost the others.
            whole = (bad for bad in left_out if bad.violation.rule.stage is not Stage.RECORD)
            broken |= {rows + bad.row: bad.violation for bad in whole}
        decoder.flush()
        for row in np.flatnonzero(kinds == salvage.EMBEDDED).tolist():
            detail = "a batch inside the value of a record"
            broken[rows + row] = _misplaced(file.path, batches, row, detail)
        for row in np.flatnonzero(batches.last_offset < base_offset).tolist():
            detail = f"an offset below the segment's base {base_offset}"
            broken.setdefault(rows + row, _misplaced(file.path, batches, row, detail))
        rows += batches.position.size
        tables.append(batches)
    return FoundBatches(concat_batches(tables), broken)


def _search(file: File, max_batch_bytes: int) -> Iterator[tuple[Region, Batches, Int64s]]:
    """Windows of the file with the intact batches in them."""
    state = np.zeros(salvage.STATE_SIZE, dtype=np.int64)
    state[salvage.TRUSTED] = 1
    state[salvage.FENCE] = state[salvage.EMBEDDED_UNTIL] = -1
    with Buffer(file, 0, file.size) as buffer:
        outcome, needed = status.MORE, WINDOW_BYTES
        while outcome != status.END:
            at = int(state[salvage.AT])
            history = min(at, salvage.HISTORY)
            if outcome == status.MORE:
                before = buffer.position + buffer.size
                buffer.advance(at - history, max(needed, WINDOW_BYTES) + history)
                if at and buffer.position + buffer.size == before:
                    return  # the file shrank
            table = allocate_batches(_TABLE_ROWS)
            kinds = np.zeros(_TABLE_ROWS, dtype=np.int64)
            rows, outcome = salvage.find_batches(
                buffer.data,
                buffer.size,
                buffer.position,
                buffer.end,
                max_batch_bytes,
                state,
                table,
                kinds,
            )
            needed = int(state[salvage.NEEDED])
            if rows:
                yield buffer.region(), take_batches(table, slice(0, rows)), kinds[:rows]


def write_found(found: FoundBatches) -> bytes:
    """What was found in a segment, as a file for the task that plans."""
    broken = [[row, asdict(violation)] for row, violation in found.broken.items()]
    columns = np.stack(found.batches).astype("<i8")
    return json.dumps(broken).encode() + b"\n" + columns.tobytes()


def read_found(data: bytes, segment: Segment, path: str) -> FoundBatches:
    """What `write_found` wrote of a segment; the file is believed no further than it fits that."""
    text, _, table = data.partition(b"\n")
    try:
        columns = np.frombuffer(table, "<i8").astype(np.int64).reshape(len(Batches._fields), -1)
        broken = {
            int(row): Violation(**its | {"rule": _RULES[its["rule"]]})
            for row, its in json.loads(text)
        }
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise _unfit(path, segment) from error
    batches = Batches(*columns)
    position, size = batches.position, batches.size
    fits = (position >= 0) & (size > 0) & (size <= segment.log.size)
    fits &= position <= segment.log.size - size
    rows = range(position.size)
    if not fits.all() or (np.diff(position) < 0).any() or not all(row in rows for row in broken):
        raise _unfit(path, segment)
    return FoundBatches(batches, broken)


def _unfit(path: str, segment: Segment) -> PublishError:
    return PublishError(
        f"{path} is not what was found in {segment.log.path}: delete its job, and salvage again"
    )


def choose_chain(found: list[FoundBatches]) -> list[npt.NDArray[np.bool_]]:
    """Of each segment, the rows of the chain of rising offsets that has the most bytes."""
    batches = concat_batches([its.batches for its in found])
    usable = np.ones(batches.position.size, dtype=np.bool_)
    start = 0
    for its in found:
        usable[[start + row for row in its.broken]] = False
        start += its.batches.position.size
    rows = take_batches(batches, usable)
    weights = rows.size.copy()
    weights[_contradicted(rows)] = 1
    keep = np.zeros(batches.position.size, dtype=np.bool_)
    keep[usable] = heaviest_rising(first_offsets(rows), rows.last_offset, weights)
    bounds = np.cumsum([its.batches.position.size for its in found])
    return np.split(keep, bounds[:-1])


def heaviest_rising(first: Int64s, last: Int64s, weights: Int64s) -> npt.NDArray[np.bool_]:
    """The items, taken in order, whose ranges rise and which together weigh most.

    >>> first, last = np.array([0, 50, 10, 20]), np.array([9, 59, 19, 29])
    >>> heaviest_rising(first, last, np.array([5, 9, 5, 5])).tolist()
    [True, False, True, True]
    """
    order = np.sort(last)
    ranks = np.searchsorted(order, last, side="left") + 1
    below = np.searchsorted(order, first, side="left")
    before = np.empty(first.size, dtype=np.int64)
    tree = np.zeros((first.size + 1, 2), dtype=np.int64)
    _, item = salvage.best_chain(ranks, below, weights, before, tree)
    keep = np.zeros(first.size, dtype=np.bool_)
    while item >= 0:
        keep[item] = True
        item = before[item]
    return keep


def _contradicted(batches: Batches) -> npt.NDArray[np.intp]:
    """Rows whose base offset, which no CRC covers, cannot be right.

    The batches that touch them on both sides leave room for exactly their records, elsewhere. Such
    a batch must not outweigh a neighbour.
    """
    first = first_offsets(batches)
    span = batches.last_offset - first + 1
    touches = batches.position[1:] == batches.position[:-1] + batches.size[:-1]
    expected = batches.last_offset[:-2] + 1
    leave_room = touches[:-1] & touches[1:] & (expected + span[1:-1] == first[2:])
    return np.flatnonzero(leave_room & (first[1:-1] != expected)) + 1


def _kept_edges(
    found: list[FoundBatches], masks: list[npt.NDArray[np.bool_]]
) -> list[tuple[int | None, int | None]]:
    """For each segment, the last offset kept before it and the first kept after it."""
    firsts = [first_offsets(its.batches)[mask] for its, mask in zip(found, masks, strict=True)]
    lasts = [its.batches.last_offset[mask] for its, mask in zip(found, masks, strict=True)]
    before: list[int | None] = []
    for index in range(len(found)):
        earlier = [last for last in lasts[:index] if last.size]
        before.append(int(earlier[-1][-1]) if earlier else None)
    after: list[int | None] = []
    for index in range(len(found)):
        later = [first for first in firsts[index + 1 :] if first.size]
        after.append(int(later[0][0]) if later else None)
    return list(zip(before, after, strict=True))


def _account(
    segment: Segment,
    found: FoundBatches,
    mask: npt.NDArray[np.bool_],
    edges: tuple[int | None, int | None],
) -> Iterator[Violation]:
    """A violation for every span of the file that is not kept, in order of position."""
    batches, path = found.batches, segment.log.path
    first = first_offsets(batches)
    at, lost_from = 0, None if edges[0] is None else edges[0] + 1
    kept_rows = np.flatnonzero(mask)
    next_kept = np.searchsorted(kept_rows, np.arange(batches.position.size + 1))
    for row in range(batches.position.size + 1):
        following = int(next_kept[row])
        is_last = following == kept_rows.size
        lost_to = edges[1] if is_last else int(first[kept_rows[following]])
        stop = int(batches.position[row]) if row < batches.position.size else segment.log.size
        if stop > at:
            yield _garbage(path, at, stop, lost_from, lost_to)
        if row == batches.position.size:
            return
        if mask[row]:
            lost_from = int(batches.last_offset[row]) + 1
        else:
            detail = "it does not follow the batches around it"
            yield found.broken.get(row) or _misplaced(path, batches, row, detail)
        at = stop + int(batches.size[row])


def _garbage(
    path: str, at: int, stop: int, lost_from: int | None, lost_to: int | None
) -> Violation:
    lost = lost_from is not None and lost_to is not None and lost_to > lost_from
    return Violation(
        Rule.BYTES_ARE_BATCHES,
        "no batch with a matching CRC begins here",
        path,
        position=at,
        size=stop - at,
        offset=lost_from if lost else None,
        last_offset=lost_to - 1 if lost and lost_to is not None else None,
    )


def _misplaced(path: str, batches: Batches, row: int, detail: str) -> Violation:
    return Violation(
        Rule.BATCH_IN_ORDER,
        detail,
        path,
        position=int(batches.position[row]),
        size=int(batches.size[row]),
        offset=int(batches.base_offset[row]),
        last_offset=int(batches.last_offset[row]),
    )
