"""We say what kafka-dump-log says of every file that real brokers wrote."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from broker import run_tool

from dump_log import Line, dump_lines, parse_dump, say
from ottla.log.offset_index import read_offset_index
from ottla.log.producer_snapshot import read_producer_snapshot
from ottla.log.time_index import read_time_index
from ottla.log.transaction_index import read_transaction_index

TAKEN = ("running", "stopped", "legacy")

Dumps = dict[str, dict[Path, list[Line]]]


@pytest.fixture(scope="module")
def kafka_dumps(logs: dict[str, Path], legacy_log: Path) -> Dumps:
    """What kafka-dump-log says, by how the directory was taken and by file."""
    taken = logs | {"legacy": legacy_log}
    return {name: dict(_dump_with_kafka(log_dir)) for name, log_dir in taken.items()}


def _dump_with_kafka(log_dir: Path) -> Iterator[tuple[Path, list[Line]]]:
    suffixes = {".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint"}
    files = sorted(path for path in log_dir.glob("*-*/*") if path.suffix in suffixes)
    text = run_tool(
        "org.apache.kafka.tools.DumpLogSegments",
        "--deep-iteration",
        "--print-data-log",
        "--key-decoder-class",
        "questions.Base64Decoder",
        "--value-decoder-class",
        "questions.Base64Decoder",
        "--files",
        ",".join(str(path) for path in files),
    )
    for name, lines in parse_dump(text).items():
        yield Path(name), lines


@pytest.mark.parametrize("taken", TAKEN)
def test_batches_and_records_are_what_kafka_dump_log_prints(
    kafka_dumps: Dumps, taken: str, capsys: pytest.CaptureFixture[str]
) -> None:
    dumps = {
        path: lines
        for path, lines in kafka_dumps[taken].items()
        if path.suffix in (".log", ".checkpoint")
    }
    for path, lines in dumps.items():
        assert say(dump_lines(path)) == lines, path
    records = sum(line["line"] == "record" for lines in dumps.values() for line in lines)
    assert records > 1000
    with capsys.disabled():
        print(f"\n{taken}: {len(dumps)} segments, {records} records agree with kafka-dump-log")


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


ENTRIES = {
    ".index": offset_entries,
    ".timeindex": time_entries,
    ".txnindex": transaction_entries,
    ".snapshot": producer_entries,
}


@pytest.mark.parametrize("suffix", ENTRIES)
@pytest.mark.parametrize("taken", TAKEN)
def test_index_entries_are_what_kafka_dump_log_prints(
    kafka_dumps: Dumps, taken: str, suffix: str
) -> None:
    dumps = {path: lines for path, lines in kafka_dumps[taken].items() if path.suffix == suffix}
    for path, lines in dumps.items():
        written = [line for line in lines if not is_unwritten(line, int(path.stem))]
        assert ENTRIES[suffix](path) == written, path
    assert dumps or (taken, suffix) == ("legacy", ".txnindex")


def is_unwritten(line: Line, base_offset: int) -> bool:
    """A preallocated index that has no entry yet is printed as one entry of zeros."""
    zeros = {"line": "entry", "offset": str(base_offset)}
    return line in (zeros | {"position": "0"}, zeros | {"timestamp": "0"})
