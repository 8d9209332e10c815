"""The files beside a log, read by us, in the words of kafka-dump-log."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from dump_log import Line
from ottla.log.files.offset_index import read_offset_index
from ottla.log.files.producer_snapshot import read_producer_snapshot
from ottla.log.files.time_index import read_time_index
from ottla.log.files.transaction_index import read_transaction_index


def offset_entries(path: Path) -> list[Line]:
    index = read_offset_index(path.read_bytes(), int(path.stem))
    return [
        {"line": "entry", "offset": str(offset), "position": str(position)}
        for offset, position in zip(index.offset.tolist(), index.position.tolist(), strict=True)
    ]


def time_entries(path: Path) -> list[Line]:
    index = read_time_index(path.read_bytes(), int(path.stem))
    return [
        {"line": "entry", "timestamp": str(timestamp), "offset": str(offset)}
        for timestamp, offset in zip(index.timestamp.tolist(), index.offset.tolist(), strict=True)
    ]


def transaction_entries(path: Path) -> list[Line]:
    names = ("version", "producerId", "firstOffset", "lastOffset", "lastStableOffset")
    return [
        {"line": "entry"} | dict(zip(names, map(str, entry), strict=True))
        for entry in read_transaction_index(path.read_bytes()).tolist()
    ]


def producer_entries(path: Path) -> list[Line]:
    return [say_producer(entry) for entry in read_producer_snapshot(path.read_bytes(), str(path))]


def say_producer(entry: np.void) -> Line:
    """A producer in the words of kafka-dump-log, which leaves out what a new producer lacks."""
    open_since = entry["current_transaction_first_offset"]
    said: Line = {
        "producerId": entry["producer_id"],
        "producerEpoch": entry["producer_epoch"],
        "coordinatorEpoch": entry["coordinator_epoch"],
        "currentTxnFirstOffset": "OptionalLong.empty"
        if open_since < 0
        else f"OptionalLong[{open_since}]",
        "lastTimestamp": entry["timestamp"],
    }
    if entry["last_sequence"] >= 0:
        said |= {
            "firstSequence": first_sequence(entry),
            "lastSequence": entry["last_sequence"],
            "lastOffset": entry["last_offset"],
            "offsetDelta": entry["offset_delta"],
            "timestamp": entry["timestamp"],
        }
    return {"line": "entry"} | {name: str(value) for name, value in said.items()}


def first_sequence(entry: np.void) -> int:
    return (int(entry["last_sequence"]) - int(entry["offset_delta"])) % 2**31


ENTRIES: dict[str, Callable[[Path], list[Line]]] = {
    ".index": offset_entries,
    ".timeindex": time_entries,
    ".txnindex": transaction_entries,
    ".snapshot": producer_entries,
}


def is_unwritten(line: Line, base_offset: int) -> bool:
    """A preallocated index that has no entry yet is printed as one entry of zeros."""
    zeros = {"line": "entry", "offset": str(base_offset)}
    return line in (zeros | {"position": "0"}, zeros | {"timestamp": "0"})
