"""The streaming reader, asked as Spark asks it, on directories that change between questions."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from builders import Row, batch
from jobs.topics import ABORT, COMMIT, TRANSACTIONAL, marker
from ottla.errors import DataLossError, OptionError
from ottla.options.read import for_stream, parse_read_options
from ottla.spark.schema import schema_of
from ottla.spark.stream_limits import LimitedStreamReader

Json = dict[str, Any]


def reader(path: Path, **given: str) -> LimitedStreamReader:
    named = {name.replace("_", "."): text for name, text in given.items()}
    options = parse_read_options({"path": str(path), "startingoffsets": "earliest"} | named)
    return LimitedStreamReader(for_stream(options), schema_of(options))


def read(stream: LimitedStreamReader, start: Json, end: Json) -> list[int]:
    """The offsets of a batch; positions go through JSON, as through a checkpoint."""
    start, end = json.loads(json.dumps(start)), json.loads(json.dumps(end))
    return [
        offset
        for partition in stream.partitions(start, end)
        for table in stream.read(partition)
        for offset in table.column("offset").to_pylist()
    ]


def latest(stream: LimitedStreamReader, start: Json) -> Json:
    return stream.latestOffset(start, stream.getDefaultReadLimit())


def run(stream: LimitedStreamReader, start: Json | None = None) -> list[list[int]]:
    """Batches until there is nothing new."""
    batches = []
    at = stream.initialOffset() if start is None else start
    while (end := latest(stream, at)) != at:
        batches.append(read(stream, at, end))
        at = end
    return batches


def append(folder: Path, *offsets: int, base: int = 0, torn: int = 0) -> None:
    """One batch for each offset; `torn` bytes of the last are not written yet."""
    folder.mkdir(exist_ok=True)
    data = b"".join(batch([Row(offset, 1000 + offset)]) for offset in offsets)
    with (folder / f"{base:020d}.log").open("ab") as log:
        log.write(data[: len(data) - torn])


def truncate(folder: Path, count: int) -> None:
    """Take the last batches away, each of one record."""
    log = folder / f"{0:020d}.log"
    log.write_bytes(log.read_bytes()[: -count * len(batch([Row(0, 1000)]))])


def test_everything_that_is_there_is_read(tmp_path: Path) -> None:
    append(tmp_path / "t-0", 0, 1, 2)
    append(tmp_path / "t-1", 0, 1)
    assert run(reader(tmp_path)) == [[0, 1, 2, 0, 1]]


def test_only_what_is_new_is_read_from_latest(tmp_path: Path) -> None:
    append(tmp_path / "t-0", 0, 1, 2)
    stream = reader(tmp_path, startingoffsets="latest")
    start = stream.initialOffset()
    first = latest(stream, start)
    assert read(stream, start, first) == []
    append(tmp_path / "t-0", 3, 4)
    assert run(stream, first) == [[3, 4]]


def test_a_crash_in_the_first_batch_from_latest_loses_nothing(tmp_path: Path) -> None:
    append(tmp_path / "t-0", 0, 1, 2)
    before = reader(tmp_path, startingoffsets="latest")
    end = latest(before, before.initialOffset())
    append(tmp_path / "t-0", 3, 4)
    # Spark wrote `end` down, crashed, and asks a new reader for the start.
    after = reader(tmp_path, startingoffsets="latest")
    assert read(after, after.initialOffset(), end) == []
    assert run(after, end) == [[3, 4]]


def test_new_records_segments_and_partitions_are_found(tmp_path: Path) -> None:
    append(tmp_path / "t-0", 0, 1)
    stream = reader(tmp_path)
    at = latest(stream, stream.initialOffset())
    append(tmp_path / "t-0", 2)
    append(tmp_path / "t-0", 3, 4, base=3)
    append(tmp_path / "t-1", 0, 1)
    append(tmp_path / "u-0", 0)
    assert run(stream, at) == [[2, 3, 4, 0, 1, 0]]


def test_a_batch_that_is_half_written_is_waited_for(tmp_path: Path) -> None:
    append(tmp_path / "t-0", 0, 1, torn=5)
    stream = reader(tmp_path)
    at = stream.initialOffset()
    end = latest(stream, at)
    assert read(stream, at, end) == [0]
    assert latest(stream, end) == end
    truncate_to = (tmp_path / "t-0" / f"{0:020d}.log").read_bytes()
    whole = batch([Row(0, 1000)]) + batch([Row(1, 1001)])
    assert whole.startswith(truncate_to)
    (tmp_path / "t-0" / f"{0:020d}.log").write_bytes(whole)
    assert run(stream, end) == [[1]]


def test_a_last_batch_with_a_wrong_crc_is_waited_for(tmp_path: Path) -> None:
    append(tmp_path / "t-0", 0)
    log = tmp_path / "t-0" / f"{0:020d}.log"
    good, torn = log.read_bytes(), batch([Row(1, 1001)])
    log.write_bytes(good + torn[:-3] + bytes(3))
    stream = reader(tmp_path)
    at = stream.initialOffset()
    end = latest(stream, at)
    assert read(stream, at, end) == [0]
    log.write_bytes(good + torn)
    assert run(stream, end) == [[1]]


def test_a_preallocated_tail_is_no_data(tmp_path: Path) -> None:
    append(tmp_path / "t-0", 0, 1)
    log = tmp_path / "t-0" / f"{0:020d}.log"
    log.write_bytes(log.read_bytes() + bytes(5000))
    assert run(reader(tmp_path)) == [[0, 1]]


def test_the_same_positions_give_the_same_records_later(tmp_path: Path) -> None:
    append(tmp_path / "t-0", *range(5))
    stream = reader(tmp_path, maxoffsetspertrigger="2")
    start = stream.initialOffset()
    end = latest(stream, start)
    found = read(stream, start, end)
    append(tmp_path / "t-0", 5, 6, 7)
    append(tmp_path / "t-1", 0)
    assert found == [0, 1]
    assert read(reader(tmp_path), start, end) == found


def test_a_limit_of_offsets_is_shared_between_partitions(tmp_path: Path) -> None:
    append(tmp_path / "t-0", *range(8))
    append(tmp_path / "t-1", *range(4))
    batches = run(reader(tmp_path, maxoffsetspertrigger="6"))
    assert batches[0] == [0, 1, 2, 3, 0, 1]
    assert sorted(offset for found in batches for offset in found) == sorted([*range(8), *range(4)])


def test_a_limit_can_end_inside_a_batch(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    rows = [Row(offset, 1000) for offset in range(10)]
    (tmp_path / "t-0" / f"{0:020d}.log").write_bytes(batch(rows, codec=4))
    found = run(reader(tmp_path, maxoffsetspertrigger="4"))
    assert found == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_a_limit_of_bytes_gives_whole_batches(tmp_path: Path) -> None:
    append(tmp_path / "t-0", *range(10))
    size = len(batch([Row(0, 1000)]))
    found = run(reader(tmp_path, maxbytespertrigger=str(size * 3)))
    assert found == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]


def test_a_limit_below_any_batch_still_makes_progress(tmp_path: Path) -> None:
    append(tmp_path / "t-0", 0, 1)
    append(tmp_path / "t-1", 0, 1)
    assert run(reader(tmp_path, maxbytespertrigger="1")) == [[0, 0], [1, 1]]


def test_too_few_offsets_are_waited_for_until_the_delay_is_over(tmp_path: Path) -> None:
    append(tmp_path / "t-0", 0, 1)
    limits = {"minoffsetspertrigger": "3", "maxtriggerdelay": "1h"}
    stream = reader(tmp_path, **limits)
    at = stream.initialOffset()
    end = latest(stream, at)
    assert read(stream, at, end) == [0, 1]  # the first trigger always fires
    append(tmp_path / "t-0", 2, 3)
    assert latest(stream, end) == end
    append(tmp_path / "t-0", 4)
    assert run(stream, end) == [[2, 3, 4]]
    impatient = reader(tmp_path, minoffsetspertrigger="3", maxtriggerdelay="0ms")
    impatient.triggered = stream.triggered
    assert run(impatient, {"t": {"0": 4}}) == [[4]]


def test_all_that_is_available_beats_every_limit(tmp_path: Path) -> None:
    append(tmp_path / "t-0", *range(5))
    stream = reader(tmp_path, maxoffsetspertrigger="2")
    assert stream.getDefaultReadLimit() == ReadMaxRows(2)
    assert stream.latestOffset(stream.initialOffset(), ReadAllAvailable()) == {"t": {"0": 5}}


def test_available_now_ends_where_the_log_ended(tmp_path: Path) -> None:
    append(tmp_path / "t-0", *range(5))
    stream = reader(tmp_path, maxoffsetspertrigger="2", minoffsetspertrigger="2")
    stream.prepareForTriggerAvailableNow()
    start = stream.initialOffset()
    append(tmp_path / "t-0", 5, 6)
    append(tmp_path / "t-1", 0)
    assert run(stream, start) == [[0, 1], [2, 3], [4]]


def test_available_now_notices_that_a_log_shrank(tmp_path: Path) -> None:
    append(tmp_path / "t-0", *range(5))
    stream = reader(tmp_path)
    stream.prepareForTriggerAvailableNow()
    truncate(tmp_path / "t-0", 2)
    with pytest.raises(DataLossError, match="t-0 had offsets up to 5, now offset 3"):
        latest(stream, stream.initialOffset())


def test_available_now_notices_that_a_partition_is_gone(tmp_path: Path) -> None:
    append(tmp_path / "t-0", *range(5))
    append(tmp_path / "t-1", 0)
    stream = reader(tmp_path)
    stream.prepareForTriggerAvailableNow()
    start = stream.initialOffset()
    (tmp_path / "t-1").rename(tmp_path / "t-1.abc-delete")
    with pytest.raises(DataLossError, match="t-1 had offsets up to 1, now nothing"):
        latest(stream, start)


def test_available_now_repeats_a_batch_that_was_not_committed(tmp_path: Path) -> None:
    """SPARK-53560: the end of that batch comes from the checkpoint, not from the new reader."""
    append(tmp_path / "t-0", *range(5))
    start, end = {"t": {"0": 1}}, {"t": {"0": 3}}
    again = reader(tmp_path, maxoffsetspertrigger="2")
    again.prepareForTriggerAvailableNow()
    assert read(again, start, end) == [1, 2]
    assert run(again, end) == [[3, 4]]


def test_topics_of_a_pattern_come_go_and_come_back(tmp_path: Path) -> None:
    append(tmp_path / "orders.eu-0", *range(3))
    append(tmp_path / "other-0", *range(9))
    stream = reader(tmp_path, subscribepattern="orders", failondataloss="false")
    at = stream.initialOffset()
    end = latest(stream, at)
    assert read(stream, at, end) == [0, 1, 2]
    append(tmp_path / "orders.us-0", 0)
    (tmp_path / "orders.eu-0").rename(tmp_path / "orders.eu-0.abc-delete")
    at, end = end, latest(stream, end)
    assert read(stream, at, end) == [0]
    assert end == {"orders.us": {"0": 1}}
    append(tmp_path / "orders.eu-0", 0, 1)
    assert run(stream, end) == [[0, 1]]


def test_nothing_new_is_the_same_position(tmp_path: Path) -> None:
    append(tmp_path / "t-0", 0)
    append(tmp_path / "u-0", *range(3))
    stream = reader(tmp_path)
    end = latest(stream, stream.initialOffset())
    assert latest(stream, end) == end
    append(tmp_path / "u-0", 3)
    assert run(stream, end) == [[3]]


def test_nothing_above_the_high_watermark_is_read(tmp_path: Path) -> None:
    append(tmp_path / "t-0", *range(5))
    stream = reader(tmp_path, upto="highWatermark")
    at = stream.initialOffset()
    assert latest(stream, at) == at  # no checkpoint yet
    checkpoint = tmp_path / "replication-offset-checkpoint"
    checkpoint.write_text("0\n1\nt 0 3\n")
    end = latest(stream, at)
    assert read(stream, at, end) == [0, 1, 2]
    truncate(tmp_path / "t-0", 2)
    append(tmp_path / "t-0", 3, 4, 5)
    checkpoint.write_text("0\n1\nt 0 6\n")
    assert run(stream, end) == [[3, 4, 5]]


def data(offset: int, producer: int) -> bytes:
    return batch([Row(offset, 1000)], attributes=TRANSACTIONAL, producer=(producer, 0, 0))


def test_a_committed_stream_waits_for_open_transactions(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    log = tmp_path / "t-0" / f"{0:020d}.log"
    log.write_bytes(data(0, 1) + data(1, 2) + marker(2, 1, COMMIT, 1000))
    stream = reader(tmp_path, kafka_isolation_level="read_committed")
    at = stream.initialOffset()
    end = latest(stream, at)
    assert read(stream, at, end) == [0]
    log.write_bytes(log.read_bytes() + marker(3, 2, ABORT, 1000) + data(4, 1))
    log.write_bytes(log.read_bytes() + marker(5, 1, COMMIT, 1000))
    assert run(stream, end) == [[4]]


LOSSES = [
    pytest.param(
        {"t": {"0": 2}},
        {"t": {"0": 8}},
        "t-0 begins at offset 5, after 2",
        [5, 6, 7],
        id="retention",
    ),
    pytest.param(
        {"t": {"0": 9}},
        {"t": {"0": 8}},
        "ends at offset 8 and was read up to 9",
        [],
        id="end-before-start",
    ),
    pytest.param(
        {"t": {"0": 6}},
        {"t": {"0": 12}},
        "truncated to offset 8, before 12",
        [6, 7],
        id="truncated",
    ),
    pytest.param(
        {},
        {"t": {"0": 8}},
        "is new and begins at offset 5, not at 0",
        [5, 6, 7],
        id="new-but-not-at-zero",
    ),
    pytest.param(
        {"t": {"0": 8}, "u": {"0": 3}},
        {"t": {"0": 8}},
        "u-0 was read before and is gone",
        [],
        id="gone",
    ),
    pytest.param(
        {"t": {"0": 7}, "u": {"0": 3}},
        {"t": {"0": 8}, "u": {"0": 4}},
        "u-0 is gone, and with it what was to be read",
        [7],
        id="gone-with-its-end",
    ),
]


@pytest.mark.parametrize(("start", "end", "message", "left"), LOSSES)
def test_data_loss_is_an_error_or_what_is_left(
    tmp_path: Path, start: Json, end: Json, message: str, left: list[int]
) -> None:
    append(tmp_path / "t-0", 5, 6, 7, base=5)
    with pytest.raises(DataLossError, match=message):
        reader(tmp_path).partitions(start, end)
    tolerant = reader(tmp_path, failondataloss="false")
    assert read(tolerant, start, end) == left


def test_empty_partitions_are_no_loss(tmp_path: Path) -> None:
    append(tmp_path / "t-0")
    append(tmp_path / "t-1", 0)
    stream = reader(tmp_path)
    assert run(stream) == [[0]]


def test_a_start_in_json_can_mix_offsets_and_ends(tmp_path: Path) -> None:
    append(tmp_path / "t-0", *range(5))
    append(tmp_path / "t-1", *range(5))
    append(tmp_path / "t-2", *range(5))
    stream = reader(tmp_path, startingoffsets='{"t":{"0":3,"1":-2,"2":-1}}')
    assert stream.initialOffset() == {"t": {"0": 3, "1": 0, "2": -1}}
    assert run(stream) == [[3, 4, 0, 1, 2, 3, 4]]


def test_a_start_by_time_is_an_offset(tmp_path: Path) -> None:
    append(tmp_path / "t-0", *range(5))
    stream = reader(tmp_path, startingtimestamp="1003")
    assert stream.initialOffset() == {"t": {"0": 3}}
    with pytest.raises(OptionError, match="no offset matched"):
        reader(tmp_path, startingtimestamp="2000").initialOffset()


def test_views_can_not_be_streamed(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="view=batches cannot be streamed"):
        reader(tmp_path, view="batches")
