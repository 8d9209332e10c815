"""Choose, of all batches that could be kept, the chain of rising offsets that has the most bytes.

Batches come in pieces, as often as asked. Where all of them rise, all are kept. Else an item takes
eight bytes of memory while they are ranked and while the chains grow (a tree over the ranks of last
offsets), twelve beyond 4 GiB; what is only gone through in order lies in a file without a name.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ottla.format.arrays import Bools, Int32s, Int64s
from ottla.kernels.search import salvage
from ottla.kernels.search.salvage import Intact
from ottla.log.salvage.found import USABLE, FoundBatches, concat_rows, starts_of, take_rows

_ITEM_BYTES: Final = np.dtype(np.int32).itemsize

Totals = Int64s | npt.NDArray[np.uint32]


class Items(NamedTuple):
    """What can be chosen, in order: ranges of offsets and what each weighs."""

    first: Int64s
    last: Int64s
    weight: Int64s


ReadItems = Callable[[], Iterable[Items]]


def choose_chain(found: Sequence[FoundBatches], scratch: str | None = None) -> Bools:
    """Which of the usable rows, of all segments in order, are kept; `scratch` is a folder."""
    return heaviest_rising(lambda: _weigh(_usable_rows(found)), scratch)


def _usable_rows(found: Sequence[FoundBatches]) -> Iterator[Intact]:
    for one in found:
        for rows in one.rows():
            yield take_rows(rows, rows.verdict == USABLE)


def _weigh(pieces: Iterable[Intact]) -> Iterator[Items]:
    """Rows as items that weigh their bytes; a row is given out when its neighbours are known."""
    held, given = concat_rows([]), 0
    for piece in pieces:
        rows = concat_rows([held, piece])
        stop = max(rows.position.size - 1, given)
        yield _items(rows, slice(given, stop))
        held = take_rows(rows, slice(max(stop - 1, 0), None))
        given = min(stop, 1)
    yield _items(held, slice(given, None))


def _items(rows: Intact, chosen: slice) -> Items:
    weights = rows.size.astype(np.int64)
    weights[_contradicted(rows)] = 1
    return Items(starts_of(rows)[chosen], rows.last_offset[chosen], weights[chosen])


def _contradicted(rows: Intact) -> npt.NDArray[np.intp]:
    """Rows whose base offset, which no CRC covers, cannot be right.

    The batches that touch them on both sides leave room for exactly their records, elsewhere. Such
    a batch must not outweigh a neighbour.
    """
    first = starts_of(rows)
    span = rows.last_offset - first + 1
    touches = rows.position[1:] == rows.position[:-1] + rows.size[:-1]
    expected = rows.last_offset[:-2] + 1
    leave_room = touches[:-1] & touches[1:] & (expected + span[1:-1] == first[2:])
    return np.flatnonzero(leave_room & (first[1:-1] != expected)) + 1


def heaviest_rising(read_items: ReadItems, scratch: str | None = None) -> Bools:
    """The items, taken in order, whose ranges rise and which together weigh most.

    >>> first, last = np.array([0, 50, 10, 20]), np.array([9, 59, 19, 29])
    >>> heaviest_rising(lambda: [Items(first, last, np.array([5, 9, 5, 5]))]).tolist()
    [True, False, True, True]
    """
    count, weight, rises = _survey(read_items())
    if rises:
        return np.ones(count, dtype=np.bool_)
    with (
        tempfile.TemporaryFile(dir=scratch) as ranked,
        tempfile.TemporaryFile(dir=scratch) as before,
    ):
        sizes = _rank(read_items, count, ranked)
        ranked.seek(0)
        last = _grow_chains(sizes, _make_totals(count, weight), ranked, before)
        return _follow_back(sizes, before, last)


def _survey(pieces: Iterable[Items]) -> tuple[int, int, bool]:
    """How many items there are, what all weigh, and whether each begins after the one before."""
    count, weight, rises, reached = 0, 0, True, None
    for items in pieces:
        if not items.first.size:
            continue
        count += items.first.size
        weight += int(items.weight.sum())
        rises = rises and (reached is None or int(items.first[0]) > reached)
        rises = rises and bool((items.first[1:] > items.last[:-1]).all())
        reached = int(items.last[-1])
    return count, weight, rises


def _rank(read_items: ReadItems, count: int, ranked: IO[bytes]) -> list[int]:
    """Write for each item its rank, how many lie below it, and its weight; sizes of pieces."""
    order = np.empty(count, dtype=np.int64)
    at = 0
    for items in read_items():
        order[at : at + items.last.size] = items.last
        at += items.last.size
    order.sort()
    sizes = []
    for items in read_items():
        sizes.append(items.first.size)
        ranks = np.searchsorted(order, items.last, side="left") + 1
        below = np.searchsorted(order, items.first, side="left")
        for column in (ranks, below, items.weight):
            ranked.write(column.astype(np.int32).data)
    return sizes


def _make_totals(count: int, weight: int) -> Totals:
    """Room of the tree for the weights of chains, none of which weighs more than `weight`."""
    if weight < 1 << 32:
        return np.zeros(count + 1, dtype=np.uint32)
    return np.zeros(count + 1, dtype=np.int64)


def _grow_chains(
    sizes: Sequence[int],
    totals: Totals,
    ranked: IO[bytes],
    before: IO[bytes],
) -> int:
    """Write for each item which one it follows in its best chain; the last of the best of all."""
    items = np.zeros(totals.size, dtype=np.int32)
    best = np.zeros(2, dtype=np.int64)
    best[salvage.LAST_ITEM] = -1
    start = 0
    for size in sizes:
        ranks, below, weights = (_read_column(ranked, size) for _ in range(3))
        follows = np.empty(size, dtype=np.int32)
        salvage.extend_chains(ranks, below, weights, start, follows, totals, items, best)
        before.write(follows.data)
        start += size
    return int(best[salvage.LAST_ITEM])


def _follow_back(sizes: Sequence[int], before: IO[bytes], last: int) -> Bools:
    """The items of the chain that ends with `last`."""
    start = sum(sizes)
    keep = np.zeros(start, dtype=np.bool_)
    for size in reversed(sizes):
        start -= size
        before.seek(start * _ITEM_BYTES)
        last = int(salvage.follow_back(_read_column(before, size), start, last, keep))
    return keep


def _read_column(stream: IO[bytes], size: int) -> Int32s:
    return np.frombuffer(stream.read(size * _ITEM_BYTES), dtype=np.int32)
