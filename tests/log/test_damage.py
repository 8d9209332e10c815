"""Salvage of partitions damaged at random: nothing sound is lost, every byte is accounted for."""

import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import builders
from builders import Row
from log.generated import random_log
from ottla.errors import Severity
from ottla.log.files.partition import find_partitions
from ottla.log.salvage.write import write_salvage
from ottla.publish.journal import commit, publish, run_job
from ottla.storage.object_store import DEFAULT_OPTIONS
from whole_log import check_partition, plan_salvage

# A damaged file: pieces of the sound one (begin and end) or other bytes, one after another.
Piece = tuple[int, int] | bytes
Pieces = list[Piece]


class Sound(NamedTuple):
    """A partition's only segment, where its batches lie, and their first and last offsets."""

    data: bytes
    spans: list[tuple[int, int]]
    offsets: list[tuple[int, int]]


def make_sound(seed: int, count: int) -> Sound:
    """A log of every magic and codec without gaps; some values hold batches of the same log."""
    parts: list[bytes] = []
    offsets: list[tuple[int, int]] = []
    at = 0
    for part in random_log(seed, count=count, gaps=False):
        if len(offsets) % 40 == 39:
            # The batch that follows, inside a value: its offsets would fit.
            inner = builders.batch([Row(at + 1, 5, None, b"embedded" * 9)])
            parts.append(builders.batch([Row(at, 5, b"k", inner)]))
            offsets.append((at, at))
            at += 1
        moved, last = move(part, at)
        parts.append(moved)
        offsets.append((at, last))
        at = last + 1
    ends = np.cumsum([len(part) for part in parts]).tolist()
    spans = list(zip([0, *ends], ends, strict=False))
    return Sound(b"".join(parts), spans, offsets)


def move(part: bytes, base: int) -> tuple[bytes, int]:
    """A batch with another base offset, and the offset that it then ends with."""
    stored = int.from_bytes(part[:8], "big")
    if part[16] == 2:
        last = base + int.from_bytes(part[23:27], "big")
        return base.to_bytes(8, "big") + part[8:], last
    if part[17] & 7 == 0:
        return base.to_bytes(8, "big") + part[8:], base
    return base_of_wrapper(part, base, stored)


def base_of_wrapper(part: bytes, base: int, stored: int) -> tuple[bytes, int]:
    """Wrappers of one message each, so that a new base needs no recompression of offsets."""
    magic, codec = part[16], part[17] & 7
    row = Row(base, 1_000_000 + stored, b"k", b"%d" % stored * 20)
    return builders.wrapper([row], magic=magic, codec=codec), base


def flip(pieces: Pieces, sound: Sound, chooser: random.Random) -> None:
    cut(
        pieces,
        chooser,
        size=1,
        put=lambda old: bytes([old[0] ^ (1 << chooser.randrange(8))]),
        sound=sound,
    )


def remove(pieces: Pieces, sound: Sound, chooser: random.Random) -> None:
    cut(pieces, chooser, size=chooser.choice((1, 30, 3000)), put=lambda _: b"", sound=sound)


def insert(pieces: Pieces, sound: Sound, chooser: random.Random) -> None:
    garbage = chooser.choice(
        (chooser.randbytes(chooser.randrange(1, 5000)), bytes(500), b"\x00\x02" * 90)
    )
    cut(pieces, chooser, size=1, put=lambda old: garbage + old, sound=sound)


def zero(pieces: Pieces, sound: Sound, chooser: random.Random) -> None:
    cut(pieces, chooser, size=4096, put=lambda old: bytes(len(old)), sound=sound)


def embed(pieces: Pieces, sound: Sound, chooser: random.Random) -> None:
    """Break the front of a batch that holds another."""
    holders = [
        n for n, (start, stop) in enumerate(sound.spans) if b"embedded" in sound.data[start:stop]
    ]
    if not holders:
        return
    start = sound.spans[chooser.choice(holders)][0] + chooser.randrange(8, 62)
    replace(pieces, start, start + 1, lambda old: bytes([old[0] ^ 0x55]), sound)


def swap(pieces: Pieces, sound: Sound, chooser: random.Random) -> None:
    """Change two neighbouring blocks of whole pieces."""
    first, second = chooser.randrange(1, len(sound.spans) - 40), chooser.randrange(1, 20)
    third = chooser.randrange(1, 20)
    bounds = [sound.spans[first + n][0] for n in (0, second, second + third)]
    for bound in bounds:
        split(pieces, bound)
    places = [index_of(pieces, bound) for bound in bounds]
    if any(place is None for place in places) or places != sorted(places):  # type: ignore[type-var]
        return
    one, two, three = places
    pieces[one:three] = pieces[two:three] + pieces[one:two]  # type: ignore[misc]


DAMAGES: list[Callable[[Pieces, Sound, random.Random], None]] = [
    flip,
    flip,
    remove,
    insert,
    zero,
    embed,
    swap,
]


def split(pieces: Pieces, at: int) -> None:
    """Let a piece of the sound file begin at `at`, if it is still there."""
    for index, piece in enumerate(pieces):
        if isinstance(piece, tuple) and piece[0] < at < piece[1]:
            pieces[index : index + 1] = [(piece[0], at), (at, piece[1])]
            return


def index_of(pieces: Pieces, at: int) -> int | None:
    for index, piece in enumerate(pieces):
        if isinstance(piece, tuple) and piece[0] == at:
            return index
    return None


def replace(
    pieces: Pieces, start: int, stop: int, put: Callable[[bytes], bytes], sound: Sound
) -> None:
    """Put other bytes in the place of sound ones that are still there."""
    split(pieces, start)
    split(pieces, stop)
    index = index_of(pieces, start)
    if index is None:
        return
    piece = pieces[index]
    assert isinstance(piece, tuple)
    pieces[index] = put(sound.data[piece[0] : piece[1]])


def cut(
    pieces: Pieces,
    chooser: random.Random,
    *,
    size: int,
    put: Callable[[bytes], bytes],
    sound: Sound,
) -> None:
    start = chooser.randrange(len(sound.data) - size)
    replace(pieces, start, start + size, put, sound)


def survivors(pieces: Pieces, sound: Sound) -> list[tuple[int, int, int, int]]:
    """Batches that are whole: (position in the damaged file, size, first and last offset)."""
    found = []
    position = 0
    merged: Pieces = []
    for piece in pieces:
        last = merged[-1] if merged else None
        if isinstance(piece, tuple) and isinstance(last, tuple) and last[1] == piece[0]:
            merged[-1] = (last[0], piece[1])
        elif piece:
            merged.append(piece)
    for piece in merged:
        if isinstance(piece, bytes):
            position += len(piece)
            continue
        for (start, stop), (first, last_offset) in zip(sound.spans, sound.offsets, strict=True):
            if piece[0] <= start and stop <= piece[1]:
                at = position + start - piece[0]
                found.append((at, stop - start, first, last_offset))
        position += piece[1] - piece[0]
    return found


def heaviest(batches: list[tuple[int, int, int, int]]) -> int:
    """The bytes of the best chain, by trying every predecessor."""
    best = np.zeros(len(batches), dtype=np.int64)
    lasts = np.array([last for *_, last in batches], dtype=np.int64)
    for index, (_, size, first, _) in enumerate(batches):
        before = best[:index][lasts[:index] < first]
        best[index] = size + (before.max() if before.size else 0)
    return int(best.max()) if best.size else 0


def overlaps(batch: tuple[int, int, int, int], kept: dict[int, int]) -> bool:
    start, stop = batch[0], batch[0] + batch[1]
    return any(position < stop and start < position + size for position, size in kept.items())


def has_its_front(batch: tuple[int, int, int, int], kept: dict[int, int]) -> bool:
    """Whether a batch is kept that has lost its end, zeros, and taken those that begin this one."""
    ends = {position + size for position, size in kept.items()}
    return any(batch[0] + shared in ends for shared in range(1, 8))


def salvage_damaged(folder: Path, sound: Sound, chooser: random.Random, damages: int) -> None:
    """Damage a copy and check everything that salvage promises."""
    pieces: Pieces = [(0, len(sound.data))]
    chosen = [chooser.choice(DAMAGES) for _ in range(damages)]
    for damage in chosen:
        damage(pieces, sound, chooser)
    data = b"".join(p if isinstance(p, bytes) else sound.data[p[0] : p[1]] for p in pieces)
    directory = folder / "in" / "t-0"
    directory.mkdir(parents=True)
    (directory / f"{0:020d}.log").write_bytes(data)
    (partition,) = find_partitions([folder / "in"])
    plans = plan_salvage(partition)
    (plan,) = plans

    kept = dict(zip(plan.kept.position.tolist(), plan.kept.size.tolist(), strict=True))
    spans = [*kept.items(), *((bad.position, bad.size or 0) for bad in plan.quarantined)]
    at = 0
    for position, size in sorted(spans):
        assert position == at, "kept and quarantined bytes are the input, each once"
        at += size
    assert at == len(data)

    whole = survivors(pieces, sound)
    names = [damage.__name__ for damage in chosen]
    rivals = [batch for batch in whole if not has_its_front(batch, kept)]
    assert sum(kept.values()) >= heaviest(rivals), (names, plan.quarantined[:5])
    if "swap" not in names:
        # A byte cut out of a run of equal ones may as well be the neighbour's: then that is kept.
        lost = [batch for batch in whole if batch[0] not in kept and not overlaps(batch, kept)]
        assert lost == [], (names, plan.quarantined[:5])

    out = folder / "out"
    with run_job(str(out), "j") as job:
        finished = write_salvage(partition, plans, job, DEFAULT_OPTIONS, None)
        commit(job, finished.files, [finished.account])
        publish(job)
    (clean,) = find_partitions([out])
    errors = [bad for bad in check_partition(clean) if bad.rule.severity is Severity.ERROR]
    assert errors == []
    written = b"".join(Path(segment.log.path).read_bytes() for segment in clean.segments)
    assert written == b"".join(data[at : at + size] for at, size in sorted(kept.items()))


@pytest.mark.parametrize("seed", range(12))
def test_damage_costs_only_what_it_touched(tmp_path: Path, seed: int) -> None:
    chooser = random.Random(seed)
    salvage_damaged(tmp_path, make_sound(seed, 300), chooser, damages=chooser.randrange(1, 12))


@pytest.mark.soak
def test_two_thousand_damages_cost_only_what_they_touched(tmp_path: Path) -> None:
    seed = time.time_ns()
    print("salvage: seed", seed)
    chooser = random.Random(seed)
    sound = make_sound(chooser.randrange(1 << 30), 28_000)
    assert len(sound.data) > 20 << 20
    damages = 0
    while damages < 2000:
        count = chooser.randrange(1, 40)
        salvage_damaged(tmp_path / "one", sound, chooser, count)
        shutil.rmtree(tmp_path / "one")
        damages += count
    print(f"salvage: {damages} damages of {len(sound.data)} bytes")
