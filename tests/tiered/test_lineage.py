"""Overlapping uploads, orphans and dead branches: each offset is read once, from the right one."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import Rule
from ottla.log.files.checkpoints import EpochStart
from ottla.log.files.partition import find_partitions
from ottla.log.tiered.lineage import is_within, walk, with_records
from ottla.log.tiered.segments import RemoteSegment
from ottla.storage.kept.views import literal_entry
from tiered.encoder import Mode, checkpoint, upload_of, write_plain, write_upload
from tiered.naive_lineage import Made, belongs, choose
from tiered.whole import found_in, offsets_of, records_of, rules_in

LINEAGE = [(1, 0), (4, 40), (5, 90)]


def segment(made: Made) -> RemoteSegment:
    log = literal_entry("log", b"")
    epochs = tuple(EpochStart(*each) for each in made.epochs)
    return RemoteSegment("", made.start, made.end, epochs, made.event_ms, log, {}, None, None)


def own_epochs(lineage: list[tuple[int, int]], start: int, end: int) -> tuple[tuple[int, int], ...]:
    inside = [(epoch, offset) for epoch, offset in lineage if start < offset <= end]
    before = [epoch for epoch, offset in lineage if offset <= start]
    return (*([(before[-1], start)] if before else []), *inside)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[tuple[int, int]], list[Made]]:
    """A lineage, one that an unclean election cut off, and uploads of both by many leaders."""
    starts = sorted(draw(st.sets(st.integers(1, 60), max_size=4)))
    lineage = list(zip([0, *(2 * at + 2 for at in range(len(starts)))], [0, *starts], strict=True))
    cut = draw(st.integers(1, 60))
    dead = [each for each in lineage if each[1] < cut]
    dead.append((dead[-1][0] + 1, cut))  # odd epochs are those of leaders that lost
    made = []
    for number in range(draw(st.integers(1, 9))):
        branch = dead if draw(st.booleans()) and draw(st.booleans()) else lineage
        start = draw(st.integers(0, 70))
        end = start + draw(st.integers(0, 30))
        made.append(
            Made(number, start, end, own_epochs(branch, start, end), draw(st.integers(0, 3)))
        )
    return lineage, made


@given(histories())
@settings(max_examples=500)
def test_segments_are_chosen_as_offset_by_offset(
    history: tuple[list[tuple[int, int]], list[Made]],
) -> None:
    lineage, made = history
    kept = with_records([EpochStart(*each) for each in lineage])
    segments = [segment(each) for each in made]
    fits = [is_within(each, kept) for each in segments]
    assert fits == [belongs(each, lineage) for each in made]
    within = [each for each, fit in zip(made, fits, strict=True) if fit]
    chosen = walk([segment(each) for each in within])
    found: dict[int, tuple[int, int]] = {}
    for at, offset, _ in chosen.steps:
        for each in range(offset, within[at].end + 1):
            assert each not in found
            found[each] = within[at].start, within[at].event_ms
    expected = choose(made, lineage)
    assert found.keys() == expected.keys()
    assert found == {at: (made[n].start, made[n].event_ms) for at, n in expected.items()}
    missing = {offset for gap in chosen.gaps for offset in gap}
    whole = range(min(expected, default=0), max(expected, default=-1) + 1)
    assert missing == set(whole) - expected.keys()


def test_an_epoch_without_records_is_in_no_segment() -> None:
    kept = with_records([EpochStart(1, 0), EpochStart(2, 40), EpochStart(3, 40)])
    assert kept == [(1, 0), (3, 40)]
    assert is_within(segment(Made(0, 0, 79, ((1, 0), (3, 40)), 0)), kept)


def test_epochs_below_the_lineage_do_not_count_against_a_segment() -> None:
    """Kafka truncates the epochs of what it has deleted."""
    kept = with_records([EpochStart(4, 60), EpochStart(5, 90)])
    assert is_within(segment(Made(0, 20, 80, ((1, 20), (4, 40)), 0)), kept)
    assert not is_within(segment(Made(0, 20, 50, ((1, 20),), 0)), kept)


@pytest.mark.parametrize("mode", [Mode(700), Mode(700, compress=True, key_id="key1")], ids=str)
@pytest.mark.parametrize("write", ["aiven", "plain"])
def test_two_leaders_uploaded_the_same_offsets(tmp_path: Path, mode: Mode, write: str) -> None:
    """Segments of two leaders that overlap; each record is read once, from the right place."""
    uploads = [
        upload_of(0, range(40), {1: 0}, lineage=LINEAGE[:1]),
        upload_of(1, range(40, 100), {4: 40, 5: 90}, lineage=LINEAGE),
        upload_of(2, range(25, 65), {1: 0, 4: 40}, lineage=LINEAGE[:2], event_ms=9),
        upload_of(3, range(70, 130), {4: 40, 5: 90}, lineage=LINEAGE, event_ms=9),
        upload_of(4, range(45, 60), {4: 40}, lineage=LINEAGE[:2]),
    ]
    for each in uploads:
        if write == "aiven":
            write_upload(tmp_path, each, mode)
        else:
            write_plain(tmp_path, each)
    assert offsets_of(tmp_path) == list(range(130))
    found = found_in(tmp_path)
    assert {row["rule"] for row in found} == {str(Rule.REMOTE_OVERLAP)}


def test_a_branch_that_lost_is_not_read(tmp_path: Path) -> None:
    write_upload(tmp_path, upload_of(0, range(60), {1: 0}, tag=b"kept"), Mode())
    dead = upload_of(1, range(60, 90), {2: 60}, lineage=[(1, 0), (2, 60)], tag=b"lost")
    write_upload(tmp_path, dead, Mode())
    after = upload_of(2, range(60, 120), {3: 60}, lineage=[(1, 0), (3, 60)], tag=b"kept")
    write_upload(tmp_path, after, Mode())
    table = records_of(tmp_path)
    assert table.column("offset").to_pylist() == list(range(120))
    assert all(value.startswith(b"kept") for value in table.column("value").to_pylist())
    assert rules_in(tmp_path) == {str(Rule.REMOTE_LINEAGE)}


def test_two_thousand_segments(tmp_path: Path) -> None:
    """By two leaders in turn, each beginning in the middle of the one before."""
    for number in range(2000):
        start = number * 2
        upload = upload_of(number, range(start, start + 3), {1: 0}, lineage=[(1, 0)], each=1)
        write_upload(tmp_path, upload, Mode())
    (partition,) = find_partitions([tmp_path])
    bases = [each.base_offset for each in partition.segments]
    assert bases == sorted(set(bases))
    assert offsets_of(tmp_path) == list(range(4001))


def local_log(root: Path, start: int, stop: int, topic_id: str | None) -> Path:
    """A log directory of a broker that has the end of the log."""
    folder = root / "orders-0"
    folder.mkdir(parents=True)
    upload = upload_of(0, range(start, stop), {1: 0, 4: 40, 5: 90})
    (folder / f"{start:020d}.log").write_bytes(upload.log)
    (folder / f"{start:020d}.index").write_bytes(upload.indexes["offset"])
    (folder / "leader-epoch-checkpoint").write_bytes(checkpoint(LINEAGE))
    if topic_id is not None:
        (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
    (root / "log-start-offset-checkpoint").write_text("0\n1\norders 0 0\n")
    return root
