"""Committed offsets: what counts and from when; the kernel reads what the interpreter reads."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from internal.by_hand import BY_HAND, Case
from internal.streams import batches, commit_key, commit_value, marker, record
from ottla.internal import decode_record
from ottla.internal.commits import decode_commits, texts, topic_ids
from ottla.internal.offsets import current_offsets, offset_history
from ottla.kernels.records.offset_commits import BROKEN, COMMIT, TOMBSTONE, UNKNOWN_VERSION

ABORT_MARKER, COMMIT_MARKER = 0, 1
KEY = commit_key("g", "t", 0)


def committed(records: list[dict[str, Any]], size: int = 1000) -> dict[tuple[str, str, int], int]:
    rows = current_offsets(batches(records, size)).to_pylist()
    assert not [row for row in rows if row["error"]]
    return {(row["group"], row["topic"], row["partition"]): row["offset"] for row in rows}


every_size = pytest.mark.parametrize("size", [1, 2, 1000])  # records in a batch


@every_size
def test_the_last_commit_is_the_offset(size: int) -> None:
    records = [
        record(0, KEY, commit_value(10)),
        record(1, commit_key("g", "t", 1), commit_value(5)),
        record(2, KEY, commit_value(11)),
    ]
    assert committed(records, size) == {("g", "t", 0): 11, ("g", "t", 1): 5}


@every_size
def test_a_tombstone_deletes_and_a_later_commit_counts_again(size: int) -> None:
    records = [record(0, KEY, commit_value(10)), record(1, KEY, None)]
    assert committed(records, size) == {}
    assert committed([*records, record(2, KEY, commit_value(3))], size) == {("g", "t", 0): 3}


@every_size
def test_a_transactional_commit_counts_with_its_marker_only(size: int) -> None:
    records = [record(0, KEY, commit_value(10)), record(1, KEY, commit_value(20), producer=7)]
    assert committed(records, size) == {("g", "t", 0): 10}
    assert committed([*records, marker(2, 7, ABORT_MARKER)], size) == {("g", "t", 0): 10}
    assert committed([*records, marker(2, 8, COMMIT_MARKER)], size) == {("g", "t", 0): 10}
    assert committed([*records, marker(2, 7, COMMIT_MARKER)], size) == {("g", "t", 0): 20}


@every_size
def test_an_aborted_transaction_does_not_spoil_the_next_of_its_producer(size: int) -> None:
    records = [
        record(0, KEY, commit_value(10), producer=7),
        marker(1, 7, ABORT_MARKER),
        record(2, KEY, commit_value(20), producer=7),
        marker(3, 7, COMMIT_MARKER),
        record(4, KEY, commit_value(30), producer=7),
    ]
    assert committed(records, size) == {("g", "t", 0): 20}


@every_size
def test_a_plain_commit_after_a_pending_one_is_not_undone_by_its_marker(size: int) -> None:
    records = [
        record(0, KEY, commit_value(10), producer=7),
        record(1, KEY, commit_value(15)),
        marker(2, 7, COMMIT_MARKER),
    ]
    assert committed(records, size) == {("g", "t", 0): 15}


@every_size
def test_a_tombstone_takes_pending_commits_with_it(size: int) -> None:
    records = [
        record(0, KEY, commit_value(10), producer=7),
        record(1, KEY, None),
        marker(2, 7, COMMIT_MARKER),
    ]
    assert committed(records, size) == {}


def test_a_group_tombstone_deletes_no_offsets() -> None:
    records = [record(0, KEY, commit_value(10)), record(1, b"\x00\x02\x00\x01g", None)]
    assert committed(records) == {("g", "t", 0): 10}


def test_old_and_new_keys_of_the_same_partition_are_one() -> None:
    old = commit_key("g", "t", 0, kind=0)
    assert committed([record(0, KEY, commit_value(1)), record(1, old, commit_value(2))]) == {
        ("g", "t", 0): 2
    }


def test_history_has_each_change_when_it_took_effect() -> None:
    records = [
        record(0, KEY, commit_value(10), producer=7),
        record(1, KEY, commit_value(15)),
        marker(2, 7, COMMIT_MARKER),
        record(3, KEY, None),
        record(4, KEY, commit_value(1), producer=7),
    ]
    for size in (1, 1000):
        rows = pa.concat_tables(offset_history(batches(records, size))).to_pylist()
        seen = [
            (row["logOffset"], row["markerOffset"], row["offset"], row["deleted"]) for row in rows
        ]
        assert seen == [(1, None, 15, False), (0, 2, 10, False), (3, None, None, True)]
        assert [row["logTimestamp"] for row in rows] == [1001, 1000, 1003]


def test_a_broken_commit_is_a_row_with_an_error() -> None:
    (row,) = current_offsets(batches([record(5, KEY, b"\x00\x03\x00")])).to_pylist()
    assert row["logOffset"] == 5
    assert "OffsetCommitValue" in row["error"]
    assert row["offset"] is None


def test_no_records_give_no_rows() -> None:
    assert current_offsets([]).num_rows == 0
    assert current_offsets(batches([]) or []).num_rows == 0


# The kernel against the interpreter, which test_tables.py holds against Kafka.
COMMITS = [case for case in BY_HAND if "OffsetCommit" in case.name]


def kernel_value(key: bytes | None, value: bytes | None) -> tuple[int, dict[str, Any]]:
    decoded = decode_commits(pa.array([key], pa.binary()), pa.array([value], pa.binary()))
    commits = decoded.commits
    kind = int(commits.kind[0])
    if kind not in (COMMIT, TOMBSTONE):
        return kind, {}
    found = {
        "group": texts(decoded.keys, commits.group_start, commits.group_size)[0].as_py(),
        "topic": texts(decoded.keys, commits.topic_start, commits.topic_size)[0].as_py(),
        "partition": int(commits.partition[0]),
    }
    if kind == COMMIT:
        metadata = texts(decoded.values, commits.metadata_start, commits.metadata_size)
        found |= {
            "offset": int(commits.offset[0]),
            "leaderEpoch": int(commits.leader_epoch[0]),
            "metadata": metadata[0].as_py(),
            "commitTimestamp": int(commits.commit_timestamp[0]),
            "expireTimestamp": int(commits.expire_timestamp[0]),
            "topicId": topic_ids(decoded.values, commits.topic_id_start)[0].as_py(),
        }
    return kind, found


def interpreted_value(key: bytes, value: bytes | None) -> tuple[int, dict[str, Any]]:
    decoded = decode_record("__consumer_offsets", key, value)
    if decoded.error is not None:
        return BROKEN, {}
    assert decoded.key is not None
    if decoded.value is None:
        return TOMBSTONE, decoded.key["data"]
    if "raw" in decoded.value:
        return UNKNOWN_VERSION, {}
    absent = {"leaderEpoch": -1, "expireTimestamp": -1, "topicId": None}
    data = absent | decoded.key["data"] | decoded.value["data"]
    data.pop("_unknownTaggedFields", None)
    return COMMIT, data


@pytest.mark.parametrize("case", COMMITS, ids=lambda case: f"{case.name}-v{case.version}")
def test_the_kernel_reads_commits_as_the_interpreter_does_whole_or_cut(case: Case) -> None:
    assert kernel_value(case.key, case.value)[0] == COMMIT
    for size in range(len(case.value) + 1):
        cut = case.value[:size]
        assert kernel_value(case.key, cut) == interpreted_value(case.key, cut), size
    for size in range(2, len(case.key) + 1):
        cut = case.key[:size]
        assert kernel_value(cut, case.value) == interpreted_value(cut, case.value), size
    assert kernel_value(case.key, None) == interpreted_value(case.key, None)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(COMMITS), st.lists(st.tuples(st.integers(0, 60), st.integers(0, 255))))
def test_the_kernel_reads_damaged_commits_as_the_interpreter_does(
    case: Case, damage: list[tuple[int, int]]
) -> None:
    value = bytearray(case.value)
    for at, byte in damage:
        value[at % len(value)] = byte
    assert kernel_value(case.key, bytes(value)) == interpreted_value(case.key, bytes(value))


def test_rows_of_a_slice_are_read_from_where_the_slice_begins() -> None:
    keys = pa.array([commit_key("g", "t", number) for number in range(4)], pa.binary())
    values = pa.array([commit_value(10 * number) for number in range(4)], pa.binary())
    commits = decode_commits(keys.slice(2), values.slice(2)).commits
    assert np.array_equal(commits.partition, [2, 3])
    assert np.array_equal(commits.offset, [20, 30])
