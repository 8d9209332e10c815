"""What the naive reader and ottla say of the same bytes, in one shape to be compared."""

from pathlib import Path
from typing import Any

import naive
import ottla
from ottla.errors import CorruptLogError

BATCH_COLUMNS = ("magic", "baseOffset", "partitionLeaderEpoch", "producerId", "producerEpoch")
RECORD_COLUMNS = ("position", "index", "offset", "timestamp", "sequence", "key", "value")
COLUMNS = (
    *RECORD_COLUMNS,
    "rawHeaders",
    "timestampType",
    "codec",
    "isTransactional",
    *BATCH_COLUMNS,
)
TIMESTAMP_TYPES = {"NoTimestampType": -1, "CreateTime": 0, "LogAppendTime": 1}

Line = dict[str, Any]


def naive_rows(lines: list[Line]) -> list[Line]:
    """The rows of the batches that are right; control records and broken batches give none."""
    batches = {line["position"]: line for line in lines if line["type"] == "batch"}
    broken = {line["position"] for line in lines if line.get("stage") == "records"}
    control = {position for position, line in batches.items() if line["isControl"]}
    records = [line for line in lines if line["type"] == "record"]
    return [
        _row(line, batches[line["position"]])
        for line in records
        if line["position"] not in broken | control
    ]


def naive_error(lines: list[Line], data: bytes) -> int | None:
    """Where the first error is; the zeros of a preallocated file are none."""
    errors = [line for line in lines if line["type"] == "error"]
    first: int | None = min((line["position"] for line in errors), default=None)
    return None if first is None or not any(data[first:]) else first


def ottla_rows(path: Path) -> list[Line]:
    batches = ottla.read_segment(str(path), columns=COLUMNS, mode="DROPMALFORMED")
    return [_without_names(row) for batch in batches for row in batch.to_pylist()]


def ottla_error(path: Path) -> int | None:
    """Where FAILFAST stops."""
    try:
        for batch in ottla.read_segment(str(path), columns=COLUMNS):
            batch.validate(full=True)
    except CorruptLogError as error:
        return error.violation.position
    return None


def check(data: bytes, path: Path) -> None:
    """Ottla gives the rows of the naive reader and stops where it finds the first error."""
    path.write_bytes(data)
    lines = naive.decode(data)
    assert ottla_rows(path) == naive_rows(lines)
    assert ottla_error(path) == naive_error(lines, data)


def _row(record: Line, batch: Line) -> Line:
    return {
        **{name: record[name] for name in RECORD_COLUMNS},
        "rawHeaders": [tuple(header) for header in record["headers"]],
        "timestampType": TIMESTAMP_TYPES[batch["timestampType"]],
        "codec": batch["codecId"],
        "isTransactional": batch["isTransactional"],
        **{name: batch[name] for name in BATCH_COLUMNS},
    }


def _without_names(row: Line) -> Line:
    return row | {"rawHeaders": [(header["key"], header["value"]) for header in row["rawHeaders"]]}
