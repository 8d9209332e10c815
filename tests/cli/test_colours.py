"""A terminal gets weights and colours, unless NO_COLOR is set; a pipe gets none."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from builders import Row, batch
from log.generated import write_partition

BROKEN = batch([Row(0, 1000, b"k", b"v")])[:-1] + b"?"


def shown(words: list[str], **environment: str) -> str:
    """What a terminal gets of stdout."""
    terminal, stdout = pty.openpty()
    command = [sys.executable, "-m", "ottla.cli", *words]
    plain = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    known = plain | {"TERM": "xterm"} | environment
    with subprocess.Popen(command, stdout=stdout, stderr=subprocess.DEVNULL, env=known) as process:
        os.close(stdout)
        text = b""
        while part := _read(terminal):
            text += part
    os.close(terminal)
    assert process.returncode in (0, 1)
    return text.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # the child is gone
        return b""


@pytest.fixture
def logs(tmp_path: Path) -> str:
    write_partition(tmp_path / "logs", "orders-0", 0, BROKEN)
    return str(tmp_path / "logs")


@pytest.mark.parametrize(
    ("command", "part"),
    [
        pytest.param("ls", "\x1b[1mPARTITION\x1b[0m", id="title"),
        pytest.param("verify", "\x1b[31merror\x1b[0m:", id="violation"),
        pytest.param("verify", "\x1b[31m1 error\x1b[0m in 1 of 1 partition", id="verdict"),
    ],
)
def test_a_terminal_gets_colours(logs: str, command: str, part: str) -> None:
    assert part in shown([command, logs])


@pytest.mark.parametrize("command", ["ls", "verify", "inspect"])
def test_none_with_no_color(logs: str, command: str) -> None:
    path = f"{logs}/orders-0/{0:020d}.log" if command == "inspect" else logs
    assert "\x1b" not in shown([command, path], NO_COLOR="1")
