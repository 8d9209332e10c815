"""A dump as text, in the words of kafka-dump-log (DumpLogSegments) where it has any."""

import os
from collections.abc import Sequence
from typing import Any, Final

from ottla.batch.control import cached, read_control
from ottla.dump.payloads import TEXT_BASE64, TEXT_HEX
from ottla.dump.style import EntriesEnd, FileEnd, Problem, Style
from ottla.dump.values import encode_text, json_text, printable
from ottla.errors import Row
from ottla.format.attributes import ControlType
from ottla.format.names import Kind, parse_file_name
from ottla.internal import DecodedRecord
from ottla.kernels.text.encodings import digest_text
from ottla.kernels.text.render_text import render_text
from ottla.options.dump import Encoding

_DELETE: Final = "<DELETE>"
_OPTIONAL: Final = "currentTxnFirstOffset"
_KRAFT_NAMES: Final = {
    ControlType.LEADER_CHANGE: "LeaderChange:",
    ControlType.SNAPSHOT_HEADER: "SnapshotHeader",
    ControlType.SNAPSHOT_FOOTER: "SnapshotFooter",
    ControlType.KRAFT_VERSION: "KRaftVersion",
    ControlType.KRAFT_VOTERS: "KRaftVoters",
}


def _open_file(path: str) -> bytes:
    lines = f"Dumping {printable(path)}\n"
    named = parse_file_name(os.path.basename(path))
    if named is not None and named.kind is Kind.LOG:
        lines += f"Log starting offset: {named.offset}\n"
    if named is not None and named.kind is Kind.METADATA_SNAPSHOT:
        lines += f"Snapshot end offset: {named.offset}, epoch: {named.epoch}\n"
    return encode_text(lines)


def _close_line(path: str) -> bytes:  # noqa: ARG001
    return b"\n"


def _say_problem(problem: Problem) -> bytes:
    violation = problem.violation
    known = {
        "position": violation.position,
        "size": violation.size,
        "offset": violation.offset,
        "lastOffset": violation.last_offset,
        "index": problem.record_index,
        "found": violation.found,
        "expected": violation.expected,
        "resync": problem.resync,
    }
    fields = "".join(f" {name}: {value}" for name, value in known.items() if value is not None)
    severity, rule = violation.rule.severity, violation.rule
    return encode_text(printable(f"! {severity}: {rule}: {violation.detail}{fields}") + "\n")


@cached
def _say_control(key: bytes | None, value: bytes | None) -> bytes:
    record = read_control(key, value)
    if record.type in (ControlType.ABORT, ControlType.COMMIT):
        epoch = record.fields["coordinatorEpoch"]
        return encode_text(f" endTxnMarker: {record.type.name} coordinatorEpoch: {epoch}")
    if record.type is ControlType.UNKNOWN:
        return encode_text(f" controlType: UNKNOWN({record.type_id})")
    return encode_text(f" {_KRAFT_NAMES[record.type]} {json_text(record.fields)}")


def _say_decoded(decoded: DecodedRecord) -> bytes:
    text = ""
    if decoded.key is not None:
        text += f" key: {json_text(decoded.key)}"
    if decoded.value is not None:
        text += f" payload: {json_text(decoded.value)}"
    if decoded.tombstone:
        text += f" payload: {_DELETE}"
    if decoded.error is not None:
        text += f" undecodable: {printable(decoded.error)}"
    return encode_text(text)


def _say_end(path: str, end: FileEnd) -> bytes:
    text = ""
    if end.trailing:
        name = printable(os.path.basename(path))
        text = f"Found {end.trailing} invalid bytes at the end of {name}\n"
    counts = f"batches: {end.batches} records: {end.records} errors: {end.errors}"
    of_size = "" if end.size is None else f" of {end.size}"
    return encode_text(f"{text}End position: {end.position}{of_size} {counts}\n")


def _say_entries(path: str, kind: str, rows: Sequence[Row]) -> bytes:  # noqa: ARG001
    lines = (" ".join(f"{name}: {_say(name, row[name])}" for name in row) for row in rows)
    return encode_text("".join(f"{printable(line)}\n" for line in lines))


def _say(name: str, value: Any) -> Any:
    if name != _OPTIONAL:
        return value
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"  # as Java has it


def _say_entries_end(path: str, end: EntriesEnd) -> bytes:
    counts = f"entries: {end.entries} errors: {end.errors}"
    text = "" if end.entries or end.errors else f"{printable(path)} is empty.\n"
    return encode_text(f"{text}End position: {end.size} of {end.size} {counts}\n")


TEXT: Final = Style(
    render=render_text,
    forms={Encoding.UTF8: None, Encoding.BASE64: TEXT_BASE64, Encoding.HEX: TEXT_HEX},
    digest=digest_text,
    utf8_keys=False,
    open_file=_open_file,
    close_line=_close_line,
    say_problem=_say_problem,
    say_control=_say_control,
    no_control=b"",
    say_decoded=_say_decoded,
    say_end=_say_end,
    say_entries=_say_entries,
    say_entries_end=_say_entries_end,
)
