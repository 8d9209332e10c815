"""What the documents show of a terminal is what a terminal shows."""

import shutil
from pathlib import Path

import pytest

from cli.captures import CAPTURES, COMMANDS, TERMINALS, Terminal, capture, file_of
from cli.here import run
from ottla.jobs.demo import make_logs


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    logs = tmp_path_factory.mktemp("captures") / "kafka-logs"
    make_logs(str(logs))
    return logs


@pytest.mark.parametrize("terminal", TERMINALS, ids=lambda each: f"{each.columns}")
@pytest.mark.parametrize("name", COMMANDS)
def test_a_terminal_shows_what_is_captured(logs: Path, name: str, terminal: Terminal) -> None:
    if shutil.which("tmux") is None:
        pytest.skip("captures of a terminal need tmux (Debian: apt-get install tmux)")
    shown = capture(COMMANDS[name], terminal, logs.parent)
    assert shown == file_of(name, terminal).read_text(), "`make captures` renews docs/captures"


def test_every_capture_is_compared() -> None:
    known = {file_of(name, terminal) for name in COMMANDS for terminal in TERMINALS}
    assert {*CAPTURES.glob("*.txt")} == known


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["ls"], id="ls"),
        pytest.param(["ls", "--segments"], id="segments"),
        pytest.param(["transactions", "--all", "--now", "@2025-10-09T10:00:00Z"], id="all"),
        pytest.param(["groups"], id="groups"),
        pytest.param(["groups", "--state"], id="states"),
        pytest.param(["topics"], id="topics"),
        pytest.param(["verify", "--account", "--out", "found.jsonl"], id="account"),
        pytest.param(["salvage", "salvaged"], id="salvage"),
        pytest.param(
            ["convert", "converted", "--topic", "orders", "--codec", "gzip"], id="convert"
        ),
        pytest.param(["compact", "--explain", "--topic", "users"], id="explain"),
    ],
)
def test_a_pipe_gets_lines_of_80_columns(
    logs: Path, words: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    shown = run(words[0], logs, *words[1:]).out.splitlines()
    # The command that comes next is as long as its paths.
    assert max(len(line) for line in shown if not line.startswith("Next: ")) <= 80
