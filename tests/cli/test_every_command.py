"""Every command, as root, among what another user planted: only OUT and OUT.ottla change."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from builders import Row, batch
from cli.here import run
from cli.test_strangers import NOBODY, PLANTED, Place
from log.generated import write_partition
from ottla.cli import COMMANDS

Planted = Callable[["Ground"], None]


class Ground(NamedTuple):
    """A folder of root's in which a stranger owns the logs, and OUT.ottla before there is one."""

    root: Path

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def out(self) -> Path:
        return self.root / "work" / "out"

    @property
    def elsewhere(self) -> Path:
        return self.root / "elsewhere"


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    ground = Ground(tmp_path)
    ground.out.parent.mkdir()
    ground.elsewhere.mkdir()
    (ground.elsewhere / "victim").write_bytes(b"precious")
    (ground.elsewhere / f"{0:020d}.log").write_bytes(batch([Row(0, 1000, b"k", b"secret")]))
    for topic in ("orders", "users"):
        write_partition(ground.logs, f"{topic}-0", 0, batch([Row(0, 1000, b"k", b"v")]))
    return ground


# They change what all journals share, or move a folder away: one place can have one of them.
_ALONE = ("linked-journals", "linked-partition", "linked-lock", "writable", "foreign")


def journals(ground: Ground) -> None:
    """All that another test plants, each in a journal of its own, beside OUT and beside PATH."""
    for at, (name, plant) in enumerate(PLANTED.items()):
        for out in (ground.out, ground.logs):
            if not name.startswith(_ALONE):
                aside = ground.elsewhere / f"{at}-{out.name}"
                aside.mkdir()
                (aside / "victim").write_bytes(b"precious")
                plant(Place(out, aside, Path(f"{out}.ottla") / f"save-{at}"))


def links(ground: Ground) -> None:
    """Partitions, segments, side files, OUT's own names and locks that lead elsewhere."""
    victim = ground.elsewhere / "victim"
    (ground.logs / "away-0").symlink_to(ground.elsewhere)
    (ground.logs / "orders-0" / f"{5:020d}.log").symlink_to(ground.elsewhere / f"{0:020d}.log")
    (ground.logs / "users-0" / "leader-epoch-checkpoint").symlink_to(victim)
    Path(f"{ground.out}.ottla").mkdir()
    Path(f"{ground.out}.ottla", "lock").symlink_to(ground.elsewhere / "created")
    Path(f"{ground.out}.html").symlink_to(victim)


def linked_journals(ground: Ground) -> None:
    Path(f"{ground.out}.ottla").symlink_to(ground.elsewhere)


def linked_partitions(ground: Ground) -> None:
    """OUT is there, and the folders that a job would write to lead elsewhere."""
    ground.out.mkdir()
    for name in ("orders-0", "users-0", "topic=orders", "topic=users"):
        (ground.out / name).symlink_to(ground.elsewhere)


def names(ground: Ground) -> None:
    """Names that no file system of ours should obey."""
    for name in (b"..-0", b"\xff\xfe-0", b"\x1b[2J-0", b"a\nb-0", b"t" * 253 + b"-0", b"-0"):
        folder = ground.logs / os.fsdecode(name)
        folder.mkdir()
        (folder / f"{0:020d}.log").write_bytes(batch([Row(0, 1000, b"k", b"v")]))


def caches(ground: Ground) -> None:
    """Kernels and code where a command might look for them."""
    for folder in ("__numba_cache__", "__pycache__", ".cache/ottla", "ottla"):
        place = ground.root / "work" / folder
        place.mkdir(parents=True)
        (place / "__init__.py").write_text("raise SystemExit('taken')")
        (place / "walk.walk-1.nbi").write_bytes(b"cos\nsystem\n(S'touch /taken'\ntR.")


PLANTS: dict[str, Planted] = {
    "journals": journals,
    "links": links,
    "linked-journals": linked_journals,
    "linked-partitions": linked_partitions,
    "names": names,
    "caches": caches,
}


def give_away(ground: Ground) -> None:
    """All but the folder of root's becomes the stranger's."""
    for folder, folders, files in os.walk(ground.root):
        for name in folders + files:
            if os.path.join(folder, name) != str(ground.elsewhere):
                os.chown(os.path.join(folder, name), NOBODY, NOBODY, follow_symlinks=False)


def commands(ground: Ground) -> dict[str, list[object]]:
    logs, out, log = ground.logs, ground.out, ground.logs / "orders-0" / f"{0:020d}.log"
    return {
        "ls": ["ls", logs],
        "dump": ["dump", logs],
        "inspect": ["inspect", log],
        "verify": ["verify", logs, "--engine", "local"],
        "salvage": ["salvage", logs, out, "--engine", "local"],
        "export": ["export", logs, out, "--engine", "local"],
        "convert": ["convert", logs, out, "--codec", "zstd", "--engine", "local"],
        "compact": ["compact", logs, out, "--include-active", "--engine", "local"],
        "restore": ["restore", logs, out, "--engine", "local"],
        "clone": ["clone", logs, out, "--engine", "local"],
        "report": ["report", logs, "-o", f"{out}.html", "--engine", "local"],
        "transactions": ["transactions", logs],
        "groups": ["groups", logs],
        "topics": ["topics", logs],
        "schemas": ["schemas", logs, "--out", out],
        "diff": ["diff", logs, logs],
        "finish": ["finish", out],
        "append": ["append", "--dry-run", "--to", log.parent, log],
    }


OWN_LOGS = {"demo", "warm"}  # they read nothing of others; warm writes to its cache alone


def snapshot(ground: Ground) -> dict[str, tuple[object, ...]]:
    """Names, types, owners, sizes, times, contents and targets of all but OUT and OUT.ottla."""
    found: dict[str, tuple[object, ...]] = {}
    ours = (str(ground.out), f"{ground.out}.ottla", f"{ground.out}.html")
    for folder, folders, files in os.walk(ground.root):
        folders[:] = [one for one in folders if os.path.join(folder, one) not in ours]
        for name in folders + files:
            path = os.path.join(folder, name)
            if path not in ours:
                found[path] = _entry(path, path == str(ground.out.parent))
    return found


def _entry(path: str, changes: bool) -> tuple[object, ...]:
    status = os.lstat(path)
    content: object = None
    if os.path.islink(path):
        content = os.readlink(path)
    elif os.path.isfile(path):
        content = Path(path).read_bytes()
    # The folder that OUT appears in gets a new time by that.
    times = () if changes else (status.st_size, status.st_mtime_ns)
    return (status.st_mode, status.st_uid, *times, content)


def test_every_command_is_tried(tmp_path: Path) -> None:
    assert {*commands(Ground(tmp_path))} | OWN_LOGS == {*COMMANDS}


@pytest.mark.parametrize("plant", PLANTS.values(), ids=PLANTS)
@pytest.mark.parametrize("name", sorted({*COMMANDS} - OWN_LOGS))
def test_nothing_but_out_changes(
    ground: Ground, name: str, plant: Planted, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(ground)
    give_away(ground)
    monkeypatch.chdir(ground.root / "work")
    before = snapshot(ground)
    ran = run(*commands(ground)[name])
    assert ran.status in (0, 1, 2), ran.err
    assert "Traceback" not in ran.err
    assert snapshot(ground) == before
