"""The files that are a log are those that a broker would take, wherever it died."""

import shutil
from pathlib import Path

import pytest

from builders import Row, batch
from log.swap_states import MORE, REST, STATES, TEN, State, log, segment
from ottla.errors import Rule
from ottla.format.names import Kind
from ottla.log.check.recovery import Step, plan_recovery
from ottla.log.check.side_files import check_swaps
from ottla.log.files.partition import Partition, find_partitions, read_log_directories

each_state = pytest.mark.parametrize("state", STATES.values(), ids=STATES)


def read(folder: Path) -> Partition:
    (partition,) = find_partitions([folder])
    return partition


def logs_of(partition: Partition) -> dict[int, bytes]:
    return {each.base_offset: Path(each.log.path).read_bytes() for each in partition.segments}


@each_state
def test_segments_are_those_that_a_broker_has_after_its_start(tmp_path: Path, state: State) -> None:
    assert logs_of(read(state.write(tmp_path))) == state.logs


@each_state
def test_an_index_is_of_the_log_that_it_lies_beside(tmp_path: Path, state: State) -> None:
    for each in read(state.write(tmp_path)).segments:
        data = Path(each.log.path).read_bytes()
        found = each.side_files.get(Kind.OFFSET_INDEX)
        if found is not None:
            name = f"{each.base_offset:020d}.index"
            assert Path(found.path).read_bytes() == segment(each.base_offset, data)[name]


@each_state
def test_a_swap_is_told_of(tmp_path: Path, state: State) -> None:
    told = list(check_swaps(read(state.write(tmp_path))))
    swaps = sorted(name for name in state.files if name.endswith(".swap"))
    assert [Path(each.file).name for each in told] == swaps[:1]
    assert {each.rule for each in told} <= {Rule.SWAP_FINISHED}


@each_state
def test_a_broker_that_dies_again_while_it_recovers_loses_nothing(
    tmp_path: Path, state: State
) -> None:
    """Steps of the plan, done one by one: what is settled stays settled."""
    (directory,) = read_log_directories([state.write(tmp_path)])
    (partition,) = directory.partitions
    for action in plan_recovery(directory, partition).actions:
        path = Path(action.file)
        if action.step is Step.DELETE:
            path.unlink()
        elif action.step is Step.RENAME:
            shutil.move(path, path.with_suffix(""))
        assert logs_of(read(tmp_path)) == state.logs


def lay_out(folder: Path, *parts: dict[str, bytes]) -> Path:
    files = {name: data for part in parts for name, data in part.items()}
    return State("", files, {}).write(folder)


def test_an_old_segment_behind_the_end_of_the_swap_stays(tmp_path: Path) -> None:
    """All of segment 10 was cleaned away, and nothing says so: LogLoader keeps what is left."""
    swap = segment(0, log(3), ".swap")
    both = lay_out(tmp_path / "both", segment(0, TEN), segment(10, MORE), segment(20, REST), swap)
    assert logs_of(read(both)) == {0: log(3), 10: MORE, 20: REST}
    marked = segment(10, MORE, ".deleted")
    gone = lay_out(tmp_path / "gone", segment(0, TEN, ".deleted"), marked, segment(20, REST), swap)
    assert logs_of(read(gone)) == {0: log(3), 20: REST}


def test_an_empty_swap_takes_the_place_of_its_namesake_only(tmp_path: Path) -> None:
    swap = segment(0, b"", ".swap")
    found = read(lay_out(tmp_path, segment(0, TEN), segment(10, MORE), swap))
    assert logs_of(found) == {0: b"", 10: MORE}


def test_snapshots_of_replaced_segments_are_gone_and_those_of_the_metadata_log_stay(
    tmp_path: Path,
) -> None:
    beside = {f"{at:020d}.snapshot": b"" for at in (10, 20)}
    beside[f"{5:020d}-{1:010d}.checkpoint"] = b""
    swap = segment(0, log(3, 17), ".swap")
    found = read(
        lay_out(tmp_path, segment(0, TEN), segment(10, MORE), segment(20, REST), swap, beside)
    )
    kept = {
        name.offset
        for name, _ in found.settled.live
        if name.kind not in (Kind.LOG, ".index", ".timeindex")
    }
    assert kept == {5, 20}


def test_where_a_damaged_swap_ends_its_index_says(tmp_path: Path) -> None:
    """A walk from its beginning would stop early, and old segments would come back."""
    data = log(3, 17)
    broken = bytes(len(log(3))) + data[len(log(3)) :]
    swap = segment(0, data, ".swap") | {f"{0:020d}.log.swap": broken}
    found = read(lay_out(tmp_path, segment(0, TEN), segment(10, MORE), segment(20, REST), swap))
    assert logs_of(found) == {0: broken, 20: REST}


@pytest.mark.parametrize("suffix", [".swap", ".cleaned", ".deleted"])
def test_a_file_that_is_named_by_itself_is_read_in_any_state(tmp_path: Path, suffix: str) -> None:
    folder = lay_out(tmp_path, segment(0, TEN), segment(10, MORE, suffix))
    found = read(folder / "orders-0" / f"{10:020d}.log{suffix}")
    assert logs_of(found) == {10: MORE}
    (only,) = found.segments
    assert Path(only.side_files[Kind.OFFSET_INDEX].path).name == f"{10:020d}.index{suffix}"


def test_a_swap_is_told_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = lay_out(tmp_path, segment(0, batch([Row(0)]), ".swap"))
    read(folder)
    read(folder)
    (told,) = caplog.messages
    assert told.startswith(str(folder / "orders-0"))
    assert "3 files are read as if they had lost this suffix" in told
