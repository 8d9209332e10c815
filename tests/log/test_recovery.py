"""What a broker does when it starts, by kafka-facts 8.9."""

import struct
from pathlib import Path

import numpy as np
import pytest

from builders import Row, batch
from ottla.format.layout import PRODUCER_SNAPSHOT_ENTRY
from ottla.log.check.recovery import Recovery, Step, plan_recovery
from ottla.log.files.partition import read_log_directories
from ottla.log.files.producer_snapshot import write_producer_snapshot

SNAPSHOT = write_producer_snapshot(np.empty(0, dtype=PRODUCER_SNAPSHOT_ENTRY))
GOOD = [batch([Row(n)]) for n in range(30)]
BAD = GOOD[12][:-1] + b"\xff"


def plan(folder: Path, files: dict[str, bytes], checkpoints: dict[str, str]) -> Recovery:
    """Lay out a partition and a log directory; names are `5.log`, written with 20 digits."""
    directory = folder / "t-0"
    directory.mkdir()
    for name, data in files.items():
        head, _, tail = name.partition(".")
        full = f"{int(head):020d}.{tail}" if head.isdigit() else name
        (directory / full).write_bytes(data)
    for name, text in checkpoints.items():
        (folder / name).write_text(text)
    (found,) = read_log_directories([folder])
    (partition,) = found.partitions
    return plan_recovery(found, partition)


def short(recovery: Recovery) -> list[tuple[Step, str]]:
    """Steps with the names of files, leading zeros left out."""
    return [(action.step, Path(action.file).name.lstrip("0") or "0") for action in recovery.actions]


CLEAN = {".kafka_cleanshutdown": ""}
TEN = b"".join(GOOD[:10])
MORE = b"".join(GOOD[10:20])
REST = b"".join(GOOD[20:30])


def segments(*parts: bytes) -> dict[str, bytes]:
    files = {}
    for number, data in enumerate(parts):
        base = number * 10
        files |= {f"{base}.log": data, f"{base}.index": b"", f"{base}.timeindex": b""}
    return files


def test_a_clean_stop_changes_nothing(tmp_path: Path) -> None:
    bad = b"".join([*GOOD[10:12], BAD, *GOOD[13:20]])
    recovery = plan(tmp_path, segments(TEN, bad), CLEAN)
    assert recovery == Recovery([], 0, 20)


def test_an_unclean_stop_rebuilds_the_indexes_of_every_segment(tmp_path: Path) -> None:
    recovery = plan(tmp_path, segments(TEN, MORE), {})
    assert short(recovery) == [
        (Step.REBUILD, ".index"),
        (Step.REBUILD, ".timeindex"),
        (Step.REBUILD, "10.index"),
        (Step.REBUILD, "10.timeindex"),
    ]
    assert recovery[1:] == (0, 20)


def test_recovery_begins_with_the_segment_of_the_recovery_point(tmp_path: Path) -> None:
    point = {"recovery-point-offset-checkpoint": "0\n1\nt 0 15\n"}
    recovery = plan(tmp_path, segments(TEN, MORE, REST), point)
    assert {name for _, name in short(recovery)} == {
        f"{base}.{kind}" for base in (10, 20) for kind in ("index", "timeindex")
    }


def test_a_bad_batch_cuts_its_segment_and_deletes_the_later_ones(tmp_path: Path) -> None:
    bad = b"".join([*GOOD[10:12], BAD, *GOOD[13:20]])
    recovery = plan(tmp_path, segments(TEN, bad, REST), {})
    (cut,) = (action for action in recovery.actions if action.step is Step.TRUNCATE)
    assert (Path(cut.file).name, cut.position) == (f"{10:020d}.log", len(b"".join(GOOD[10:12])))
    deleted = {name for step, name in short(recovery) if step is Step.DELETE}
    assert deleted == {"20.log", "20.index", "20.timeindex"}
    assert recovery.log_end_offset == 12


@pytest.mark.parametrize("tail", [b"\0" * 100, GOOD[10][:-1], b"x", bytes(11) + b"\x01" + bytes(9)])
def test_a_tail_that_is_no_batch_is_cut(tmp_path: Path, tail: bytes) -> None:
    recovery = plan(tmp_path, segments(TEN + tail), {})
    (cut,) = (action for action in recovery.actions if action.step is Step.TRUNCATE)
    assert cut.position == len(TEN)
    assert recovery.log_end_offset == 10


def test_a_missing_offset_index_is_rebuilt_even_after_a_clean_stop(tmp_path: Path) -> None:
    files = segments(TEN, MORE)
    del files["10.index"]
    assert short(plan(tmp_path, files, CLEAN)) == [
        (Step.REBUILD, "10.index"),
        (Step.REBUILD, "10.timeindex"),
    ]


def test_a_missing_time_index_is_created_empty(tmp_path: Path) -> None:
    files = segments(TEN)
    del files["0.timeindex"]
    assert short(plan(tmp_path, files, CLEAN)) == [(Step.CREATE, ".timeindex")]


def test_a_transaction_index_with_a_marker_below_the_base_makes_the_segment_recover(
    tmp_path: Path,
) -> None:
    entry = bytes(2) + b"".join(n.to_bytes(8, "big") for n in (7, 1, 5, 6))
    recovery = plan(tmp_path, segments(TEN, MORE) | {"10.txnindex": entry}, CLEAN)
    assert (Step.REBUILD, "10.txnindex") in short(recovery)


def test_an_index_without_a_log_is_deleted(tmp_path: Path) -> None:
    recovery = plan(tmp_path, segments(TEN) | {"5.index": b"", "5.txnindex": b""}, CLEAN)
    assert short(recovery) == [(Step.DELETE, "5.index"), (Step.DELETE, "5.txnindex")]


def test_files_of_an_unfinished_cleaning_or_deletion_are_deleted(tmp_path: Path) -> None:
    files = segments(TEN, MORE) | {
        "0.log.deleted": b"",
        "0.log.cleaned": TEN,
        "10.log.swap": MORE,
    }
    recovery = plan(tmp_path, files, CLEAN)
    # The swap is not below the smallest cleaned file, so it belongs to a split that did not finish.
    assert set(short(recovery)) == {
        (Step.DELETE, ".log.deleted"),
        (Step.DELETE, ".log.cleaned"),
        (Step.DELETE, "10.log.swap"),
    }


def test_a_finished_swap_replaces_the_segments_in_its_range(tmp_path: Path) -> None:
    swapped = TEN + MORE
    files = segments(TEN, MORE, REST) | {"0.log.swap": swapped, "0.index.swap": b""}
    recovery = plan(tmp_path, files, CLEAN)
    deleted = {name for step, name in short(recovery) if step is Step.DELETE}
    assert deleted == {
        f"{base}.{kind}" for base in ("", 10) for kind in ("log", "index", "timeindex")
    }
    renamed = {name for step, name in short(recovery) if step is Step.RENAME}
    assert renamed == {".log.swap", ".index.swap"}
    assert recovery.log_end_offset == 30


def test_a_log_that_ends_before_its_start_offset_is_deleted(tmp_path: Path) -> None:
    start = {"log-start-offset-checkpoint": "0\n1\nt 0 50\n"}
    recovery = plan(tmp_path, segments(TEN), CLEAN | start)
    assert {step for step, _ in short(recovery)} == {Step.DELETE, Step.CREATE}
    assert recovery[1:] == (50, 50)


def test_leader_epochs_past_the_end_are_cut(tmp_path: Path) -> None:
    files = segments(TEN) | {"leader-epoch-checkpoint": b"0\n2\n0 0\n3 40\n"}
    assert short(plan(tmp_path, files, CLEAN)) == [(Step.REBUILD, "leader-epoch-checkpoint")]


def test_stray_and_corrupt_snapshots_are_deleted(tmp_path: Path) -> None:
    files = segments(TEN, MORE) | {
        "5.snapshot": SNAPSHOT,
        "10.snapshot": SNAPSHOT,
        "20.snapshot": b"x",
    }
    assert short(plan(tmp_path, files, CLEAN)) == [
        (Step.DELETE, "5.snapshot"),
        (Step.DELETE, "20.snapshot"),
    ]


def test_a_snapshot_older_than_a_readable_one_is_not_looked_at(tmp_path: Path) -> None:
    files = segments(TEN, MORE) | {"10.snapshot": b"x", "20.snapshot": SNAPSHOT}
    assert short(plan(tmp_path, files, CLEAN)) == []


def test_snapshots_past_the_end_of_a_cut_log_are_deleted(tmp_path: Path) -> None:
    bad = b"".join([*GOOD[10:12], BAD, *GOOD[13:20]])
    snapshots = {"10.snapshot": SNAPSHOT, "20.snapshot": SNAPSHOT}
    recovery = plan(tmp_path, segments(TEN, bad) | snapshots, {})
    assert recovery.log_end_offset == 12
    deleted = [name for step, name in short(recovery) if step is Step.DELETE]
    assert deleted == ["20.snapshot"]


CLEANED = b"".join([GOOD[3], GOOD[17]])
SWAP_FILES = ("log", "index", "timeindex")


def suffixed(base: int, suffix: str, data: bytes) -> dict[str, bytes]:
    return {f"{base}.{kind}{suffix}": data if kind == "log" else b"" for kind in SWAP_FILES}


# A cleaner turns segments 0 and 10 into one: the files at every step, and whose batches remain.
CRASHES = [
    pytest.param(
        segments(TEN, MORE, REST) | suffixed(0, ".cleaned", CLEANED), {"log"}, id="before-a-rename"
    ),
    pytest.param(
        segments(TEN, MORE, REST)
        | {"0.log.cleaned": CLEANED, "0.index.swap": b"", "0.timeindex.swap": b""},
        {"log"},
        id="while-cleaned-becomes-swap",
    ),
    pytest.param(
        segments(TEN, MORE, REST) | suffixed(0, ".swap", CLEANED),
        {"log.swap"},
        id="before-the-old-go",
    ),
    pytest.param(
        {name: data for name, data in segments(TEN, MORE, REST).items() if name[:2] != "10"}
        | suffixed(10, ".deleted", MORE)
        | suffixed(0, ".swap", CLEANED),
        {"log.swap"},
        id="while-the-old-go",
    ),
    pytest.param(
        {name: data for name, data in segments(CLEANED, MORE, REST).items() if name[:2] != "10"}
        | suffixed(0, ".deleted", TEN)
        | suffixed(10, ".deleted", MORE),
        {"log"},
        id="after-the-swap",
    ),
]


@pytest.mark.parametrize(("files", "kept"), CRASHES)
def test_a_cleaner_that_died_at_a_rename_leaves_the_old_or_the_new_segment(
    tmp_path: Path, files: dict[str, bytes], kept: set[str]
) -> None:
    recovery = plan(tmp_path, files, CLEAN)
    deleted = {name for step, name in short(recovery) if step is Step.DELETE}
    first = {f".{each}" for each in ("log", "log.swap", "log.cleaned")} & {
        name.lstrip("0") for name in files
    }
    assert {name.removeprefix(".") for name in first - deleted} == kept
    swapped = "log.swap" in kept
    assert ("10.log" in files and "10.log" not in deleted) == ("10.log" in files and not swapped)
    assert recovery[1:] == (0, 30)


def test_an_unreadable_checkpoint_counts_as_empty(tmp_path: Path) -> None:
    bad = {"recovery-point-offset-checkpoint": "nonsense", "log-start-offset-checkpoint": "7\n"}
    recovery = plan(tmp_path, segments(TEN), bad)
    assert recovery[1:] == (0, 10)


REMOTE = {"log-start-offset-checkpoint": "0\n1\nt 0 3\n"}
EPOCHS = {"leader-epoch-checkpoint": b"0\n3\n0 3\n1 5\n2 12\n"}


def tiered() -> dict[str, bytes]:
    """A log of which the offsets from 3 to 9 are in remote storage."""
    return {name: data for name, data in segments(TEN, MORE).items() if name[:2] == "10"} | EPOCHS


@pytest.mark.parametrize("stop", [CLEAN, {}], ids=["clean", "unclean"])
def test_a_log_with_remote_segments_keeps_its_start_and_its_epochs(
    tmp_path: Path, stop: dict[str, str]
) -> None:
    """It was said to be cut to its local part."""
    recovery = plan(tmp_path, tiered(), REMOTE | stop)
    assert recovery[1:] == (3, 20)
    assert "leader-epoch-checkpoint" not in dict(map(reversed, short(recovery)))


def test_epochs_below_the_first_segment_stay_where_no_checkpoint_names_a_start(
    tmp_path: Path,
) -> None:
    """LogLoader cuts them to the log start of the checkpoint, not to that of the log."""
    assert plan(tmp_path, tiered(), CLEAN) == Recovery([], 10, 20)


def test_epochs_are_cut_to_a_log_start_that_a_checkpoint_names(tmp_path: Path) -> None:
    start = {"log-start-offset-checkpoint": "0\n1\nt 0 15\n"}
    recovery = plan(tmp_path, tiered(), CLEAN | start)
    assert short(recovery) == [(Step.REBUILD, "leader-epoch-checkpoint")]
    assert recovery[1:] == (15, 20)


def place(folder: Path, name: str, files: dict[str, bytes]) -> Recovery:
    """The plan for a partition directory of another name, after an unclean stop."""
    directory = folder / name
    directory.mkdir()
    for file, data in files.items():
        head, _, tail = file.partition(".")
        (directory / f"{int(head):020d}.{tail}").write_bytes(data)
    (found,) = read_log_directories([folder])
    (partition,) = found.partitions
    return plan_recovery(found, partition)


def test_a_directory_that_is_to_be_deleted_is_removed(tmp_path: Path) -> None:
    name = f"t-0.{'a' * 32}-delete"
    recovery = place(tmp_path, name, segments(TEN, BAD))
    (only,) = recovery.actions
    assert (only.step, only.file) == (Step.DELETE, str(tmp_path / name))
    assert recovery[1:] == (0, 0)


@pytest.mark.parametrize("state", ["stray", "future"])
def test_a_stray_or_future_directory_is_recovered_like_others(tmp_path: Path, state: str) -> None:
    recovery = place(tmp_path, f"t-0.{'a' * 32}-{state}", segments(TEN))
    assert {step for step, _ in short(recovery)} == {Step.REBUILD}
    assert recovery[1:] == (0, 10)


def test_the_metadata_log_is_recovered_after_a_clean_stop_too(tmp_path: Path) -> None:
    """KafkaMetadataLog opens it by itself, and as if the stop had not been clean."""
    (tmp_path / ".kafka_cleanshutdown").touch()
    recovery = place(tmp_path, "__cluster_metadata-0", segments(TEN + b"x"))
    assert Step.TRUNCATE in {step for step, _ in short(recovery)}


def test_where_a_damaged_log_ends_after_a_clean_stop_its_index_says(tmp_path: Path) -> None:
    """LogSegment.readNextOffset begins there."""
    last = len(TEN) - len(GOOD[9])
    files = segments(bytes(len(GOOD[0])) + TEN[len(GOOD[0]) :])
    files["0.index"] = struct.pack(">ii", 9, last)
    assert plan(tmp_path, files, CLEAN) == Recovery([], 0, 10)
