"""`ottla inspect`: every byte of a batch under the name of its field."""

import re
from pathlib import Path

import pytest

import builders
from builders import Row
from cli.command import run, run_json
from ottla.cli import main

# The worked example of the format's description, byte by byte.
EXAMPLE = bytes.fromhex(
    "0000000000000000 00000049 ffffffff 02 dbda21c9 0000 00000001 0000018f125c7400"
    "0000018f125c7400 ffffffffffffffff ffff ffffffff 00000002"
    "16000000010a68656c6c6f00 16000002010a776f726c6400"
)
TIME = "1714000000000 (2024-04-24T23:06:40.000Z)"
GOLDEN = f"""\
FILE @ 0: a batch of magic 2, 85 bytes, to 84
position bytes field value
0 00 00 00 00 00 00 00 00 baseOffset 0
8 00 00 00 49 batchLength 73 (the batch has 85 bytes)
12 ff ff ff ff partitionLeaderEpoch -1 (none)
16 02 magic 2
17 db da 21 c9 crc 0xdbda21c9 (CRC-32C of bytes 21 to 84, valid)
21 | 00 00 attributes 0 (none, CreateTime)
23 | 00 00 00 01 lastOffsetDelta 1 (offset 1)
27 | 00 00 01 8f 12 5c 74 00 baseTimestamp {TIME}
35 | 00 00 01 8f 12 5c 74 00 maxTimestamp {TIME}
43 | ff ff ff ff ff ff ff ff producerId -1 (none)
51 | ff ff producerEpoch -1 (none)
53 | ff ff ff ff baseSequence -1 (none)
57 | 00 00 00 02 recordsCount 2
record 0
61 | 16 length 11
62 | 00 attributes 0
63 | 00 timestampDelta 0 (1714000000000, 2024-04-24T23:06:40.000Z)
64 | 00 offsetDelta 0 (offset 0)
65 | 01 keyLength -1 (null)
66 | 0a valueLength 5
67 | 68 65 6c 6c 6f value "hello"
72 | 00 headersCount 0
record 1
73 | 16 length 11
74 | 00 attributes 0
75 | 00 timestampDelta 0 (1714000000000, 2024-04-24T23:06:40.000Z)
76 | 02 offsetDelta 1 (offset 1)
77 | 01 keyLength -1 (null)
78 | 0a valueLength 5
79 | 77 6f 72 6c 64 value "world"
84 | 00 headersCount 0
"""


def segment(tmp_path: Path, *batches: bytes) -> Path:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"".join(batches))
    return path


def shown(path: Path, *flags: object) -> tuple[int, list[str]]:
    """Exit status, and lines with their columns one space apart."""
    ran = run("inspect", *flags, path)
    lines = ran.out.replace(str(path), "FILE").splitlines()
    return ran.status, [" ".join(line.split()) for line in lines]


def bytes_shown(lines: list[str]) -> bytes:
    """The hex column alone, of what is not decompressed."""
    hexes = [re.match(r"\d+ (?:\| )?((?:[0-9a-f]{2} )+)", line + " ") for line in lines]
    return b"".join(bytes.fromhex(found[1]) for found in hexes if found)


def test_the_worked_example_is_shown_byte_by_byte(tmp_path: Path) -> None:
    status, lines = shown(segment(tmp_path, EXAMPLE))
    assert lines == GOLDEN.splitlines()
    assert status == 0
    assert bytes_shown(lines) == EXAMPLE


ROWS = [
    Row(10, 1_700_000_000_000, b"k", b"one", ((b"h", b"1"), (b"n", None))),
    Row(11, 1_700_000_000_001, None, b"two"),
]


@pytest.mark.parametrize("codec", range(1, 5))
def test_compressed_records_are_shown_decompressed(tmp_path: Path, codec: int) -> None:
    _, plain = shown(segment(tmp_path, builders.batch(ROWS)))
    _, packed = shown(segment(tmp_path, builders.batch(ROWS, codec=codec)))
    at = packed.index("record 0")
    assert packed[at - 1] == f"decompressed: {len(builders.batch(ROWS)) - 61} bytes"
    # The same lines, but that positions begin at 0 and no CRC covers what is decompressed.
    moved = [
        re.sub(r"^(\d+) \|", lambda found: str(int(found[1]) - 61), line)
        for line in plain[plain.index("record 0") :]
    ]
    assert packed[at:] == moved


@pytest.mark.parametrize("magic", [0, 1])
def test_a_message_is_shown_byte_by_byte(tmp_path: Path, magic: int) -> None:
    data = builders.message(ROWS[0], magic=magic)
    status, lines = shown(segment(tmp_path, data))
    assert status == 0
    assert bytes_shown(lines) == data
    assert f"16 | 0{magic} magic {magic}" in lines
    assert any(line.endswith('| 6b key "k"') for line in lines)
    assert ("timestamp" in " ".join(lines)) == (magic == 1)


def test_messages_of_a_wrapper_are_shown_with_their_offsets(tmp_path: Path) -> None:
    status, lines = shown(segment(tmp_path, builders.wrapper(ROWS, magic=1, codec=1)))
    assert status == 0
    inner = lines[lines.index("message 0") :]
    assert "0 00 00 00 00 00 00 00 00 offset 0 (offset 10)" in inner
    assert any(line.endswith("offset 1 (offset 11)") for line in inner)
    assert sum("CRC-32 of this message, valid" in line for line in inner) == 2


@pytest.mark.parametrize(
    ("flags", "position"),
    [
        ((), 0),
        (("--position", 0), 0),
        (("--position", 84), 0),
        (("--position", 85), 85),
        (("--offset", 1), 0),
        (("--offset", 10), 85),
        (("--offset", 11), 85),
    ],
)
def test_a_batch_is_found(tmp_path: Path, flags: tuple[object, ...], position: int) -> None:
    _, lines = shown(segment(tmp_path, EXAMPLE, builders.batch(ROWS)), *flags)
    assert lines[0].startswith(f"FILE @ {position}: a batch")


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--offset", "5"], "no batch has offset 5; the next begins at 10"),
        (["--offset", "12"], "no batch has offset 12; the last ends at 11"),
        (["--position", "9999"], "there is none at 9999"),
        (["--position", "-1"], "there is none at -1"),
    ],
)
def test_a_batch_that_is_not_there_is_wrong_usage(
    tmp_path: Path, flags: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = segment(tmp_path, EXAMPLE, builders.batch(ROWS))
    assert main(["inspect", *flags, str(path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert reason in printed.err


def test_a_batch_with_a_wrong_crc_is_shown_to_its_last_record(tmp_path: Path) -> None:
    damaged = EXAMPLE[:-2] + b"D\0"
    status, lines = shown(segment(tmp_path, damaged))
    assert status == 1
    assert bytes_shown(lines) == damaged
    assert '79 | 77 6f 72 6c 44 value "worlD"' in lines
    assert any("wrong: they have 0x" in line for line in lines)
    assert "crc-matches" in lines[-1]


def test_a_broken_record_is_shown_as_far_as_it_goes(tmp_path: Path) -> None:
    # The value of the second record claims 60 bytes.
    damaged = builders.reseal(EXAMPLE[:78] + b"\x78" + EXAMPLE[79:])
    status, lines = shown(segment(tmp_path, damaged))
    assert status == 1
    assert bytes_shown(lines) == damaged
    assert "78 | 78 valueLength 60" in lines
    assert "79 | 77 6f 72 6c 64 00 (no field) 6 bytes" in lines
    assert "record-field-size" in lines[-1]


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        pytest.param(EXAMPLE[:8] + bytes(4) + EXAMPLE[12:], "batch-size-minimum", id="size"),
        pytest.param(EXAMPLE[:16] + b"\x07" + EXAMPLE[17:], "magic-known", id="magic"),
    ],
)
def test_bytes_that_are_no_batch_are_shown_as_the_front_of_one(
    tmp_path: Path, data: bytes, rule: str
) -> None:
    status, lines = shown(segment(tmp_path, data))
    assert status == 1
    assert "no whole batch" in lines[0]
    assert bytes_shown(lines) == data[:61]
    assert rule in lines[-1]


def test_a_batch_that_is_cut_off_is_shown_to_its_end(tmp_path: Path) -> None:
    status, lines = shown(segment(tmp_path, EXAMPLE[:30]))
    assert status == 1
    assert "no whole batch" in lines[0]
    assert bytes_shown(lines) == EXAMPLE[:30]


def test_long_fields_are_cut_at_a_number_of_bytes(tmp_path: Path) -> None:
    data = builders.batch([Row(0, 0, None, b"v" * 1000)])
    path = segment(tmp_path, data)
    assert "| ... 936 more bytes" in shown(path)[1]
    assert bytes_shown(shown(path, "--max-bytes", 1000)[1]) == data


def test_every_batch_of_the_corpus_is_shown(corpus: Path) -> None:
    """The exit status of each is what Kafka's classes say; none is too broken to be shown."""
    for path in sorted((corpus / "segments").glob("bad-*.log")):
        lines = run_json("dump", path).lines
        broken = {line["position"] for line in lines if line["type"] == "error"}
        for position in {line["position"] for line in lines[:-1]}:
            status, shown_lines = shown(path, "--position", position)
            assert shown_lines[0].startswith(f"FILE @ {position}: ")
            assert status == (position in broken), (path, position)
