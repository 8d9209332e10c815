"""The metadata image: records made by hand, and what they add up to."""

import json
import struct
from typing import Any

import pyarrow as pa

from internal.streams import batches, compact, record
from ottla.internal.metadata import (
    config_history,
    current_configs,
    current_metadata,
    current_topics,
    topic_history,
)

ID_A, ID_B = b"\x0a" * 16, b"\x0b" * 16
TEXT_A = "CgoKCgoKCgoKCgoKCgoKCg"
DIRECTORY = b"\xff" * 16
TEXT_DIRECTORY = "_____________________w"
MIGRATING = "AAAAAAAAAAAAAAAAAAAAAA"


def framed(number: int, body: bytes, version: int = 0) -> bytes:
    return bytes([1, number, version]) + body


def ids(*numbers: int) -> bytes:
    return bytes([len(numbers) + 1]) + b"".join(struct.pack(">i", number) for number in numbers)


def topic(name: str, topic_id: bytes) -> bytes:
    return framed(2, compact(name) + topic_id + b"\x00")


def partition(topic_id: bytes, number: int, replicas: bytes, *, directories: bytes = b"") -> bytes:
    head = struct.pack(">i", number) + topic_id + replicas + replicas + b"\x01\x01"
    body = head + struct.pack(">iii", 1, 4, 7) + directories
    return framed(3, body + b"\x00", version=1 if directories else 0)


def change(topic_id: bytes, number: int, tags: bytes) -> bytes:
    return framed(5, struct.pack(">i", number) + topic_id + tags)


def config(resource: int, name: str, key: str, value: str | None) -> bytes:
    text = compact(value) if value is not None else b"\x00"
    return framed(4, bytes([resource]) + compact(name) + compact(key) + text + b"\x00")


def stream(*values: bytes) -> list[pa.RecordBatch]:
    return batches([record(offset, None, value) for offset, value in enumerate(values)])


def topics(*values: bytes) -> list[dict[str, Any]]:
    rows = current_topics(stream(*values)).to_pylist()
    assert not [row for row in rows if row["error"]]
    return rows


def test_a_partition_has_the_name_of_its_topic_and_unknown_directories() -> None:
    (row,) = topics(topic("a", ID_A), partition(ID_A, 2, ids(1, 3)))
    assert (row["topic"], row["topicId"], row["partition"]) == ("a", TEXT_A, 2)
    assert (row["replicas"], row["isr"], row["leader"]) == ([1, 3], [1, 3], 1)
    assert (row["leaderEpoch"], row["partitionEpoch"]) == (4, 7)
    assert row["directories"] == [MIGRATING, MIGRATING]
    assert row["logOffset"] == 1


def test_a_change_without_a_leader_raises_the_partition_epoch_only() -> None:
    shrink = change(ID_A, 0, b"\x01\x00\x05" + ids(1))
    (row,) = topics(topic("a", ID_A), partition(ID_A, 0, ids(1, 3)), shrink)
    assert (row["isr"], row["replicas"]) == ([1], [1, 3])
    assert (row["leader"], row["leaderEpoch"], row["partitionEpoch"]) == (1, 4, 8)
    assert row["logOffset"] == 2


def test_a_change_to_the_same_leader_raises_both_epochs() -> None:
    elect = change(ID_A, 0, b"\x01\x01\x04" + struct.pack(">i", 1))
    (row,) = topics(topic("a", ID_A), partition(ID_A, 0, ids(1)), elect)
    assert (row["leader"], row["leaderEpoch"], row["partitionEpoch"]) == (1, 5, 8)


def test_unknown_directories_follow_the_replicas_and_known_ones_stay() -> None:
    more = change(ID_A, 0, b"\x01\x02\x09" + ids(1, 3))
    (row,) = topics(topic("a", ID_A), partition(ID_A, 0, ids(1)), more)
    assert row["directories"] == [MIGRATING, MIGRATING]
    known = partition(ID_A, 0, ids(1), directories=b"\x02" + DIRECTORY)
    (row,) = topics(topic("a", ID_A), known, change(ID_A, 0, b"\x01\x00\x01\x01"))
    assert row["directories"] == [TEXT_DIRECTORY]


def test_a_removed_topic_takes_its_partitions_and_configs_and_no_other() -> None:
    values = [
        topic("a", ID_A),
        partition(ID_A, 0, ids(1)),
        config(2, "a", "retention.ms", "1"),
        topic("b", ID_B),
        partition(ID_B, 0, ids(1)),
        config(2, "b", "retention.ms", "2"),
        config(4, "a", "log.cleaner.threads", "3"),
        framed(9, ID_A + b"\x00"),
    ]
    assert [row["topic"] for row in topics(*values)] == ["b"]
    configs = current_configs(stream(*values)).to_pylist()
    assert [(row["resourceType"], row["resourceName"]) for row in configs] == [
        ("TOPIC", "b"),
        ("BROKER", "a"),
    ]


def test_a_config_set_to_null_is_gone() -> None:
    values = [config(2, "a", "k", "1"), config(2, "a", "k", "2"), config(2, "a", "l", "3")]
    rows = current_configs(stream(*values, config(2, "a", "l", None))).to_pylist()
    assert [(row["name"], row["value"], row["logOffset"]) for row in rows] == [("k", "2", 1)]
    history = pa.concat_tables(config_history(stream(*values, config(2, "a", "l", None))))
    assert [(row["value"], row["deleted"]) for row in history.to_pylist()] == [
        ("1", False),
        ("2", False),
        ("3", False),
        ("3", True),
    ]


def test_records_of_a_transaction_count_when_it_ends_and_not_if_it_is_aborted() -> None:
    begin, end, abort = framed(23, b"\x00"), framed(24, b"\x00"), framed(25, b"\x00")
    inside = [topic("a", ID_A), partition(ID_A, 0, ids(1))]
    assert topics(begin, *inside) == []
    assert topics(begin, *inside, abort, topic("b", ID_B)) == []
    assert [row["topic"] for row in topics(begin, *inside, end)] == ["a"]


def test_the_header_of_a_snapshot_empties_the_image() -> None:
    header = record(2, b"\x00\x00\x00\x03", b"\x00\x00" + bytes(8) + b"\x00", control=True)
    before = [record(0, None, topic("a", ID_A)), record(1, None, partition(ID_A, 0, ids(1)))]
    after = [record(3, None, topic("b", ID_B)), record(4, None, partition(ID_B, 0, ids(1)))]
    rows = current_topics(batches([*before, header, *after])).to_pylist()
    assert [row["topic"] for row in rows] == ["b"]


def register(epoch: int) -> bytes:
    body = struct.pack(">i", 1) + ID_A + struct.pack(">q", epoch) + b"\x01\x01\x00\x01\x00"
    return framed(0, body)


def broker(*values: bytes) -> dict[str, Any]:
    rows = current_metadata(stream(*values)).to_pylist()
    (data,) = [row["data"] for row in rows if row["type"] == "REGISTER_BROKER_RECORD"]
    found: dict[str, Any] = json.loads(data)
    return found


def test_a_broker_is_unfenced_by_a_record_of_its_own_epoch_only() -> None:
    def unfence(epoch: int) -> bytes:
        return framed(8, struct.pack(">iq", 1, epoch) + b"\x00")

    assert broker(register(5))["fenced"] is True
    assert broker(register(5), unfence(4))["fenced"] is True
    assert broker(register(5), unfence(5))["fenced"] is False
    drop = framed(17, struct.pack(">iq", 1, 5) + b"\x01\x00\x01\x01")
    assert broker(register(5), unfence(5), drop)["fenced"] is True


def test_a_feature_at_level_zero_is_gone_but_the_metadata_version_never_is() -> None:
    def feature(name: str, level: int) -> bytes:
        return framed(12, compact(name) + struct.pack(">h", level) + b"\x00")

    rows = current_metadata(
        stream(feature("x", 1), feature("x", 0), feature("metadata.version", 0))
    ).to_pylist()
    assert [json.loads(row["data"])["name"] for row in rows] == ["metadata.version"]


def test_history_has_the_partition_as_each_change_left_it() -> None:
    values = [
        topic("a", ID_A),
        partition(ID_A, 0, ids(1, 3)),
        change(ID_A, 0, b"\x01\x00\x05" + ids(1)),
        framed(9, ID_A + b"\x00"),
    ]
    rows = pa.concat_tables(topic_history(stream(*values))).to_pylist()
    assert [(row["isr"], row["deleted"], row["logOffset"]) for row in rows] == [
        ([1, 3], False, 1),
        ([1], False, 2),
        ([1], True, 3),
    ]
    assert {row["topic"] for row in rows} == {"a"}


def test_what_cannot_be_read_or_is_not_known_is_a_row_with_an_error() -> None:
    rows = current_topics(stream(b"\x01\x02", framed(99, b"\x00"), framed(2, b"", 9))).to_pylist()
    assert [row["logOffset"] for row in rows] == [0, 1, 2]
    assert all(row["error"] for row in rows)
