"""Every table of `ottla.internal` against bytes worked out by hand and against Kafka's classes."""

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from internal.by_hand import BY_HAND, Case
from ottla.internal import INTERNAL_TOPICS, DecodedRecord, decode_control_record, decode_record
from ottla.internal.notation import read_table

HERE = Path(__file__).parent
TABLES = [topic.strip("_") for topic in sorted(INTERNAL_TOPICS)]
every_case = pytest.mark.parametrize(
    "case", BY_HAND, ids=lambda case: f"{case.name}-v{case.version}"
)


def decode(topic: str, key: bytes | None, value: bytes | None) -> DecodedRecord:
    if topic == "control":
        return decode_control_record(key, value)
    return decode_record(topic, key, value)


@every_case
def test_bytes_by_hand_decode_to_the_right_values(case: Case) -> None:
    decoded = decode(case.topic, case.key, case.value)
    assert decoded.error is None
    assert decoded.value is not None
    assert decoded.value["data"] == case.data
    assert int(decoded.value["version"]) == case.version
    if case.key_data is not None:
        assert decoded.key is not None
        assert decoded.key["data"] == case.key_data


# Cut to this size the bytes are, to the last one, a whole record of another release.
WHOLE_ELSEWHERE = {
    "ConsumerGroupMemberMetadataValue": {27},
    "ConsumerGroupMemberMetadataValue-null": {15},
    "ShareGroupMetadataValue": {7},
    "UserScramCredentialRecord-3.4": {16},
    "FeatureLevelRecord-3.2": {8},
}


@every_case
def test_a_value_cut_anywhere_is_an_error_and_never_a_value(case: Case) -> None:
    for size in range(len(case.value)):
        if size in WHOLE_ELSEWHERE.get(case.name, ()):
            continue
        decoded = decode(case.topic, case.key, case.value[:size])
        assert decoded.error is not None, size
        assert decoded.value is not None
        assert "data" not in decoded.value, size


@every_case
def test_a_key_cut_anywhere_is_an_error_and_never_a_value(case: Case) -> None:
    for size in range(len(case.key or b"")):
        decoded = decode(case.topic, (case.key or b"")[:size], case.value)
        assert decoded.error is not None, size
        assert "data" not in (decoded.key or {}), size


@every_case
def test_every_byte_may_be_any_other_byte(case: Case) -> None:
    for at in range(len(case.value)):
        for byte in (0x00, 0x01, 0x7F, 0x80, 0xFF):
            damaged = case.value[:at] + bytes([byte]) + case.value[at + 1 :]
            json.dumps(decode(case.topic, case.key, damaged), allow_nan=False)


@every_case
def test_bytes_after_the_body_are_shown_or_refused(case: Case) -> None:
    decoded = decode(case.topic, case.key, case.value + b"\x05")
    assert decoded.error is not None or (decoded.value or {})["trailing"] == "BQ=="


def test_the_cases_by_hand_cover_every_layout_at_its_lowest_and_highest_version() -> None:
    covered = {(case.topic.strip("_"), case.name, case.version) for case in BY_HAND}
    for table in TABLES:
        for (kind, _), schemas in read_table(table).items():
            for schema in schemas if kind != "key" else ():
                names = {schema.name, f"{schema.name}-{schema.until}"}
                for version in {schema.versions.first, schema.versions.last}:
                    found = {(table, name, version) for name in names} & covered
                    quirk = schema.name == "ShareUpdateValue"  # one layout, two prefixes
                    assert found or quirk, (table, schema.name, schema.until, version)


def golden() -> list[dict[str, Any]]:
    with lzma.open(HERE / "golden" / "records.jsonl.xz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def test_records_written_by_kafka_read_as_kafka_prints_them() -> None:
    rows = golden()
    assert len(rows) > 300
    for row in rows:
        key = row.get("control") or row.get("key")
        topic = "control" if "control" in row else row["topic"]
        decoded = decode(topic, bytes.fromhex(key) if key else None, bytes.fromhex(row["value"]))
        what = (row["release"], row["name"], row["version"])
        assert decoded.error is None, what
        assert decoded.value is not None
        # As text: the order of the fields is Kafka's too.
        assert json.dumps(decoded.value["data"]) == json.dumps(row["valueJson"]), what
        if "keyJson" in row:
            assert decoded.key == {"type": str(row["type"]), "data": row["keyJson"]}, what
