"""Values become the bytes that Kafka's own classes wrote for them."""

from base64 import b64decode
from typing import Any

import pytest

from internal.test_tables import golden
from ottla.internal.encode import encode_blob, encode_framed, encode_key, encode_value
from ottla.internal.records import COORDINATOR_TOPICS

# Layouts of other releases are only read, and blobs are values there that are bytes here.
ROWS = [
    row
    for row in golden()
    if row["release"] == "4.3.0" and "topic" in row and row["name"] != "GroupMetadataValue"
]


def encode(row: dict[str, Any]) -> bytes:
    if row["topic"] in COORDINATOR_TOPICS:
        return encode_value(row["topic"], row["type"], row["version"], row["valueJson"])
    api_key = bytes.fromhex(row["value"])[1]
    return encode_framed(row["topic"], api_key, row["version"], row["valueJson"])


def test_values_become_the_bytes_of_kafka() -> None:
    assert len(ROWS) > 250
    for row in ROWS:
        what = (row["name"], row["version"])
        assert encode(row).hex() == row["value"], what
        if "keyJson" in row:
            assert encode_key(row["topic"], row["type"], row["keyJson"]).hex() == row["key"], what


def test_a_field_that_is_not_given_has_its_default() -> None:
    written = encode_framed("__cluster_metadata", 4, 0, {"resourceType": 2, "name": "a"})
    assert written == b"\1\4\0\2\1\2a\1\0"


@pytest.mark.parametrize(
    ("number", "values", "written"),
    [
        pytest.param(
            0,
            {"topics": ["t"], "userData": None, "ownedPartitions": []},
            b"\0\1\0\0\0\1\0\1t\xff\xff\xff\xff\0\0\0\0",
            id="subscription",
        ),
        pytest.param(
            1,
            {"assignedPartitions": [{"topic": "t", "partitions": [2]}], "userData": ""},
            b"\0\1\0\0\0\1\0\1t\0\0\0\1\0\0\0\2\0\0\0\0",
            id="assignment",
        ),
    ],
)
def test_a_blob_becomes_bytes_that_were_worked_out_by_hand(
    number: int, values: dict[str, Any], written: bytes
) -> None:
    assert b64decode(encode_blob(number, 1, values)) == written
