"""Links that lead elsewhere, what is no file, and what a file system puts beside logs."""

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from builders import Row, batch
from cli.here import run
from log.generated import write_partition

LOG = f"{0:020d}.log"
BATCH = batch([Row(0, 1000, b"k", b"v")])


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    write_partition(tmp_path / "logs", "orders-0", 0, BATCH)
    write_partition(tmp_path / "elsewhere", "orders-1", 0, BATCH)
    return tmp_path / "logs"


def commands(logs: Path) -> dict[str, list[object]]:
    """The commands that look for logs."""
    out = logs.parent / "out"
    return {
        "ls": ["ls", logs],
        "dump": ["dump", logs],
        "verify": ["verify", logs],
        "recovery": ["verify", "--recovery", logs],
        "salvage": ["salvage", logs, out],
        "export": ["export", logs, out],
        "convert": ["convert", logs, out],
        "compact": ["compact", "--drop-unkeyed", logs, out],
        "restore": ["restore", logs, out],
        "clone": ["clone", logs, out],
        "report": ["report", logs],
        "transactions": ["transactions", logs],
        "diff": ["diff", logs, logs],
    }


COMMANDS = sorted(commands(Path("logs")))


def plant_pipe(path: Path) -> None:
    os.mkfifo(path)


def plant_socket(path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as made:  # a name of at most 108 bytes
        made.bind(f"/proc/self/fd/{folder}/{path.name}")
    os.close(folder)


def plant_device(path: Path) -> None:
    try:
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 5))  # endless zeros
    except PermissionError:
        pytest.skip("only root makes devices")


PLANTED = {"a pipe": plant_pipe, "a socket": plant_socket, "a device": plant_device}


@pytest.mark.parametrize("what", PLANTED)
@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_no_file_is_refused_by_name(logs: Path, name: str, what: str) -> None:
    path = logs / "orders-0" / f"{7:020d}.log"
    PLANTED[what](path)
    ran = run(*commands(logs)[name])
    assert (ran.status, ran.err.count("\n")) == (2, 1), ran.err
    assert f"{path} is {what}" in ran.err


@pytest.mark.parametrize("what", PLANTED)
@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "partition.metadata", "0.index"])
def test_so_is_one_with_the_name_of_a_side_file(logs: Path, name: str, what: str) -> None:
    PLANTED[what](logs / "orders-0" / name)
    ran = run("verify", logs)
    assert ran.status == 2
    assert f"{name} is {what}" in ran.err


@pytest.mark.parametrize("words", [["inspect"], ["dump"], ["ls"]])
@pytest.mark.parametrize("what", PLANTED)
def test_so_is_one_that_is_named_itself(logs: Path, words: list[str], what: str) -> None:
    path = logs / "orders-0" / f"{7:020d}.log"
    PLANTED[what](path)
    ran = run(*words, path)
    assert ran.status == 2
    assert f"{path} is {what}" in ran.err


def link_log(logs: Path) -> Path:
    (logs / "orders-0" / LOG).unlink()
    (logs / "orders-0" / LOG).symlink_to(logs.parent / "elsewhere" / "orders-1" / LOG)
    return logs / "orders-0" / LOG


def link_side_file(logs: Path) -> Path:
    other = logs.parent / "elsewhere" / "secret"
    other.write_text("0\n1\n0 0\n")
    (logs / "orders-0" / "leader-epoch-checkpoint").symlink_to(other)
    return logs / "orders-0" / "leader-epoch-checkpoint"


def link_checkpoint(logs: Path) -> Path:
    other = logs.parent / "elsewhere" / "secret"
    other.write_text("0\n0\n")
    (logs / "log-start-offset-checkpoint").symlink_to(other)
    return logs / "log-start-offset-checkpoint"


@pytest.mark.parametrize("link", [link_log, link_side_file, link_checkpoint])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_linked_file_elsewhere_is_read_only_if_that_is_said(
    logs: Path, name: str, link: Callable[[Path], Path]
) -> None:
    path = link(logs)
    ran = run(*commands(logs)[name])
    assert (ran.status, ran.err.count("\n")) == (2, 1), ran.err
    assert f"{path} is a link to {logs.parent}/elsewhere" in ran.err
    assert "--follow-links" in ran.err
    assert run(*commands(logs)[name], "--follow-links").status == 0


def test_a_link_inside_of_the_paths_is_read(logs: Path) -> None:
    link_log(logs)
    assert run("ls", logs, logs.parent / "elsewhere").status == 0


@pytest.mark.parametrize("name", COMMANDS)
def test_paths_and_partitions_may_be_links(logs: Path, name: str) -> None:
    (logs / "orders-1").symlink_to(logs.parent / "elsewhere" / "orders-1")
    (logs.parent / "named").symlink_to(logs)
    words = [logs.parent / "named" if word == logs else word for word in commands(logs)[name]]
    assert run(*words).status == 0


def test_a_link_of_no_name_that_is_read_harms_nobody(logs: Path) -> None:
    (logs / "orders-0" / "README").symlink_to(logs.parent / "elsewhere" / "orders-1" / LOG)
    (logs / "orders-0" / "gone").symlink_to(logs / "nothing")
    assert run("ls", logs).status == 0


@pytest.mark.parametrize("name", ["ls", "verify"])
@pytest.mark.parametrize("mode", [0o755, 0])
def test_an_empty_folder_that_stops_a_broker_is_reported(logs: Path, name: str, mode: int) -> None:
    (logs / "lost+found").mkdir(mode=mode)
    ran = run(name, logs, *(["--account"] if name == "verify" else []))
    assert ran.status == 1
    assert "'lost+found' is no partition: a broker refuses to start" in ran.out + ran.err
    assert "orders-0" in ran.out
