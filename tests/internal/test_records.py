"""What is unknown is shown, what is broken is an error, and neither is ever an exception."""

import json
import tracemalloc
from base64 import b64encode

import pytest

from ottla.internal import decode_control_record, decode_record
from ottla.internal.blobs import decode_blob

KEY = bytes.fromhex("0001 0001 67 0001 74 00000002")
VALUE_V3 = bytes.fromhex("0003 000000000000001d 00000005 0000 0000019b70ed6683")


def text(data: bytes) -> str:
    return b64encode(data).decode()


def test_a_null_value_is_a_tombstone() -> None:
    decoded = decode_record("__consumer_offsets", KEY, None)
    assert decoded.tombstone
    assert decoded.value is None
    assert decoded.error is None
    assert decoded.key == {"type": "1", "data": {"group": "g", "topic": "t", "partition": 2}}


def test_an_unknown_record_type_is_shown_raw() -> None:
    decoded = decode_record("__consumer_offsets", b"\x00\x63\x01", b"\x00\x00\x07")
    assert decoded.error is None
    assert decoded.key == {"type": "99", "raw": text(b"\x00\x63\x01")}
    assert decoded.value == {"version": "0", "raw": text(b"\x00\x00\x07")}


def test_an_unknown_version_is_shown_raw() -> None:
    value = b"\x00\x05" + VALUE_V3[2:]
    decoded = decode_record("__consumer_offsets", KEY, value)
    assert decoded.error is None
    assert decoded.value == {"version": "5", "raw": text(value)}


def test_a_negative_version_is_shown_raw() -> None:
    decoded = decode_record("__consumer_offsets", KEY, b"\xff\xff" + VALUE_V3[2:])
    assert (decoded.value or {})["version"] == "-1"
    assert "raw" in (decoded.value or {})


def test_an_unknown_metadata_record_keeps_its_number() -> None:
    decoded = decode_record("__cluster_metadata", None, b"\x01\x63\x00\x00")
    assert decoded.error is None
    assert decoded.value == {"type": "99", "version": 0, "raw": text(b"\x01\x63\x00\x00")}


def test_a_null_key_in_a_coordinator_topic_is_an_error() -> None:
    assert decode_record("__transaction_state", None, VALUE_V3).error


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(None, id="null"),
        pytest.param(b"", id="empty"),
        pytest.param(b"\x00\x14\x00\x00", id="the frame of the 2.8 preview"),
        pytest.param(b"\x02\x14\x00\x00", id="a frame to come"),
        pytest.param(b"\x01\x80\x80\x02\x00\x00", id="an api key of 16 bits"),
        pytest.param(b"\x01\xff\xff\xff\xff\xff\x01", id="a varint without end"),
        pytest.param(b"\x01\x14\x00\x00\x00", id="bytes after the body"),
    ],
)
def test_a_broken_frame_is_an_error(value: bytes | None) -> None:
    assert decode_record("__cluster_metadata", None, value).error


def test_bytes_after_a_coordinator_value_are_shown_because_no_broker_minds_them() -> None:
    decoded = decode_record("__consumer_offsets", KEY, VALUE_V3 + b"\x01")
    assert decoded.error is None
    assert (decoded.value or {})["trailing"] == "AQ=="


def test_tags_that_no_schema_names_are_kept() -> None:
    value = bytes.fromhex("0004 000000000000001d 00000005 01 0000019b70ed6683 01 09 02 abcd")
    decoded = decode_record("__consumer_offsets", KEY, value)
    assert (decoded.value or {})["data"]["_unknownTaggedFields"] == {"9": text(b"\xab\xcd")}


def test_a_tagged_field_must_fill_its_size() -> None:
    value = bytes.fromhex("0000 00000009 01 00 09 00000000000000ff00")
    decoded = decode_record("__consumer_offsets", bytes.fromhex("0003 0001 67"), value)
    assert "metadataHash" in (decoded.error or "")


def test_a_tagged_field_equal_to_its_default_is_left_out_as_kafka_does() -> None:
    value = bytes.fromhex("0000 00000009 01 00 08 0000000000000000")
    decoded = decode_record("__consumer_offsets", bytes.fromhex("0003 0001 67"), value)
    assert (decoded.value or {})["data"] == {"epoch": 9}


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("0000 01000000 7fffffff", id="a count of two thousand million"),
        pytest.param("0000 ffffffff0f", id="a compact count of four thousand million"),
    ],
)
def test_a_count_allocates_nothing_that_the_bytes_do_not_cover(value: str) -> None:
    tracemalloc.start()
    decoded = decode_record(
        "__consumer_offsets", bytes.fromhex("0004 0001 67"), bytes.fromhex(value)
    )
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert decoded.error
    assert peak < 1 << 20


def test_a_null_where_none_is_allowed_is_an_error() -> None:
    value = bytes.fromhex("0003 000000000000001d 00000005 ffff 0000019b70ed6683")
    assert "null" in (decode_record("__consumer_offsets", KEY, value).error or "")


def test_text_that_is_no_utf8_is_replaced_as_java_does() -> None:
    decoded = decode_record("__transaction_state", b"\x00\x00\x00\x01\xff", None)
    assert decoded.key == {"type": "0", "data": {"transactionalId": "\ufffd"}}


def test_a_number_that_json_cannot_hold_is_text() -> None:
    value = bytes.fromhex("01 0e 00 01 02 6b 7ff8000000000000 00 00")
    decoded = decode_record("__cluster_metadata", None, value)
    assert (decoded.value or {})["data"]["value"] == "NaN"
    json.dumps(decoded, allow_nan=False)


def test_a_subscription_that_stops_after_user_data_takes_defaults() -> None:
    # KafkaJS claims version 1 and writes the fields of version 0.
    blob = bytes.fromhex("0001 00000001 0001 74 ffffffff")
    assert decode_blob(0, text(blob)) == {"topics": ["t"], "userData": None, "ownedPartitions": []}


def test_a_subscription_of_a_later_version_is_read_as_far_as_it_is_known() -> None:
    blob = bytes.fromhex("0007 00000000 ffffffff 00000000 00000003 0001 72 abcdef")
    shown = {
        "topics": [],
        "userData": None,
        "ownedPartitions": [],
        "generationId": 3,
        "rackId": "r",
    }
    assert decode_blob(0, text(blob)) == shown


@pytest.mark.parametrize(
    "blob", [b"", b"\x00", b"\xff\xff\x00\x00\x00\x00", b"\x00\x00\x00\x00\x00"]
)
def test_a_blob_that_does_not_decode_stays_base64(blob: bytes) -> None:
    assert decode_blob(0, text(blob)) == text(blob)


def test_blobs_of_connect_workers_are_read() -> None:
    blob = bytes.fromhex(
        "0001 0000 0001 6c 0001 75 0000000000000009"
        "00000001 0001 63 00000001 00000000 ffffffff 00000000"
    )
    assert decode_blob(3, text(blob)) == {
        "error": 0,
        "leader": "l",
        "leaderUrl": "u",
        "configOffset": 9,
        "assignment": [{"connector": "c", "tasks": [0]}],
        "revoked": None,
        "delay": 0,
    }


def test_a_control_record_of_an_unknown_type_is_shown_raw() -> None:
    decoded = decode_control_record(b"\x00\x00\x00\x2a", b"\x00\x00\x01")
    assert decoded.error is None
    assert decoded.key == {"type": "42", "version": 0}
    assert decoded.value == {"version": 0, "raw": text(b"\x00\x00\x01")}
