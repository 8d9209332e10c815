"""Exported tables hold the records of the logs, as DuckDB and Python's JSON read them."""

import base64
import json
import shutil
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

import naive
import ottla
from builders import Row, batch
from choosing import choose
from jobs.plain import run_plainly, tree
from jobs.topics import ABORT, COMMIT, TRANSACTIONAL, Written, marker, write_topic
from log.generated import write_partition
from ottla.errors import CorruptLogError, OptionError
from ottla.jobs.export.plan import plan_export
from ottla.jobs.export.table import export_schema, to_export
from ottla.jobs.export.writers import ParquetFile
from ottla.log.read.mode import Isolation, Mode
from ottla.options.export import ExportOptions, FileFormat, ValueAs
from ottla.options.offsets import Offset, Timestamp

SPLITS = [700, 20_000, 1 << 26]


@pytest.fixture
def topic(tmp_path: Path) -> list[Written]:
    return write_topic(tmp_path / "logs", "orders", partitions=3)


def export(folder: Path, options: ExportOptions = ExportOptions(), **which: object) -> list[dict]:  # noqa: B008
    selection = choose(folder / "logs", **which)  # type: ignore[arg-type]
    return run_plainly(plan_export(selection, str(folder / "out"), options))


def query(folder: Path, columns: str) -> list[tuple]:
    files = f"read_parquet('{folder}/out/**/*.parquet', hive_partitioning = true)"
    return duckdb.sql(f'SELECT {columns} FROM {files} ORDER BY partition, "offset"').fetchall()


def expected(topic: list[Written]) -> list[tuple]:
    return [
        ("orders", part.partition, row.offset, row.key, row.value)
        for part in topic
        for row in part.rows
    ]


COLUMNS = 'topic, partition, "offset", key, value'


@pytest.mark.parametrize("split", SPLITS)
def test_duckdb_reads_every_record(tmp_path: Path, topic: list[Written], split: int) -> None:
    before = tree(tmp_path / "logs")
    rows = export(tmp_path, ExportOptions(split_bytes=split))
    assert query(tmp_path, COLUMNS) == expected(topic)
    assert [row["writtenRecords"] for row in rows] == [len(part.rows) for part in topic]
    assert tree(tmp_path / "logs") == before


def test_duckdb_reads_timestamps_and_headers(tmp_path: Path, topic: list[Written]) -> None:
    export(tmp_path)
    found = query(tmp_path, "epoch_us(timestamp), headers")
    assert found == [
        (
            row.timestamp * 1000,
            [{"key": key.decode(), "value": value} for key, value in row.headers] or None,
        )
        for part in topic
        for row in part.rows
    ]


def test_files_are_sorted_by_offset_and_named_by_it(tmp_path: Path, topic: list[Written]) -> None:
    export(tmp_path, ExportOptions(split_bytes=2000))
    for folder in (tmp_path / "out").glob("*/*"):
        last = -1
        for path in sorted(folder.iterdir()):
            offsets = pq.read_table(path, columns=["offset"], partitioning=None)[0].to_pylist()
            assert offsets == sorted(offsets)
            assert path.stem == f"{offsets[0]:020d}-{offsets[-1]:020d}"
            assert offsets[0] > last
            last = offsets[-1]


def test_row_groups_are_cut_by_size(tmp_path: Path) -> None:
    values_topic(tmp_path, [bytes(1 << 20)] * 9)
    export(tmp_path, ExportOptions(row_group_bytes=3 << 20))
    (path,) = (tmp_path / "out").rglob("*.parquet")
    assert 2 <= pq.ParquetFile(path).num_row_groups <= 4


def test_what_is_held_for_a_row_group_has_no_room_to_spare(tmp_path: Path) -> None:
    values_topic(tmp_path, [bytes(100)] * 50)
    (segment,) = (tmp_path / "logs").rglob("*.log")
    columns = ["key", "value", "offset", "timestamp", "timestampType", "headers"]
    (records,) = ottla.read_segment(segment, columns=columns)
    options = ExportOptions()
    file = ParquetFile(BytesIO(), options, export_schema(options))
    rows = to_export(records, str(segment), file.schema, {})
    file.write(rows, records.column("timestamp"))
    assert records.get_total_buffer_size() > 2 * records.nbytes
    assert file.held[0].get_total_buffer_size() < 2 * file.size
    file.close()


def test_a_second_run_exports_only_what_is_new(tmp_path: Path, topic: list[Written]) -> None:
    middle = topic[0].rows[len(topic[0].rows) // 2].offset
    export(tmp_path, stop=Offset(middle))
    first = tree(tmp_path / "out")
    export(tmp_path)
    both = tree(tmp_path / "out")
    assert {name: both[name] for name in first} == first
    assert query(tmp_path, COLUMNS) == expected(topic)
    export(tmp_path)
    assert tree(tmp_path / "out") == both


def test_two_kinds_of_files_are_not_mixed(tmp_path: Path, topic: list[Written]) -> None:
    export(tmp_path)
    with pytest.raises(OptionError, match="another OUT"):
        export(tmp_path, ExportOptions(value_as=ValueAs.UTF8))


def test_two_beginnings_are_not_mixed(tmp_path: Path, topic: list[Written]) -> None:
    export(tmp_path, start=Offset(200))
    before = tree(tmp_path / "out")
    with pytest.raises(OptionError, match="from is 200, not None"):
        export(tmp_path)
    export(tmp_path, start=Offset(200))
    assert tree(tmp_path / "out") == before


def test_files_without_an_account_are_not_added_to(tmp_path: Path, topic: list[Written]) -> None:
    export(tmp_path)
    shutil.rmtree(tmp_path / "out.ottla")
    with pytest.raises(OptionError, match="no account of it"):
        export(tmp_path)


FIRST_ID, OTHER_ID = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"


def write_source(
    folder: Path,
    rows: list[Row],
    *,
    topic_id: str | None = None,
    cluster: str | None = None,
    base: int = 0,
) -> None:
    """The logs of `export`, in place of what was there."""
    shutil.rmtree(folder / "logs", ignore_errors=True)
    path = write_partition(folder / "logs", "orders-0", base, b"".join(batch([r]) for r in rows))
    if topic_id:
        (path.parent / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
    if cluster:
        text = f"version=1\ncluster.id={cluster}\nnode.id=1\n"
        (folder / "logs" / "meta.properties").write_text(text)


def rows_of(count: int, timestamp: int = 1000, value: bytes = b"a", start: int = 0) -> list[Row]:
    return [Row(at, timestamp + at, b"k", value) for at in range(start, count)]


OTHERS = {
    "another-topic-id": ({"topic_id": OTHER_ID}, rows_of(12), "topic id"),
    "another-cluster": ({"topic_id": FIRST_ID, "cluster": "two"}, rows_of(12), "cluster"),
    "another-timestamp": ({}, rows_of(12, timestamp=5000), "timestamp"),
    "another-value": ({}, rows_of(12, value=b"b"), "another key or value"),
    "a-shorter-log": ({}, rows_of(5), "ends at offset 5"),
}


@pytest.mark.parametrize(("ids", "rows", "told"), OTHERS.values(), ids=OTHERS)
def test_another_source_is_refused(
    tmp_path: Path, ids: dict[str, str], rows: list[Row], told: str
) -> None:
    known = {"topic_id": FIRST_ID, "cluster": "one"} if ids else {}
    write_source(tmp_path, rows_of(10), **known)
    export(tmp_path)
    before = tree(tmp_path / "out")
    write_source(tmp_path, rows, **ids)
    with pytest.raises(OptionError, match=f"another source.*{told}.*another OUT"):
        export(tmp_path)
    assert tree(tmp_path / "out") == before


def test_another_partition_of_another_topic_with_that_name_is_refused(tmp_path: Path) -> None:
    write_source(tmp_path, rows_of(10), topic_id=FIRST_ID)
    export(tmp_path)
    write_source(tmp_path, rows_of(10), topic_id=OTHER_ID)
    (tmp_path / "logs" / "orders-0").rename(tmp_path / "logs" / "orders-1")
    with pytest.raises(OptionError, match="another source"):
        export(tmp_path)


GROWN = {
    "grown": ({}, rows_of(12)),
    "ids-known-later": ({"topic_id": FIRST_ID, "cluster": "one"}, rows_of(12)),
    "head-deleted": ({"base": 5}, rows_of(12, start=5)),
    "all-deleted": ({"base": 11}, rows_of(12, start=11)),
    "compacted": ({}, [*rows_of(3, start=2), *rows_of(12, start=11)]),
}


@pytest.mark.parametrize(("how", "rows"), GROWN.values(), ids=GROWN)
def test_the_same_source_is_gone_on_with(
    tmp_path: Path, how: dict[str, Any], rows: list[Row]
) -> None:
    write_source(tmp_path, rows_of(10))
    export(tmp_path)
    write_source(tmp_path, rows, **how)
    export(tmp_path)
    offsets = [offset for (offset,) in query(tmp_path, '"offset"')]
    assert offsets == [*range(10), *(row.offset for row in rows if row.offset >= 10)]


def test_another_spelling_of_out_is_the_same_out(tmp_path: Path, topic: list[Written]) -> None:
    export(tmp_path, ExportOptions(split_bytes=700))
    selection = choose(tmp_path / "logs")
    run_plainly(plan_export(selection, f"{tmp_path}/out//", ExportOptions()))
    assert query(tmp_path, COLUMNS) == expected(topic)


def values_topic(folder: Path, values: list[bytes | None]) -> None:
    rows = [Row(offset, 1000, None, value) for offset, value in enumerate(values)]
    write_partition(folder / "logs", "orders-0", 0, batch(rows))


VALUES = [b'{"a": [1, 2]}', b"text", b"\xff\xfe", None, b"NaN", "é".encode()]


def test_values_as_text_keep_the_bytes_of_others(tmp_path: Path) -> None:
    values_topic(tmp_path, VALUES)
    export(tmp_path, ExportOptions(value_as=ValueAs.UTF8))
    found = query(tmp_path, "value, valueRaw")
    texts = ['{"a": [1, 2]}', "text", None, None, "NaN", "é"]
    assert found == [
        (text, b"\xff\xfe" if raw == b"\xff\xfe" else None)
        for text, raw in zip(texts, VALUES, strict=True)
    ]


def test_values_as_json_are_json_to_duckdb(tmp_path: Path) -> None:
    values_topic(tmp_path, VALUES)
    export(tmp_path, ExportOptions(value_as=ValueAs.JSON))
    found = query(tmp_path, "typeof(value), value ->> '$.a[1]', valueRaw")
    raw = [None, b"text", b"\xff\xfe", None, b"NaN", "é".encode()]
    assert found == [("JSON", "2" if at == 0 else None, raw[at]) for at in range(6)]


def test_lines_are_json_with_base64(tmp_path: Path, topic: list[Written]) -> None:
    export(tmp_path, ExportOptions(format=FileFormat.JSONL))
    found = []
    for part in topic:
        folder = tmp_path / "out" / "topic=orders" / f"partition={part.partition}"
        for path in sorted(folder.iterdir()):
            found += [json.loads(line) for line in path.read_text().splitlines()]
    rows = [row for part in topic for row in part.rows]
    assert [line["timestamp"] for line in found] == [row.timestamp for row in rows]
    assert [_bytes(line["value"]) for line in found] == [row.value for row in rows]
    assert [
        [(key.encode(), _bytes(value)) for key, value in line["headers"]] for line in found
    ] == [list(row.headers) for row in rows]


def test_lines_hold_json_values_as_such(tmp_path: Path) -> None:
    values_topic(tmp_path, VALUES)
    export(tmp_path, ExportOptions(format=FileFormat.JSONL, value_as=ValueAs.JSON))
    (path,) = (tmp_path / "out").rglob("*.jsonl")
    found = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["value"] for line in found] == [{"a": [1, 2]}, None, None, None, None, None]
    assert _bytes(found[1]["valueRaw"]) == b"text"
    assert "valueRaw" not in found[3]


JSON_TEXTS = {
    "beyond-a-double": "1e400",
    "repeated-keys": '{"a":1,"a":2}',
    "many-decimals": "0.10000000000000000000000001",
    "many-digits": "9" * 5000,
    "lone-surrogate": r'"\ud800"',
    "escaped-line-break": r'{"a": "b\nc"}',
}


@pytest.mark.parametrize("text", JSON_TEXTS.values(), ids=JSON_TEXTS)
def test_lines_hold_json_as_it_was_written(tmp_path: Path, text: str) -> None:
    values_topic(tmp_path, [text.encode()])
    export(tmp_path, ExportOptions(format=FileFormat.JSONL, value_as=ValueAs.JSON))
    (path,) = (tmp_path / "out").rglob("*.jsonl")
    assert path.read_text() == (
        f'{{"key":null,"value":{text},"offset":0,"timestamp":1000,"timestampType":0,"headers":[]}}\n'
    )


def test_json_of_many_lines_becomes_one(tmp_path: Path) -> None:
    values_topic(tmp_path, [b'{\r\n  "a": 1\n}'])
    export(tmp_path, ExportOptions(format=FileFormat.JSONL, value_as=ValueAs.JSON))
    (path,) = (tmp_path / "out").rglob("*.jsonl")
    (line,) = path.read_bytes().splitlines()
    assert json.loads(line)["value"] == {"a": 1}


def test_a_broken_batch_stops_the_export_or_is_counted(
    tmp_path: Path, topic: list[Written]
) -> None:
    log = sorted((tmp_path / "logs" / "orders-1").glob("*.log"))[-1]
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    with pytest.raises(CorruptLogError):
        export(tmp_path)
    assert not (tmp_path / "out").exists()
    rows = export(tmp_path, ExportOptions(mode=Mode.DROPMALFORMED))
    assert [row["violations"] for row in rows] == [0, 1, 0]
    written = sum(row["writtenRecords"] for row in rows)
    assert 0 < written < len(expected(topic))


def test_a_range_of_times_is_exported(tmp_path: Path, topic: list[Written]) -> None:
    timed = [row.timestamp for row in topic[1].rows if row.timestamp >= 0]
    since = timed[len(timed) // 3]
    export(tmp_path, start=Timestamp(since), topics=("orders",), partitions=(1,))
    first = next(row.offset for row in topic[1].rows if row.timestamp >= since)
    offsets = [row.offset for row in topic[1].rows if row.offset >= first]
    assert [offset for (offset,) in query(tmp_path, '"offset"')] == offsets


def test_lines_escape_what_header_keys_hold(tmp_path: Path) -> None:
    (tmp_path / "logs" / "t-0").mkdir(parents=True)
    headers = ((b'a "b"\n', None), ("é\\".encode(), b"\0"), (b"", b""))
    rows = [Row(0, 1000, None, b"", headers), Row(1, 1000, b"k", None)]
    (tmp_path / "logs" / "t-0" / f"{0:020d}.log").write_bytes(batch(rows))
    export(tmp_path, ExportOptions(format=FileFormat.JSONL))
    (path,) = (tmp_path / "out").rglob("*.jsonl")
    found = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["headers"] for line in found] == [
        [['a "b"\n', None], ["é\\", "AA=="], ["", ""]],
        [],
    ]
    assert [(line["key"], line["value"]) for line in found] == [(None, ""), ("aw==", None)]


COMMITTED = ExportOptions(isolation=Isolation.READ_COMMITTED)


@pytest.mark.parametrize("split", SPLITS)
def test_only_committed_records_are_exported_on_request(
    tmp_path: Path, topic: list[Written], split: int
) -> None:
    rows = export(tmp_path, replace(COMMITTED, split_bytes=split))
    committed = [
        ("orders", part.partition, row.offset, row.key, row.value)
        for part in topic
        for row in part.committed()
    ]
    assert query(tmp_path, COLUMNS) == committed
    assert len(committed) < len(expected(topic))
    assert [row["writtenRecords"] for row in rows] == [len(part.committed()) for part in topic]
    assert sum(row["skippedBatches"] for row in rows) > 0 == sum(row["violations"] for row in rows)


def transactional(at: int, producer: int) -> bytes:
    return batch([Row(at)], attributes=TRANSACTIONAL, producer=(producer, 0, 0))


def test_what_was_open_is_exported_when_it_is_committed(tmp_path: Path) -> None:
    first = [batch([Row(0)]), transactional(1, 7), transactional(2, 8), marker(3, 8, ABORT, 5)]
    write_partition(tmp_path / "logs", "orders-0", 0, b"".join(first))
    export(tmp_path, COMMITTED)
    assert query(tmp_path, '"offset"') == [(0,)]
    more = [*first, marker(4, 7, COMMIT, 6), batch([Row(5)])]
    write_partition(tmp_path / "logs", "orders-0", 0, b"".join(more))
    export(tmp_path, COMMITTED)
    assert query(tmp_path, '"offset"') == [(0,), (1,), (5,)]


@pytest.mark.parametrize("other", [COMMITTED, ExportOptions(batch_columns=True)])
def test_isolation_and_columns_are_the_same_for_all_of_out(
    tmp_path: Path, topic: list[Written], other: ExportOptions
) -> None:
    export(tmp_path)
    with pytest.raises(OptionError, match=r"holds another export \((isolationLevel|batchColumns)"):
        export(tmp_path, other)


def batches_of(topic: list[Written], folder: Path) -> list[dict[str, Any]]:
    """What the naive reader says of the batch of each record."""
    found = []
    for part in topic:
        for log in sorted((folder / f"logs/orders-{part.partition}").glob("*.log")):
            lines = naive.decode(log.read_bytes())
            batches = {line["position"]: line for line in lines if line["type"] == "batch"}
            found += [
                batches[line["position"]] | {"file": str(log)}
                for line in lines
                if line["type"] == "record" and not batches[line["position"]]["isControl"]
            ]
    return found


NAMES = ("file", "position", "magic", "codec", "partitionLeaderEpoch", "producerId")
NAMES = (*NAMES, "producerEpoch", "isTransactional")


def test_columns_of_the_batch_on_request(tmp_path: Path, topic: list[Written]) -> None:
    export(tmp_path, ExportOptions(batch_columns=True))
    held = [tuple(line[name] for name in NAMES) for line in batches_of(topic, tmp_path)]
    assert query(tmp_path, ", ".join(f'"{name}"' for name in NAMES)) == held
    bounds = query(tmp_path, '"offset" - "baseOffset", sequence')
    assert min(bounds)[0] == 0
    assert {sequence >= 0 for _, sequence in bounds} == {True, False}


def test_lines_have_the_same_columns_of_the_batch(tmp_path: Path, topic: list[Written]) -> None:
    export(tmp_path, ExportOptions(format=FileFormat.JSONL, batch_columns=True))
    lines = [
        json.loads(line)
        for path in sorted((tmp_path / "out").rglob("*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    held = [tuple(line[name] for name in NAMES) for line in batches_of(topic, tmp_path)]
    assert [tuple(line[name] for name in NAMES) for line in lines] == held


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
