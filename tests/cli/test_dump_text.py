"""Text of `ottla dump`: kafka-dump-log's lines, made safe for a terminal."""

import re
from pathlib import Path

import pytest

import builders
from builders import Row
from cli.command import run, run_json

KAFKA = (Path(__file__).parent / "data" / "kafka-dump-log.txt").read_text()
DUMPS = {
    text.split(".log\n", 1)[0]: text.split(".log\n", 1)[1].splitlines()
    for text in KAFKA.split("Dumping ")[1:]
}


def text_of(*arguments: object) -> list[str]:
    return run("dump", "--format", "text", *arguments).out.splitlines()


def without_wrapped_crcs(lines: list[str]) -> list[str]:
    """Kafka prints the CRC of messages in a wrapper; here only a wrong one is worth a line."""
    compressed = False
    kept = []
    for line in lines:
        if not line.startswith("|"):
            compressed = "compresscodec: none" not in line
        kept.append(re.sub(r" isValid: true crc: \d+", "", line) if compressed else line)
    return kept


def metadata(line: str) -> str:
    """What kafka-dump-log prints when it is not asked for data."""
    return re.sub(r" headerValues: \[.*?\](?= key| payload|$)| (?:key|payload): .*", "", line)


@pytest.mark.parametrize("case", DUMPS)
def test_the_lines_are_those_of_kafka_dump_log(corpus: Path, case: str) -> None:
    opening, *lines, end = text_of(corpus / "segments" / f"{case}.log")
    assert opening.startswith("Dumping ")
    assert end.startswith("End position: ")
    assert [metadata(line) for line in lines] == without_wrapped_crcs(DUMPS[case])


def record_lines(tmp_path: Path, row: Row) -> list[str]:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(builders.batch([row]))
    return [line for line in text_of(path) if line.startswith("|")]


FRONT = "| offset: 3 CreateTime: 9 "


@pytest.mark.parametrize(
    ("row", "line"),
    [
        pytest.param(
            Row(3, 9, b"k", b"v"),
            "keySize: 1 valueSize: 1 sequence: -1 headerKeys: [] key: k payload: v",
            id="plain",
        ),
        pytest.param(
            Row(3, 9, None, None),
            "keySize: -1 valueSize: -1 sequence: -1 headerKeys: []",
            id="nulls",
        ),
        pytest.param(
            Row(3, 9, b"", b""),
            "keySize: 0 valueSize: 0 sequence: -1 headerKeys: [] key:  payload: ",
            id="empty",
        ),
        pytest.param(
            Row(3, 9, None, None, ((b"a", b"1"), (b"b", None), (b"a", b""))),
            "keySize: -1 valueSize: -1 sequence: -1 headerKeys: [a,b,a] headerValues: [1,null,]",
            id="header-values",
        ),
        pytest.param(
            Row(3, 9, b"\x1b[31mred\x07", "née\n東京\t\x7f\u0085\x00".encode()),
            "keySize: 9 valueSize: 16 sequence: -1 headerKeys: [] "
            r"key: \x1b[31mred\x07 payload: née\n東京\t\x7f\xc2\x85\x00",
            id="controls",
        ),
        pytest.param(
            Row(3, 9, b"\xc0\xaf", b"\xed\xa0\x80 \xf4\x90\x80\x80 \xe6\x9d"),
            "keySize: 2 valueSize: 11 sequence: -1 headerKeys: [] "
            r"key: \xc0\xaf payload: \xed\xa0\x80 \xf4\x90\x80\x80 \xe6\x9d",
            id="not-utf-8",
        ),
    ],
)
def test_a_record_is_one_line(tmp_path: Path, row: Row, line: str) -> None:
    assert record_lines(tmp_path, row) == [FRONT + line]


def test_an_error_stands_after_its_batch(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(builders.batch()[:-1] + b"?")
    _, start, batch, error, end = text_of(path)
    assert start == "Log starting offset: 0"
    assert batch.endswith("isvalid: false")
    assert error.startswith("! error: crc-matches: ")
    size = path.stat().st_size
    assert end == f"End position: {size} of {size} batches: 1 records: 0 errors: 1"


# An offset commit of group g for topic t, partition 1: type 1, then version 1 of the value.
COMMIT_KEY = b"\0\1\0\1g\0\1t\0\0\0\1"
COMMIT_VALUE = b"\0\1" + (42).to_bytes(8, "big") + b"\0\1m" + bytes(16)
DECODED = (
    'key: {"type":"1","data":{"group":"g","topic":"t","partition":1}} '
    'payload: {"version":"1","data":{"offset":42,"metadata":"m","commitTimestamp":0,'
    '"expireTimestamp":0}}'
)


def commits(folder: Path) -> Path:
    folder.mkdir()
    path = folder / "00000000000000000000.log"
    rows = [Row(0, 0, COMMIT_KEY, COMMIT_VALUE), Row(1, 0, COMMIT_KEY, None)]
    path.write_bytes(builders.batch(rows))
    return path


@pytest.mark.parametrize(
    ("folder", "flags"),
    [
        pytest.param("__consumer_offsets-12", [], id="by-directory"),
        pytest.param("copy", ["--offsets-decoder"], id="by-option"),
    ],
)
def test_records_of_an_internal_topic_are_decoded(
    tmp_path: Path, folder: str, flags: list[str]
) -> None:
    lines = [line for line in text_of(*flags, commits(tmp_path / folder)) if line[0] == "|"]
    assert lines[0].endswith(DECODED)
    assert lines[1].endswith("payload: <DELETE>")


def test_decoding_can_be_switched_off(tmp_path: Path) -> None:
    path = commits(tmp_path / "__consumer_offsets-12")
    assert '"group"' not in "".join(text_of("--no-decode", path))


def test_json_is_decoded_on_request(tmp_path: Path) -> None:
    path = commits(tmp_path / "__consumer_offsets-12")
    assert "decoded" not in run_json("dump", path).of("record")[0]
    decoded = run_json("dump", "--decode", path).of("record")[0]["decoded"]
    assert decoded["key"] == {"type": "1", "data": {"group": "g", "topic": "t", "partition": 1}}
