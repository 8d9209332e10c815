"""`ottla groups` and `ottla topics` on directories made by hand and on one that a broker wrote."""

import argparse
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from builders import Row, batch
from golden import GOLDEN
from internal.streams import commit_key, commit_value
from internal.test_metadata import ID_A, ID_B, config, framed, ids, partition, topic
from ottla.catalog.catalog import list_catalog
from ottla.cli import groups, topics
from ottla.cli.parsers import groups as groups_parser
from ottla.cli.parsers import topics as topics_parser
from ottla.errors import CorruptLogError, OptionError
from ottla.jobs.read.internal_topics import find_internal_topic, read_partition
from ottla.log.read.records import Mode

TRANSACTIONAL, CONTROL = 0x10, 0x20
COMMANDS = {"groups": groups, "topics": topics}
PARSERS = (groups_parser, topics_parser)


def run(*words: str | Path) -> int:
    parser = argparse.ArgumentParser()
    subparsers = parser.add_subparsers(dest="command")
    for each in PARSERS:
        each.add_parser(subparsers, "a summary")
    arguments = parser.parse_args([str(word) for word in words])
    return int(COMMANDS[arguments.command].run(arguments))


def rows_of(capfd: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capfd.readouterr().out.splitlines()]


def write_log(folder: Path, *batches: bytes, name: str = "00000000000000000000.log") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(b"".join(batches))


def marker(offset: int, kind: int) -> bytes:
    row = Row(offset, key=bytes([0, 0, 0, kind]), value=bytes(6))
    return batch([row], attributes=TRANSACTIONAL | CONTROL, producer=(7, 0, -1))


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Two groups; a transaction that was committed and one that was not; the log of one topic."""
    write_log(
        tmp_path / "__consumer_offsets-3",
        batch([Row(0, key=commit_key("g", "t", 0), value=commit_value(5, "here"))]),
        batch([Row(1, key=commit_key('a,"b', "u", 1), value=commit_value(8))]),
        batch(
            [Row(2, key=commit_key("g", "t", 0), value=commit_value(6, "there"))],
            attributes=TRANSACTIONAL,
            producer=(7, 0, 0),
        ),
        marker(3, 1),
        batch(
            [Row(4, key=commit_key("g", "t", 0), value=commit_value(9))],
            attributes=TRANSACTIONAL,
            producer=(7, 0, 1),
        ),
    )
    write_log(tmp_path / "t-0", batch([Row(offset) for offset in range(10)]))
    return tmp_path


def test_groups_shows_committed_offsets_and_lag_where_the_log_is_here(
    log_dir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run("groups", log_dir, "--format", "jsonl") == 0
    other, row = rows_of(capfd)
    assert (row["group"], row["topic"], row["partition"]) == ("g", "t", 0)
    assert (row["offset"], row["metadata"], row["markerOffset"]) == (6, "there", 3)
    assert (row["logEndOffset"], row["lag"]) == (10, 4)
    assert (other["offset"], other["logEndOffset"], other["lag"]) == (8, None, None)


def test_groups_can_be_chosen_by_group_topic_and_partition(
    log_dir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run("groups", log_dir, "--format", "jsonl", "--group", "g") == 0
    assert [row["group"] for row in rows_of(capfd)] == ["g"]
    assert run("groups", log_dir, "--format", "jsonl", "--topic", "u", "--partition", "0") == 0
    assert rows_of(capfd) == []


def test_groups_prints_what_kafka_takes_to_reset_offsets(
    log_dir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run("groups", log_dir, "--reset-offsets") == 0
    assert capfd.readouterr().out == '"a,""b",u,1,8\ng,t,0,6\n'


def test_offsets_of_one_group_are_in_the_form_that_kafka_tries_first(
    log_dir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run("groups", log_dir, "--reset-offsets", "--group", "g") == 0
    assert capfd.readouterr().out == "t,0,6\n"
    assert run("groups", log_dir, "--reset-offsets", "--group", "g", "--group", 'a,"b') == 0
    assert capfd.readouterr().out == '"a,""b",u,1,8\ng,t,0,6\n'


def test_groups_prints_a_table(log_dir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("groups", log_dir, "--format", "text") == 0
    title, _, line, total = capfd.readouterr().out.splitlines()
    assert title.split() == [
        *("GROUP", "PARTITION", "OFFSET", "LOG", "END", "LAG", "COMMITTED", "(UTC)", "METADATA")
    ]
    assert line.split() == ["g", "t-0", "6", "10", "4", "1970-01-01", "00:00", "there"]
    assert total.split() == ["2", "groups", "2", "offsets", "4"]


def test_groups_says_which_batches_are_broken_and_shows_the_rest(
    log_dir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = log_dir / "__consumer_offsets-3" / "00000000000000000000.log"
    data = bytearray(log.read_bytes())
    data[70] ^= 1  # in the first batch, under its CRC
    log.write_bytes(data)
    assert run("groups", log_dir, "--format", "jsonl") == 1
    seen = capfd.readouterr()
    assert "crc-matches" in seen.err
    assert len(seen.out.splitlines()) == 2
    assert run("groups", log_dir, "--format", "jsonl", "--quiet") == 1
    assert capfd.readouterr() == (seen.out, "")


def test_groups_refuses_to_choose_states_by_topic(log_dir: Path) -> None:
    with pytest.raises(OptionError, match="whole groups"):
        run("groups", log_dir, "--state", "--topic", "t")


def test_groups_says_which_records_are_broken(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    broken = Row(5, key=commit_key("g", "t", 0), value=b"\x00\x03")
    write_log(tmp_path / "__consumer_offsets-0", batch([broken]))
    assert run("groups", tmp_path, "--format", "jsonl") == 1
    assert "__consumer_offsets, offset 5: OffsetCommitValue v3" in capfd.readouterr().err


def test_a_directory_without_the_topic_is_wrong_usage(tmp_path: Path) -> None:
    write_log(tmp_path / "t-0", batch())
    with pytest.raises(OptionError, match="__consumer_offsets"):
        run("groups", tmp_path)


def test_a_segment_that_was_moved_out_of_its_directory_is_read(
    log_dir: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = log_dir / "__consumer_offsets-3" / "00000000000000000000.log"
    moved = tmp_path / "elsewhere" / "segment"
    moved.parent.mkdir()
    moved.write_bytes(log.read_bytes())
    assert run("groups", moved, "--format", "jsonl") == 0
    assert len(rows_of(capfd)) == 2


HEADER = batch([Row(0, key=b"\0\0\0\3", value=b"\0\0" + bytes(8) + b"\0")], attributes=CONTROL)


def test_topics_are_the_newest_snapshot_and_the_log_after_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "__cluster_metadata-0"
    values = [topic("a", ID_A), partition(ID_A, 0, ids(1, 2)), config(2, "a", "k", "v")]
    snapshot = [batch([Row(1 + index, value=value)]) for index, value in enumerate(values)]
    write_log(folder, HEADER, *snapshot, name="00000000000000000010-0000000001.checkpoint")
    write_log(folder, HEADER, name="00000000000000000004-0000000001.checkpoint")
    write_log(
        folder,
        batch([Row(9, value=framed(9, ID_A + b"\x00"))]),  # the snapshot knows better
        batch([Row(10, value=topic("b", ID_B)), Row(11, value=partition(ID_B, 0, ids(2)))]),
    )
    assert run("topics", tmp_path, "--format", "jsonl") == 0
    rows = rows_of(capfd)
    assert [(row["topic"], row["configs"]) for row in rows] == [("a", {"k": "v"}), ("b", {})]
    assert [row["partitions"][0]["replicas"] for row in rows] == [[1, 2], [2]]
    checkpoint = folder / "00000000000000000010-0000000001.checkpoint"
    assert run("topics", checkpoint, "--format", "jsonl", "--topic", "a") == 0
    assert [row["topic"] for row in rows_of(capfd)] == ["a"]


def test_topics_prints_a_line_for_each_partition(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    values = [topic("a", ID_A), partition(ID_A, 0, ids(1, 2)), config(2, "a", "k", "v")]
    rows = [Row(index, value=value) for index, value in enumerate(values)]
    write_log(tmp_path / "__cluster_metadata-0", batch(rows))
    assert run("topics", tmp_path, "--format", "text") == 0
    _, line, total, configs = capfd.readouterr().out.splitlines()
    assert line.split() == ["a-0", "CgoKCgoKCgoKCgoKCgoKCg", "1", "4", "1,2", "1,2"]
    assert total.split() == ["1", "topic", "1", "partition"]
    assert configs == "a: k=v"


def test_topic_ids_of_a_real_cluster_are_those_beside_the_logs(
    capfd: pytest.CaptureFixture[str],
) -> None:
    folder = GOLDEN / "kafka-4.3"
    assert run("topics", folder, "--format", "jsonl") == 0
    found = {
        (row["topic"], one["partition"]): row["topicId"]
        for row in rows_of(capfd)
        for one in row["partitions"]
    }
    beside = {}
    for path in folder.glob("*/partition.metadata"):
        name, _, number = path.parent.name.rpartition("-")
        if name != "__cluster_metadata":
            beside[name, int(number)] = path.read_text().split("topic_id: ")[1].strip()
    assert found.items() >= beside.items()
    assert len(beside) > 20


@pytest.mark.parametrize("mode", [Mode.FAILFAST, Mode.PERMISSIVE, Mode.DROPMALFORMED])
def test_a_log_that_shrinks_under_a_view_is_told(log_dir: Path, mode: Mode) -> None:
    (found,) = find_internal_topic(list_catalog([str(log_dir)]), "__consumer_offsets").partitions
    path = log_dir / "__consumer_offsets-3" / "00000000000000000000.log"
    whole = path.read_bytes()
    first = batch([Row(0, key=commit_key("g", "t", 0), value=commit_value(5, "here"))])
    path.write_bytes(whole[: len(first)])  # at the end of a batch, so that nothing else tells
    reading = read_partition(found, mode=mode)
    if mode is Mode.FAILFAST:
        with pytest.raises(CorruptLogError, match="shrank after it was listed"):
            list(reading)
        return
    rows = pa.Table.from_batches(list(reading)).to_pylist()
    told = [row["_corrupt"] for row in rows if row.get("_corrupt")]
    assert len(told) == int(mode is Mode.PERMISSIVE)
    assert [row["offset"] for row in rows if not row.get("_corrupt")] == [0]
