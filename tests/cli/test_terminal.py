"""Names that a stranger chose reach people as text: a terminal obeys none of them."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from builders import Row, batch
from cli.here import run
from internal.streams import commit_key, commit_value
from log.generated import write_partition
from ottla.cli import COMMANDS, main

EVIL = "\x1b[2J\x9b31m\x07\x7f\n\r\u202eo"
TOPIC = f"t{EVIL}t"
MAKE_LOGS = {"demo", "warm"}
# Newlines that end lines are ours; those in names are not, so no line begins inside of one.
_CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f]")


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Logs, journals and side files, all of whose names are evil."""
    folder = tmp_path / f"logs{EVIL}"
    rows = [Row(0, 1000, EVIL.encode(), EVIL.encode(), ((EVIL.encode(), EVIL.encode()),))]
    log = write_partition(folder, f"{TOPIC}-0", 0, batch(rows) + b"no batch")
    write_partition(folder, f"{EVIL} is no partition", 0, batch(rows))
    (log.parent / f"{EVIL}.log").write_bytes(b"?")
    (log.parent / "partition.metadata").write_text(f"version: 0\ntopic_id: {EVIL}")
    (log.parent / "leader-epoch-checkpoint").write_text(f"0\n1\n{EVIL}\n")
    (folder / "meta.properties").write_text(f"version={EVIL}")
    (folder / "log-start-offset-checkpoint").write_text(f"0\n1\n{EVIL}\n")
    for out in (folder, tmp_path / f"out{EVIL}"):
        journal = Path(f"{out}.ottla") / f"job{EVIL}"
        journal.mkdir(parents=True)
        name = {"staged": EVIL, "target": EVIL, "size": 1}
        (journal / "commit.json").write_text(json.dumps({"version": 1, "files": [name]}))
    return folder


def commands(logs: Path) -> dict[str, list[list[object]]]:
    """Every command but the two that make logs, with names of their own."""
    log, out = logs / f"{TOPIC}-0" / f"{0:020d}.log", logs.parent / f"out{EVIL}"
    free = logs.parent / f"free{EVIL}"
    return {
        "ls": [["ls", logs], ["ls", "--segments", logs], ["ls", log], ["ls", f"{logs}{EVIL}"]],
        "dump": [["dump", log], ["dump", "--topic", TOPIC, logs], ["dump", logs]],
        "inspect": [["inspect", log], ["inspect", "--position", "80", log]],
        "verify": [["verify", logs], ["verify", "--recovery", logs]],
        "salvage": [["salvage", logs, out], ["salvage", logs, free, "--topic", TOPIC]],
        "export": [["export", logs, free], ["export", logs, out, "--mode", "DROPMALFORMED"]],
        "convert": [["convert", logs, free], ["convert", logs, out]],
        "compact": [["compact", logs, free], ["compact", "--explain", logs, free]],
        "restore": [["restore", logs, free], ["restore", logs, free, "--topic", EVIL]],
        "clone": [["clone", logs, free], ["clone", logs, free, "--dry-run", "--host", EVIL]],
        "report": [["report", logs, "-o", f"{free}.html"]],
        "transactions": [["transactions", logs], ["transactions", logs, "--topic", EVIL]],
        "groups": [["groups", logs], ["groups", logs, "--topic", EVIL]],
        "topics": [["topics", logs]],
        "schemas": [["schemas", logs], ["schemas", logs, "--schemas", logs.parent / "schemas"]],
        "diff": [["diff", logs, logs], ["diff", logs, logs, "--topic", EVIL], ["diff", logs]],
        "finish": [["finish", out], ["finish", free], ["finish", out, "--discard", EVIL]],
        "append": [["append", "--dry-run", "--to", log.parent, log], ["append", "--to", EVIL, log]],
    }


def test_every_command_is_tried() -> None:
    assert {*commands(Path("logs"))} | MAKE_LOGS == {*COMMANDS}


@pytest.mark.parametrize("style", ["text", "jsonl"])
@pytest.mark.parametrize("name", sorted({*COMMANDS} - MAKE_LOGS))
def test_no_command_lets_a_name_through(logs: Path, name: str, style: str) -> None:
    for words in commands(logs)[name]:
        flags = [] if name in ("inspect", "export") else ["--format", style]
        ran = run(*words, *flags)
        assert ran.status in (0, 1, 2), (words, ran.err)
        assert ran.out or ran.err
        assert not _CONTROLS.search(ran.out), (words, ran.out)
        assert not _CONTROLS.search(ran.err), (words, ran.err)
        assert not re.search("^o", ran.out + ran.err.replace("ottla: ", ""), re.MULTILINE), words


def test_a_flag_that_a_shell_took_from_a_name_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["ls", "logs", f"--{EVIL}"])
    assert not _CONTROLS.search(capsys.readouterr().err)


def on_terminal(*words: object) -> str:
    """What a terminal gets of a command, as far as it is text."""
    terminal, slave = pty.openpty()
    command = [sys.executable, "-m", "ottla.cli", *map(str, words)]
    with subprocess.Popen(command, stdout=slave, stderr=slave) as process:
        os.close(slave)
        shown = b""
        while part := _read(terminal):
            shown += part
    os.close(terminal)
    assert process.returncode in (0, 1)
    # Colours and the ends of lines are ours.
    return re.sub(r"\x1b\[[0-9;]*m|\r(?=\n)", "", shown.decode())


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # the child is gone
        return b""


def test_what_is_written_to_a_file_for_kafka_is_shown_on_a_terminal(tmp_path: Path) -> None:
    row = Row(0, 1000, commit_key(f"g{EVIL}", TOPIC, 0), commit_value(5))
    log = write_partition(tmp_path, "__consumer_offsets-0", 0, batch([row]))
    words = ["groups", tmp_path, "--reset-offsets"]
    assert EVIL in run(*words).out
    for shown in (on_terminal(*words), on_terminal("groups", tmp_path), on_terminal("dump", log)):
        assert "\\x1b[2J" in shown or "\\u001b[2J" in shown
        assert not _CONTROLS.search(shown)


def test_a_batch_is_inspected_on_a_terminal(logs: Path) -> None:
    assert not _CONTROLS.search(on_terminal("inspect", logs / f"{TOPIC}-0" / f"{0:020d}.log"))


def test_a_fault_of_ours_and_a_warning_are_shown_too() -> None:
    code = (
        "import sys, logging, ottla.cli as cli;"
        "cli.tell_waiting = lambda _: logging.getLogger('ottla.x').warning(sys.argv[1]) or [][9];"
        "sys.exit(cli.main(['ls', sys.argv[1]]))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, EVIL], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 3
    assert "\\x1b[2J" in ran.stderr
    assert not _CONTROLS.search(ran.stderr)
