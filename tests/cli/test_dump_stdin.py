"""`ottla dump -`: a segment that comes through a pipe is dumped as the file would be."""

import gzip
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import builders
from builders import Row
from cli.command import run
from ottla.dump.files import dump_files
from ottla.dump.jsonl import JSONL
from ottla.dump.request import Request
from ottla.dump.sources import DumpSource
from ottla.log.read.buffer import WINDOW_BYTES
from ottla.log.read.windows import read_windows
from ottla.storage.files import open_stream

BATCH = builders.batch([Row(0, 5, b"ada", b"tea")])
LARGE = builders.batch([Row(1, 5, b"k", bytes(range(256)) * 12_000)])  # more than a window


def ottla(data: bytes, *flags: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "ottla.cli", "dump", *flags]
    return subprocess.run(command, input=data, capture_output=True, timeout=300)


@pytest.mark.parametrize("style", ["text", "jsonl"])
def test_a_pipe_is_dumped_as_a_file_is(tmp_path: Path, style: str) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(BATCH + LARGE + BATCH[:40])
    done = ottla(path.read_bytes(), "--format", style, "-")
    ran = run("dump", "--format", style, path)
    named = {"text": ("Dumping -", f"Dumping {path}"), "jsonl": ('"file":"-"', f'"file":"{path}"')}
    expected = ran.out.replace(*reversed(named[style])).replace(" of a.log", " of -")
    said = done.stderr.replace(b"ottla: compiling kernels for this machine, once\n", b"")
    assert (done.returncode, said) == (ran.status, b"")
    assert done.stdout.decode() == expected


@pytest.mark.parametrize(
    ("data", "flags", "said"),
    [
        pytest.param(gzip.compress(BATCH), ["-"], b"read: unpack it before", id="packed"),
        pytest.param(b"[2024] INFO\n" * 9, ["-"], b"text, not a segment", id="text"),
        pytest.param(BATCH, ["-", "--from", "1"], b"- is stdin: dump it without", id="range"),
    ],
)
def test_what_is_no_segment_is_refused(data: bytes, flags: list[str], said: bytes) -> None:
    done = ottla(data, *flags)
    assert (done.returncode, done.stdout) == (2, b"")
    assert said in done.stderr


def test_ctrl_c_ends_a_dump_that_waits_for_more() -> None:
    command = [sys.executable, "-m", "ottla.cli", "dump", "-"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(LARGE)  # more than is read before the first line
        process.stdin.flush()
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130


@pytest.mark.parametrize(("style", "key"), [("text", b"key: ada"), ("jsonl", b'"key":"YWRh"')])
def test_what_a_live_program_has_written_is_shown_before_it_writes_more(
    style: str, key: bytes
) -> None:
    command = [sys.executable, "-m", "ottla.cli", "dump", "--format", style, "-"]
    pipe = subprocess.PIPE
    environment = {**os.environ, "PYTHONUNBUFFERED": ""}
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        late = threading.Timer(300, process.kill)  # what is never shown is an empty line then
        late.start()
        for rest in (7, 40, 0):  # what is written of the next batch already
            process.stdin.write(BATCH + BATCH[:rest])
            process.stdin.flush()
            lines = iter(process.stdout.readline, b"")
            assert any(key in line for line in lines)
            process.stdin.write(BATCH[rest:])
            process.stdin.flush()
            assert any(key in line for line in lines)
        process.stdin.close()
        assert b"6" in process.stdout.read()  # batches and records
        late.cancel()
        assert process.wait(60) == 0


def piped(data: bytes, request: Request) -> list[bytes]:
    """The lines of a dump in this process, of bytes that come through a pipe."""
    out: list[bytes] = []
    read, write = os.pipe()
    kept = os.dup(0)
    thread = threading.Thread(target=_feed, args=(write, data))
    thread.start()
    os.dup2(read, 0)
    os.close(read)
    try:
        dump_files([DumpSource("-")], request, lambda line: out.append(bytes(line)))
    finally:
        os.dup2(kept, 0)
        os.close(kept)
        thread.join()
    return b"".join(out).splitlines()


def _feed(descriptor: int, data: bytes) -> None:
    with open(descriptor, "wb") as stream:
        try:
            stream.write(data)
        except BrokenPipeError:
            return


def broken(data: bytes, at: int, value: int) -> bytes:
    changed = bytearray(data)
    changed[at] = value
    return bytes(changed)


LOGS = {
    "empty": b"",
    "half": BATCH[:30],
    "zeros": BATCH + bytes(100),
    "many zeros": BATCH + bytes(3 * WINDOW_BYTES),
    "all zeros": bytes(5 * WINDOW_BYTES + 7),
    "zeros and more": BATCH + bytes(3 * WINDOW_BYTES) + b"\1",
    "crc": broken(BATCH, 70, 1) + BATCH,
    "magic": broken(BATCH, 16, 9) + BATCH,
    "magic of a large one": broken(LARGE, 16, 9) + BATCH,
    "length": BATCH + broken(BATCH, 9, 0x70),
    "small length": BATCH + broken(BATCH, 11, 1) + LARGE,
    "windows": BATCH * (3 * WINDOW_BYTES // len(BATCH)),
    "a window": BATCH * 100 + b"\0" * (WINDOW_BYTES - 100 * len(BATCH)),
    "large ones": LARGE * 4 + BATCH,
}


@pytest.mark.parametrize("name", LOGS)
def test_a_pipe_and_a_file_say_the_same(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(LOGS[name])
    out: list[bytes] = []
    request = Request(JSONL, opens_records=False)
    dump_files([DumpSource(str(path))], request, lambda line: out.append(bytes(line)))
    expected = b"".join(out).replace(os.fsencode(path), b"-").splitlines()
    assert piped(LOGS[name], request) == expected


def test_a_pipe_ends_before_a_batch_that_says_how_long_it_is() -> None:
    """Of a file one sees that the batch is not whole; a pipe may be long enough, until it ends."""
    data = BATCH + broken(BATCH, 8, 0x20) + LARGE * 5
    *_, error, end = piped(data, Request(JSONL))
    assert b'"rule":"batch-bytes-limit"' in error
    assert f'"position":{len(data)},"fileSize":{len(data)}'.encode() in end


def test_reading_stops_at_the_wanted_number_of_records() -> None:
    *_, end = piped(LARGE * 20, Request(JSONL, max_messages=1))
    assert b'"fileSize":null,"trailingBytes":null,"batches":1,"records":1' in end


def test_a_stream_is_read_in_windows() -> None:
    read, write = os.pipe()
    data = BATCH * (8 * WINDOW_BYTES // len(BATCH))
    thread = threading.Thread(target=_feed, args=(write, data))
    thread.start()
    file = open_stream(read, "-")
    sizes = [(window.region.size, window.stop) for window in read_windows(file)]
    ends = sizes[-1][1], file.measure()
    os.close(read)
    thread.join()
    assert max(size for size, _ in sizes) <= 3 * WINDOW_BYTES
    assert ends == (len(data), len(data))
