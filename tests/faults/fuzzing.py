"""Log directories that a seed damages, and a command on each, as forks of one warm process."""

import encodings.unicode_escape  # noqa: F401  nobody may not be able to load it where Python is root's
import json
import os
import random
import resource
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from builders import Row, batch, reseal
from cli.here import run
from log.generated import marker, random_log, write_partition

CPU_SECONDS = 20
MEMORY = 600 << 20  # above what a fork begins with
_TEXT = ["", "0\n", "0\n1\n0 0\n", "0\n9\n", "9\n", "\x1b[2J", "version: 0\ntopic_id: x", "{", "[]"]
_NAMES = [
    "0.log",
    f"{2**63 - 1}.log",
    f"{2**63}.log",
    f"{7:020d}.log.swap",
    f"{7:020d}.log.cleaned",
    f"{7:020d}.log.deleted",
    f"{0:020d}.snapshot",
    f"{0:020d}.txnindex",
    f"{0:020d}.timeindex",
    f"{0:020d}.index",
    f"{5:020d}-{1:010d}.checkpoint",
    "leader-epoch-checkpoint",
    "partition.metadata",
    "\x1b[2J",
    "ÿ" * 100,
    f"{'9' * 251}.log",
    os.fsdecode(b"\xff\xfe.log"),
    os.fsdecode(b"\xff\xfe"),
]
_FOLDERS = ["lost+found", "a-0", "a-00", "a-9999999999", "-0", "a-0.x-delete", "\n-1", "t" * 250]
_FOLDERS += [f"{'t' * 253}-0", os.fsdecode(b"\xff-0"), os.fsdecode(b"\xfe"), "/".join("d" * 60)]
# Position and size in a batch of magic 2: offsets, length, flags, times, producer and count.
_FIELDS = [(0, 8), (8, 4), (12, 4), (16, 1), (21, 2), (23, 4), (27, 8), (35, 8), (43, 8), (51, 2)]
_FIELDS += [(53, 4), (57, 4)]
NOBODY = 65534
_SIDES = [
    "meta.properties",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    ".lock",
]
_NUMBERS = [0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1]


class Outcome(NamedTuple):
    """How a command ended: its exit code, or minus a signal; what it used."""

    words: list[str]
    status: int
    cpu_seconds: float
    memory: int
    told: str

    @property
    def is_fine(self) -> bool:
        return (
            self.status in (0, 1, 2)
            and "Traceback" not in self.told
            and self.cpu_seconds <= CPU_SECONDS
            and self.memory <= MEMORY
        )


def make_logs(folder: Path) -> None:
    """A sound log directory: all magics and codecs, transactions, an internal topic."""
    write_partition(folder, "mixed-0", 0, b"".join(random_log(1, count=30)))
    rows = [batch([Row(at, 1000 + at, b"k%d" % (at % 3), b"v")]) for at in range(20)]
    write_partition(folder, "plain-0", 0, b"".join(rows[:10]))
    write_partition(folder, "plain-0", 10, b"".join(rows[10:]))
    held = batch([Row(0, 5, b"k", b"v")], attributes=0x10, producer=(7, 2, 0))
    write_partition(folder, "txn-0", 0, held + marker(1, 7, 0))
    write_partition(folder, "__consumer_offsets-0", 0, batch([Row(0, 5, b"\0\1\0\1g", b"\0\1")]))


def damage(chooser: random.Random, root: Path) -> None:
    """A few changes of names, bytes, side files, journals and rights."""
    for _ in range(chooser.randrange(1, 5)):
        chooser.choice(_DAMAGES)(chooser, root)


def _files(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file() and not path.is_symlink())


def _write(path: Path, content: bytes) -> None:
    """Write what is a file, or nothing yet: a pipe would wait, and a link leads elsewhere."""
    if not os.path.lexists(path) or (path.is_file() and not path.is_symlink()):
        path.write_bytes(content)


def _bytes(chooser: random.Random, root: Path) -> None:
    path = chooser.choice(_files(root))
    data = bytearray(path.read_bytes())
    for _ in range(chooser.randrange(1, 4)):
        at = chooser.randrange(len(data) + 1)
        size = chooser.choice((1, 2, 4, 8))
        number = chooser.choice((*_NUMBERS, chooser.randrange(256))) % (1 << 8 * size)
        data[at : at + size] = number.to_bytes(size, "big")
    path.write_bytes(data)


def _field(chooser: random.Random, root: Path) -> None:
    """A field of the first batch at an end of its range; some batches say that they are whole."""
    path = chooser.choice([one for one in _files(root) if one.suffix == ".log"])
    data = bytearray(path.read_bytes())
    if len(data) < 61:  # no batch of magic 2
        return
    length = int.from_bytes(data[8:12], "big")
    for at, size in chooser.sample(_FIELDS, chooser.randrange(1, 3)):
        top = 1 << 8 * size
        number = chooser.choice((0, 1, top // 2 - 2, top // 2 - 1, top // 2, top - 2, top - 1))
        data[at : at + size] = number.to_bytes(size, "big")
    # An earlier damage may have left a length that ends inside the header.
    if chooser.random() < 0.7 and length >= 49:
        data[: 12 + length] = reseal(bytes(data[: 12 + length]))
    path.write_bytes(data)


def _of_another(chooser: random.Random, root: Path) -> None:
    """A file of one partition under its name, or another's, in another partition."""
    one, other = chooser.choice(_files(root)), chooser.choice(_files(root))
    target = other.with_name(chooser.choice([one.name, other.name]))
    if target != one and (target in _files(root) or not os.path.lexists(target)):
        shutil.copyfile(one, target)


def _cut(chooser: random.Random, root: Path) -> None:
    path = chooser.choice(_files(root))
    os.truncate(path, chooser.randrange(path.stat().st_size + 200))


def _double(chooser: random.Random, root: Path) -> None:
    one, other = chooser.choice(_files(root)), chooser.choice(_files(root))
    one.write_bytes(one.read_bytes() + other.read_bytes())


def _side_file(chooser: random.Random, root: Path) -> None:
    folders = sorted(path for path in (root / "logs").iterdir() if path.is_dir())
    path = chooser.choice(folders) / chooser.choice(_NAMES)
    if chooser.random() < 0.3:
        path = root / "logs" / chooser.choice(_SIDES)
    content = chooser.choice([chooser.choice(_TEXT).encode(), chooser.randbytes(60), bytes(60)])
    _write(path, content)


def _folder(chooser: random.Random, root: Path) -> None:
    path = root / "logs" / chooser.choice(_FOLDERS)
    path.mkdir(exist_ok=True, parents=True)
    if chooser.random() < 0.5:
        _write(path / chooser.choice(_NAMES), chooser.randbytes(80))


def _rename(chooser: random.Random, root: Path) -> None:
    path = chooser.choice(_files(root))
    target = path.with_name(chooser.choice(_NAMES))
    if not target.is_dir():
        path.rename(target)


def _special(chooser: random.Random, root: Path) -> None:
    path = chooser.choice(_files(root)).with_name(chooser.choice(_NAMES))
    if path.exists() or path.is_symlink():
        return
    if chooser.random() < 0.5:
        os.mkfifo(path)
    else:
        path.symlink_to(chooser.choice(["/dev/zero", "/etc/passwd", "nothing", path.name]))


def _journal(chooser: random.Random, root: Path) -> None:
    folder = root / chooser.choice(["out.ottla", "logs.ottla"]) / chooser.choice(["j", "save-1"])
    (folder / "staging").mkdir(parents=True, exist_ok=True)
    (folder / "staging" / "f").write_bytes(b"x")
    target = chooser.choice(["plain-0/7.log", "../x", "/etc/x", "", "topic=t/partition=0/x"])
    file = {"staged": "f", "target": target, "size": chooser.choice([1, -1, 2**70, "1"])}
    text = json.dumps({"version": chooser.choice([1, 2, "1"]), "files": [file]})
    name = chooser.choice(["commit.json", "published.json", "account.json", "finished"])
    content = chooser.choice([text, text[:20], "[]", "[" * 5000])
    (folder / name).write_text(content)


def _rights(chooser: random.Random, root: Path) -> None:
    path = chooser.choice([*_files(root), root / "logs"])
    path.chmod(chooser.choice([0, 0o444, 0o777, 0o700]))


_DAMAGES: list[Callable[[random.Random, Path], None]] = [
    *[_bytes] * 4,
    *[_field] * 4,
    *[_of_another] * 2,
    _cut,
    _double,
    *[_side_file] * 3,
    _folder,
    _rename,
    _special,
    *[_journal] * 2,
    _rights,
]


def choose_words(chooser: random.Random, root: Path) -> list[str]:
    """A command, and perhaps flags."""
    logs, out = str(root / "logs"), str(root / "out")
    reads = ["ls", "ls --segments", "dump", "verify", "verify --recovery", "verify --quick"]
    reads += ["report", "transactions --completed", "groups", "topics"]
    writes = ["salvage", "export", "export --mode DROPMALFORMED", "convert --codec zstd"]
    writes += ["convert --batch-bytes 4k", "convert --magic 1", "restore", "restore --from 3"]
    writes += ["compact", "compact --include-active --drop-unkeyed", "compact --explain"]
    kind = chooser.random()
    if kind < 0.45:
        return [*chooser.choice(reads).split(), logs]
    if kind < 0.85:
        name, *flags = chooser.choice(writes).split()
        return [name, logs, out, *flags]
    if kind < 0.9:
        return ["finish", out]
    file = str(chooser.choice(_files(root)))
    to = str(root / "logs" / "plain-0")
    return chooser.choice(
        [["inspect", file], ["dump", file], ["append", "--dry-run", "--to", to, file]]
    )


def run_seed(seed: int, sound: Path, folder: Path) -> Outcome:
    """Damage a copy of the logs by a seed, and run a command on it in a fork."""
    chooser = random.Random(seed)
    root = folder / str(seed)
    shutil.copytree(sound, root)
    damage(chooser, root)
    words = choose_words(chooser, root)
    as_nobody = chooser.random() < 0.3 and os.geteuid() == 0
    told = folder / f"{seed}.told"
    began, say_began = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(say_began, str(_resident()).encode())
        _run_in_child(words, told, as_nobody)
    before = int(os.read(began, 32))
    os.close(began)
    os.close(say_began)
    _, status, used = os.wait4(child, 0)
    code = os.waitstatus_to_exitcode(status)
    # A fork counts the pages that it shares with its parent as its own: those it began with.
    memory = max(0, used.ru_maxrss * 1024 - before)
    text = told.read_text() if told.exists() else ""
    shutil.rmtree(root)
    told.unlink(missing_ok=True)
    return Outcome(words, code, used.ru_utime + used.ru_stime, memory, text)


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _drop_rights(root: Path) -> None:
    """Become a user whom rights stop, and who owns some of the files."""
    for number, path in enumerate([root, *_files(root)]):
        if number % 5 < 4:
            os.chown(path, NOBODY, NOBODY)
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)


def _run_in_child(words: list[str], told: Path, as_nobody: bool) -> None:
    status = 99
    try:
        stream = told.open("w", errors="backslashreplace")
        if as_nobody:
            _drop_rights(told.with_suffix(""))
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS + 1, CPU_SECONDS + 2))
        signal.alarm(10 * CPU_SECONDS)  # one that waits uses no time
        ran = run(*words)
        with stream:
            stream.write(ran.err[-5000:])
        status = ran.status
    finally:
        sys.stdout.flush()
        os._exit(status)
