"""What the tables read they write: every layout, every version, old releases and blobs too."""

import base64
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from internal.by_hand import BY_HAND, Case
from internal.test_tables import TABLES, golden
from ottla.internal.encode import write_body
from ottla.internal.image import Image
from ottla.internal.interpreter import default_of, struct_reader
from ottla.internal.metadata import read_image
from ottla.internal.notation import Schema, SchemaField, read_table
from ottla.internal.primitives import MalformedError
from ottla.internal.snapshot import SnapshotRecord, snapshot_name, write_snapshot
from ottla.jobs.read.internal_topics import read_partition
from ottla.log.files.partition import find_partitions

NUMBERS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint16": 17, "uint32": 33}
IDS = st.binary(min_size=16, max_size=16).map(
    lambda data: base64.urlsafe_b64encode(data).decode().rstrip("=")
)
FLOATS = st.floats(width=64).map(
    lambda value: value if math.isfinite(value) else {"inf": "Infinity"}.get(
        str(value), "NaN" if math.isnan(value) else "-Infinity"
    )
)  # fmt: skip


def layouts() -> list[tuple[Schema, int]]:
    """Every layout at every version that it has."""
    schemas = {
        (name, kind, number, at): schema
        for name in (*TABLES, "member_blobs")
        for (kind, number), found in read_table(name).items()
        for at, schema in enumerate(found)
    }
    return [
        (schema, version)
        for schema in schemas.values()
        for version in range(schema.versions.first, schema.versions.last + 1)
    ]


LAYOUTS = layouts()


def one(field: SchemaField, version: int) -> st.SearchStrategy[Any]:
    """A value of a field, or of an element of it."""
    if field.type in NUMBERS:
        bits = NUMBERS[field.type]
        low, high = (0, 2 ** (bits - 1) - 1) if field.type[0] == "u" else _signed(bits)
        return st.integers(low, high)
    if field.type == "struct":
        return structs(field.fields, version)
    return {
        "bool": st.booleans(),
        "uuid": IDS,
        "float64": FLOATS,
        "string": st.text(max_size=200),
        "bytes": st.binary(max_size=200).map(lambda data: base64.b64encode(data).decode()),
    }[field.type]


def _signed(bits: int) -> tuple[int, int]:
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def values(field: SchemaField, version: int) -> st.SearchStrategy[Any]:
    found = one(field, version)
    if field.is_array:
        found = st.lists(found, max_size=3)
    return st.none() | found if version in field.nullable else found


def structs(fields: tuple[SchemaField, ...], version: int) -> st.SearchStrategy[Any]:
    """As a reader gives it: a tagged field that has its default is not there."""
    present = [field for field in fields if version in field.versions]

    def without_defaults(given: dict[str, Any]) -> dict[str, Any]:
        return {
            field.name: given[field.name]
            for field in present
            if version not in field.tagged or given[field.name] != default_of(field)
        }

    drawn = st.fixed_dictionaries({field.name: values(field, version) for field in present})
    return drawn.map(without_defaults)


@given(st.data())
def test_what_was_written_reads_as_it_was(data: st.DataObject) -> None:
    schema, version = data.draw(st.sampled_from(LAYOUTS))
    given_values = data.draw(structs(schema.fields, version))
    written = write_body(schema, version, given_values)
    read = struct_reader(schema.fields, version, flexible=version in schema.flexible)
    found, end = read(written, 0)
    assert end == len(written)
    # As text: the order of fields too, and -0.0.
    assert json.dumps(found) == json.dumps(given_values)
    assert write_body(schema, version, found) == written


def write_again(topic: str, key: bytes | None, value: bytes, version: int) -> bytes:
    """What is written of what the first layout reads that takes all bytes."""
    table = read_table(topic.strip("_"))
    number, size, kind = value[1], 3, "record"
    if key is not None:
        number, size, kind = int.from_bytes(key[:2], "big"), 2, "value"
    for schema in table[kind, number]:
        if version not in schema.versions:
            continue
        read = struct_reader(schema.fields, version, flexible=version in schema.flexible)
        try:
            found, end = read(value, size)
        except MalformedError:  # a layout of another release
            continue
        if end == len(value):
            return value[:size] + write_body(schema, version, found)
    raise AssertionError("no layout reads it")


@pytest.mark.parametrize("case", BY_HAND, ids=lambda case: f"{case.name}-v{case.version}")
def test_bytes_by_hand_are_written_as_they_were_read(case: Case) -> None:
    if case.topic != "control":  # `batch/control.py` reads and writes those
        assert write_again(case.topic, case.key, case.value, case.version) == case.value


def test_bytes_of_kafkas_classes_are_written_as_they_were_read() -> None:
    """Of every release, and with blobs in them."""
    rows = [row for row in golden() if "topic" in row]
    assert len(rows) > 300
    assert "GroupMetadataValue" in {row["name"] for row in rows}
    for row in rows:
        key = bytes.fromhex(row["key"]) if row.get("key") else None
        value = bytes.fromhex(row["value"])
        what = (row["release"], row["name"], row["version"])
        assert write_again(row["topic"], key, value, row["version"]) == value, what


def test_tags_that_no_table_knows_are_kept() -> None:
    schema = read_table("cluster_metadata")["record", 3][0]
    values_read = {"partitionId": 1, "_unknownTaggedFields": {"9": "AQI="}}
    written = write_body(schema, 2, values_read)
    assert written.endswith(b"\x01\x09\x02\x01\x02")
    read = struct_reader(schema.fields, 2, flexible=True)
    assert write_body(schema, 2, read(written, 0)[0]) == written


def test_a_snapshot_is_read_as_what_it_was_made_of(tmp_path: Path) -> None:
    topic_id = "AAECAwQFBgcICQoLDA0ODw"
    records = [
        SnapshotRecord("FEATURE_LEVEL_RECORD", 0, {"name": "metadata.version", "featureLevel": 25}),
        SnapshotRecord("TOPIC_RECORD", 0, {"name": "orders", "topicId": topic_id}),
        *(
            SnapshotRecord(
                "CONFIG_RECORD",
                0,
                {"resourceType": 2, "resourceName": "orders", "name": f"c{at}", "value": "v" * 900},
            )
            for at in range(3000)
        ),
    ]
    folder = tmp_path / "__cluster_metadata-0"
    folder.mkdir()
    data = write_snapshot(records, 1, 1000)
    assert data[61 + 6 :].count(b"metadata.version") == 1
    (folder / snapshot_name(len(records), 1)).write_bytes(data)
    (partition,) = find_partitions([str(tmp_path)])
    image, errors = read_image(read_partition(partition))
    assert errors == []
    assert isinstance(image, Image)
    assert [entry.data for entry in image.entries.values()] == [each.data for each in records]
