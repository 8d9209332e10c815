"""Jobs on Spark give what they give in one process, however segments are cut."""

import io
from contextlib import redirect_stderr
from pathlib import Path

import pytest

from choosing import choose
from jobs.same import (
    SPLITS,
    check_commands,
    check_output_jobs,
    check_salvage,
    check_verify,
    plans,
)
from jobs.test_salvage import damaged_topic
from jobs.topics import write_topic
from ottla.errors import CorruptLogError, DataLossError, Row
from ottla.jobs.engine import Engine
from ottla.jobs.export.plan import ExportOptions, plan_export
from ottla.jobs.run import run_output_job
from ottla.jobs.verify.plan import VerifyOptions
from ottla.jobs.verify.run import verify
from ottla.log.files.partition import find_partitions
from ottla.spark import engine as spark_engine
from ottla.spark.engine import SparkEngine

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound") / "logs"
    write_topic(folder, "orders", partitions=2)
    return folder


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return damaged_topic(tmp_path_factory.mktemp("damaged"))


@pytest.mark.parametrize("split", SPLITS)
def test_output_is_the_same_as_without_spark(
    engine: Engine, logs: Path, tmp_path: Path, split: int
) -> None:
    check_output_jobs(engine, logs, tmp_path, split)


def test_salvage_is_the_same_as_without_spark(
    engine: Engine, damaged: Path, tmp_path: Path
) -> None:
    check_salvage(engine, damaged, tmp_path)


@pytest.mark.parametrize("split", SPLITS)
def test_verify_finds_what_a_check_finds(engine: Engine, damaged: Path, split: int) -> None:
    check_verify(engine, damaged, split)


def test_parts_that_share_tasks_give_the_same(
    engine: Engine, damaged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of more parts than a step may have tasks; what tasks unpack is sent once."""
    monkeypatch.setattr(spark_engine, "_MOST_TASKS", 3)
    monkeypatch.setattr(spark_engine, "_WITH_EVERY_TASK", 0)
    check_verify(engine, damaged, min(SPLITS))


def test_what_was_sent_to_tasks_is_let_go(
    engine: SparkEngine, damaged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python keeps it in files until then."""
    monkeypatch.setattr(spark_engine, "_WITH_EVERY_TASK", 0)
    folder = Path(engine.spark.sparkContext._temp_dir)
    before = sorted(folder.iterdir())
    partitions = find_partitions([damaged])
    assert [*verify(engine, partitions, VerifyOptions(), [])]
    assert next(verify(engine, partitions, VerifyOptions(), []))  # who asks for no more
    plan = plan_export(choose(damaged), str(tmp_path / "out"), ExportOptions())
    with pytest.raises(CorruptLogError):
        run_output_job(engine, plan)
    assert sorted(folder.iterdir()) == before


@pytest.mark.usefixtures("spark")
def test_commands_end_alike_on_both_engines(logs: Path, damaged: Path, tmp_path: Path) -> None:
    check_commands(logs, damaged, tmp_path, SPLITS[1])


def test_a_second_look_sees_what_changed_since_the_first(engine: Engine, tmp_path: Path) -> None:
    write_topic(tmp_path / "logs", "orders", partitions=1)
    partitions = find_partitions([tmp_path / "logs"])
    log = next((tmp_path / "logs").rglob("*.log"))

    def look() -> list[Row]:
        return list(verify(engine, partitions, VerifyOptions(), []))

    assert "crc-matches" not in [row["rule"] for row in look()]
    damaged = bytearray(log.read_bytes())
    damaged[100] ^= 1
    log.write_bytes(damaged)
    assert "crc-matches" in [row["rule"] for row in look()]


def test_a_broken_batch_is_the_error_of_the_job(
    engine: Engine, damaged: Path, tmp_path: Path
) -> None:
    plan = plan_export(choose(damaged), str(tmp_path / "out"), ExportOptions())
    with pytest.raises(CorruptLogError):
        run_output_job(engine, plan)
    assert not (tmp_path / "out").exists()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_bytes_and_an_estimate(engine: Engine, logs: Path, tmp_path: Path) -> None:
    with redirect_stderr(Terminal()) as terminal:
        run_output_job(engine, plans(logs, tmp_path, 20_000)["export"])
    shown = terminal.getvalue()
    assert "export" in shown
    assert "kB" in shown
    assert "0:00:00" in shown


def test_a_pipe_shows_no_progress(
    engine: Engine, logs: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run_output_job(engine, plans(logs, tmp_path, 20_000)["export"])
    assert "export" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("command", "error"), [("export", DataLossError), ("convert", FileNotFoundError)]
)
def test_a_segment_that_vanishes_is_named(
    engine: Engine, tmp_path: Path, command: str, error: type[Exception]
) -> None:
    write_topic(tmp_path / "logs", "orders", partitions=1)
    plan = plans(tmp_path / "logs", tmp_path, 20_000)[command]
    segment = sorted((tmp_path / "logs").rglob("*.log"))[0]
    segment.unlink()
    with pytest.raises(error, match=f"{segment.name} vanished"):
        run_output_job(engine, plan)
    assert not (tmp_path / command).exists()
