"""A standalone cluster of two workers on loopback, started from the package pyspark."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pyspark

HOME = Path(pyspark.__file__).parent
# Of two hosts, since Spark gives the host of a slow attempt no second one.
HOSTS = ("127.0.0.1", "127.0.0.2")
PATIENCE = 300
EXECUTOR = b"CoarseGrainedExecutorBackend"

Process = subprocess.Popen[bytes]


class Cluster(NamedTuple):
    """A master that listens, and the workers that have registered with it."""

    url: str
    folder: Path
    workers: list[Process]

    def executors(self) -> list[int]:
        """The processes that run tasks now."""
        ours = {worker.pid for worker in self.workers}
        return [pid for pid in _processes() if _parent(pid) in ours and EXECUTOR in _command(pid)]

    def kill(self, executor: int) -> None:
        assert executor in self.executors(), "it is gone already"
        os.kill(executor, signal.SIGKILL)

    def executors_started(self) -> int:
        """How many executors the newest application has had: each has a folder."""
        newest = max(self.folder.glob("worker-*/app-*"), key=lambda path: path.name).name
        return len(list(self.folder.glob(f"worker-*/{newest}/[0-9]*")))


def wait_for(happened: Callable[[], bool], running: subprocess.Popen, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert running.poll() is None, f"it ended by itself: {log.read_text()}"
        assert time.monotonic() < deadline, f"it did not happen: {log.read_text()}"
        time.sleep(0.1)


@contextmanager
def start_cluster(folder: Path) -> Iterator[Cluster]:
    """A master and two workers of one core and 1 GB each; all are gone afterwards."""
    running: list[Process] = []
    try:
        master = ["master.Master", "--host", HOSTS[0], "--port", "0", "--webui-port", "0"]
        said = _start(running, folder / "master.log", HOSTS[0], master)
        wait_for(lambda: "ALIVE" in said.read_text(), running[0], said)
        found = re.search(r"spark://[\d.]+:\d+", said.read_text())
        assert found is not None
        for host in HOSTS:
            work = ["--host", host, "--cores", "1", "--memory", "1g", "--webui-port", "0"]
            work += ["--work-dir", str(folder / f"worker-{host}"), found[0]]
            said = _start(running, folder / f"{host}.log", host, ["worker.Worker", *work])
            wait_for(lambda: "Successfully registered" in said.read_text(), running[-1], said)  # noqa: B023
        yield Cluster(found[0], folder, running[1:])
    finally:
        for process in reversed(running):  # a worker ends its executors
            process.terminate()
            process.wait()


def _start(running: list[Process], log: Path, host: str, words: list[str]) -> Path:
    environment = os.environ | {
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": host,
        "SPARK_DAEMON_MEMORY": "256m",
    }
    # Otherwise what a worker starts has the Python of these tests, whatever an application says.
    environment.pop("PYSPARK_PYTHON", None)
    command = [str(HOME / "bin/spark-class"), f"org.apache.spark.deploy.{words[0]}", *words[1:]]
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    running.append(process)
    return log


def _processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it has ended since
        return b""


def _parent(pid: int) -> int:
    try:
        return parent_of(pid)
    except OSError:
        return 0


def parent_of(pid: int) -> int:
    """The process that started another."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
