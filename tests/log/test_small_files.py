"""A file beside a log that is huge is named as damage, not held, and the rest is looked at."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import builders
from builders import Row
from cli.command import run_json
from ottla.errors import CorruptLogError, Rule
from ottla.log.files.small_files import LIMIT, read_preallocated, read_small

BATCH = builders.batch([Row(0, 5, b"ada", b"tea"), Row(1, 6, b"bob", b"ink")])
BASE = f"{0:020d}"
HUGE = 1 << 30  # sparse: it takes no room on the disk
FILES = [f"{BASE}.index", f"{BASE}.timeindex", f"{BASE}.txnindex", f"{BASE}.snapshot"]
FILES += ["leader-epoch-checkpoint", "partition.metadata"]
MEMORY = 1_000_000  # KiB; to hold a huge file alone takes 1,048,576


def log_with(folder: Path, name: str, *, size: int = HUGE, end: bytes = b"\1") -> Path:
    """A partition, with a file beside its log that ends in `end` after nothing but a hole."""
    partition = folder / "orders-0"
    partition.mkdir()
    (partition / f"{BASE}.log").write_bytes(BATCH)
    (partition / f"{BASE}.index").write_bytes(b"")
    with open(partition / name, "wb") as stream:
        stream.truncate(size - len(end))
        stream.seek(0, os.SEEK_END)
        stream.write(end)
    return partition


@pytest.mark.parametrize("name", FILES)
def test_verify_names_it_and_checks_the_rest(tmp_path: Path, name: str) -> None:
    partition = log_with(tmp_path, name)
    ran = run_json("verify", tmp_path, "--engine", "local")
    (found,) = [line for line in ran.lines if line.get("rule") == Rule.SIDE_FILE_SIZE]
    assert (ran.status, found["file"], found["size"]) == (1, str(partition / name), HUGE)
    assert [line["readRecords"] for line in ran.of("account")] == [2]


@pytest.mark.parametrize("name", FILES)
def test_dump_says_so_and_goes_on(tmp_path: Path, name: str) -> None:
    partition = log_with(tmp_path, name)
    ran = run_json("dump", partition / name, partition / f"{BASE}.log")
    assert ran.status == 1
    assert [line["rule"] for line in ran.of("error")] == [Rule.SIDE_FILE_SIZE]
    assert len(ran.of("record")) == 2
    assert [line["fileSize"] for line in ran.of("end")] == [HUGE, len(BATCH)]


@pytest.mark.parametrize("command", ["ls", "transactions", "salvage", "export", "convert"])
@pytest.mark.parametrize("name", FILES[:4])
def test_other_commands_do_without_it(tmp_path: Path, command: str, name: str) -> None:
    (tmp_path / "logs").mkdir()
    log_with(tmp_path / "logs", name)
    out = [] if command in ("ls", "transactions") else [tmp_path / "out", "--engine", "local"]
    assert run_json(command, tmp_path / "logs", *out).status in (0, 1)


def test_its_bytes_are_not_held(tmp_path: Path) -> None:
    for name in FILES:
        (tmp_path / name).mkdir()
        log_with(tmp_path / name, name)
    script = (
        "import sys; from pathlib import Path; from ottla.cli import main;"
        "code = main(sys.argv[1:]);"
        # Not ru_maxrss, which counts whoever started this process too.
        "print(Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0],"
        " file=sys.stderr);"
        "sys.exit(code)"
    )
    words = ["verify", *FILES, "--engine", "local", "--quiet"]
    command = [sys.executable, "-c", script, *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert int(done.stderr.split()[-1]) < MEMORY


def test_an_index_that_was_preallocated_large_is_read(tmp_path: Path) -> None:
    entry = b"\0\0\0\1\0\0\0\7"
    path = tmp_path / f"{BASE}.index"
    for size in (HUGE, HUGE + 5):
        with open(path, "wb") as stream:
            stream.write(entry)
            stream.truncate(size)
        data = read_preallocated(path)
        assert data.startswith(entry)
        assert not any(data[len(entry) :])
        assert (len(data) % 8, len(data) < LIMIT) == (size % 8, True)


def test_the_limit_is_exact(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    for size in (LIMIT - 1, LIMIT):
        path.write_bytes(b"\1" * size)
        assert len(read_small(path)) == len(read_preallocated(path)) == size
    path.write_bytes(b"\1" * (LIMIT + 1))
    for read in (read_small, read_preallocated):
        with pytest.raises(CorruptLogError) as raised:
            read(path)
        assert raised.value.violation.rule is Rule.SIDE_FILE_SIZE
