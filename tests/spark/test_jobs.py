"""Jobs on Spark give what they give in one process, however segments are cut."""

import io
from contextlib import redirect_stderr
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from choosing import choose
from jobs.plain import run_plainly, tree
from jobs.test_salvage import damaged_topic
from jobs.topics import write_topic
from ottla.batch.convert import Conversion
from ottla.errors import CorruptLogError, DataLossError
from ottla.format.attributes import Codec
from ottla.jobs.export.plan import ExportOptions, plan_export
from ottla.jobs.output import OutputJob
from ottla.jobs.rewrite.convert import plan_convert
from ottla.jobs.rewrite.restore import Renaming, compile_filter, plan_restore
from ottla.jobs.rewrite.salvage import plan_salvage_job
from ottla.jobs.verify.plan import VerifyOptions
from ottla.log.files.partition import find_partitions
from ottla.options.offsets import Offset
from ottla.publish.journal import open_journals
from ottla.spark.run import run_output_job
from ottla.spark.verify import verify
from whole_log import check_partition

pytestmark = pytest.mark.spark

SPLITS = [2000, 20_000, 1 << 30]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound") / "logs"
    write_topic(folder, "orders", partitions=2)
    return folder


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return damaged_topic(tmp_path_factory.mktemp("damaged"))


def plans(logs: Path, out: Path, split: int) -> dict[str, OutputJob]:
    selection = choose(logs)
    bounded = choose(logs, start=Offset(40), stop=Offset(900))
    return {
        "export": plan_export(selection, f"{out}/export", ExportOptions(split_bytes=split)),
        "convert": plan_convert(
            selection,
            f"{out}/convert",
            Conversion(magic=2, codec=Codec.LZ4),
            {},
            split_bytes=split,
        ),
        "restore": plan_restore(
            bounded,
            f"{out}/restore",
            compile_filter((), "key", ()),
            Renaming({"orders": "copied"}, {}),
            split_bytes=split,
        ),
    }


def without_seconds(rows: list[dict]) -> list[dict]:
    return [row | {"seconds": 0} for row in rows]


def assert_same(spark: SparkSession, ours: OutputJob, plain: OutputJob) -> None:
    rows = run_output_job(spark, ours)
    assert without_seconds(rows) == without_seconds(run_plainly(plain))
    assert tree(Path(ours.out)) == tree(Path(plain.out)) != {}
    assert open_journals(ours.out) == []
    assert without_seconds(run_output_job(spark, ours)) == without_seconds(rows)


def check_output_jobs(spark: SparkSession, logs: Path, folder: Path, split: int) -> None:
    before = tree(logs)
    ours, plain = plans(logs, folder / "spark", split), plans(logs, folder / "plain", split)
    for name in ours:
        assert_same(spark, ours[name], plain[name])
    assert tree(logs) == before


def check_salvage(spark: SparkSession, damaged: Path, folder: Path) -> None:
    selection = choose(damaged)
    ours, plain = (plan_salvage_job(selection, f"{folder}/{name}") for name in ("spark", "plain"))
    assert_same(spark, ours, plain)


def check_verify(spark: SparkSession, damaged: Path, split: int) -> None:
    partitions = find_partitions([damaged])
    with verify(spark, partitions, VerifyOptions(split_bytes=split)) as (frame, account):
        found = sorted((row.asDict() for row in frame.collect()), key=_place)
    expected = [each.as_row() for partition in partitions for each in check_partition(partition)]
    assert found == sorted(expected, key=_place)
    assert sum(row["violations"] for row in account) == len(expected) > 0


def _place(row: dict) -> tuple:
    return row["file"], row["position"], row["rule"]


@pytest.mark.parametrize("split", SPLITS)
def test_output_is_the_same_as_without_spark(
    spark: SparkSession, logs: Path, tmp_path: Path, split: int
) -> None:
    check_output_jobs(spark, logs, tmp_path, split)


def test_salvage_is_the_same_as_without_spark(
    spark: SparkSession, damaged: Path, tmp_path: Path
) -> None:
    check_salvage(spark, damaged, tmp_path)


@pytest.mark.parametrize("split", SPLITS)
def test_verify_finds_what_a_check_finds(spark: SparkSession, damaged: Path, split: int) -> None:
    check_verify(spark, damaged, split)


def test_a_second_look_sees_what_changed_since_the_first(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_topic(tmp_path / "logs", "orders", partitions=1)
    partitions = find_partitions([tmp_path / "logs"])
    log = next((tmp_path / "logs").rglob("*.log"))
    with verify(spark, partitions, VerifyOptions()) as (frame, _):
        assert frame.where("rule = 'crc-matches'").count() == 0
    damaged = bytearray(log.read_bytes())
    damaged[100] ^= 1
    log.write_bytes(damaged)
    with verify(spark, partitions, VerifyOptions()) as (frame, _):
        assert frame.where("rule = 'crc-matches'").count() == 1


def test_a_broken_batch_is_the_error_of_the_job(
    spark: SparkSession, damaged: Path, tmp_path: Path
) -> None:
    plan = plan_export(choose(damaged), str(tmp_path / "out"), ExportOptions())
    with pytest.raises(CorruptLogError):
        run_output_job(spark, plan)
    assert not (tmp_path / "out").exists()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_bytes_and_an_estimate(
    spark: SparkSession, logs: Path, tmp_path: Path
) -> None:
    with redirect_stderr(Terminal()) as terminal:
        run_output_job(spark, plans(logs, tmp_path, 20_000)["export"])
    shown = terminal.getvalue()
    assert "export" in shown
    assert "kB" in shown
    assert "0:00:00" in shown


def test_a_pipe_shows_no_progress(
    spark: SparkSession, logs: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run_output_job(spark, plans(logs, tmp_path, 20_000)["export"])
    assert "export" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("command", "error"), [("export", DataLossError), ("convert", FileNotFoundError)]
)
def test_a_segment_that_vanishes_is_named(
    spark: SparkSession, tmp_path: Path, command: str, error: type[Exception]
) -> None:
    write_topic(tmp_path / "logs", "orders", partitions=1)
    plan = plans(tmp_path / "logs", tmp_path, 20_000)[command]
    segment = sorted((tmp_path / "logs").rglob("*.log"))[0]
    segment.unlink()
    with pytest.raises(error, match=f"{segment.name} vanished"):
        run_output_job(spark, plan, quiet=True)
    assert not (tmp_path / command).exists()
