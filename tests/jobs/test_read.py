"""Slices of generated topics hold each record exactly once, however they are cut."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders import Row, batch
from jobs.topics import Written, write_partition, write_topic
from ottla.api import read_segment
from ottla.catalog.slices import Task, plan_tasks
from ottla.errors import CorruptLogError, DataLossError, OptionError, Rule
from ottla.jobs.read.records import read_for_connector, read_headers, read_violations
from ottla.log.read.records import obey
from ottla.options.read import ReadOptions, for_batch, parse_read_options

COLUMNS = ["offset", "timestamp", "key", "value", "headers"]


def options(path: Path, **given: str) -> ReadOptions:
    named = {name.replace("_", "."): text for name, text in given.items()}
    return for_batch(parse_read_options({"path": str(path)} | named))


def read_rows(tasks: list[Task], chosen: ReadOptions) -> list[tuple[str, int, Row]]:
    rows = []
    for task in tasks:
        for part in task:
            for reading in obey(chosen.mode, read_for_connector(part, COLUMNS, chosen.access)):
                records = reading.to_arrow(COLUMNS)
                if records is not None:
                    rows += [(*part.name, _row(line)) for line in records.to_pylist()]
    return rows


def _row(line: dict[str, Any]) -> Row:
    headers = tuple((header["key"].encode(), header["value"]) for header in line["headers"])
    return Row(line["offset"], line["timestamp"], line["key"], line["value"], headers)


def read(path: Path, **given: str) -> list[tuple[str, int, Row]]:
    chosen = options(path, **given)
    return read_rows([*plan_tasks(chosen)], chosen)


def rows_of(topic: list[Written]) -> list[tuple[str, int, Row]]:
    return [(part.topic, part.partition, row) for part in topic for row in part.rows]


def offsets(found: list[tuple[str, int, Row]]) -> list[int]:
    return [row.offset for _, _, row in found]


def at(offset: int) -> str:
    return json.dumps({"t": {"0": offset}})


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs")


@pytest.fixture(scope="module")
def topic(logs: Path) -> list[Written]:
    return write_topic(logs, "orders")


CUTS = [
    {"splitbytes": "300"},
    {"splitbytes": "4k"},
    {"splitbytes": "64m"},
    {"minpartitions": "7"},
    {"minpartitions": "50"},
    {"maxrecordsperpartition": "10"},
    {"maxrecordsperpartition": "100", "minpartitions": "40"},
]


@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_the_same_rows_come_in_order_for_every_cut(
    logs: Path, topic: list[Written], cut: dict[str, str]
) -> None:
    assert read(logs, **cut) == rows_of(topic)


@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_committed_rows_are_the_same_for_every_cut(
    logs: Path, topic: list[Written], cut: dict[str, str]
) -> None:
    expected = [(part.topic, part.partition, row) for part in topic for row in part.committed()]
    assert read(logs, kafka_isolation_level="read_committed", **cut) == expected
    assert len(expected) < len(rows_of(topic))


def test_a_smaller_split_makes_more_tasks(logs: Path, topic: list[Written]) -> None:
    counts = [len([*plan_tasks(options(logs, splitbytes=size))]) for size in ("1k", "4k", "64m")]
    assert counts[0] > counts[1] > counts[2] == 1


def test_as_many_tasks_as_wanted_are_made(logs: Path, topic: list[Written]) -> None:
    assert len([*plan_tasks(options(logs, minpartitions="12"))]) == 12


def test_every_pair_of_bounds_gives_the_rows_between(tmp_path: Path) -> None:
    written = write_partition(tmp_path / "t-0", seed=4, segments=2, batches=4, records=5)
    for start in range(0, written.end + 1, 3):
        for stop in range(start, written.end + 1, 5):
            found = read(tmp_path, startingoffsets=at(start), endingoffsets=at(stop))
            expected = [row.offset for row in written.rows if start <= row.offset < stop]
            assert offsets(found) == expected, (start, stop)


@pytest.mark.parametrize("indexes", [True, False])
def test_a_timestamp_means_the_first_record_that_is_not_older(
    tmp_path: Path, indexes: bool
) -> None:
    written = write_partition(
        tmp_path / "t-0", seed=4, segments=3, batches=5, indexes=indexes, transactions=False
    )
    times = sorted({row.timestamp for row in written.rows if row.timestamp >= 0})
    for timestamp in [times[0] - 10, *times[::9], times[-1]]:
        found = read(tmp_path, startingtimestamp=str(timestamp))
        first = next(row.offset for row in written.rows if row.timestamp >= timestamp)
        assert offsets(found) == [row.offset for row in written.rows if row.offset >= first]
        before = read(tmp_path, endingtimestamp=str(timestamp))
        assert offsets(before) == [row.offset for row in written.rows if row.offset < first]


def test_a_start_past_every_timestamp_is_an_error_or_the_end(tmp_path: Path) -> None:
    write_partition(tmp_path / "t-0", seed=4, segments=1)
    with pytest.raises(OptionError, match="no offset matched the starting timestamp"):
        read(tmp_path, startingtimestamp="9999999999999")
    strategy = {"startingoffsetsbytimestampstrategy": "latest"}
    assert read(tmp_path, startingtimestamp="9999999999999", **strategy) == []


def test_an_end_past_every_timestamp_is_the_end(logs: Path, topic: list[Written]) -> None:
    assert read(logs, endingtimestamp="9999999999999") == rows_of(topic)


def test_segments_outside_the_bounds_are_not_opened(tmp_path: Path) -> None:
    written = write_partition(tmp_path / "t-0", seed=4, segments=4)
    bases = sorted(int(path.stem) for path in (tmp_path / "t-0").glob("*.log"))
    chosen = options(tmp_path, startingoffsets=at(bases[1]), endingoffsets=at(bases[2]))
    tasks = [*plan_tasks(chosen)]
    assert {Path(part.log.path).stem for task in tasks for part in task} == {f"{bases[1]:020d}"}
    expected = [row.offset for row in written.rows if bases[1] <= row.offset < bases[2]]
    assert offsets(read_rows(tasks, chosen)) == expected


def test_an_index_narrows_what_is_read(tmp_path: Path) -> None:
    written = write_partition(tmp_path / "t-0", seed=4, segments=1, batches=60)
    middle = written.rows[len(written.rows) // 2].offset
    chosen = options(tmp_path, startingoffsets=at(middle))
    ((part,),) = plan_tasks(chosen)
    assert part.start > part.log.size // 4


@pytest.mark.parametrize("damage", [b"", b"x" * 7, b"\xff" * 80, b"\0\0\0\1\0\0\0\2" * 9])
def test_a_broken_index_changes_no_row(tmp_path: Path, damage: bytes) -> None:
    written = write_partition(tmp_path / "t-0", seed=4, segments=2)
    for index in (tmp_path / "t-0").glob("*.index"):
        index.write_bytes(damage)
    for size in ("600", "4k"):
        assert read(tmp_path, splitbytes=size) == rows_of([written])


def test_an_index_of_other_data_changes_no_row(tmp_path: Path) -> None:
    written = write_partition(tmp_path / "t-0", seed=4, segments=1, batches=30)
    write_partition(tmp_path / "u-0", seed=5, segments=1, batches=30)
    name = f"{0:020d}.index"
    (tmp_path / "t-0" / name).write_bytes((tmp_path / "u-0" / name).read_bytes())
    assert read(tmp_path, subscribe="t", splitbytes="600") == rows_of([written])
    found = read(tmp_path, subscribe="t", startingoffsets='{"t":{"0":200}}')
    assert offsets(found) == [row.offset for row in written.rows if row.offset >= 200]


def test_a_broken_transaction_index_changes_no_row(tmp_path: Path) -> None:
    written = write_partition(tmp_path / "t-0", seed=11)
    for index in (tmp_path / "t-0").glob("*.txnindex"):
        index.write_bytes(b"\1" * 34)
    assert written.aborted
    found = read(tmp_path, kafka_isolation_level="read_committed")
    assert found == [("t", 0, row) for row in written.committed()]


def test_a_half_written_batch_at_the_end_is_no_error(tmp_path: Path) -> None:
    written = write_partition(tmp_path / "t-0", seed=4, segments=2)
    last = sorted((tmp_path / "t-0").glob("*.log"))[-1]
    with last.open("ab") as log:
        log.write(batch([Row(written.end + 10)])[:-3])
    assert read(tmp_path) == rows_of([written])


def broken_log(root: Path) -> Path:
    """Batches of offsets 0-2, 3-5 (damaged) and 6-8."""
    folder = root / "t-0"
    folder.mkdir()
    parts = [batch([Row(base + index, 5) for index in range(3)]) for base in (0, 3, 6)]
    parts[1] = parts[1][:-1] + b"?"
    (folder / f"{0:020d}.log").write_bytes(b"".join(parts))
    return root


def test_a_broken_batch_stops_a_strict_reader(tmp_path: Path) -> None:
    with pytest.raises(CorruptLogError) as stopped:
        read(broken_log(tmp_path))
    violation = stopped.value.violation
    assert (violation.rule, violation.offset, violation.topic) == (Rule.CRC_MATCHES, 3, "t")


@pytest.mark.parametrize("split", ["64", "64m"])
def test_what_is_left_out_is_what_the_violations_say(tmp_path: Path, split: str) -> None:
    chosen = options(broken_log(tmp_path), mode="dropmalformed", splitbytes=split)
    tasks = [*plan_tasks(chosen)]
    assert offsets(read_rows(tasks, chosen)) == [0, 1, 2, 6, 7, 8]
    found = [v for task in tasks for part in task for v in read_violations(part, chosen.access)]
    assert [(violation.offset, violation.last_offset) for violation in found] == [(3, 5)]


@pytest.mark.parametrize(("bounds", "count"), [((0, 3), 0), ((0, 4), 1), ((5, 9), 1), ((6, 9), 0)])
def test_violations_are_those_of_the_range(
    tmp_path: Path, bounds: tuple[int, int], count: int
) -> None:
    chosen = options(
        broken_log(tmp_path),
        mode="dropmalformed",
        startingoffsets=at(bounds[0]),
        endingoffsets=at(bounds[1]),
    )
    found = [
        v
        for task in plan_tasks(chosen)
        for part in task
        for v in read_violations(part, chosen.access)
    ]
    assert len(found) == count


def test_a_timestamp_that_microseconds_can_not_hold_is_a_violation(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    rows = [Row(0, 5), Row(1, 9223372036854776), Row(2, 9223372036854775)]
    (folder / f"{0:020d}.log").write_bytes(batch(rows))
    with pytest.raises(CorruptLogError, match=r"timestamp-range.*9223372036854776"):
        read(tmp_path)
    chosen = options(tmp_path, mode="dropmalformed")
    tasks = [*plan_tasks(chosen)]
    assert offsets(read_rows(tasks, chosen)) == [0, 2]
    (found,) = read_violations(tasks[0][0], chosen.access)
    assert (found.rule, found.offset, found.position) == (Rule.TIMESTAMP_RANGE, 1, 0)


def test_headers_are_one_row_per_batch(tmp_path: Path) -> None:
    chosen = options(broken_log(tmp_path), view="batches")
    ((part,),) = plan_tasks(chosen)
    (table,) = read_headers(part, chosen.access, chosen.mode)
    assert table.column("crcValid").to_pylist() == [True, False, True]
    assert table.column("baseOffset").to_pylist() == [0, 3, 6]


@pytest.mark.parametrize("left", [lambda tasks: tasks[1][0].start + 10, lambda _: 0])
def test_a_file_that_shrank_after_planning_follows_fail_on_data_loss(
    tmp_path: Path, left: Callable[[list[Task]], int]
) -> None:
    written = write_partition(tmp_path / "t-0", seed=4, segments=1)
    chosen = options(tmp_path, splitbytes="600")
    tasks = [*plan_tasks(chosen)]
    log = tmp_path / "t-0" / f"{0:020d}.log"
    log.write_bytes(log.read_bytes()[: left(tasks)])
    with pytest.raises(DataLossError, match="shrank to"):
        read_rows(tasks, chosen)
    kept = read_rows(tasks, options(tmp_path, failondataloss="false"))
    assert kept == rows_of([written])[: len(kept)]
    assert (len(kept) > 0) == (left(tasks) > 0)


@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_file_that_was_replaced_after_planning_is_an_error(tmp_path: Path, fails: str) -> None:
    """Rows of two files would be neither's; a longer file ends nowhere that tells."""
    write_partition(tmp_path / "t-0", seed=4, segments=1)
    chosen = options(tmp_path, splitbytes="600", failondataloss=fails)
    tasks = [*plan_tasks(chosen)]
    log = tmp_path / "t-0" / f"{0:020d}.log"
    other = tmp_path / "other.cleaned"
    other.write_bytes(log.read_bytes() * 2)
    other.replace(log)
    with pytest.raises(OSError, match=f"{log.name} was replaced by another file"):
        read_rows(tasks, chosen)


def test_a_file_that_vanished_after_planning_follows_fail_on_data_loss(tmp_path: Path) -> None:
    written = write_partition(tmp_path / "t-0", seed=4, segments=2)
    strict, tolerant = options(tmp_path), options(tmp_path, failondataloss="false")
    tasks = [*plan_tasks(strict)]
    (tmp_path / "t-0" / f"{0:020d}.log").unlink()
    with pytest.raises(DataLossError, match="vanished"):
        read_rows(tasks, strict)
    second = int(Path(tasks[0][1].log.path).stem)
    assert offsets(read_rows(tasks, tolerant)) == [
        row.offset for row in written.rows if row.offset >= second
    ]


LOSSES = [
    pytest.param(
        {"startingoffsets": '{"t":{"0":3}}'}, "begins at offset 40, after 3", id="aged-out"
    ),
    pytest.param(
        {"startingoffsets": '{"t":{"0":43}}'}, "ends at offset 42, before 43", id="not-there"
    ),
    pytest.param({"endingoffsets": '{"t":{"0":50}}'}, "ends at offset 42, before 50", id="not-yet"),
]


@pytest.mark.parametrize(("given", "message"), LOSSES)
def test_offsets_that_are_gone_follow_fail_on_data_loss(
    tmp_path: Path, given: dict[str, str], message: str
) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{40:020d}.log").write_bytes(batch([Row(40), Row(41)]))
    with pytest.raises(DataLossError, match=message):
        read(tmp_path, **given)
    found = offsets(read(tmp_path, failondataloss="false", **given))
    assert found == ([] if "43" in str(given) else [40, 41])


def test_a_start_after_its_resolved_end_is_refused(tmp_path: Path) -> None:
    write_partition(tmp_path / "t-0", seed=4, segments=2)
    with pytest.raises(OptionError, match="t-0 would start at 9, after its end at 0"):
        read(tmp_path, startingoffsets='{"t":{"0":9}}', endingtimestamp="0")


def test_offsets_must_name_exactly_the_partitions_that_are_read(tmp_path: Path) -> None:
    write_partition(tmp_path / "t-0", seed=4, segments=1)
    with pytest.raises(OptionError, match="the difference is t-1"):
        read(tmp_path, startingoffsets='{"t":{"0":0,"1":0}}')


CHOICES = [
    pytest.param({}, {"orders-0", "orders-1", "other-0", "__mine-0"}, id="all-of-the-users"),
    pytest.param({"subscribe": "orders"}, {"orders-0", "orders-1"}, id="subscribe"),
    pytest.param({"subscribepattern": "th"}, {"other-0"}, id="pattern-anywhere"),
    pytest.param({"subscribepattern": "__.*"}, {"__mine-0"}, id="pattern-without-internal"),
    pytest.param(
        {"subscribe": "__consumer_offsets"}, {"__consumer_offsets-0"}, id="internal-by-name"
    ),
    pytest.param({"assign": '{"orders":[1,9]}'}, {"orders-1"}, id="missing-partitions-are-skipped"),
]


@pytest.mark.parametrize(("given", "expected"), CHOICES)
def test_topics_are_chosen(tmp_path: Path, given: dict[str, str], expected: set[str]) -> None:
    for name in ("orders-0", "orders-1", "other-0", "__mine-0", "__consumer_offsets-0"):
        write_partition(tmp_path / name, seed=4, segments=1, batches=1)
    write_partition(tmp_path / "gone-0", seed=4, segments=1, batches=1)
    (tmp_path / "gone-0").rename(tmp_path / "gone-0.abc-delete")
    found = read(tmp_path, **given)
    assert {f"{topic}-{partition}" for topic, partition, _ in found} == expected


def test_a_topic_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path) -> None:
    write_partition(tmp_path / "orders-0", seed=4, segments=1, batches=1)
    with pytest.raises(OptionError, match=r"no topic order in .*: did you mean orders\?"):
        read(tmp_path, subscribe="order")


def test_an_assigned_topic_that_is_not_there_is_refused_with_those_that_are(
    tmp_path: Path,
) -> None:
    write_partition(tmp_path / "orders-0", seed=4, segments=1, batches=1)
    with pytest.raises(OptionError, match=r"no topic order in .*: did you mean orders\?"):
        read(tmp_path, assign='{"order":[0],"orders":[0]}')
    assert read(tmp_path, assign='{"orders":[9]}') == []


def test_two_replicas_of_a_partition_are_refused(tmp_path: Path) -> None:
    for broker in ("one", "two"):
        write_partition(tmp_path / broker / "t-0", seed=4, segments=1, batches=1)
    with pytest.raises(OptionError, match="two replicas"):
        read(tmp_path)


def test_records_below_the_log_start_are_not_given(tmp_path: Path) -> None:
    written = write_partition(tmp_path / "t-0", seed=4, segments=2)
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 17\n")
    assert offsets(read(tmp_path)) == [row.offset for row in written.rows if row.offset >= 17]


def test_nothing_above_the_high_watermark_is_given_when_asked(tmp_path: Path) -> None:
    written = write_partition(tmp_path / "t-0", seed=4, segments=2)
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\nt 0 30\n")
    found = read(tmp_path, upto="highWatermark")
    assert offsets(found) == [row.offset for row in written.rows if row.offset < 30]


def test_broken_high_watermarks_stop_only_a_reader_whom_they_limit(tmp_path: Path) -> None:
    written = write_partition(tmp_path / "t-0", seed=4, segments=2)
    (tmp_path / "replication-offset-checkpoint").write_bytes(b"\0garbage\xff")
    assert read(tmp_path) == rows_of([written])
    with pytest.raises(CorruptLogError, match="replication-offset-checkpoint"):
        read(tmp_path, upto="highWatermark")


def test_broken_log_starts_are_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    written = write_partition(tmp_path / "t-0", seed=4, segments=2)
    (tmp_path / "log-start-offset-checkpoint").write_bytes(b"\0garbage\xff")
    assert read(tmp_path) == rows_of([written])
    assert "log-start-offset-checkpoint" in caplog.text


def test_reading_all_is_what_the_single_file_reader_gives(logs: Path, topic: list[Written]) -> None:
    whole = [
        line["offset"]
        for path in sorted((logs / "orders-1").glob("*.log"))
        for table in read_segment(path, columns=["offset"])
        for line in table.to_pylist()
    ]
    assert offsets(read(logs, assign='{"orders":[1]}')) == whole
