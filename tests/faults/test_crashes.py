"""After a crash at any system call OUT is the old or the new state, whatever was not synced."""

import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest

from builders import Row, batch
from cli.here import run
from faults import crashes, saved_rows
from faults.crashes import Kept, Left
from faults.processes import TESTS
from log.generated import marker, write_partition
from ottla.publish.journal import open_journals

DISKS = 36  # that are tried of a run and a `Kept`; `make soak` tries all
OTTLA = Path(sys.executable).with_name("ottla")
OLD, NEW = "old", "new"  # topics too: what is there before, and what the run adds
COMMANDS = {
    "convert": ["--codec", "gzip"],
    "export": [],
    "salvage": [],
    "compact": ["--include-active"],
    "restore": [],
}
WRITERS = [*COMMANDS, "save"]


class Writer(NamedTuple):
    """What writes a topic to OUT: in a process of its own, and the same here."""

    words: Callable[[Path, str], Sequence[object]]
    call: Callable[[Path, str], None]
    status: int = 0


def make_writer(name: str, logs: Path) -> Writer:
    if name == "save":
        return Writer(
            lambda out, topic: [saved_rows.__file__, out, topic],
            lambda out, topic: saved_rows.main(str(out), topic),
        )

    def words(out: Path, topic: str) -> list[object]:
        return [name, logs, out, "--engine", "local", "--topic", topic, *COMMANDS[name]]

    def call(out: Path, topic: str) -> None:
        ran = run(*words(out, topic))
        assert ran.status == status, ran.err

    status = 1 if name == "salvage" else 0  # there is damage
    return Writer(lambda out, topic: [OTTLA, *words(out, topic)], call, status)


def make_logs(folder: Path, *, damaged: bool) -> None:
    """Two topics with a log start, two segments, a transaction and perhaps a broken batch each."""
    for topic in (OLD, NEW):
        rows = [batch([Row(at, 1000 + at, b"k%d" % (at % 3), b"v")]) for at in range(8)]
        if damaged:
            rows[5] = rows[5][:-1] + b"?"
        write_partition(folder, f"{topic}-0", 0, b"".join(rows[:4]))
        write_partition(folder, f"{topic}-0", 4, b"".join(rows[4:]))
        held = batch([Row(0, 5, b"k", b"v")], attributes=0x10, producer=(7, 2, 0))
        write_partition(folder, f"{topic}-1", 0, held + marker(1, 7, 0))
    (folder / "log-start-offset-checkpoint").write_text(f"0\n2\n{OLD} 0 2\n{NEW} 0 2\n")


def content(out: Path) -> dict[str, bytes]:
    files = [path for path in out.rglob("*") if path.is_file()]
    return {str(path.relative_to(out)): path.read_bytes() for path in files}


class State(NamedTuple):
    """All of OUT, and the quarantines beside it, which nobody can make again."""

    out: dict[str, bytes]
    quarantines: dict[str, bytes]


def state_of(out: Path) -> State:
    inner = content(Path(f"{out}.ottla"))
    return State(content(out), {name: inner[name] for name in inner if "/quarantine/" in name})


def record(words: Sequence[object], trace: Path) -> int:
    """Run Python, and keep its system calls; how it ended."""
    if shutil.which("strace") is None:
        pytest.skip("no strace (Debian: apt-get install strace)")
    strace = ["strace", "-f", "-y", "-s", "1000000", "-e", f"trace={crashes.CALLS}", "-o"]
    done = subprocess.run(
        [*strace, str(trace), sys.executable, *map(str, words)],
        env=os.environ | {"PYTHONPATH": str(TESTS)},
        capture_output=True,
        check=False,
    )
    if b"ptrace" in done.stderr:
        pytest.skip("no right to trace a process")
    return done.returncode


class Crashes(NamedTuple):
    """A recorded run: what there was, what came of it, and the disks that crashes leave."""

    writer: Writer
    old: State
    new: State
    disks: dict[Kept, list[tuple[Left, ...]]]


def record_writer(name: str, folder: Path, *, begun: bool) -> Crashes:
    """The run of a writer into an OUT that has a topic already, unless it is just begun."""
    make_logs(folder / "logs", damaged=name == "salvage")
    writer, root = make_writer(name, folder / "logs"), folder / "run"
    root.mkdir()
    writer.call(folder / "warm", NEW)
    if not begun:
        writer.call(root / "out", OLD)
    old, before = state_of(root / "out"), crashes.load(root)
    assert record(writer.words(root / "out", NEW), folder / "trace") == writer.status
    disks: dict[Kept, list[tuple[Left, ...]]] = {kept: [] for kept in Kept}
    for _ in crashes.replay(folder / "trace", root, before):
        for kept in Kept:
            disks[kept].append(tuple(crashes.look(before, kept)))
    return Crashes(writer, old, state_of(root / "out"), disks)


def recover(crash: Crashes, disk: tuple[Left, ...], folder: Path, *, again: bool) -> str:
    """What is in OUT after the next command: the same one again, or `ottla finish`."""
    out = folder / "out"
    crashes.build(disk, folder)
    if again:
        crash.writer.call(out, NEW)
    elif out.exists() or (folder / "out.ottla").exists():
        ran = run("finish", out)
        assert ran.status == 0, ran.err
    assert open_journals(str(out)) == []
    state = state_of(out)
    shutil.rmtree(folder)
    end, meant = (NEW, crash.new) if state.out == crash.new.out else (OLD, crash.old)
    assert state.out == meant.out
    # One of a salvage that was not committed may be there too, or a part of it.
    assert state.quarantines.items() >= meant.quarantines.items()
    return end


def try_disks(crash: Crashes, kept: Kept, folder: Path, count: int | None) -> int:
    """Recover `count` of the disks that differ, or all; how many were tried."""
    disks = crash.disks[kept]
    chosen = list(dict.fromkeys(disks))
    if count is not None and count < len(chosen):
        chosen = random.Random(kept.value).sample(chosen, count)
    ends = {}
    for disk in chosen:
        assert recover(crash, disk, folder / "disk", again=True) == NEW
        ends[disk] = recover(crash, disk, folder / "disk", again=False)
    told = [ends[disk] for disk in disks if disk in ends]
    assert told == sorted(told, reverse=True), "what was new once is never old again"
    assert set(told) == {OLD, NEW}
    return len(chosen)


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[Path]:
    """Where syncs cost nothing, if there is such a place: the model knows what they do."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else tmp_path) as folder:
        yield Path(folder)


@pytest.mark.faults
@pytest.mark.parametrize("name", WRITERS)
def test_a_crash_leaves_the_old_or_the_new_state(
    tmp_path: Path, disks: Path, name: str, counts: Counter[str]
) -> None:
    crash = record_writer(name, tmp_path, begun=False)
    for kept in Kept:
        counts["crashes at a system call"] += try_disks(crash, kept, disks, DISKS)


@pytest.mark.soak
@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("name", WRITERS)
def test_every_crash_leaves_the_old_or_the_new_state(
    tmp_path: Path, disks: Path, name: str, begun: bool, counts: Counter[str]
) -> None:
    crash = record_writer(name, tmp_path, begun=begun)
    for kept in Kept:
        counts["crashes at a system call"] += try_disks(crash, kept, disks, None)
