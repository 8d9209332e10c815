"""A read with a predicate gives what the same read gives when its rows are filtered afterwards."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ottla
from builders import Row, batch
from ottla.arrow.to_arrow import wanted_flags
from ottla.batch.decode import Chunk
from ottla.format.arrays import Bools
from ottla.format.names import TopicPartition
from ottla.jobs.read.tail import last_positions, list_logs, plan_between
from ottla.log.read.records import Choose, RecordRequest, read_records
from ottla.log.read.windows import Window, read_windows
from ottla.storage.files import open_file
from ottla.where.parse import parse_where
from where.logs import options, read, read_tasks, write_logs
from where.predicates import predicates

CUTS = [
    {"splitbytes": "300"},
    {"splitbytes": "64m"},
    {"minpartitions": "9"},
    {"maxrecordsperpartition": "15"},
    {"kafka_isolation_level": "read_committed"},
]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("where")
    write_logs(folder)
    return folder


@pytest.fixture(scope="module")
def rows(logs: Path) -> list[dict[str, Any]]:
    return read(logs)


@pytest.fixture(scope="module")
def committed(logs: Path) -> list[dict[str, Any]]:
    return read(logs, kafka_isolation_level="read_committed")


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_a_predicate_gives_what_a_filter_gives_after_a_full_read(
    logs: Path,
    rows: list[dict[str, Any]],
    committed: list[dict[str, Any]],
    data: st.DataObject,
) -> None:
    clause = data.draw(predicates(rows))
    cut = data.draw(st.sampled_from(CUTS))
    read_all = committed if "kafka_isolation_level" in cut else rows
    expected = [row for row in read_all if clause.meaning(row)]
    assert read(logs, where=clause.text, **cut) == expected


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_a_scan_gives_what_a_filter_gives_after_a_full_read(
    logs: Path, rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    clause = data.draw(predicates(rows))
    scan = ottla.open(logs).scan(where=clause.text, columns=["topic", "partition", "offset"])
    expected = [
        {"topic": row["topic"].decode(), "partition": row["partition"], "offset": row["offset"]}
        for row in rows
        if clause.meaning(row)
    ]
    assert scan.to_arrow().to_pylist() == expected


def test_a_stream_gives_what_matches_between_two_positions(
    logs: Path, rows: list[dict[str, Any]]
) -> None:
    chosen = replace(options(logs), where=parse_where("offset > 20 and timestampType >= 0"))
    positions = last_positions(list_logs(chosen), chosen)
    start = dict.fromkeys(positions, 10) | {TopicPartition("orders", 1): positions["orders", 1]}
    found = read_tasks(plan_between(start, positions, chosen), chosen)
    assert found == [
        row
        for row in sorted(rows, key=lambda row: row["topic"])
        if (row["topic"], row["partition"]) != (b"orders", 1)
        and row["offset"] > 20
        and row["timestampType"] >= 0
    ]
    assert found


def test_what_matched_before_a_read_fails_is_given_before_the_error(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.log"
    batches = [[Row(n * 200 + at, 0, b"k", b"v" * 2000) for at in range(200)] for n in range(40)]
    path.write_bytes(b"".join(batch(rows) for rows in batches))

    def few(chunk: Chunk) -> Bools:
        return chunk.buffers.offset[: chunk.count] % 100 == 0

    def failing(windows: Iterator[Window]) -> Iterator[Window]:
        yield from islice(windows, 5)
        raise ConnectionError

    def offsets(choose: Choose | None) -> list[int]:
        found: list[int] = []
        with open_file(path) as file, suppress(ConnectionError):
            request = RecordRequest(wanted_flags(["value"]))
            for reading in read_records(failing(read_windows(file)), request, choose):
                records = reading.to_arrow(["offset"])
                assert records is not None
                found += records["offset"].to_pylist()
        return found

    given = offsets(few)
    assert given
    assert given == [offset for offset in offsets(None) if offset % 100 == 0]
