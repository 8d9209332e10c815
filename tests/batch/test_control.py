"""Control records: every one of the corpus, and bytes worked out by hand from Kafka's schemas."""

import base64
from pathlib import Path
from typing import Any

import pytest

from corpus import CASES, expected_lines
from ottla.batch.control import (
    ControlRecordError,
    read_any_control,
    read_control,
    write_control,
)
from ottla.errors import OptionError
from ottla.format.attributes import ControlType

Line = dict[str, Any]

DIRECTORY = "AAECAwQFBgcICQoLDA0ODw"
VOTER = {
    "voterId": 1,
    "voterDirectoryId": DIRECTORY,
    "endpoints": [{"name": "C", "host": "host", "port": 9093}],
    "kRaftVersionFeature": {"minSupportedVersion": 0, "maxSupportedVersion": 1},
}
# (type, fields, value in hex); EndTxnMarker is plain, the others are flexible messages.
VALUES = [
    pytest.param(ControlType.ABORT, {"coordinatorEpoch": -1}, "0000ffffffff", id="abort"),
    pytest.param(ControlType.COMMIT, {"coordinatorEpoch": 258}, "000000000102", id="commit"),
    pytest.param(
        ControlType.LEADER_CHANGE,
        {
            "version": 0,
            "leaderId": 3,
            "voters": [{"voterId": 3}, {"voterId": 4}],
            "grantingVoters": [],
        },
        "0000" "00000003" "03" "0000000300" "0000000400" "01" "00",
        id="leader-change",
    ),
    pytest.param(
        ControlType.SNAPSHOT_HEADER,
        {"version": 0, "lastContainedLogTimestamp": 1},
        "0000" "0000000000000001" "00",
        id="snapshot-header",
    ),
    pytest.param(ControlType.SNAPSHOT_FOOTER, {"version": 0}, "000000", id="snapshot-footer"),
    pytest.param(
        ControlType.KRAFT_VERSION,
        {"version": 0, "kRaftVersion": 1},
        "0000" "0001" "00",
        id="kraft-version",
    ),
    pytest.param(
        ControlType.KRAFT_VOTERS,
        {"version": 0, "voters": [VOTER]},
        "0000" "02" "00000001" "000102030405060708090a0b0c0d0e0f"
        "02" "0243" "05686f7374" "2385" "00" "0000" "0001" "00" "00" "00",
        id="kraft-voters",
    ),
]  # fmt: skip


def key(control_type: int, version: int = 0) -> bytes:
    return version.to_bytes(2, "big", signed=True) + control_type.to_bytes(2, "big", signed=True)


@pytest.mark.parametrize(("control_type", "fields", "value"), VALUES)
def test_a_value_is_read(control_type: ControlType, fields: Line, value: str) -> None:
    record = read_control(key(control_type), bytes.fromhex(value))
    assert record.type is control_type
    assert record.fields == fields


@pytest.mark.parametrize(("control_type", "fields", "value"), VALUES)
def test_a_value_is_written(control_type: ControlType, fields: Line, value: str) -> None:
    assert write_control(control_type, fields) == (key(control_type), bytes.fromhex(value))


@pytest.mark.parametrize(("control_type", "fields", "value"), VALUES)
def test_no_proper_prefix_of_a_value_is_read(
    control_type: ControlType, fields: Line, value: str
) -> None:
    data = bytes.fromhex(value)
    for size in range(len(data)):
        with pytest.raises(ControlRecordError):
            read_control(key(control_type), data[:size])


@pytest.mark.parametrize(("control_type", "fields", "value"), VALUES)
def test_bytes_after_a_value_are_ignored(
    control_type: ControlType, fields: Line, value: str
) -> None:
    assert read_control(key(control_type), bytes.fromhex(value) + b"more").fields == fields


def test_a_dump_has_small_structs_as_lists() -> None:
    voters = read_control(*write_control(ControlType.KRAFT_VOTERS, {"voters": [VOTER]})).as_json()
    assert voters["voters"] == [
        {
            "voterId": 1,
            "directoryId": DIRECTORY,
            "endpoints": [["C", "host", 9093]],
            "kRaftVersionFeature": [0, 1],
        }
    ]
    assert read_any_control(key(2), WITH_DIRECTORIES).as_json()["voters"] == [[3, DIRECTORY]]


WITH_DIRECTORIES = bytes.fromhex(
    "0001" "00000003" "02" "00000003" "000102030405060708090a0b0c0d0e0f" "00" "01" "00"
)  # fmt: skip


def test_directories_of_voters_are_read_where_the_version_has_them() -> None:
    record = read_any_control(key(2), WITH_DIRECTORIES)
    assert record.fields["voters"] == [{"voterId": 3, "voterDirectoryId": DIRECTORY}]
    assert record.size == len(WITH_DIRECTORIES)


def test_kafka_takes_every_version_for_0() -> None:
    value = bytes.fromhex("0001" "00000003" "02" "0000000300" "01" "00")  # fmt: skip
    assert read_control(key(2), value).fields["voters"] == [{"voterId": 3}]


def test_tagged_fields_are_skipped() -> None:
    footer = bytes.fromhex("0000020003aabbcc0500")
    assert read_control(key(4), footer).fields == {"version": 0}


@pytest.mark.parametrize(
    ("control_type", "value"),
    [
        pytest.param(1, "ffff00000000", id="marker-version"),
        pytest.param(4, "0000" "01" "0005aabb", id="tag-past-the-end"),
        pytest.param(4, "0000" "ffffffffffff", id="varint-too-long"),
        pytest.param(2, "0000" "00000001" "00" "0100", id="null-array"),
        pytest.param(6, "0000" "ffffffff07", id="array-of-two-billion"),
        pytest.param(6, "0000" "02" + "00" * 20 + "02" "00", id="null-string"),
    ],
)  # fmt: skip
def test_a_malformed_value_is_refused(control_type: int, value: str) -> None:
    with pytest.raises(ControlRecordError):
        read_control(key(control_type), bytes.fromhex(value))


@pytest.mark.parametrize("type_id", [-1, 7, 32767])
def test_an_unknown_type_has_no_fields(type_id: int) -> None:
    record = read_control(key(type_id), None)
    assert record.as_json() == {"type": "UNKNOWN", "typeId": type_id, "keyVersion": 0}


def test_an_unknown_type_can_not_be_written() -> None:
    with pytest.raises(OptionError, match="unknown"):
        write_control(ControlType.UNKNOWN, {})


@pytest.mark.parametrize("data", [None, b"", b"\0\0\0"])
def test_a_key_needs_four_bytes(data: bytes | None) -> None:
    with pytest.raises(ControlRecordError, match="key"):
        read_control(data, b"\0" * 6)


def control_records(corpus: Path) -> list[tuple[str, Line, bool]]:
    """Every control record, and whether Kafka could not read it."""
    found = []
    for case in CASES:
        lines = expected_lines(corpus, case)
        bad = {
            (line["position"], line["index"]) for line in lines if line.get("stage") == "control"
        }
        records = (line for line in lines if "control" in line)
        found += [(case, line, (line["position"], line["index"]) in bad) for line in records]
    return found


def test_the_control_records_of_the_corpus_say_what_kafka_says(corpus: Path) -> None:
    records = control_records(corpus)
    assert len(records) == 75
    for case, line, refused in records:
        data = [
            None if line[name] is None else base64.b64decode(line[name])
            for name in ("key", "value")
        ]
        try:
            found: Line | None = read_control(*data).as_json()
        except ControlRecordError:
            found = None
        assert found == line["control"], case
        assert (found is None) is refused, case
