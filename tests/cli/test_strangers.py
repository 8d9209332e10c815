"""Journals that somebody else planted: no command acts on them, and none breaks on them."""

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from builders import Row, batch
from choosing import choose
from cli.command import run
from jobs.plain import run_plainly
from log.generated import write_partition
from ottla.errors import PublishError
from ottla.jobs.export.plan import ExportOptions, plan_export
from ottla.jobs.write.commit import begin_writing
from ottla.options.write import parse_write_options

NOBODY = 65534
BYTES = b"planted"


class Place(NamedTuple):
    """OUT, with a log in it; a folder that is none of our business; and a planted journal."""

    out: Path
    elsewhere: Path
    journal: Path


Plant = Callable[[Place], None]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    out = tmp_path / "work" / "out"
    write_partition(out, "orders-0", 0, batch([Row(0, 1000, b"k", b"v")]))
    write_partition(tmp_path / "logs", "orders-0", 0, batch([Row(0, 1000, b"k", b"v")]))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "victim").write_bytes(b"precious")
    return Place(out, elsewhere, tmp_path / "work" / "out.ottla" / "planted")


def stage(place: Place, staged: str = "f") -> None:
    (place.journal / "staging").mkdir(parents=True, exist_ok=True)
    (place.journal / "staging" / staged).write_bytes(BYTES)


def plant(place: Place, **fields: Any) -> None:
    stage(place)
    file = {"staged": "f", "target": "orders-0/7.log", "size": len(BYTES)} | fields
    content = {"version": 1, "files": [file], "account": []}
    (place.journal / "commit.json").write_text(json.dumps(content))


def with_field(**fields: Any) -> Plant:
    return lambda place: plant(place, **fields)


def with_text(text: bytes) -> Plant:
    def write(place: Place) -> None:
        stage(place)
        (place.journal / "commit.json").write_bytes(text)

    return write


def absolute_target(place: Place) -> None:
    plant(place, target=str(place.elsewhere / "victim"))


def absolute_staged(place: Place) -> None:
    plant(place, staged=str(place.elsewhere / "victim"))


def moved_away(name: str) -> Plant:
    """What was planted lies elsewhere, and a link leads to it."""

    def link(place: Place) -> None:
        plant(place)
        path = {"out.ottla": place.journal.parent, "job": place.journal}.get(
            name, place.journal / name
        )
        path.rename(place.elsewhere / "moved")
        path.symlink_to(place.elsewhere / "moved")

    return link


def linked_partition(place: Place) -> None:
    plant(place, target="linked-0/7.log")
    (place.out / "linked-0").symlink_to(place.elsewhere)


def linked_staged_file(place: Place) -> None:
    plant(place, size=len(b"precious"))
    (place.journal / "staging" / "f").unlink()
    (place.journal / "staging" / "f").symlink_to(place.elsewhere / "victim")


def linked_lock(place: Place) -> None:
    plant(place)
    (place.journal / "lock").symlink_to(place.elsewhere / "created")
    (place.journal.parent / "lock").symlink_to(place.elsewhere / "created")


def writable(*names: str, mode: int = 0o777) -> Plant:
    def loosen(place: Place) -> None:
        plant(place)
        place.journal.parent.joinpath(*names).chmod(mode)

    return loosen


def foreign(*names: str) -> Plant:
    def give_away(place: Place) -> None:
        if os.geteuid() != 0:
            pytest.skip("only root can give files away")
        plant(place)
        os.chown(place.journal.parent.joinpath(*names), NOBODY, NOBODY)

    return give_away


def pipe(place: Place) -> None:
    stage(place)
    os.mkfifo(place.journal / "commit.json")


def in_the_way(place: Place) -> None:
    plant(place, target=f"orders-0/{0:020d}.log")


PLANTED: dict[str, Plant] = {
    "absolute-target": absolute_target,
    "absolute-staged": absolute_staged,
    "target-above": with_field(target="../../elsewhere/victim"),
    "target-above-in-the-middle": with_field(target="orders-0/../../../elsewhere/victim"),
    "target-of-no-job": with_field(target="orders-0/.bashrc"),
    "target-in-no-partition": with_field(target="bin/7.log"),
    "target-empty": with_field(target=""),
    "target-with-nul": with_field(target="orders-0/7\0.log"),
    "target-that-no-disk-can-name": with_field(target="\ud800-0/7.log"),
    "target-of-many-digits": with_field(target=f"orders-{'9' * 5000}/7.log"),
    "target-that-a-terminal-obeys": with_field(target="\x1b[2J-0/7.log"),
    "target-is-a-list": with_field(target=["orders-0"]),
    "staged-above": with_field(staged="../../../../elsewhere/victim", size=8),
    "staged-is-a-folder": with_field(staged=".."),
    "staged-with-nul": with_field(staged="f\0"),
    "staged-is-nothing": with_field(staged=None),
    "size-huge": with_field(size=10**30),
    "size-negative": with_field(size=-1),
    "size-another": with_field(size=3),
    "size-text": with_field(size="7"),
    "size-true": with_field(size=True),
    "replaces-text": with_field(replaces="yes"),
    "field-unknown": with_field(mode=0o4777),
    "in-the-way": in_the_way,
    "pipe": pipe,
    "not-json": with_text(b"{"),
    "not-utf-8": with_text(b'{"version": 1, "files": ["\xff\xfe"]}'),
    "not-an-object": with_text(b"[]"),
    "no-files": with_text(b'{"version": 1}'),
    "files-of-text": with_text(b'{"version": 1, "files": ["f"]}'),
    "newer": with_text(b'{"version": 2, "files": []}'),
    "nested": with_text(b"[" * 100_000),
    "many-digits": with_text(b'{"version": 1, "files": ' + b"9" * 5000 + b"}"),
    "empty": with_text(b""),
    "linked-journals": moved_away("out.ottla"),
    "linked-job": moved_away("job"),
    "linked-staging": moved_away("staging"),
    "linked-commit": moved_away("commit.json"),
    "linked-staged-file": linked_staged_file,
    "linked-partition": linked_partition,
    "linked-lock": linked_lock,
    "writable-journals": writable(),
    "writable-job": writable("planted"),
    "writable-staging": writable("planted", "staging"),
    "writable-commit": writable("planted", "commit.json", mode=0o666),
    "foreign-journals": foreign(),
    "foreign-job": foreign("planted"),
    "foreign-staging": foreign("planted", "staging"),
    "foreign-commit": foreign("planted", "commit.json"),
    "foreign-staged-file": foreign("planted", "staging", "f"),
}


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every path below a folder: what it is, and what is in it."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        if path.is_symlink():
            content = os.readlink(path).encode()
        else:
            content = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
        found[str(path.relative_to(folder))] = (status.st_mode, content)
    return found


def reading_commands(out: Path) -> list[list[object]]:
    log = out / "orders-0" / f"{0:020d}.log"
    return [
        ["ls", out],
        ["ls", out / "orders-0"],
        ["dump", log],
        ["inspect", log],
        ["transactions", out],
        ["groups", out],
        ["topics", out],
        ["verify", "--recovery", out],
        ["append", "--dry-run", "--to", out / "orders-0", log],
    ]


@pytest.mark.parametrize("planted", PLANTED.values(), ids=PLANTED)
def test_a_command_that_reads_changes_nothing(
    place: Place, planted: Plant, capsys: pytest.CaptureFixture[str]
) -> None:
    planted(place)
    before = snapshot(place.out.parent.parent)
    for words in reading_commands(place.out):
        assert run(*words).status in (0, 1, 2), words
        assert "Traceback" not in capsys.readouterr().err
    assert snapshot(place.out.parent.parent) == before


def writers(place: Place) -> dict[str, Callable[[], object]]:
    selection = choose(str(place.elsewhere.parent / "logs"))
    out = str(place.out)
    return {
        "finish": lambda: run("finish", out),
        "export": lambda: run_plainly(plan_export(selection, out, ExportOptions())),
        "save": lambda: begin_writing(parse_write_options({"path": out, "topic": "t"})),
    }


@pytest.mark.parametrize("writer", ["finish", "export", "save"])
@pytest.mark.parametrize("planted", PLANTED.values(), ids=PLANTED)
def test_a_command_that_writes_publishes_nothing_of_it(
    place: Place, planted: Plant, writer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    planted(place)
    before, outside = snapshot(place.out), snapshot(place.elsewhere)
    try:
        writers(place)[writer]()
    except PublishError:
        assert writer != "finish"
    assert "Traceback" not in capsys.readouterr().err
    kept = {name: entry for name, entry in snapshot(place.out).items() if name in before}
    assert kept == before
    assert not [name for name in snapshot(place.out) if name.endswith("/7.log")]
    assert snapshot(place.elsewhere) == outside


LEFT_ALONE = {"linked-journals", "linked-job"}  # no journals at all


@pytest.mark.parametrize("name", PLANTED)
def test_finish_says_why_it_refuses(
    place: Place, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    PLANTED[name](place)
    ran = run("finish", place.out)
    told = capsys.readouterr().err
    if name in LEFT_ALONE:
        assert (ran.status, told) == (0, f"ottla: nothing to finish in {place.out}\n")
    else:
        assert (ran.status, told.count("\n")) == (2, 1)
        assert str(place.out) in told
        assert "see `ottla finish --help`" in told or "nothing of it is published" not in told
        assert "\x1b" not in told


@pytest.mark.parametrize("name", ["save-1", "once-1", "stream-1-1"])
def test_a_journal_with_the_name_of_a_save_is_checked_as_well(place: Place, name: str) -> None:
    absolute_target(place)
    place.journal.rename(place.journal.with_name(name))
    outside = snapshot(place.elsewhere)
    assert run("finish", place.out).status == 2
    with pytest.raises(PublishError):
        writers(place)["save"]()
    assert snapshot(place.elsewhere) == outside


@pytest.mark.parametrize("planted", PLANTED.values(), ids=PLANTED)
def test_giving_it_up_touches_nothing_else(
    place: Place, planted: Plant, capsys: pytest.CaptureFixture[str]
) -> None:
    planted(place)
    before, outside = snapshot(place.out), snapshot(place.elsewhere)
    assert run("finish", place.out, "--discard", "planted").status in (0, 2)
    assert "Traceback" not in capsys.readouterr().err
    assert snapshot(place.out) == before
    assert snapshot(place.elsewhere) == outside


def test_what_is_ours_is_finished(place: Place) -> None:
    plant(place)
    assert run("finish", place.out).status == 0
    assert (place.out / "orders-0" / "7.log").read_bytes() == BYTES
