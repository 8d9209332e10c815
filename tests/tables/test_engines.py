"""Polars and DuckDB take a scan as it is; what a query of Polars does not need is not read."""

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import ottla
from builders import Row, batch
from jobs.topics import write_partition
from ottla.extras import install_command


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("engines") / "logs"
    for number in range(3):
        write_partition(folder / f"orders-{number}", seed=number)
    folder = folder / "json-0"
    folder.mkdir()
    rows = [Row(n, 1_700_000_000_000 + n, b"k", b'{"n": %d}' % n) for n in range(50)]
    (folder / f"{0:020d}.log").write_bytes(b"".join(batch([row]) for row in rows))
    return folder.parent


@pytest.fixture
def scan(logs: Path) -> ottla.Scan:
    return ottla.open(logs).scan("orders", isolation="read_committed")


def test_duckdb_queries_a_scan_by_the_name_of_its_variable(scan: ottla.Scan) -> None:
    expected = scan.to_arrow()
    assert duckdb.sql("select count(*) from scan").fetchall() == [(expected.num_rows,)]
    query = "select max(timestamp), sum(octet_length(value)) from scan"
    (found,) = duckdb.sql(query).fetchall()
    lengths = [len(value) for value in expected["value"].to_pylist() if value is not None]
    assert found[1] == sum(lengths)
    assert found[0] == max(expected["timestamp"].to_pylist())


def test_a_view_in_duckdb_reads_the_log_for_every_query(logs: Path, scan: ottla.Scan) -> None:
    connection = duckdb.connect()
    relation = scan.to_duckdb("orders", connection)
    count = scan.count()
    assert relation.count("*").fetchall() == [(count,)]
    assert connection.sql("select count(*) from orders").fetchall() == [(count,)]
    parsed = ottla.open(logs).scan("json", value_as="json")
    parsed.to_duckdb("parsed", connection)
    total = connection.sql("select sum((value->>'n')::int) from parsed where value->>'n' > '4'")
    texts = [str(n) for n in range(50) if str(n) > "4"]
    assert total.fetchall() == [(sum(map(int, texts)),)]


def test_the_default_connection_is_that_of_duckdb_sql(scan: ottla.Scan) -> None:
    scan.to_duckdb("committed_orders")
    found = duckdb.sql("select count(*) from committed_orders").fetchall()
    assert found == [(scan.count(),)]


def test_polars_has_the_same_rows(logs: Path, scan: ottla.Scan) -> None:
    expected = scan.to_arrow()
    for frame in (scan.to_polars(), pl.DataFrame(scan), scan.lazy().collect()):
        assert frame.to_arrow().to_pylist() == expected.to_pylist()
    parsed = ottla.open(logs).scan("json", value_as="json").to_polars()
    assert parsed.schema["value"] == pl.String
    assert parsed["value"].str.json_path_match("$.n").cast(pl.Int64).sum() == sum(range(50))


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], str]]:
    """The columns and the predicate of each slice that is read."""
    real, found = ottla.tables.scan.read_rows, list[tuple[list[str], str]]()

    def remember(part: Any, options: Any, target: pa.Schema) -> Iterator[pa.RecordBatch]:
        found.append((target.names, str(options.where)))
        return real(part, options, target)

    monkeypatch.setattr("ottla.tables.scan.read_rows", remember)
    return found


def test_a_lazy_frame_reads_the_columns_of_its_query(
    scan: ottla.Scan, read: list[tuple[list[str], str]]
) -> None:
    expected = scan.to_arrow()
    read.clear()
    found = scan.lazy().select("offset", "partition").collect()
    assert found.to_arrow().to_pylist() == expected.select(["offset", "partition"]).to_pylist()
    assert all(sorted(names) == ["offset", "partition"] for names, _ in read)


def test_a_count_decodes_nothing_but_offsets(
    scan: ottla.Scan, read: list[tuple[list[str], str]]
) -> None:
    expected = scan.to_arrow().num_rows
    read.clear()
    assert scan.count() == expected
    assert {tuple(names) for names, _ in read} == {("offset",)}


def test_bounds_of_a_lazy_query_prune_what_is_read(
    scan: ottla.Scan, read: list[tuple[list[str], str]]
) -> None:
    whole = scan.to_polars()
    middle = whole["timestamp"].sort()[whole.height // 2]
    queries: list[tuple[pl.Expr, str]] = [
        ((pl.col("offset") > 300) & (pl.col("key") == b"key-3"), "offset >= 300"),
        (pl.col("offset") <= 40, "offset <= 40"),
        ((pl.col("partition") == 1) & (pl.col("offset") < 99), "partition = 1"),
        (pl.col("timestamp") >= middle, "timestamp >= "),
        (pl.col("timestamp") < datetime(2023, 11, 14, 22, 13, 21, tzinfo=UTC), "timestamp <= "),
        ((pl.col("offset") == 3) | (pl.col("partition") == 1), "None"),
        (pl.col("offset") > -5, "None"),
        (pl.col("key").is_null(), "None"),
    ]
    for query, text in queries:
        read.clear()
        found = scan.lazy().filter(query).select("offset", "value").collect()
        assert found.equals(whole.filter(query).select("offset", "value")), text
        assert all(text in where for _, where in read), (text, read)
    assert all(sorted(names) == ["key", "offset", "value"] for names, _ in read)


def test_a_limit_of_a_lazy_query_ends_the_reading(
    scan: ottla.Scan, read: list[tuple[list[str], str]]
) -> None:
    whole = scan.to_polars()
    slices = len(read)
    read.clear()
    assert scan.lazy().head(3).collect().equals(whole.head(3))
    assert 0 < len(read) < slices


# PyArrow looks into the module that it finds, so that pandas must not be None.
HIDE = """
import sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name in ("pandas", "polars", "duckdb"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Finder())
sys.modules["pyspark"] = None
"""


def test_what_is_not_installed_is_named_with_the_command(tmp_path: Path) -> None:
    folder = tmp_path / "logs/orders-0"
    folder.mkdir(parents=True)
    (folder / f"{0:020d}.log").write_bytes(batch())
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden/sitecustomize.py").write_text(HIDE)
    program = """
import ottla
scan = ottla.open("logs").scan("orders")
assert scan.count() == scan.to_arrow().num_rows == 1
for name in ("to_polars", "lazy", "to_duckdb", "to_pandas", "to_spark"):
    try:
        getattr(scan, name)(*(["x"] if name == "to_duckdb" else []))
    except ottla.OptionError as error:
        print(error)
help(ottla)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "hidden")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()[:5]
    extras = ["polars", "polars", "duckdb", "pandas", "spark"]
    for line, extra in zip(said, extras, strict=True):
        assert line.endswith(f"which this Python does not have: {install_command(extra)}")


def test_a_lazy_query_cuts_and_filters_in_its_own_order(scan: ottla.Scan) -> None:
    whole = scan.to_polars()
    for query in (
        lambda frame: frame.head(50).filter(pl.col("offset") >= 30),
        lambda frame: frame.head(50).filter(pl.col("key").is_null()),
        lambda frame: frame.slice(10, 30).filter(pl.col("offset") >= 30),
        lambda frame: frame.filter(pl.col("offset") >= 30).head(50),
    ):
        assert query(scan.lazy()).collect().equals(query(whole))


def test_a_lazy_query_finds_violations_whatever_offsets_they_claim(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    broken = bytearray(batch([Row(500, 1000, b"k", b"v")]))
    broken[-1] ^= 0xFF
    sound = batch([Row(0, 1000, b"k", b"v")])
    (folder / f"{0:020d}.log").write_bytes(sound + bytes(broken))
    (folder / f"{20:020d}.log").write_bytes(batch([Row(20, 1000, b"k", b"v")]))
    violations = ottla.open(tmp_path).violations()
    found = violations.lazy().filter(pl.col("offset") >= 100).collect()
    assert found.equals(violations.to_polars().filter(pl.col("offset") >= 100))
    assert found.height == 1


def test_a_lazy_query_adds_to_a_long_and_deep_predicate(logs: Path) -> None:
    deep = "(" * 20 + "offset >= 3" + ")" * 20
    for where in (deep, f"offset >= 3 and key <> '{'x' * 4000}'"):
        scan = ottla.open(logs).scan("json", where=where)
        found = scan.lazy().filter(pl.col("offset") < 9).collect()
        assert found["offset"].to_list() == [3, 4, 5, 6, 7, 8]


def test_a_broken_batch_is_our_error_for_polars_too(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    broken = batch([Row(0, 1000, b"k", b"v")])[:-1] + b"?"
    (folder / f"{0:020d}.log").write_bytes(broken)
    with pytest.raises(ottla.CorruptLogError):
        ottla.open(tmp_path).scan().to_polars()
