"""What a terminal shows of commands on the demo's logs: `make captures` renews docs/captures."""

import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from ottla.jobs.demo import make_logs

CAPTURES = Path(__file__).parents[2] / "docs" / "captures"
COMMANDS = {
    "ls": "ottla ls kafka-logs",
    "verify": "ottla verify kafka-logs",
    "transactions": "ottla transactions kafka-logs --now @2025-10-09T10:00:00Z",
    "groups": "ottla groups kafka-logs",
}
PATIENCE = 300  # seconds; a first command compiles


class Terminal(NamedTuple):
    columns: int
    lines: int


TERMINALS = [Terminal(80, 24), Terminal(200, 50)]


def file_of(name: str, terminal: Terminal) -> Path:
    return CAPTURES / f"{name}-{terminal.columns}.txt"


def capture(command: str, terminal: Terminal, folder: Path) -> str:
    """The screen after a command ran in tmux; what is said beside the answer is left out.

    That are progress, times, and which engine runs: no two machines say the same.
    """
    shown = f"$ {command}"
    words = f"printf '%s\\n' {shlex.quote(shown)}; {command} 2>/dev/null; printf '$ '; cat"
    with _server() as tmux:
        size = ["-x", str(terminal.columns), "-y", str(terminal.lines), "-c", str(folder)]
        subprocess.run([*tmux, "new-session", "-d", *size, words], check=True, env=_environment())
        end = time.monotonic() + PATIENCE
        while True:
            screen = subprocess.check_output([*tmux, "capture-pane", "-p"], text=True).rstrip()
            if screen.endswith("\n$"):
                return screen.removesuffix("\n$") + "\n"
            assert time.monotonic() < end, f"{command} did not end: {screen}"
            time.sleep(0.05)


@contextmanager
def _server() -> Iterator[list[str]]:
    """A tmux of its own, with nobody's settings."""
    with tempfile.TemporaryDirectory() as place:
        tmux = ["tmux", "-u", "-S", f"{place}/tmux", "-f", "/dev/null"]
        try:
            yield tmux
        finally:
            subprocess.run([*tmux, "kill-server"], check=False, capture_output=True)


def _environment() -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    return kept | {"PATH": path, "SHELL": "/bin/sh"}


def renew() -> None:
    """Write what the commands show now."""
    CAPTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        make_logs(f"{folder}/kafka-logs")
        for name, command in COMMANDS.items():
            for terminal in TERMINALS:
                file_of(name, terminal).write_text(capture(command, terminal, Path(folder)))


if __name__ == "__main__":
    renew()
