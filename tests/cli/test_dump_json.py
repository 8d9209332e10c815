"""JSON of `ottla dump` is what the standard library would write of the same rows."""

import base64
import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import builders
from builders import Row
from cli.command import run_json
from strategies import FIELDS, PRODUCERS, TIMESTAMPS

KEYS = st.one_of(st.text(max_size=8), st.sampled_from(['"', "\\", "\x00\x1f\n", "\u2028", "née"]))
HEADERS = st.lists(st.tuples(KEYS.map(str.encode), FIELDS), max_size=4).map(tuple)
ROWS = st.lists(st.builds(Row, st.just(0), TIMESTAMPS, FIELDS, FIELDS, HEADERS), min_size=1)


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def record_object(row: Row, index: int, sequence: int, path: str) -> dict[str, Any]:
    return {
        "type": "record",
        "position": 0,
        "index": index,
        "offset": row.offset,
        "timestamp": row.timestamp,
        "sequence": sequence,
        "key": _base64(row.key),
        "value": _base64(row.value),
        "headers": [[key.decode(), _base64(value)] for key, value in row.headers],
        "file": path,
    }


# Not for terminals, though JSON lets them stand.
CONTROLS = {code: f"\\u{code:04x}" for code in range(0x7F, 0xA0)}


@given(ROWS, st.integers(-(2**62), 2**62), PRODUCERS)
def test_record_lines_are_json_dumps_of_the_rows(
    tmp_path: Path, rows: list[Row], base: int, producer: tuple[int, int, int]
) -> None:
    placed = [row._replace(offset=base + at) for at, row in enumerate(rows)]
    path = tmp_path / 'a "name"\n.log'
    path.write_bytes(builders.batch(placed, producer=producer))
    first = producer[2]
    expected = [
        json.dumps(
            record_object(row, at, (first + at) % 2**31 if first >= 0 else -1, str(path)),
            ensure_ascii=False,
            separators=(",", ":"),
        ).translate(CONTROLS)
        for at, row in enumerate(placed)
    ]
    lines = run_json("dump", path).out.split("\n")[1:-2]
    assert lines == expected


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=50), st.booleans())
def test_base64_of_any_size_is_right(tmp_path: Path, values: list[bytes], packed: bool) -> None:
    path = tmp_path / "0.log"
    rows = [Row(at, 0, value, value) for at, value in enumerate(values)]
    path.write_bytes(builders.batch(rows, codec=4 * packed))
    lines = run_json("dump", path).of("record")
    assert [line["value"] for line in lines] == [_base64(value) for value in values]
    assert [line["key"] for line in lines] == [_base64(value) for value in values]


@given(st.binary(max_size=12))
def test_a_header_key_that_is_not_utf_8_is_still_json(tmp_path: Path, key: bytes) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(builders.batch([Row(0, headers=((key, b""), (b"\xff", b"")))]))
    (record,) = run_json("dump", path).of("record")
    assert record["headers"][1] == ["\ufffd", ""]
