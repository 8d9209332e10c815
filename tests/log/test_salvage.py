"""Salvage: which batches are found, which chain is kept, and that no byte is unaccounted for."""

import random
import struct
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import builders
from builders import Row
from ottla.errors import Rule
from ottla.log.files.partition import find_partitions
from ottla.log.salvage.chain import Items, _weigh, heaviest_rising
from ottla.log.salvage.found import take_rows
from whole_log import WholePlan, plan_salvage


def batches(count: int, *, base: int = 0, size: int = 5, **options: object) -> list[bytes]:
    """Batches of `size` records one after another."""
    chooser = random.Random(base)
    return [
        builders.batch(
            [
                Row(first + index, 1000 + first, b"k%d" % index, chooser.randbytes(30))
                for index in range(size)
            ],
            **options,  # type: ignore[arg-type]
        )
        for first in range(base, base + count * size, size)
    ]


def salvage(folder: Path, *segments: bytes, bases: tuple[int, ...] = (0,)) -> list[WholePlan]:
    directory = folder / "t-0"
    directory.mkdir()
    for base, data in zip(bases, segments, strict=True):
        (directory / f"{base:020d}.log").write_bytes(data)
    (partition,) = find_partitions([folder])
    plans = plan_salvage(partition)
    for plan, data in zip(plans, segments, strict=True):
        spans = [*zip(plan.kept.position.tolist(), plan.kept.size.tolist(), strict=True)]
        spans += [(bad.position, bad.size or 0) for bad in plan.quarantined]
        assert covers(sorted(spans), len(data))
    return plans


def covers(spans: list[tuple[int, int]], size: int) -> bool:
    """Whether spans lie one after another from 0 to size."""
    at = 0
    for position, length in spans:
        if position != at or length <= 0:
            return False
        at += length
    return at == size


def kept(plan: WholePlan) -> list[int]:
    return [int(offset) for offset in plan.kept.base_offset]


def rules(plan: WholePlan) -> list[Rule]:
    return [violation.rule for violation in plan.quarantined]


def test_a_sound_log_is_kept_whole(tmp_path: Path) -> None:
    (plan,) = salvage(tmp_path, b"".join(batches(10)))
    assert kept(plan) == list(range(0, 50, 5))
    assert plan.quarantined == []


def test_batches_after_a_bad_batch_are_kept_and_the_loss_is_named(tmp_path: Path) -> None:
    parts = batches(10)
    parts[3] = parts[3][:-4] + b"\xff\xff\xff\xff"
    (plan,) = salvage(tmp_path, b"".join(parts))
    assert kept(plan) == [0, 5, 10, 20, 25, 30, 35, 40, 45]
    (bad,) = plan.quarantined
    assert (bad.rule, bad.position) == (Rule.BYTES_ARE_BATCHES, sum(map(len, parts[:3])))
    assert (bad.offset, bad.last_offset) == (15, 19)


@pytest.mark.parametrize("length", [0, -1, 13, 14, 100, 2**31 - 1, 700])
def test_batches_after_a_bad_length_are_kept(tmp_path: Path, length: int) -> None:
    parts = batches(10)
    parts[3] = parts[3][:8] + struct.pack(">i", length) + parts[3][12:]
    (plan,) = salvage(tmp_path, b"".join(parts))
    assert kept(plan) == [0, 5, 10, 20, 25, 30, 35, 40, 45]


def test_a_length_that_reaches_over_sound_batches_hides_none_of_them(tmp_path: Path) -> None:
    parts = batches(10)
    reach = sum(map(len, parts[3:6])) - 12
    parts[3] = parts[3][:8] + struct.pack(">i", reach) + parts[3][12:]
    (plan,) = salvage(tmp_path, b"".join(parts))
    assert kept(plan) == [0, 5, 10, 20, 25, 30, 35, 40, 45]


@pytest.mark.parametrize("garbage", [b"x", bytes(5000), bytes(range(256)) * 4, b"\x02" * 100])
def test_inserted_garbage_costs_only_itself(tmp_path: Path, garbage: bytes) -> None:
    parts = batches(10)
    (plan,) = salvage(tmp_path, b"".join([*parts[:4], garbage, *parts[4:]]))
    assert kept(plan) == list(range(0, 50, 5))
    assert sum(bad.size or 0 for bad in plan.quarantined) == len(garbage)


def holder(inner: bytes, offset: int = 50) -> bytes:
    """A batch with a batch in its value."""
    return builders.batch([Row(offset, 1, None, b"before"), Row(offset + 1, 1, b"k", inner)])


EMBEDDED = builders.batch([Row(51, 5, None, b"embedded")])


def test_a_batch_in_a_sound_record_is_part_of_the_record(tmp_path: Path) -> None:
    (plan,) = salvage(tmp_path, b"".join([*batches(10), holder(EMBEDDED), *batches(2, base=52)]))
    assert kept(plan) == [*range(0, 50, 5), 50, 52, 57]


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda data: data[:30] + b"\xee" + data[31:], id="fixed-part"),
        pytest.param(lambda data: data[:62] + b"\xee" + data[63:], id="records"),
        pytest.param(lambda data: data[:8] + b"\x7f" + data[9:], id="length"),
        pytest.param(lambda data: b"\xee" * 20 + data[20:], id="no-front"),
        pytest.param(lambda data: data[40:], id="cut-off-front"),
    ],
)
@pytest.mark.parametrize("inner", [EMBEDDED, EMBEDDED + EMBEDDED], ids=["one", "two"])
def test_a_batch_in_a_broken_record_is_not_taken_for_one_of_the_log(
    tmp_path: Path, damage: object, inner: bytes
) -> None:
    broken = damage(holder(inner))  # type: ignore[operator]
    (plan,) = salvage(tmp_path, b"".join([*batches(10), broken, *batches(2, base=52)]))
    assert kept(plan) == [*range(0, 50, 5), 52, 57]
    assert Rule.BATCH_IN_ORDER in rules(plan)


WINDOW = 2 << 20  # what is read at once


def fill_to(position: int, offset: int) -> bytes:
    """A batch of one record that ends exactly at the position."""
    overhead = len(builders.batch([Row(offset, 1, None, bytes(position - 100))])) - position + 100
    return builders.batch([Row(offset, 1, None, bytes(position - overhead))])


@pytest.mark.parametrize("before", [0, 10, 40, 60, 100, 200, -10, -61])
@pytest.mark.parametrize("inner", [EMBEDDED, EMBEDDED + EMBEDDED], ids=["one", "two"])
def test_a_batch_in_a_broken_record_is_seen_at_the_edge_of_what_is_held(
    tmp_path: Path, before: int, inner: bytes
) -> None:
    outer = holder(inner)
    inner_end = outer.index(inner) + len(inner)
    front = fill_to(WINDOW - before - inner_end, 0)
    broken = outer[:8] + b"\xee" * 53 + outer[61:]
    (plan,) = salvage(tmp_path, b"".join([front, broken, *batches(2, base=52)]))
    assert kept(plan) == [0, 52, 57]


def test_a_flipped_base_offset_is_quarantined_and_not_its_neighbours(tmp_path: Path) -> None:
    for flip in (1, 2, 1 << 8, 1 << 40):
        folder = tmp_path / str(flip)
        folder.mkdir()
        parts = batches(3) + batches(1, base=15, size=50) + batches(5, base=65)
        parts[3] = struct.pack(">q", 15 ^ flip) + parts[3][8:]
        (plan,) = salvage(folder, b"".join(parts))
        assert kept(plan) == [0, 5, 10, *range(65, 90, 5)]
        assert rules(plan) == [Rule.BATCH_IN_ORDER]


def test_of_swapped_blocks_the_chain_with_the_most_bytes_is_kept(tmp_path: Path) -> None:
    parts = batches(20)
    (plan,) = salvage(tmp_path, b"".join([*parts[:4], *parts[10:14], *parts[4:10], *parts[14:]]))
    assert kept(plan) == [*range(0, 50, 5), *range(70, 100, 5)]
    assert rules(plan) == [Rule.BATCH_IN_ORDER] * 4


def test_a_block_that_comes_twice_is_kept_once(tmp_path: Path) -> None:
    parts = batches(8)
    (plan,) = salvage(tmp_path, b"".join([*parts[:5], *parts[2:5], *parts[5:]]))
    assert kept(plan) == list(range(0, 40, 5))


def test_the_chain_goes_over_segments(tmp_path: Path) -> None:
    first, second = batches(4), batches(4, base=20)
    lost = [*first, builders.batch([Row(30)])]
    plans = salvage(tmp_path, b"".join(lost), b"".join(second), bases=(0, 20))
    assert [kept(plan) for plan in plans] == [[0, 5, 10, 15], [20, 25, 30, 35]]


def test_a_zeroed_page_and_a_cut_tail_are_accounted_for(tmp_path: Path) -> None:
    data = bytearray(b"".join(batches(200)))
    data[4096:8192] = bytes(4096)
    (plan,) = salvage(tmp_path, bytes(data[:-7]))
    assert rules(plan) == [Rule.BYTES_ARE_BATCHES, Rule.BYTES_ARE_BATCHES]
    assert plan.kept.position.size > 170


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_every_format_is_found_past_damage(tmp_path: Path, magic: int, codec: int) -> None:
    if codec == 4 and magic < 2:
        return
    parts = [
        builders.segment(
            [Row(first + n, 5, b"k", b"v" * 40) for n in range(5)], magic=magic, codec=codec
        )
        for first in range(0, 50, 5)
    ]
    parts[4] = parts[4][:14] + b"\x5a" * 9 + parts[4][23:]
    (plan,) = salvage(tmp_path, b"".join(parts))
    lasts = set(plan.kept.last_offset.tolist())
    assert set(range(4, 50, 5)) - {24} <= lasts


def test_a_batch_larger_than_a_window_is_kept(tmp_path: Path) -> None:
    large = builders.batch([Row(5, 1, None, random.Random(1).randbytes(3 << 20))])
    parts = [*batches(1), b"garbage", large, *batches(2, base=6)]
    (plan,) = salvage(tmp_path, b"".join(parts))
    assert kept(plan) == [0, 5, 6, 11]


def slow_heaviest(items: list[tuple[int, int, int]]) -> int:
    best: list[int] = []
    for index, (first, _, weight) in enumerate(items):
        reach = [best[other] for other in range(index) if items[other][1] < first]
        best.append(weight + max(reach, default=0))
    return max(best, default=0)


def test_a_wrapper_whose_offset_was_lost_joins_no_batches_that_fall(tmp_path: Path) -> None:
    # No CRC covers the offset of a v0 wrapper, and the messages inside have their own.
    lost = bytes(8) + builders.wrapper([Row(52), Row(53)], magic=0, codec=1)[8:]
    data = b"".join([*batches(2, base=40), lost, *batches(3, base=17)])
    (plan,) = salvage(tmp_path, data)
    assert kept(plan) == [17, 22, 27]
    (bad,) = [one for one in plan.quarantined if one.offset == 52]
    assert (bad.rule, bad.last_offset) == (Rule.BATCH_IN_ORDER, 0)
    assert "its own offset is below those of its messages" in bad.detail


def test_of_two_batches_that_share_a_byte_the_first_is_kept(tmp_path: Path) -> None:
    first, second, third = batches(3)
    assert first[-1] == second[0] == 0
    (plan,) = salvage(tmp_path, first[:-1] + second + third)
    assert kept(plan) == [0, 10]


@pytest.mark.parametrize("seed", range(50))
def test_the_chain_weighs_as_much_as_the_best_of_all(seed: int) -> None:
    chooser = random.Random(seed)
    items = []
    for _ in range(chooser.randrange(1, 60)):
        first = chooser.randrange(100)
        items.append((first, first + chooser.randrange(8), chooser.randrange(1, 20)))
    columns = np.array(items, dtype=np.int64).T
    keep = heaviest_rising(lambda: [Items(*columns)])
    chosen = [item for item, wanted in zip(items, keep, strict=True) if wanted]
    assert all(one[1] < two[0] for one, two in pairwise(chosen))
    assert sum(item[2] for item in chosen) == slow_heaviest(items)


@pytest.mark.parametrize("seed", range(50))
def test_weights_of_many_gigabytes_and_pieces_choose_the_same_chain(seed: int) -> None:
    chooser = np.random.default_rng(seed)
    first = chooser.integers(0, 100, 200)
    items = Items(first, first + chooser.integers(0, 8, 200), chooser.integers(1, 4, 200))
    keep = heaviest_rising(lambda: [items]).tolist()
    heavy = items._replace(weight=items.weight << 28)
    assert heaviest_rising(lambda: [heavy]).tolist() == keep
    cuts = [0, *sorted(chooser.integers(0, 200, 5).tolist()), 200]
    pieces = [Items(*(column[start:stop] for column in items)) for start, stop in pairwise(cuts)]
    assert heaviest_rising(lambda: pieces).tolist() == keep


@pytest.mark.parametrize("rows", [1, 2, 3, 1000])
def test_rows_in_pieces_weigh_what_they_weigh_together(tmp_path: Path, rows: int) -> None:
    parts = batches(40)
    for flipped in (3, 7, 8, 20, 38):
        parts[flipped] = struct.pack(">q", 5 * flipped ^ (1 << 20)) + parts[flipped][8:]
    (plan,) = salvage(tmp_path, b"".join(parts))
    (found,) = plan.found.rows()
    pieces = [take_rows(found, slice(at, at + rows)) for at in range(0, 40, rows)]
    weighed = [weight for items in _weigh(pieces) for weight in items.weight.tolist()]
    assert weighed == [1 if at in (3, 20, 38) else len(part) for at, part in enumerate(parts)]
