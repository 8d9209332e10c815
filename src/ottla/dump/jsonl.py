"""A dump as JSON lines: the objects of `docs/cli.md`, each with the key `file` at its end."""

from collections.abc import Sequence
from typing import Any, Final

from ottla.batch.control import cached, read_control
from ottla.dump.payloads import JSON_HEX, JSON_UTF8
from ottla.dump.style import EntriesEnd, FileEnd, Problem, Style
from ottla.dump.values import json_line, json_text
from ottla.errors import Row
from ottla.internal import DecodedRecord
from ottla.kernels.text.encodings import digest_json
from ottla.kernels.text.render_json import render_json
from ottla.options.dump import Encoding


def _open_file(path: str) -> bytes:  # noqa: ARG001
    return b""


def _close_line(path: str) -> bytes:
    return b"," + json_line({"file": path})[1:]


def _say_problem(problem: Problem) -> bytes:
    violation = problem.violation
    line: dict[str, Any] = {
        "type": "error",
        "position": violation.position,
        "stage": str(violation.rule.stage),
        "exception": "CorruptLogError",
        "message": str(violation),
    }
    if problem.record_index is not None:
        line["index"] = problem.record_index
    if violation.rule.stage == "framing":
        line["resync"] = problem.resync
    row = violation.as_row()
    file = row.pop("file")
    return json_line(line | row | {"file": file})


@cached
def _say_control(key: bytes | None, value: bytes | None) -> bytes:
    record = read_control(key, value)
    return b',"control":' + json_text(record.as_json()).encode()


def _say_decoded(decoded: DecodedRecord) -> bytes:
    return b',"decoded":' + json_text(decoded._asdict()).encode()


def _say_end(path: str, end: FileEnd) -> bytes:
    return json_line(
        {
            "type": "end",
            "position": end.position,
            "fileSize": end.size,
            "trailingBytes": end.trailing,
            "batches": end.batches,
            "records": end.records,
            "errors": end.errors,
            "file": path,
        }
    )


def _say_entries(path: str, kind: str, rows: Sequence[Row]) -> bytes:
    return b"".join(json_line({"type": kind, **row, "file": path}) for row in rows)


def _say_entries_end(path: str, end: EntriesEnd) -> bytes:
    return json_line(
        {
            "type": "end",
            "fileSize": end.size,
            "entries": end.entries,
            "errors": end.errors,
            "file": path,
        }
    )


JSONL: Final = Style(
    render=render_json,
    forms={Encoding.UTF8: JSON_UTF8, Encoding.BASE64: None, Encoding.HEX: JSON_HEX},
    digest=digest_json,
    utf8_keys=True,
    open_file=_open_file,
    close_line=_close_line,
    say_problem=_say_problem,
    say_control=_say_control,
    no_control=b',"control":null',
    say_decoded=_say_decoded,
    say_end=_say_end,
    say_entries=_say_entries,
    say_entries_end=_say_entries_end,
)
