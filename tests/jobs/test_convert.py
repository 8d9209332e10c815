"""Converted logs hold the same records at the same offsets, by the naive reader."""

from pathlib import Path

import pytest

from builders import Row, batch
from choosing import choose
from jobs.plain import lines_of, records_of, run_plainly, tree
from jobs.topics import Written, write_topic
from log.generated import write_partition
from ottla.batch.convert import Conversion, Loss
from ottla.errors import CorruptLogError, OptionError
from ottla.format.attributes import Codec
from ottla.jobs.rewrite.convert import plan_convert
from ottla.log.files.partition import find_partitions
from ottla.log.write.index_builder import SegmentConfig
from whole_log import check_partition

SPLITS = [700, 20_000, 1 << 30]
ALL_LOSSES = frozenset(Loss)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    write_topic(tmp_path / "logs", "orders", partitions=3)
    return tmp_path / "logs"


@pytest.fixture
def topic(tmp_path: Path) -> list[Written]:
    return write_topic(tmp_path / "again", "orders", partitions=3)


def convert(logs: Path, out: Path, conversion: Conversion, **more: object) -> list[dict]:
    plan = plan_convert(choose(logs), str(out), conversion, {}, **more)
    return run_plainly(plan)


def assert_sound(out: Path) -> None:
    for partition in find_partitions([out]):
        found = [
            violation
            for violation in check_partition(partition)
            if violation.rule.severity == "error"
        ]
        assert found == []


def records(logs: Path) -> dict[str, list]:
    return {folder.name: records_of(folder) for folder in sorted(logs.iterdir())}


def batch_values(logs: Path, name: str) -> set[object]:
    lines = [line for folder in logs.iterdir() for line in lines_of(folder)]
    batches = [line for line in lines if line["type"] == "batch" and not line["isControl"]]
    return {line[name] for line in batches if line["count"] != 0}


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("codec", list(Codec))
def test_magic_2_in_any_codec_keeps_every_record(
    tmp_path: Path, logs: Path, split: int, codec: Codec
) -> None:
    before = tree(logs)
    convert(logs, tmp_path / "out", Conversion(magic=2, codec=codec), split_bytes=split)
    assert records(tmp_path / "out") == records(logs)
    assert batch_values(tmp_path / "out", "magic") == {2}
    assert batch_values(tmp_path / "out", "codecId") == {int(codec)}
    assert_sound(tmp_path / "out")
    assert tree(logs) == before


def test_batches_that_need_no_change_are_copied(tmp_path: Path, logs: Path) -> None:
    first = tmp_path / "first"
    convert(logs, first, Conversion(magic=2, codec=Codec.LZ4))
    (row, *_) = convert(first, tmp_path / "second", Conversion(magic=2, codec=Codec.LZ4))
    assert tree(tmp_path / "second") == tree(first)
    assert row["copiedBatches"] == row["readBatches"] == row["writtenBatches"] > 0


@pytest.mark.parametrize("magic", [0, 1])
def test_down_conversion_keeps_committed_records_and_loses_what_was_allowed(
    tmp_path: Path, logs: Path, topic: list[Written], magic: int
) -> None:
    conversion = Conversion(magic=magic, codec=Codec.GZIP, allowed=ALL_LOSSES)
    convert(logs, tmp_path / "out", conversion)
    for written in topic:
        found = records_of(tmp_path / "out" / f"orders-{written.partition}")
        expected = [(row.offset, row.key, row.value) for row in written.committed()]
        assert [(offset, key, value) for offset, _, key, value, _ in found] == expected
    assert batch_values(tmp_path / "out", "magic") == {magic}


def test_there_and_back_keeps_offsets_keys_and_values(tmp_path: Path, logs: Path) -> None:
    down = Conversion(magic=1, codec=Codec.SNAPPY, allowed=ALL_LOSSES)
    convert(logs, tmp_path / "down", down)
    convert(tmp_path / "down", tmp_path / "up", Conversion(magic=2, codec=Codec.ZSTD))
    there, back = records(tmp_path / "down"), records(tmp_path / "up")
    assert there == back
    assert_sound(tmp_path / "up")


def test_a_loss_that_nobody_allowed_is_refused(tmp_path: Path, logs: Path) -> None:
    with pytest.raises(OptionError, match="would be lost"):
        convert(logs, tmp_path / "out", Conversion(magic=1, codec=Codec.GZIP))
    assert not (tmp_path / "out").exists()


def test_a_broken_batch_stops_the_job(tmp_path: Path, logs: Path) -> None:
    log = sorted(logs.rglob("*.log"))[3]
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    with pytest.raises(CorruptLogError):
        convert(logs, tmp_path / "out", Conversion(magic=2, codec=Codec.LZ4))
    assert not (tmp_path / "out").exists()


def test_settings_of_a_topic_win(tmp_path: Path) -> None:
    for topic in ("orders", "clicks"):
        write_topic(tmp_path / "logs", topic, partitions=1)
    plan = plan_convert(
        choose(tmp_path / "logs"),
        str(tmp_path / "out"),
        Conversion(magic=2, codec=Codec.ZSTD),
        {"clicks": {"codec": Codec.NONE}},
    )
    run_plainly(plan)
    codecs = {
        folder.name: {
            line["codecId"]
            for line in lines_of(folder)
            if line["type"] == "batch" and not line["isControl"]
        }
        for folder in (tmp_path / "out").iterdir()
    }
    assert codecs == {"orders-0": {4}, "clicks-0": {0}}


def test_segments_that_grow_are_rolled(tmp_path: Path, logs: Path) -> None:
    config = SegmentConfig(segment_bytes=3000)
    convert(logs, tmp_path / "out", Conversion(magic=2, codec=Codec.NONE), config=config)
    sizes = [path.stat().st_size for path in (tmp_path / "out").rglob("*.log")]
    assert len(sizes) > len(list(logs.rglob("*.log")))
    assert records(tmp_path / "out") == records(logs)
    assert_sound(tmp_path / "out")


def small_batches(folder: Path) -> list[Row]:
    """Many batches of few records: of nobody, of a producer, and of two leaders."""
    rows = [Row(offset, 1000 + offset, b"k%d" % offset, b"v" * 50) for offset in range(400)]
    data = b"".join(
        batch(
            rows[at : at + 4],
            codec=at // 100 % 2,
            producer=(7, 0, at - 200) if 200 <= at < 240 else (-1, -1, -1),
            leader_epoch=0 if at < 300 else 1,
        )
        for at in range(0, 400, 4)
    )
    write_partition(folder / "logs", "orders-0", 0, data)
    return rows


def test_small_batches_are_put_together_but_for_those_of_producers(tmp_path: Path) -> None:
    rows = small_batches(tmp_path)
    (account,) = convert(
        tmp_path / "logs", tmp_path / "out", Conversion(batch_bytes=2000), rebatches=True
    )
    out = tmp_path / "out" / "orders-0"
    expected = [(row.offset, row.timestamp, row.key, row.value, ()) for row in rows]
    assert records_of(out) == expected
    batches = [line for line in lines_of(out) if line["type"] == "batch"]
    assert [line["count"] for line in batches if line["producerId"] == 7] == [4] * 10
    others = [line for line in batches if line["producerId"] == -1]
    assert max(line["count"] for line in others) > 20
    assert all(line["size"] <= 2000 for line in others)
    starts = [line["baseOffset"] for line in others if line["partitionLeaderEpoch"] == 1]
    assert starts[0] == 300
    assert account["copiedBatches"] == 10
    assert_sound(tmp_path / "out")


def test_putting_together_again_changes_nothing(tmp_path: Path) -> None:
    small_batches(tmp_path)
    wanted = Conversion(codec=Codec.ZSTD, batch_bytes=2000)
    convert(tmp_path / "logs", tmp_path / "out", wanted, rebatches=True)
    convert(tmp_path / "out", tmp_path / "again", wanted, rebatches=True)
    assert tree(tmp_path / "again") == tree(tmp_path / "out")


def test_an_epoch_of_no_producer_stays_as_it_is(tmp_path: Path) -> None:
    """Kafka takes both from the batch too (LogValidator.buildRecordsAndAssignOffsets)."""
    producers = {100: (-1, 0, -1), 200: (-1, 0, 0), 300: (-1, -1, -1), 400: (-1, -2, -1)}
    data = b"".join(
        batch([Row(offset, value=b"v" * 50)], producer=producers[stop])
        for stop in producers
        for offset in range(stop - 100, stop)
    )
    write_partition(tmp_path / "logs", "orders-0", 0, data)
    convert(tmp_path / "logs", tmp_path / "out", Conversion(batch_bytes=2000), rebatches=True)
    lines = [line for line in lines_of(tmp_path / "out/orders-0") if line["type"] == "batch"]
    for stop, producer in producers.items():
        names = ("producerId", "producerEpoch", "baseSequence")
        found = [line for line in lines if stop - 100 <= line["baseOffset"] < stop]
        assert {tuple(line[name] for name in names) for line in found} == {producer}
        assert (len(found) < 10) == (stop in (100, 300))
