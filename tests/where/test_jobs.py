"""`export` and `restore` with a predicate: its records, and everything else as without one."""

from pathlib import Path

import duckdb
import pytest

from builders import Row
from choosing import choose
from cli.here import run
from jobs.plain import records_of, run_plainly, tree
from jobs.test_convert import assert_sound
from jobs.topics import Written, write_partition, write_topic
from ottla.errors import OptionError
from ottla.jobs.export.plan import plan_export
from ottla.jobs.rewrite.restore import RecordFilter, Renaming, plan_restore
from ottla.options.export import ExportOptions
from ottla.where.parse import parse_where
from where.logs import read


@pytest.fixture
def topic(tmp_path: Path) -> list[Written]:
    return write_topic(tmp_path / "logs", "orders", partitions=3)


def export(folder: Path, text: str | None, split: int = 1 << 26) -> list[dict]:
    where = None if text is None else parse_where(text)
    options = ExportOptions(split_bytes=split, where=where)
    return run_plainly(plan_export(choose(folder / "logs"), str(folder / "out"), options))


def exported(folder: Path) -> list[tuple]:
    files = f"read_parquet('{folder}/out/**/*.parquet', hive_partitioning = true)"
    text = f'SELECT partition, "offset", key FROM {files} ORDER BY partition, "offset"'
    return duckdb.sql(text).fetchall()


def expected(topic: list[Written], wanted) -> list[tuple]:
    return [
        (part.partition, row.offset, row.key) for part in topic for row in part.rows if wanted(row)
    ]


@pytest.mark.parametrize("split", [700, 1 << 26])
def test_an_export_holds_what_matches(tmp_path: Path, topic: list[Written], split: int) -> None:
    rows = export(tmp_path, "key = 'key-3' or offset between 100 and 110", split)
    wanted = expected(topic, lambda row: row.key == b"key-3" or 100 <= row.offset <= 110)
    assert exported(tmp_path) == wanted
    assert sum(row["writtenRecords"] for row in rows) == len(wanted)


def test_an_export_goes_on_with_the_same_predicate_only(tmp_path: Path) -> None:
    first = write_partition(tmp_path / "logs" / "orders-0", seed=7, segments=2)
    export(tmp_path, "key = 'key-3'")
    (tmp_path / "logs" / "orders-0").rename(tmp_path / "before")
    longer = write_partition(tmp_path / "logs" / "orders-0", seed=7, segments=4)
    assert longer.rows[: len(first.rows)] == first.rows
    export(tmp_path, "key = 'key-3'")
    assert exported(tmp_path) == expected([longer], lambda row: row.key == b"key-3")
    for text in (None, "key = 'key-4'"):
        with pytest.raises(OptionError, match="where is key = 'key-3', not"):
            export(tmp_path, text)


def restore(folder: Path, wanted: RecordFilter, name: str = "out", split: int = 1 << 30) -> Path:
    out = folder / name
    plan = plan_restore(
        choose(folder / "logs"), str(out), wanted, Renaming({}, {}), split_bytes=split
    )
    run_plainly(plan)
    return out


@pytest.mark.parametrize("split", [700, 1 << 30])
def test_a_restore_holds_what_matches(tmp_path: Path, topic: list[Written], split: int) -> None:
    text = "(key in ('key-3', 'key-5') or header('name') is not null) and partition <> 1"

    def wanted(row: Row) -> bool:
        return row.key in (b"key-3", b"key-5") or bool(row.headers)

    out = restore(tmp_path, RecordFilter(where=parse_where(text)), split=split)
    for part in topic:
        found = [(row[0], row[2]) for row in records_of(out / f"orders-{part.partition}")]
        rows = [row for row in part.rows if wanted(row) and part.partition != 1]
        assert found == [(row.offset, row.key) for row in rows]
    assert_sound(out)


def test_a_predicate_on_keys_restores_what_the_flag_for_keys_does(
    tmp_path: Path, topic: list[Written]
) -> None:
    by_key = restore(tmp_path, RecordFilter(keys=(b"key-3",)), "a")
    by_text = restore(tmp_path, RecordFilter(where=parse_where("key = 'key-3'")), "b")
    assert tree(by_key) == tree(by_text)
    both = RecordFilter(keys=(b"key-3",), where=parse_where("offset < 100"))
    narrowed = restore(tmp_path, both, "c")
    found = [row[0] for row in records_of(narrowed / "orders-0")]
    assert found == [
        row.offset for row in topic[0].rows if row.key == b"key-3" and row.offset < 100
    ]
    for out in (by_key, narrowed):  # the last segment is of magic 1: one without records ends it
        assert max(path.name for path in (out / "orders-0").glob("*.log")) == (
            f"{topic[0].end:020d}.log"
        )


def test_columns_of_the_batch_choose_in_a_restore(tmp_path: Path, topic: list[Written]) -> None:
    text = "magic = 2 and producerId = 1 and timestampType = 0 and codec <> 'zstd'"
    full = [row for row in rows_with_batches(tmp_path / "logs") if row["matches"]]
    out = restore(tmp_path, RecordFilter(where=parse_where(text)))
    found = [
        (part.partition, row[0])
        for part in topic
        for row in records_of(out / f"orders-{part.partition}")
    ]
    assert found == [(row["partition"], row["offset"]) for row in full]
    assert found


def rows_with_batches(logs: Path) -> list[dict]:
    return [
        row
        | {
            "matches": row["magic"] == 2
            and row["producerId"] == 1
            and row["timestampType"] == 0
            and row["codec"] != b"zstd"
        }
        for row in read(logs)
    ]


def test_the_commands_take_it(tmp_path: Path, topic: list[Written]) -> None:
    logs, where = tmp_path / "logs", ("--where", "key = 'key-3' and offset < 50")
    wanted = expected(topic, lambda row: row.key == b"key-3" and row.offset < 50)
    assert run("export", logs, tmp_path / "out", *where, "--engine", "local").status == 0
    assert exported(tmp_path) == wanted
    assert run("restore", logs, tmp_path / "back", *where, "--engine", "local").status == 0
    found = [
        (part.partition, row[0])
        for part in topic
        for row in records_of(tmp_path / "back" / f"orders-{part.partition}")
    ]
    assert found == [(partition, offset) for partition, offset, _ in wanted]
    for command in ("export", "restore"):
        ran = run(command, logs, tmp_path / "none", "--where", "offset like '5'")
        assert ran.status == 2
        assert "where: like is for texts, at character 13" in ran.err
        assert not (tmp_path / "none").exists()
