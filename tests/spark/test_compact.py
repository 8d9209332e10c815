"""Compaction on Spark gives what it gives in one process, and says why a log stays large."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from choosing import choose
from jobs.compacting import explain_plainly
from jobs.plain import tree
from jobs.same import check_compact
from jobs.test_compact import CLEANING, NOW, RETENTION, SPLITS, keyed, offsets_in, write_segments
from jobs.test_explain import write_logs
from jobs.topics import write_topic
from ottla.errors import CorruptLogError
from ottla.jobs.compact.plan import plan_compaction
from ottla.jobs.compact.run import compact, explain_compaction
from ottla.jobs.compact.survey import CompactOptions
from ottla.jobs.engine import Engine
from ottla.jobs.report.rows import ReportOptions
from ottla.jobs.report.steps import build_report
from ottla.publish.job import Job
from ottla.publish.journal import open_journals, staged_path
from ottla.rules.cleaner.cleanable import CleanerConfig
from ottla.storage.writing import write_file

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound") / "logs"
    write_topic(folder, "orders", partitions=3, segments=7)
    return folder


@pytest.mark.parametrize(
    "split", [pytest.param(SPLITS[0], marks=pytest.mark.spark_long), *SPLITS[1:]]
)
def test_compaction_is_the_same_on_spark(
    engine: Engine, logs: Path, tmp_path: Path, split: int
) -> None:
    check_compact(engine, logs, tmp_path, split)


def test_colliding_hashes_change_nothing(engine: Engine, logs: Path, tmp_path: Path) -> None:
    for bits in (2, 64):
        options = replace(CLEANING, hash_bits=bits, split_bytes=3000)
        plan = plan_compaction(choose(logs), str(tmp_path / str(bits)), options, now=NOW)
        compact(engine, plan)
    assert tree(tmp_path / "2") == tree(tmp_path / "64") != {}


def test_a_broken_batch_is_raised_by_its_name(engine: Engine, tmp_path: Path) -> None:
    folder = write_segments(
        tmp_path / "logs" / "t-0", (0, [keyed(0, b"a"), keyed(1, b"b")]), (2, [keyed(2, b"z")])
    )
    log = folder / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)
    plan = plan_compaction(choose(tmp_path / "logs"), str(tmp_path / "out"), CLEANING, now=NOW)
    with pytest.raises(CorruptLogError) as raised:
        compact(engine, plan)
    assert (raised.value.violation.offset, raised.value.violation.file) == (1, str(log))
    assert not (tmp_path / "out").exists()


def test_an_explanation_tells_what_remains_and_what_stands_in_the_way(
    engine: Engine, tmp_path: Path
) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    write_segments(
        logs / "t-0",
        (0, [keyed(0, b"a"), keyed(1, b"b"), keyed(2, b"a", None), keyed(3, None)]),
        (4, [keyed(4, b"a", attributes=0x10, producer=(7, 0, 0))]),  # a transaction left open
        (5, [keyed(5, b"z")]),
    )
    (logs / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 9\n")
    options = CompactOptions(config=CleanerConfig(delete_retention_ms=RETENTION))
    plan = plan_compaction(choose(logs), str(out), options, now=NOW, explains=True)
    (row,) = explain_compaction(engine, plan)
    assert not out.exists()
    assert open_journals(str(out)) == []
    assert (row["firstDirtyOffset"], row["firstUncleanableOffset"]) == (0, 4)
    assert (row["readRecords"], row["remainingRecords"], row["distinctKeys"]) == (4, 2, 2)
    assert (row["unkeyedRecords"], row["tombstones"], row["dirtyRatio"]) == (1, 1, 1.0)
    assert row["cleanedBytes"] > row["remainingBytes"] > 0
    assert [each["cause"] for each in row["obstacles"]] == [
        "open transactions",
        "active segment",
        "cleaner-offset-checkpoint",
        "distinct keys",
        "records without a key",
        "tombstones",
    ]
    compact(engine, plan_compaction(choose(logs), str(out), CLEANING, now=NOW))
    size = (out / "t-0" / f"{0:020d}.log").stat().st_size
    assert size == row["remainingBytes"]
    assert offsets_in(out / "t-0") == [1, 2, 4, 5]


def test_the_report_and_the_explanation_of_odd_logs_are_the_same_as_in_one_process(
    engine: Engine, tmp_path: Path
) -> None:
    logs, page = tmp_path / "logs", tmp_path / "report.html"
    write_logs(logs)
    options = CompactOptions(config=CleanerConfig(), includes_active=True)
    selection = choose(logs)
    plan = plan_compaction(selection, str(tmp_path / "out"), options, now=NOW, explains=True)
    rows = explain_compaction(engine, plan)
    assert rows == explain_plainly(plan)
    assert [row["topic"] for row in rows if row["stoppedBy"]] == ["broken"]
    wanted = ReportOptions(what_if=False, compacted=("*",))
    report = build_report(engine, str(page), selection, wanted, [], NOW)
    found = [row for row in report if row["type"] == "compaction"]
    assert found == [{"type": "compaction", **row} for row in rows]
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]


def test_an_explanation_leaves_other_jobs_alone(engine: Engine, tmp_path: Path) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    write_segments(logs / "t-0", (0, [keyed(0, b"a"), keyed(1, b"a")]), (2, [keyed(2, b"z")]))
    plan = plan_compaction(choose(logs), str(out), CLEANING, now=NOW, explains=True)
    explain_compaction(engine, plan)
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]
    killed = Job(str(out), replace(plan, explains=False).name)
    write_file(staged_path(killed, "survivors.json"), b"{}")
    explain_compaction(engine, plan)
    assert tree(tmp_path / "out.ottla") == {f"{killed.name}/staging/survivors.json": b"{}"}


def test_a_log_that_no_broker_would_choose_says_so(engine: Engine, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    write_segments(
        logs / "t-0", (0, [keyed(0, b"a"), keyed(1, b"a")]), (2, [keyed(2, b"a")]), (3, [])
    )
    (logs / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 2\n")
    options = CompactOptions(config=CleanerConfig())
    plan = plan_compaction(choose(logs), str(tmp_path / "out"), options, now=NOW, explains=True)
    (row,) = explain_compaction(engine, plan)
    assert (row["wouldClean"], row["dirtyRatio"], row["remainingRecords"]) == (False, 0.333, 1)
    assert row["obstacles"][0]["cause"] == "min.cleanable.dirty.ratio"
    assert json.loads(json.dumps(row)) == row
