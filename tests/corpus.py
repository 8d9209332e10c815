"""The corpus of Kafka's own answers: its cases, and what counts as the same answer."""

import json
from itertools import zip_longest
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"
CASES = tuple((DATA / "corpus-cases.txt").read_text().split())

Line = dict[str, Any]


def read_lines(text: str | bytes) -> list[Line]:
    return [json.loads(line) for line in text.splitlines()]


def expected_lines(corpus: Path, case: str, *, check_crcs: bool = True) -> list[Line]:
    """What Kafka answers; without checking CRCs that is the same for most cases."""
    unchecked = corpus / "expected-nocrc" / f"{case}.jsonl"
    checked = corpus / "expected" / f"{case}.jsonl"
    path = unchecked if not check_crcs and unchecked.exists() else checked
    return read_lines(path.read_text())


def difference(found: list[Line], expected: list[Line]) -> str | None:
    """The first line that differs, or None; the README of the corpus says what may differ."""
    fallen = {line["position"] for line in expected if line.get("exception") == "OutOfMemoryError"}
    nothing: Line = {}
    pairs = zip_longest(
        _comparable(found, fallen), _comparable(expected, fallen), fillvalue=nothing
    )
    for number, (ours, theirs) in enumerate(pairs):
        fields = [name for name in ours | theirs if _text(ours, name) != _text(theirs, name)]
        if fields:
            found_text = {name: ours.get(name, "nothing") for name in fields}
            expected_text = {name: theirs.get(name, "nothing") for name in fields}
            return f"line {number}: found {found_text}, expected {expected_text}"
    return None


def _comparable(lines: list[Line], fallen: set[int]) -> list[Line]:
    """Leave out what is free: the words of errors, and what a rejected batch gave before its error.

    Where Kafka itself fell over (`fallen`) any error counts as its own.
    """
    rejected = {line["position"] for line in lines if line.get("stage") == "records"} | fallen
    kept: list[Line] = []
    lost = {"record": 0, "error": 0}
    for line in lines:
        if line["type"] == "error" and line["position"] in fallen:
            kept.append({"type": "error", "position": line["position"], "stage": "records"})
        elif line["position"] in rejected and _is_partial(line):
            lost[line["type"]] += 1
        elif line["type"] == "error":
            kept.append({name: line[name] for name in ("type", "position", "stage")})
        elif line["type"] == "end":
            counts = {"records": line["records"] - lost["record"]}
            kept.append(line | counts | {"errors": line["errors"] - lost["error"]})
        else:
            kept.append(line)
    return kept


def _is_partial(line: Line) -> bool:
    return line["type"] == "record" or line.get("stage") in ("record", "control")


def _text(line: Line, name: str) -> str | None:
    """JSON again, because Python takes true, 1 and 1.0 for equal; None where there is no field."""
    return json.dumps(line[name]) if name in line else None
