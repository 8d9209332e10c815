"""A command lists each directory of its PATHs once: two listings of a live one are two truths."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from golden import GOLDEN
from ottla.cli import COMMANDS
from ottla.jobs.demo import make_logs
from schemas.registries import registered, write_registry

BROKER = GOLDEN / "kafka-4.3"
SEGMENT = "00000000000000000000.log"
# Hooks can not be taken away again, so that they have a process of their own.
PROGRAM = """
import json, os, sys
listed = []

def hook(event, arguments):
    if event in ("os.scandir", "os.listdir") and isinstance(arguments[0], (str, os.PathLike)):
        listed.append(os.path.abspath(arguments[0]))

sys.addaudithook(hook)
from ottla.cli import main
status = main(sys.argv[2:])
with open(sys.argv[1], "w") as file:
    json.dump(listed, file)
sys.exit(status)
"""
SPARK = pytest.mark.spark_long
CASES = [
    pytest.param(["ls", "PATH"], id="ls"),
    pytest.param(["ls", "PATH/orders-0", "PATH/orders-1", "--segments"], id="ls-partitions"),
    pytest.param(["dump", "PATH", "--no-records"], id="dump"),
    pytest.param(["dump", "PATH", "--topic", "orders", "--from", "10"], id="dump-some"),
    pytest.param(["transactions", "PATH"], id="transactions"),
    pytest.param(["groups", "BROKER"], id="groups"),
    pytest.param(["topics", "BROKER"], id="topics"),
    pytest.param(["schemas", "PATH"], id="schemas"),
    pytest.param(["schemas", "PATH", "--exact"], id="schemas-exact"),
    pytest.param(
        ["dump", "PATH", "--topic", "orders", "--value-as", "registry"], id="dump-registry"
    ),
    pytest.param(["diff", "PATH", "BROKER"], id="diff"),
    pytest.param(
        ["append", f"PATH/users-0/{SEGMENT}", "--to", "PATH/orders-0", "--dry-run"], id="append"
    ),
    pytest.param(["verify", "PATH", "--recovery"], id="recovery"),
    pytest.param(["verify", "PATH"], id="verify", marks=SPARK),
    pytest.param(["salvage", "PATH", "OUT"], id="salvage", marks=SPARK),
    pytest.param(["export", "PATH", "OUT", "--topic", "orders"], id="export", marks=SPARK),
    pytest.param(
        ["convert", "PATH", "OUT", "--topic", "orders", "--codec", "zstd"],
        id="convert",
        marks=SPARK,
    ),
    pytest.param(["restore", "PATH", "OUT", "--topic", "orders"], id="restore", marks=SPARK),
    pytest.param(
        ["clone", "PATH", "OUT", "--exclude", "payments", "--engine", "local"], id="clone"
    ),
    pytest.param(
        ["compact", "PATH", "OUT", "--topic", "users", "--include-active"],
        id="compact",
        marks=SPARK,
    ),
    pytest.param(
        ["report", "PATH", "--topic", "users", "--without", "what-if"], id="report", marks=SPARK
    ),
]
# Of one file, of OUT alone, and of what it made itself.
WITHOUT_PATHS = {"inspect", "finish", "demo", "warm"}


def test_all_commands_are_here() -> None:
    assert {str(case.values[0][0]) for case in CASES} | WITHOUT_PATHS == set(COMMANDS)


@pytest.mark.parametrize("words", CASES)
def test_each_directory_is_listed_once(tmp_path: Path, words: list[str]) -> None:
    logs, found = tmp_path / "logs", tmp_path / "listed.json"
    make_logs(str(logs))
    if {"schemas", "registry"} & set(words):
        write_registry(logs, [registered("orders-value", 1, 1, "bytes")])
    places = {"PATH": str(logs), "BROKER": str(BROKER), "OUT": str(tmp_path / "out")}
    for name, place in places.items():
        words = [word.replace(name, place) for word in words]
    command = [sys.executable, "-c", PROGRAM, str(found), *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr  # a partition of the demo is damaged
    roots = [logs, BROKER]
    listed = [path for path in json.loads(found.read_text()) if _is_below(Path(path), roots)]
    assert listed
    assert {path: count for path, count in Counter(listed).items() if count > 1} == {}


def _is_below(path: Path, roots: list[Path]) -> bool:
    return any(path.is_relative_to(root) for root in roots)
