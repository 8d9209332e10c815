"""The engine of this process gives what the plainest loop gives, within its memory."""

import io
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import redirect_stderr
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from builders import batch
from choosing import choose
from jobs.same import (
    SPLITS,
    check_compact,
    check_output_jobs,
    check_salvage,
    check_verify,
    plans,
)
from jobs.test_salvage import damaged_topic
from jobs.topics import write_topic
from ottla.engine.local import LocalEngine
from ottla.errors import CorruptLogError, DataLossError, OptionError
from ottla.jobs.engine import Grouping, JobStep
from ottla.jobs.export.plan import ExportOptions, plan_export
from ottla.jobs.run import run_output_job

SCHEMA = pa.schema([("group", pa.int32()), ("order", pa.int64()), ("data", pa.binary())])


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound") / "logs"
    write_topic(folder, "orders", partitions=2)
    return folder


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return damaged_topic(tmp_path_factory.mktemp("damaged"))


@pytest.mark.parametrize("split", SPLITS)
def test_jobs_write_the_same(logs: Path, tmp_path: Path, split: int) -> None:
    check_output_jobs(LocalEngine(), logs, tmp_path, split)


@pytest.mark.parametrize("split", SPLITS)
def test_compaction_writes_the_same(logs: Path, tmp_path: Path, split: int) -> None:
    check_compact(LocalEngine(), logs, tmp_path, split)


def test_salvage_writes_the_same(damaged: Path, tmp_path: Path) -> None:
    check_salvage(LocalEngine(), damaged, tmp_path)


@pytest.mark.parametrize("split", SPLITS)
def test_verify_finds_the_same(damaged: Path, split: int) -> None:
    check_verify(LocalEngine(), damaged, split)


def rows(seed: int) -> Iterator[pa.RecordBatch]:
    """Some batches of rows in any order, as a task may give them."""
    random = np.random.default_rng(seed)
    for count in random.integers(0, 5, 3).tolist():
        yield pa.record_batch(
            [
                pa.array(random.integers(0, 7, count), pa.int32()),
                pa.array(random.integers(0, 1000, count)),
                pa.array([bytes(count)] * count, pa.binary()),
            ],
            schema=SCHEMA,
        )


def test_rows_meet_by_group_and_in_order() -> None:
    calls: list[list[tuple[int, int]]] = []

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        met = pa.Table.from_batches(batches)
        pairs = zip(met["group"].to_pylist(), met["order"].to_pylist(), strict=True)
        calls.append(list(pairs))
        yield from met.to_batches()

    step = JobStep("rows", range(50), [1] * 50, rows, SCHEMA)
    grouping = Grouping("group", 3, ("group", "order"), work, SCHEMA)
    given = list(LocalEngine().run(step, grouping))
    everything = [row for part in range(50) for batch in rows(part) for row in batch.to_pylist()]
    assert sorted(map(str, given)) == sorted(map(str, everything))
    assert sorted(sorted({group % 3 for group, _ in call}) for call in calls) == [[0], [1], [2]]
    assert all(call == sorted(call) for call in calls)
    assert [row["group"] % 3 for row in given] == sorted(row["group"] % 3 for row in given)


def test_nothing_meets_where_there_is_nothing() -> None:
    step = JobStep("rows", [], [], rows, SCHEMA)
    assert list(LocalEngine().run(step, Grouping("group", 3, (), iter, SCHEMA))) == []


def test_rows_come_in_the_order_of_their_parts() -> None:
    def slow_first(part: int) -> Iterator[pa.RecordBatch]:
        time.sleep(0.02 if part == 0 else 0)
        yield pa.record_batch([[part], [part], [b""]], schema=SCHEMA)

    step = JobStep("rows", range(9), [1] * 9, slow_first, SCHEMA)
    assert [row["order"] for row in LocalEngine().run(step)] == list(range(9))


def test_more_rows_than_memory_is_an_error_that_says_what_to_do() -> None:
    def large(part: int) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([[part], [part], [bytes(1000)]], schema=SCHEMA)

    step = JobStep("rows", range(100), [1] * 100, large, SCHEMA)
    grouping = Grouping("group", 3, (), iter, SCHEMA)
    with pytest.raises(OptionError, match=r"more than 48.8 KiB .* nothing was written"):
        list(LocalEngine(memory=50_000).run(step, grouping))
    # Rows that are only given on do not wait for each other.
    assert len(list(LocalEngine(memory=1 << 20).run(step))) == 100


def test_a_verify_beyond_its_memory_stops(damaged: Path) -> None:
    with pytest.raises(OptionError, match="wait in memory"):
        check_verify(LocalEngine(memory=1000), damaged, 1 << 30)


def test_no_task_runs_on_when_one_has_failed() -> None:
    running = threading.Semaphore(0)

    def work(part: int) -> Iterator[pa.RecordBatch]:
        if part == 0:
            raise OSError("broken")
        running.release()
        yield from ()

    step = JobStep("rows", range(1000), [1] * 1000, work, SCHEMA)
    with pytest.raises(OSError, match="broken"):
        list(LocalEngine().run(step))
    assert [each.name for each in threading.enumerate() if each.name.startswith("ottla")] == []


def test_a_broken_batch_is_the_error_of_the_job(damaged: Path, tmp_path: Path) -> None:
    plan = plan_export(choose(damaged), str(tmp_path / "out"), ExportOptions())
    with pytest.raises(CorruptLogError):
        run_output_job(LocalEngine(), plan)
    assert not (tmp_path / "out").exists()


def test_a_segment_that_vanishes_is_named(tmp_path: Path) -> None:
    write_topic(tmp_path / "logs", "orders", partitions=1)
    plan = plans(tmp_path / "logs", tmp_path, 20_000)["export"]
    segment = sorted((tmp_path / "logs").rglob("*.log"))[0]
    segment.unlink()
    with pytest.raises(DataLossError, match=f"{segment.name} vanished"):
        run_output_job(LocalEngine(), plan)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_bytes_and_an_estimate(logs: Path, tmp_path: Path) -> None:
    with redirect_stderr(Terminal()) as terminal:
        run_output_job(LocalEngine(), plans(logs, tmp_path, 20_000)["export"])
    shown = terminal.getvalue()
    assert "export" in shown
    assert "kB" in shown


def test_as_many_tasks_run_as_there_are_cores_for_this_process() -> None:
    assert LocalEngine().cores == len(os.sched_getaffinity(0))


MANY = 1_000_000
PROGRAM = """
import json, resource, sys
from builders import batch
from choosing import choose
from ottla.engine.local import LocalEngine
from ottla.jobs.verify.plan import VerifyOptions
from ottla.jobs.verify.run import verify

def peak(path, account):
    list(verify(LocalEngine(quiet=True), choose(path).partitions, VerifyOptions(), account))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10

idle = peak(sys.argv[1], [])
account = []
grown = peak(sys.argv[2], account) - idle
print(json.dumps({"grown": grown, "batches": sum(row["readBatches"] for row in account)}))
"""


def write_many(log: Path, count: int) -> None:
    """Batches of one record each; neither their offsets nor their epochs are under their CRCs."""
    one = np.frombuffer(batch(), dtype=np.uint8)
    data = np.tile(one, (count, 1))
    data[:, :8] = np.arange(count, dtype=">i8").view(np.uint8).reshape(count, 8)
    log.parent.mkdir(parents=True)
    log.write_bytes(data.tobytes())


def test_a_verify_of_many_batches_holds_little_of_them(tmp_path: Path) -> None:
    for number in range(2):
        write_many(tmp_path / f"many/t-{number}" / f"{0:020d}.log", MANY)
    write_many(tmp_path / "few/t-0" / f"{0:020d}.log", 10)
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "few"), str(tmp_path / "many")]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["batches"] == 2 * MANY
    assert found["grown"] < 300 << 20, found
