"""`ottla dump`: what is chosen, how it ends, how much memory it takes."""

import base64
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import builders
from builders import Row
from cli.command import run_json as run
from ottla.cli import main

ROWS = [
    Row(0, 5, b"a", b"one", ((b"trace-id", b"abc"),)),
    Row(1, 6, b"b", b"two", ((b"trace-id", b"x"), (b"trace-id", b"abc"), (b"k", None))),
    Row(2, 7, None, None, ((b"k", b""),)),
    Row(3, 8, b"a", b"four", ((b"trace-id", b"abcd"),)),
]


def segment(folder: Path, *batches: bytes, name: str = "00000000000000000000.log") -> Path:
    folder.mkdir(exist_ok=True, parents=True)
    path = folder / name
    path.write_bytes(b"".join(batches))
    return path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Two batches of two records."""
    return segment(tmp_path / "orders-7", builders.batch(ROWS[:2]), builders.batch(ROWS[2:]))


@pytest.mark.parametrize(
    ("flags", "offsets"),
    [
        pytest.param(["--key", "a"], [0, 3], id="key"),
        pytest.param(["--key", "a", "--key", "b"], [0, 1, 3], id="any-of-two-keys"),
        pytest.param(["--key", ""], [], id="an-empty-key-is-not-null"),
        pytest.param(["--header", "trace-id=abc"], [0, 1], id="header"),
        pytest.param(["--header", "trace-id"], [0, 1, 3], id="header-of-any-value"),
        pytest.param(["--header", "k"], [1, 2], id="null-is-a-value"),
        pytest.param(["--header", "k="], [2], id="empty-is-not-null"),
        pytest.param(["--header", "k", "--header", "trace-id"], [1], id="both-headers"),
        pytest.param(["--key", "a", "--header", "trace-id=abc"], [0], id="key-and-header"),
        pytest.param(["--header", "trace=abc"], [], id="no-such-header"),
        pytest.param(["--max-messages", "3"], [0, 1, 2], id="at-most-three"),
        pytest.param(["--key", "a", "--max-messages", "1"], [0], id="at-most-one-of-the-chosen"),
        pytest.param(["--no-records"], [], id="no-records"),
    ],
)
def test_records_are_chosen_by(log: Path, flags: list[str], offsets: list[int]) -> None:
    assert [record["offset"] for record in run("dump", *flags, log).of("record")] == offsets


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A log directory: two partitions of orders, the first in two segments, and one of clicks."""
    logs = tmp_path / "logs"
    for name, cuts in (("orders-0", (0, 2)), ("orders-1", (0,)), ("clicks-0", (0,))):
        for first in cuts:
            rows = ROWS[first : first + 2] if len(cuts) == 2 else ROWS
            segment(logs / name, builders.batch(rows), name=f"{first:020d}.log")
    return logs


@pytest.mark.parametrize(
    ("flags", "chosen"),
    [
        pytest.param([], [4, 4, 4], id="all"),
        pytest.param(["--topic", "orders"], [4, 4], id="topic"),
        pytest.param(["--topic", "orders", "--partition", "1"], [4], id="partition"),
        pytest.param(["--topic", "clicks", "--from", "1", "--to", "3"], [2], id="offsets"),
        pytest.param(["--partition", "0", "--from", "3"], [1, 1], id="last-segment"),
        pytest.param(["--topic", "clicks", "--from", "@7"], [2], id="from-a-time"),
        pytest.param(["--topic", "clicks", "--to", "@1970-01-01T00:00:00.006Z"], [1], id="to"),
        pytest.param(["--topic", "clicks", "--from", "4"], [], id="past-the-end"),
    ],
)
def test_directories_are_dumped_by_topic_partition_offset_and_time(
    directory: Path, flags: list[str], chosen: list[int]
) -> None:
    ran = run("dump", *flags, directory)
    counted = Counter(record["file"].split("/")[-2] for record in ran.of("record"))
    assert ran.status == 0
    assert sorted(counted.values()) == sorted(chosen)


def test_a_range_chooses_the_offsets_that_it_says(directory: Path) -> None:
    ran = run("dump", "--from", 1, "--to", 3, directory / "orders-0")
    assert [record["offset"] for record in ran.of("record")] == [1, 2]
    assert [batch["baseOffset"] for batch in ran.of("batch")] == [0, 2]


def test_a_range_of_headers_leaves_batches_out(directory: Path) -> None:
    ran = run("dump", "--no-records", "--from", 2, directory / "orders-0")
    assert [batch["baseOffset"] for batch in ran.of("batch")] == [2]


def test_quiet_counts_what_is_wrong_and_says_nothing(tmp_path: Path) -> None:
    broken = bytearray(builders.batch(ROWS))
    broken[-1] ^= 1
    ran = run("dump", "--quiet", segment(tmp_path / "orders-7", bytes(broken)))
    assert (ran.status, ran.of("error"), ran.of("end")[0]["errors"]) == (1, [], 1)


def test_a_batch_is_printed_once_and_only_with_chosen_records(log: Path) -> None:
    ran = run("dump", "--key", "b", log)
    assert [line["type"] for line in ran.lines] == ["batch", "record", "end"]
    assert ran.lines[-1] | {"batches": 1, "records": 1} == ran.lines[-1]


def test_reading_stops_at_the_wanted_number_of_records(log: Path, tmp_path: Path) -> None:
    missing = tmp_path / "is-never-opened.log"
    ran = run("dump", "--max-messages", 3, log, missing)
    assert ran.status == 0
    size = len(builders.batch(ROWS[:2]))
    end = {"position": size, "trailingBytes": None, "batches": 2, "records": 3}
    assert ran.lines[-1] | end == ran.lines[-1]


def test_the_wanted_number_counts_over_all_files(log: Path) -> None:
    ran = run("dump", "--max-messages", 5, log, log)
    assert [end["records"] for end in ran.of("end")] == [4, 1]


def test_batches_without_records_are_those_with_records(log: Path, corpus: Path) -> None:
    paths = [log, corpus / "segments" / "ok-v2-zstd-multi.log"]
    assert run("dump", "--no-records", *paths).of("batch") == run("dump", *paths).of("batch")


def test_batches_alone_do_not_know_the_base_offset_of_a_wrapper(tmp_path: Path) -> None:
    path = segment(tmp_path, builders.wrapper(ROWS[:1], magic=1, codec=1))
    assert [batch["baseOffset"] for batch in run("dump", "--no-records", path).of("batch")] == [
        None
    ]


def test_batches_alone_are_checked_too(tmp_path: Path) -> None:
    path = segment(tmp_path, builders.batch()[:-1] + b"?", builders.batch())
    ran = run("dump", "--no-records", path)
    assert ran.status == 1
    assert [(error["stage"], error["position"]) for error in ran.of("error")] == [("crc", 0)]
    unchecked = run("dump", "--no-records", "--no-check-crcs", path)
    assert (unchecked.status, unchecked.of("error")) == (0, [])
    assert [batch["crcValid"] for batch in unchecked.of("batch")] == [False, True]


def test_an_error_is_a_row_of_the_violation_schema(tmp_path: Path) -> None:
    path = segment(tmp_path / "a-b-3", builders.batch(), builders.batch()[:-1] + b"?")
    (error,) = run("dump", path).of("error")
    size = len(builders.batch())
    expected = {
        "rule": "crc-matches",
        "severity": "error",
        "stage": "crc",
        "topic": "a-b",
        "partition": 3,
        "file": str(path),
        "position": size,
        "size": size,
        "offset": 0,
        "lastOffset": 0,
    }
    assert error | expected == error
    assert error.keys() >= {"found", "expected", "detail", "exception", "message"}


def test_a_zero_tail_is_printed_and_is_no_problem(tmp_path: Path) -> None:
    path = segment(tmp_path, builders.batch(), bytes(5000))
    ran = run("dump", path)
    assert ran.status == 0
    assert [error["severity"] for error in ran.of("error")] == ["note"]


def test_a_limit_on_batches_is_named_in_the_error(tmp_path: Path) -> None:
    path = segment(tmp_path, builders.batch([Row(0, 0, None, bytes(100_000))], codec=1))
    ran = run("dump", "--max-batch-bytes", 10_000, path)
    assert [error["rule"] for error in ran.of("error")] == ["batch-bytes-limit"]
    assert run("dump", path).of("error") == []


@pytest.mark.parametrize(
    "wrong",
    [["--max-messages", "0"], ["--max-messages", "x"], ["--format", "xml"], ["--offset", "1"]],
)
def test_a_wrong_option_is_wrong_usage(
    log: Path, wrong: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_of:
        main(["dump", *wrong, str(log)])
    assert exit_of.value.code == 2
    assert capsys.readouterr().out == ""


def test_a_missing_file_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "nowhere.log"
    assert main(["dump", str(path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert str(path) in printed.err


def test_a_reader_that_goes_away_is_no_fault(tmp_path: Path) -> None:
    path = segment(tmp_path, builders.batch([Row(at) for at in range(50_000)]))
    command = [sys.executable, "-m", "ottla.cli", "dump", "--json", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["type"] == "batch"
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 0


def test_a_batch_of_many_chunks_is_printed_in_order(tmp_path: Path) -> None:
    rows = [Row(at, at, None, b"v" * 300, ((b"h", b"%d" % at),)) for at in range(40_000)]
    path = segment(tmp_path, builders.batch(rows, codec=4), builders.batch([Row(40_000)]))
    ran = run("dump", path)
    kinds = [line["type"] for line in ran.lines]
    assert kinds == ["batch", *["record"] * 40_000, "batch", "record", "end"]
    records = ran.of("record")[:-1]
    assert [record["index"] for record in records] == list(range(40_000))
    assert [record["offset"] for record in records] == list(range(40_000))
    names = [base64.b64decode(record["headers"][0][1]) for record in records]
    assert names == [b"%d" % at for at in range(40_000)]
    found = run("dump", "--header", "h=39999", path)
    assert [line["type"] for line in found.lines] == ["batch", "record", "end"]


def test_rejected_messages_stand_between_their_neighbours(tmp_path: Path) -> None:
    inner = [builders.message(Row(at), magic=1) for at in range(60_000)]
    spoiled = [at for at in range(60_000) if at % 70 == 3]  # not too many to be named
    for at in spoiled:
        inner[at] = inner[at][:-1] + b"?"
    value = builders.compress(b"".join(inner), 1, magic=1)
    wrapper = builders.message(Row(59_999, 0, None, value), magic=1, attributes=1)
    ran = run("dump", segment(tmp_path, wrapper))
    assert [line["index"] for line in ran.lines[1:-1]] == list(range(60_000))
    assert [line["index"] for line in ran.of("error")] == spoiled
    assert [line["type"] for line in ran.lines].count("batch") == 1


def test_a_record_longer_than_the_output_is_printed_whole(tmp_path: Path) -> None:
    value = bytes(range(256)) * 20_000
    path = segment(tmp_path, builders.batch([Row(0), Row(1, 0, None, value), Row(2)], codec=4))
    records = run("dump", path).of("record")
    assert [record["offset"] for record in records] == [0, 1, 2]
    assert base64.b64decode(records[1]["value"]) == value


MEASURED = """
import sys
from ottla.cli import main
status = main(["dump", *sys.argv[1:]])
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM:")).split()[1]
print(peak, file=sys.stderr)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
@pytest.mark.parametrize("flags", [["--format", "jsonl"], ["--format", "text"]])
def test_memory_does_not_grow_with_what_a_window_expands_to(
    tmp_path: Path, flags: list[str]
) -> None:
    whole = builders.batch([Row(at, 0, None, b"v" * 900) for at in range(1000)], codec=4)
    less = segment(tmp_path, whole * 100, name="1.log")
    more = segment(tmp_path, whole * 300, name="2.log")
    assert more.stat().st_size < 2 << 20  # one window, of 270 MB

    def peak(path: Path) -> int:
        command = [sys.executable, "-c", MEASURED, *flags, str(path)]
        done = subprocess.run(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True, timeout=120
        )
        return int(done.stderr.splitlines()[-1]) << 10  # before it: that kernels compile

    peak(less)  # compiles
    assert peak(more) - peak(less) < 32 << 20


def test_a_snapshot_beside_a_directory_is_dumped_too(log: Path, tmp_path: Path) -> None:
    snapshot = segment(tmp_path, builders.batch(ROWS[:1]), name="0-1.checkpoint")
    found = run("dump", log.parent, snapshot).of("record")
    assert [record["file"] for record in found] == [str(log)] * 4 + [str(snapshot)]


def test_a_snapshot_has_no_part_of_a_range(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    snapshot = segment(tmp_path, builders.batch(ROWS[:1]), name="0-1.checkpoint")
    assert run("dump", "--from", "0", snapshot).status == 2
    assert "is a snapshot" in capsys.readouterr().err


def test_an_error_loses_nothing_that_was_printed(tmp_path: Path) -> None:
    """Processes end without the usual farewells: what waits in stdout's buffer goes out first."""
    path = tmp_path / "a.log"
    path.write_bytes(builders.batch([Row(0, 5, b"k", b"v")]))
    command = [sys.executable, "-m", "ottla.cli", "dump", str(path), str(tmp_path / "none.log")]
    buffered = {name: text for name, text in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(command, env=buffered, capture_output=True, timeout=300)
    assert done.returncode == 2
    assert b"baseOffset: 0" in done.stdout
