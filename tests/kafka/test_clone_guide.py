"""The guides that start clones, as they are written: these are looked at, and stopped."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from benchmarks.maven import class_path, java
from broker import KAFKA
from test_clone import free_ports
from test_restore_guide import TOOLS

from test_documents import run_document

GUIDE = Path(__file__).parents[2] / "docs" / "clone.md"
DRILL = GUIDE.parent / "tutorials" / "drill.md"
PATIENCE = 400
STORIES = ("A restore drill on a laptop", "The controllers are lost", "A copy of production")
# As a download of Kafka has them: the one starts a process of its own, the other ends it.
START = """
while [ "${{1#-}}" != "$1" ]; do shift; done
{command} "$1" >> "$1.out" 2>&1 &
echo $! > '{pid}'
"""
STOP = "kill \"$(cat '{pid}')\"\nwhile kill -0 \"$(cat '{pid}')\" 2>/dev/null; do sleep 0.1; done"


def blocks_of(title: str) -> str:
    section = next(part for part in GUIDE.read_text().split("\n## ")[1:] if part.startswith(title))
    return "".join(re.findall(r"^```sh\n(.*?)^```$", section, re.M | re.S))


def make_tools(folder: Path, pid: Path) -> Path:
    scripts = {
        name: " ".join(["exec", *java(tool, f"'{class_path(KAFKA)}'", "-Xmx256m"), '"$@"'])
        for name, tool in TOOLS.items()
    }
    server = " ".join(java("kafka.Kafka", f"'{class_path(KAFKA)}'", "-Xmx512m"))
    scripts["kafka-server-start.sh"] = START.format(command=server, pid=pid)
    scripts["kafka-server-stop.sh"] = STOP.format(pid=pid)
    folder.mkdir()
    for name, text in scripts.items():
        path = folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    return folder


@pytest.mark.parametrize("title", STORIES)
def test_the_story_runs_as_it_is_written(logs: dict[str, Path], tmp_path: Path, title: str) -> None:
    pid = tmp_path / "pid"
    front = GUIDE.read_text().split("\n## ")[0]
    (settings,) = re.findall(r"^```sh\n(.*?)^```$", front, re.M | re.S)
    values = {
        "BACKUP": str(logs["stopped"]),
        "WORK": str(tmp_path / "work"),
        "PORT": str(free_ports(2)),
    }
    assert re.findall(r"^(\w+)=", settings, re.M) == list(values)
    rest = re.sub(r"^\w+=.*\n", "", settings, flags=re.M)
    tools = make_tools(tmp_path / "bin", pid)
    path = os.pathsep.join([str(tools), str(Path(sys.executable).parent), os.environ["PATH"]])
    script = f"{rest}{blocks_of(title)}"
    assert script.count("kafka-server-start.sh") == script.count("kafka-server-stop.sh") == 1
    try:
        done = subprocess.run(
            ["bash", "-e", "-u", "-o", "pipefail", "-c", script],
            env=os.environ | values | {"PATH": path},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
    finally:
        end_server(pid)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "TopicId: " in done.stdout


def test_the_drill_starts_the_cluster_that_it_made(tmp_path: Path) -> None:
    folder, pid = tmp_path / "drill", tmp_path / "pid"
    folder.mkdir()
    run_document(DRILL, folder)
    tools = make_tools(tmp_path / "bin", pid)
    (script,) = re.findall(r"^```sh\n(.*?)^```$", DRILL.read_text(), re.M | re.S)
    try:
        done = subprocess.run(
            ["bash", "-e", "-u", "-o", "pipefail", "-c", script],
            env=os.environ | {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"},
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
    finally:
        end_server(pid)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"Topic: payments\s+TopicId: ", done.stdout)
    assert re.search(r"^billing\s+orders\s+0\s+10448\s+10568\s+120 ", done.stdout, re.M)


def end_server(pid: Path) -> None:
    """Leave no broker behind, whatever the script came to."""
    if not pid.exists():
        return
    number = int(pid.read_text())
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            os.kill(number, signal.SIGKILL)
        except ProcessLookupError:
            return
        time.sleep(0.1)
