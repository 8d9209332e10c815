"""How `ottla dump` shows bytes: in each encoding as Python does it, and without any of them."""

import base64
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import builders
from builders import Row
from cli.command import run
from cli.here import run as run_here
from ottla.dump.payloads import _secret_key
from rules.histories import COMMIT, marker
from siphash import siphash_24
from strategies import FIELDS

HEADERS = st.lists(st.tuples(st.just(b"h"), FIELDS), max_size=3).map(tuple)
TEXTS = st.text(max_size=12).map(str.encode)  # controls, quotes and other scripts among them
VALUES = st.one_of(FIELDS, TEXTS)
ROWS = st.lists(st.builds(Row, st.just(0), st.just(0), VALUES, VALUES, HEADERS), min_size=1)
ENCODED: dict[str, Callable[[bytes], str]] = {
    "utf8": lambda data: data.decode("utf-8", "backslashreplace"),
    "base64": lambda data: base64.b64encode(data).decode(),
    "hex": bytes.hex,
}


def write(folder: Path, rows: list[Row]) -> Path:
    path = folder / "0.log"
    path.write_bytes(builders.batch([row._replace(offset=at) for at, row in enumerate(rows)]))
    return path


@pytest.mark.parametrize("encoding", ENCODED)
@given(rows=ROWS)
def test_json_has_bytes_in_the_encoding(tmp_path: Path, encoding: str, rows: list[Row]) -> None:
    def shown(data: bytes | None) -> str | None:
        return None if data is None else ENCODED[encoding](data)

    path = write(tmp_path, rows)
    lines = run("dump", path, "--format", "jsonl", "--encoding", encoding).of("record")
    for line, row in zip(lines, rows, strict=True):
        assert (line["key"], line["value"]) == (shown(row.key), shown(row.value))
        assert line["headers"] == [["h", shown(value)] for _, value in row.headers]


@pytest.mark.parametrize("encoding", ["base64", "hex"])
@given(rows=ROWS)
def test_text_has_bytes_in_the_encoding(tmp_path: Path, encoding: str, rows: list[Row]) -> None:
    def shown(name: str, data: bytes | None) -> str:
        return "" if data is None else f" {name}: {ENCODED[encoding](data)}"

    def size(data: bytes | None) -> int:
        return -1 if data is None else len(data)

    path = write(tmp_path, rows)
    out = run("dump", path, "--format", "text", "--encoding", encoding).out
    lines = [line for line in out.split("\n") if line.startswith("| ")]
    for line, row in zip(lines, rows, strict=True):
        values = ["null" if value is None else ENCODED[encoding](value) for _, value in row.headers]
        named = f"{','.join('h' for _ in values)}"
        headers = f"[{named}] headerValues: [{','.join(values)}]" if values else "[]"
        assert f"keySize: {size(row.key)} valueSize: {size(row.value)} " in line
        assert line.endswith(
            f" headerKeys: {headers}{shown('key', row.key)}{shown('payload', row.value)}"
        )


@pytest.mark.parametrize(("style", "encoding"), [("text", "utf8"), ("jsonl", "base64")])
def test_each_format_has_its_own_encoding(tmp_path: Path, style: str, encoding: str) -> None:
    path = write(tmp_path, [Row(0, 0, b"\x00k\xff", "né".encode(), ((b"h", b"\n"),))])
    plain = run("dump", path, "--format", style)
    assert run("dump", path, "--format", style, "--encoding", encoding) == plain


def hashed(data: bytes) -> str:
    """By the reference in Python, with the key of this process."""
    first, second = _secret_key().tolist()
    return f"{siphash_24(first, second, data):016x}"


@given(rows=ROWS)
def test_json_without_payload_has_sizes_and_hashes(tmp_path: Path, rows: list[Row]) -> None:
    def shown(data: bytes | None) -> dict[str, object] | None:
        return data if data is None else {"size": len(data), "hash": hashed(data)}

    path = write(tmp_path, rows)
    lines = run("dump", path, "--format", "jsonl", "--no-payload").of("record")
    for line, row in zip(lines, rows, strict=True):
        assert (line["key"], line["value"]) == (shown(row.key), shown(row.value))
        assert line["headers"] == [["h", shown(value)] for _, value in row.headers]


def test_text_without_payload_has_sizes_and_hashes(tmp_path: Path) -> None:
    path = write(tmp_path, [Row(0, 7, b"ada", b"tea", ((b"h", b""), (b"i", None)))])
    out = run("dump", path, "--format", "text", "--no-payload").out
    (line,) = [line for line in out.split("\n") if line.startswith("| ")]
    digest = {data: f"({len(data)} bytes hash {hashed(data)})" for data in (b"", b"ada", b"tea")}
    assert line == (
        "| offset: 0 CreateTime: 7 keySize: 3 valueSize: 3 sequence: -1 headerKeys: [h,i]"
        f" headerValues: [{digest[b'']},null] key: {digest[b'ada']}"
        f" payload: {digest[b'tea']}"
    )


SECRET = b"S3cr3t!P4ssw0rd~" * 2
ROW = Row(0, 0, SECRET, SECRET, ((b"name", SECRET),))


def broken(data: bytes, at: int, value: int) -> bytes:
    changed = bytearray(data)
    changed[at] = value
    return bytes(changed)


def following(data: bytes) -> bytes:
    """A batch of no known magic that ends amid the next one, so that its records are cut."""
    first = builders.batch([Row(0, 0, None, b"x")])
    size = len(first) + 61 + 12  # into the key of the record that follows
    return first[:8] + (size - 12).to_bytes(4, "big") + first[12:16] + b"\x63" + first[17:] + data


LOGS = {
    "v0": builders.segment([ROW], magic=0, codec=0),
    "v1": builders.segment([ROW], magic=1, codec=1),
    "v2": builders.batch([ROW]),
    "zstd": builders.batch([ROW], codec=4),
    "many": builders.batch([ROW._replace(offset=at) for at in range(100)]),
    "crc": broken(builders.batch([ROW]), 80, 1),
    "magic": following(builders.batch([ROW])),
    "cut": builders.batch([ROW])[:-3],
    "record": builders.reseal(broken(builders.batch([ROW]), 61, 2)),
    "only": SECRET * 10,
    "control": builders.batch([Row(0, 0, SECRET, SECRET)], attributes=0x30),
    "voters": builders.batch([Row(0, 0, b"\0\0\0\6", b"\0\0" + SECRET)], attributes=0x20),
}


def leaks(text: str) -> list[str]:
    """The ways in which some of the secret is shown."""
    pieces = {SECRET[at : at + 6] for at in range(16)}
    forms = {piece.decode() for piece in pieces} | {piece.hex() for piece in pieces}
    for at in range(3):
        forms |= {base64.b64encode(SECRET[at:])[:20].decode()}
    forms |= {str(int.from_bytes(SECRET[at : at + width])) for at in range(16) for width in (4, 8)}
    return [form for form in forms if form in text]


@pytest.mark.parametrize("topic", ["orders", "__consumer_offsets", "__cluster_metadata"])
@pytest.mark.parametrize("style", ["text", "jsonl"])
@pytest.mark.parametrize("name", LOGS)
def test_no_payload_shows_no_byte_of_a_record(
    tmp_path: Path, name: str, style: str, topic: str
) -> None:
    folder = tmp_path / f"{topic}-0"
    folder.mkdir()
    (folder / f"{0:020d}.log").write_bytes(LOGS[name])
    ran = run_here("dump", folder, "--format", style, "--no-payload")
    assert ran.status in (0, 1)
    assert ran.out
    assert leaks(ran.out + ran.err) == []


@pytest.mark.parametrize("name", ["v0", "v1", "v2", "zstd"])
def test_the_same_logs_show_it_otherwise(tmp_path: Path, name: str) -> None:
    """Or else the test above finds nothing because it can not."""
    path = tmp_path / "0.log"
    path.write_bytes(LOGS[name])
    for style in ("text", "jsonl"):
        for encoding in ENCODED:
            assert leaks(run("dump", path, "--format", style, "--encoding", encoding).out)


def test_markers_of_transactions_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(marker(0, 7, 0, COMMIT))
    assert "endTxnMarker: COMMIT" in run("dump", path, "--format", "text", "--no-payload").out
    (line,) = run("dump", path, "--format", "jsonl", "--no-payload").of("record")
    assert line["control"]["type"] == "COMMIT"


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--encoding", "hex"], "--encoding"),
        (["--decode"], "--decode"),
        (["--offsets-decoder"], "a decoder"),
        (["--no-check-crcs"], "--no-check-crcs"),
    ],
)
def test_what_shows_bytes_does_not_go_with_it(tmp_path: Path, flags: list[str], named: str) -> None:
    path = write(tmp_path, [ROW])
    ran = run_here("dump", path, "--no-payload", *flags)
    assert (ran.status, ran.out) == (2, "")
    assert f"--no-payload shows no byte of a record: leave out {named}" in ran.err


def test_hashes_tell_the_same_from_the_different(tmp_path: Path) -> None:
    path = write(tmp_path, [Row(0, 0, b"a", b"x"), Row(0, 0, b"a", b"y"), Row(0, 0, b"b", b"x")])
    lines = run("dump", path, "--format", "jsonl", "--no-payload").of("record")
    keys, values = ([json.dumps(line[name]) for line in lines] for name in ("key", "value"))
    assert (keys[0] == keys[1] != keys[2], values[0] == values[2] != values[1]) == (True, True)
    assert all(re.search(r'"hash": "[0-9a-f]{16}"', key) for key in keys)


def test_hashes_are_others_in_another_process(tmp_path: Path) -> None:
    path = write(tmp_path, [Row(0, 0, b"a", b"x")])
    command = [sys.executable, "-m", "ottla.cli", "dump", str(path), "--no-payload"]
    runs = [subprocess.run(command, capture_output=True, text=True).stdout for _ in range(2)]
    found = [re.findall("hash ([0-9a-f]{16})", out) for out in runs]
    assert [len(set(hashes)) for hashes in found] == [2, 2]
    assert not set(found[0]) & set(found[1])


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("style", ["text", "jsonl"])
def test_no_crc_lets_one_check_a_guess(tmp_path: Path, style: str, magic: int) -> None:
    row = Row(0, 7, None, b"x")
    path = tmp_path / "0.log"
    path.write_bytes(builders.batch([row]) if magic == 2 else builders.message(row, magic=magic))
    plain = run("dump", path, "--format", style).out
    hidden = run("dump", path, "--format", style, "--no-payload").out
    crcs = r'(?:crc: |"crc":)(-?\d+)'
    assert set(re.findall(crcs, hidden)) == {"-1"} != set(re.findall(crcs, plain))
    assert "false" not in re.findall(r"(?i)isvalid: (\w+)", hidden)
