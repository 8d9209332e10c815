"""Groups of every protocol and transactional ids, from records made by hand."""

import struct
from typing import Any

import pyarrow as pa
import pytest

from internal.by_hand import BY_HAND
from internal.streams import batches, commit_key, commit_value, compact, record, string
from ottla.internal.groups import current_groups, group_history
from ottla.internal.transactional_ids import (
    current_transactional_ids,
    transactional_id_history,
)


def value_of(name: str, version: int = 0) -> bytes:
    return next(case.value for case in BY_HAND if (case.name, case.version) == (name, version))


def key(kind: int, *names: str) -> bytes:
    return struct.pack(">h", kind) + b"".join(map(string, names))


def epoch_value(epoch: int) -> bytes:
    return struct.pack(">hi", 0, epoch) + b"\x00"


def current_value(epoch: int, state: int = 0) -> bytes:
    return struct.pack(">hiib", 0, epoch, epoch - 1, state) + b"\x01\x01\x00"


MEMBER = b"\x00\x00\x00\x00" + compact("c") + compact("h") + b"\x01\x00" + bytes(4) + b"\x00\x00"


def groups(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rows = current_groups(batches(records)).to_pylist()
    assert not [row for row in rows if row["error"]]
    return rows


def test_a_classic_group_is_its_last_record() -> None:
    (row,) = groups([record(0, key(2, "g"), value_of("GroupMetadataValue", 4))])
    assert (row["group"], row["type"], row["state"]) == ("g", "classic", "Stable")
    assert (row["protocolType"], row["protocol"], row["epoch"]) == ("consumer", "range", 7)
    (member,) = row["members"]
    assert member["subscription"] == ["t"]
    assert [(one["topic"], one["partitions"]) for one in member["assignment"]] == [("t", [2])]


def test_a_classic_group_without_members_is_empty_and_a_tombstone_removes_it() -> None:
    empty = (
        struct.pack(">h", 1) + string("") + struct.pack(">i", 3) + b"\xff\xff\xff\xff" + bytes(4)
    )
    (row,) = groups([record(0, key(2, "g"), empty)])
    assert row["state"] == "Empty"
    assert groups([record(0, key(2, "g"), empty), record(1, key(2, "g"), None)]) == []


def test_a_group_of_offsets_only_is_simple() -> None:
    rows = groups([record(0, commit_key("s", "t", 0), commit_value(1))])
    assert [(row["group"], row["type"]) for row in rows] == [("s", "simple")]


# The records of a group of the new protocol, up to the one with this number.
MODERN = [
    record(0, key(3, "g"), epoch_value(2)),
    record(1, key(5, "g", "m"), MEMBER),
    record(2, key(6, "g"), epoch_value(2)),
    record(3, key(8, "g", "m"), current_value(2)),
]


@pytest.mark.parametrize(
    ("count", "state"), [(1, "Empty"), (2, "Assigning"), (3, "Reconciling"), (4, "Stable")]
)
def test_the_state_of_a_consumer_group_follows_its_epochs(count: int, state: str) -> None:
    (row,) = groups(MODERN[:count])
    assert (row["type"], row["state"], row["epoch"]) == ("consumer", state, 2)


def test_a_member_that_still_revokes_keeps_the_group_reconciling() -> None:
    (row,) = groups([*MODERN, record(4, key(8, "g", "m"), current_value(2, state=1))])
    assert row["state"] == "Reconciling"


def test_a_member_is_gone_with_its_tombstone() -> None:
    gone = [record(4, key(8, "g", "m"), None), record(5, key(5, "g", "m"), None)]
    (row,) = groups([*MODERN, *gone])
    assert (row["state"], row["members"]) == ("Empty", [])


def test_a_converted_group_is_of_its_new_type() -> None:
    classic = record(0, key(2, "g"), value_of("GroupMetadataValue", 4))
    converted = [classic, record(1, key(2, "g"), None), record(2, key(3, "g"), epoch_value(2))]
    assert [row["type"] for row in groups(converted)] == ["consumer"]


def test_share_and_streams_groups_are_groups_too() -> None:
    rows = groups(
        [
            record(0, key(11, "s"), value_of("ShareGroupMetadataValue")),
            record(1, key(10, "s", "m"), value_of("ShareGroupMemberMetadataValue")),
            record(2, key(17, "t"), value_of("StreamsGroupMetadataValue")),
            record(3, key(19, "t", "m"), value_of("StreamsGroupMemberMetadataValue")),
            record(4, key(22, "t", "m"), value_of("StreamsGroupCurrentMemberAssignmentValue")),
        ]
    )
    assert [(row["type"], row["state"]) for row in rows] == [
        ("share", "Stable"),
        ("streams", "Assigning"),
    ]
    (task,) = rows[1]["members"][0]["assignment"]
    assert (task["subtopologyId"], task["partitions"]) == ("0", [1])


def test_history_has_the_group_after_each_record() -> None:
    removal = [record(4 + index, MODERN[3 - index]["key"], None) for index in range(4)]
    rows = pa.concat_tables(group_history(batches([*MODERN, *removal], 3))).to_pylist()
    assert [row["state"] for row in rows][:4] == ["Empty", "Assigning", "Reconciling", "Stable"]
    assert (rows[-1]["deleted"], rows[-1]["logOffset"]) == (True, 7)


def test_a_broken_group_record_is_a_row_with_an_error() -> None:
    rows = current_groups(batches([record(9, key(2, "g"), b"\x00\x03\x00")])).to_pylist()
    assert [(row["logOffset"], row["group"]) for row in rows] == [(9, None)]
    assert "GroupMetadataValue" in rows[0]["error"]


TX_V0 = value_of("TransactionLogValue", 0)
TX_V1 = value_of("TransactionLogValue", 1)


def test_a_transactional_id_is_its_last_record() -> None:
    records = [record(0, key(0, "tx"), TX_V0), record(1, key(0, "tx"), TX_V1)]
    (row,) = current_transactional_ids(batches(records)).to_pylist()
    assert (row["transactionalId"], row["status"], row["partitions"]) == ("tx", "Empty", [])
    assert (row["previousProducerId"], row["clientTransactionVersion"]) == (999, 2)
    (row,) = current_transactional_ids(batches(records[:1])).to_pylist()
    assert row["status"] == "Ongoing"
    assert row["partitions"] == [{"topic": "t", "partitions": [0, 1]}]


def test_a_removed_transactional_id_is_in_the_history_only() -> None:
    records = [record(0, key(0, "tx"), TX_V0), record(1, key(0, "tx"), None)]
    assert current_transactional_ids(batches(records)).num_rows == 0
    rows = pa.concat_tables(transactional_id_history(batches(records, 1))).to_pylist()
    assert [(row["status"], row["deleted"]) for row in rows] == [("Ongoing", False), (None, True)]
