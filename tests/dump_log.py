"""What kafka-dump-log prints, as data, and what `ottla dump` says in the same words."""

import base64
import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

from corpus import read_lines
from ottla.cli import main

Line = dict[str, Any]

# The value after "crc:" of a legacy message is followed by a brace that belongs to nothing.
_NAMED = re.compile(r"(\w+): (\[.*?\]|[^\s}]+)")
_NOTES = ("Log starting offset", "Snapshot end offset")
_TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime", "NoTimestampType")
_CONTROL = re.compile(
    r"(SnapshotHeader|SnapshotFooter|KRaftVersion|KRaftVoters|LeaderChange):? (\{.*\})"
)


def parse_dump(text: str) -> dict[str, list[Line]]:
    """The entries, batches and records of each file, in order; keys and payloads as base64."""
    files: dict[str, list[Line]] = {}
    lines: list[Line] = []
    compressed = "none"
    for line in text.splitlines():
        if line.startswith("Dumping "):
            lines = files.setdefault(line.removeprefix("Dumping "), [])
        elif named := _parse_line(line):
            lines.append(named)
            compressed = named.get("compresscodec", compressed)
            if named["line"] == "record" and compressed != "none":
                # The CRC of a message inside a wrapper: `ottla dump` says only when it is wrong.
                named.pop("crc", None)
    return files


def _parse_line(line: str) -> Line | None:
    if line.startswith(_NOTES) or line.endswith(" is empty."):
        return None
    control = _CONTROL.search(line)
    named: Line = dict(_NAMED.findall(line[: control.start()] if control else line))
    if control:
        named["control"] = json.loads(control[2])
    for kind in _TIMESTAMP_TYPES:
        if kind in named:
            named["timestampType"] = kind
            named["timestamp"] = named.pop(kind)
    named["line"] = "record" if line.startswith("| ") else "batch" if "magic" in named else "entry"
    return named


def dump_lines(path: Path, *flags: str) -> list[Line]:
    """What `ottla dump` prints of one file."""
    out = io.TextIOWrapper(io.BytesIO())
    with contextlib.redirect_stdout(out):
        main(["dump", "--format", "jsonl", *flags, str(path)])
        out.flush()
    lines = read_lines(out.buffer.getvalue())  # type: ignore[attr-defined]
    for line in lines:
        assert line.pop("file") == str(path)
    return lines


def say_batch(batch: Line) -> Line:
    """A batch line of `ottla dump` as kafka-dump-log would have it."""
    legacy = {"offset": batch["lastOffset"]}
    horizon = batch["deleteHorizonMs"]
    v2 = {
        "baseOffset": batch["baseOffset"],
        "lastOffset": batch["lastOffset"],
        "count": batch["count"],
        "baseSequence": batch["baseSequence"],
        "lastSequence": batch["lastSequence"],
        "producerId": batch["producerId"],
        "producerEpoch": batch["producerEpoch"],
        "partitionLeaderEpoch": batch["partitionLeaderEpoch"],
        "isTransactional": batch["isTransactional"],
        "isControl": batch["isControl"],
        "deleteHorizonMs": "OptionalLong.empty" if horizon is None else f"OptionalLong[{horizon}]",
    }
    said = (v2 if batch["magic"] == 2 else legacy) | {
        "position": batch["position"],
        "timestampType": batch["timestampType"],
        "timestamp": batch["maxTimestamp"],
        "size": batch["size"],
        "magic": batch["magic"],
        "compresscodec": batch["codec"],
        "crc": batch["crc"],
        "isvalid": batch["crcValid"],
    }
    return {"line": "batch"} | {name: _text(value) for name, value in said.items()}


def say_record(record: Line, batch: Line) -> Line:
    """A record line of `ottla dump` as kafka-dump-log would have it."""
    said = {
        "offset": record["offset"],
        "timestampType": batch["timestampType"],
        "timestamp": record["timestamp"],
        "keySize": _size(record["key"]),
        "valueSize": _size(record["value"]),
    }
    if batch["magic"] == 2:
        said["sequence"] = record["sequence"]
        said["headerKeys"] = "[" + ",".join(key for key, _ in record["headers"]) + "]"
    else:
        said["isValid"] = True  # else there is an error line in its place
        if batch["codec"] == "none":
            said["crc"] = batch["crc"]
    if batch["isControl"]:
        said |= _say_control(record["control"])
    else:
        for name, data in (("key", record["key"]), ("payload", record["value"])):
            if data is not None:
                said[name] = "b64:" + data
    return {"line": "record"} | {
        name: value if name == "control" else _text(value) for name, value in said.items()
    }


def _say_control(control: Line) -> Line:
    if control["type"] in ("COMMIT", "ABORT"):
        return {"endTxnMarker": control["type"], "coordinatorEpoch": control["coordinatorEpoch"]}
    fields = {name: control[name] for name in control.keys() - {"type", "typeId", "keyVersion"}}
    if control["type"] == "LEADER_CHANGE":
        for name in ("voters", "grantingVoters"):
            fields[name] = [_say_voter(voter, control["version"]) for voter in control[name]]
    if control["type"] == "KRAFT_VOTERS":
        fields["voters"] = [_say_endpoints(voter) for voter in control["voters"]]
    return {"control": fields}


def _say_voter(voter: list[Any], version: int) -> Line:
    """Directory ids came with version 1 of the message."""
    number, directory = voter
    return {"voterId": number} | ({"voterDirectoryId": directory} if version > 0 else {})


def _say_endpoints(voter: Line) -> Line:
    lowest, highest = voter["kRaftVersionFeature"]
    return {
        "voterId": voter["voterId"],
        "voterDirectoryId": voter["directoryId"],
        "endpoints": [
            {"name": name, "host": host, "port": port} for name, host, port in voter["endpoints"]
        ],
        "kRaftVersionFeature": {"minSupportedVersion": lowest, "maxSupportedVersion": highest},
    }


def _size(data: str | None) -> int:
    return -1 if data is None else len(base64.b64decode(data))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def say(lines: list[Line]) -> list[Line]:
    """All lines of one file of `ottla dump` as kafka-dump-log would have them; errors stay."""
    said: list[Line] = []
    batch: Line = {}
    for line in lines:
        if line["type"] == "batch":
            batch = line
            said.append(say_batch(line))
        elif line["type"] == "record":
            said.append(say_record(line, batch))
        elif line["type"] == "error":
            said.append(line)
    return said
