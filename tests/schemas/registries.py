"""Topics with a registry beside them, for tests."""

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fastavro

from builders import Row, batch
from log.generated import write_partition

Record = tuple[bytes, bytes | None]


def registered(subject: str, version: int, number: int, schema: Any, **more: Any) -> Record:
    """A record of `_schemas`; a schema that is no text is JSON."""
    text = schema if isinstance(schema, str) else json.dumps(schema)
    key = {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}
    value = {"subject": subject, "version": version, "id": number, "schema": text}
    return json.dumps(key).encode(), json.dumps(value | {"deleted": False} | more).encode()


def write_registry(folder: Path, records: Sequence[Record]) -> None:
    rows = [Row(at, 1000, key, value) for at, (key, value) in enumerate(records)]
    write_partition(folder, "_schemas-0", 0, batch(rows))


def write_values(folder: Path, topic: str, values: Sequence[bytes | None], base: int = 0) -> None:
    rows = [Row(base + at, 1000, b"k", value) for at, value in enumerate(values)]
    write_partition(folder, f"{topic}-0", base, batch(rows))


def framed(number: int, schema: Any, value: Any) -> bytes:
    """A datum as Confluent's serialiser writes it."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return b"\0" + number.to_bytes(4, "big") + stream.getvalue()


def record(name: str, *fields: Any) -> dict[str, Any]:
    """A schema of a record: fields are pairs of name and type, or have a default too."""
    made = [
        {"name": each[0], "type": each[1]} | ({"default": each[2]} if len(each) > 2 else {})
        for each in fields
    ]
    return {"type": "record", "name": name, "namespace": "shop", "fields": made}
