"""The oracle of the other tests is judged by Kafka's own answers."""

import base64
import re
from pathlib import Path
from typing import Any

import pytest

import naive
from corpus import CASES, difference, expected_lines

Line = dict[str, Any]

# Java decodes an encoded surrogate to one replacement character, Python to three.
SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _header_key(key: bytes) -> str:
    return SURROGATE.sub("\ufffd".encode(), key).decode(errors="replace")


def _printable(line: Line) -> Line:
    if line["type"] != "record":
        return line
    headers = [[_header_key(key), _base64(value)] for key, value in line["headers"]]
    return line | {"key": _base64(line["key"]), "value": _base64(line["value"]), "headers": headers}


def _without_control(lines: list[Line]) -> list[Line]:
    control = sum(line.get("stage") == "control" for line in lines)
    kept = [line for line in lines if line.get("stage") != "control"]
    kept[-1] |= {"errors": kept[-1]["errors"] - control}
    return [{name: value for name, value in line.items() if name != "control"} for line in kept]


@pytest.mark.parametrize("check_crcs", [True, False], ids=["crcs", "no-crcs"])
def test_the_naive_reader_gives_the_answers_of_kafka(corpus: Path, check_crcs: bool) -> None:
    for case in CASES:
        data = (corpus / "segments" / f"{case}.log").read_bytes()
        found = [_printable(line) for line in naive.decode(data, check_crcs=check_crcs)]
        expected = _without_control(expected_lines(corpus, case, check_crcs=check_crcs))
        assert difference(found, expected) is None, case
