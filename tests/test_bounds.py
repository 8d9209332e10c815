"""Lengths and compressed payloads that promise too much end in an error, not in memory."""

import gzip
import json
import struct
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import builders
from builders import Row
from naive_codecs import CODECS

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")

ABOVE_IDLE = 150 << 20
MOST = 400 << 20
GIB = 1 << 30
INT32_MAX = 2**31 - 1

# VmHWM is of this process alone; the peak that wait4 reports begins with that of its parent.
DUMP = """
import sys
from ottla.cli import main
status = main(["dump", "--format", "jsonl", *sys.argv[1:]])
"""
READ = """
import sys
import ottla
from ottla.errors import CorruptLogError
status = 0
try:
    for batch in ottla.read_segment(sys.argv[1]):
        batch.validate()
except CorruptLogError as error:
    status = 1
"""
PEAK = """
lines = open("/proc/self/status").read().splitlines()
peak = next(line for line in lines if line.startswith("VmHWM:")).split()[1]
print("peak", peak, file=sys.stderr)
sys.exit(status)
"""


def run(script: str, *arguments: str) -> tuple[int, bytes, int]:
    """Exit status, output, and the most memory that the process ever had, in bytes."""
    command = [sys.executable, "-c", script + PEAK, *arguments]
    done = subprocess.run(command, capture_output=True, check=False, timeout=300)
    *said, peak = done.stderr.decode().splitlines()
    assert peak.startswith("peak"), (said, peak)
    return done.returncode, done.stdout, int(peak.split()[1]) << 10


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> int:
    """The peak of reading a small segment in every codec, compiled kernels already cached."""
    small = tmp_path_factory.mktemp("idle") / "00000000000000000000.log"
    small.write_bytes(b"".join(builders.batch(codec=codec) for codec in range(5)))
    runs = [run(script, str(small)) for script in (DUMP, READ, DUMP, READ)]
    assert [status for status, _, _ in runs] == [0] * len(runs)
    return min(peak for _, _, peak in runs[2:])


def _zstd_of_zeros(size: int) -> bytes:
    """Blocks of one repeated byte: 128 KiB in 4 bytes, which no compressor has to work for."""
    window = bytes([0x00, 0x38])  # 128 KiB, neither content size nor checksum
    block = ((128 << 10) << 3 | 1 << 1).to_bytes(3, "little") + b"\0"
    last = (1 << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"\0"
    return b"\x28\xb5\x2f\xfd" + window + block * (size >> 17) + last


def _claims(length: int) -> bytes:
    return struct.pack(">qiib", 0, length, 0, 2).ljust(60, b"\0")


def _record_claims(
    *, length: int | None = None, key: int = -1, headers: int = 0, codec: int = 0
) -> bytes:
    lengths = builders.varint(key) + builders.varint(-1) + builders.varint(headers)
    payload = builders.varint(3 + len(lengths) if length is None else length) + bytes(3) + lengths
    return builders.batch_of(builders.compress(payload, codec, magic=2), count=1, attributes=codec)


def _bomb(payload: bytes, codec: int, *, count: int = 1) -> bytes:
    assert len(payload) <= 450_000
    return builders.batch_of(payload, count=count, attributes=codec)


def _gzip_bomb() -> bytes:
    return gzip.compress(bytes(400 << 20), mtime=0)


def _promising_record() -> bytes:
    """The front of one record that would fill 2 GiB of zeros to its last byte."""
    size = 2**31 - 100
    body = bytes(3) + builders.varint(-1) + builders.varint(size - 20)
    return builders.varint(size) + body


def _zstd_bomb_of_one_record() -> bytes:
    front = _promising_record()
    raw = (len(front) << 3).to_bytes(3, "little") + front
    stream = _zstd_of_zeros(10 * GIB)
    return stream[:6] + raw + stream[6:]


def _wrapper_bomb() -> bytes:
    return builders.message(Row(0, 0, None, _gzip_bomb()), magic=1, attributes=1)


PROMISES = [
    pytest.param(lambda: _claims(INT32_MAX), id="60-bytes-claim-2-gib"),
    *(
        pytest.param(partial(_record_claims, length=INT32_MAX, codec=codec), id=f"{name}-record")
        for codec, name in enumerate(CODECS)
    ),
    pytest.param(lambda: _record_claims(key=INT32_MAX), id="key"),
    pytest.param(lambda: _record_claims(headers=INT32_MAX), id="headers"),
    pytest.param(lambda: builders.batch_of(b"", count=INT32_MAX), id="count"),
    pytest.param(lambda: _bomb(_zstd_of_zeros(10 * GIB), 4), id="zstd-10-gib"),
    pytest.param(lambda: _bomb(_zstd_of_zeros(10 * GIB), 4, count=INT32_MAX), id="zstd-counted"),
    pytest.param(lambda: _bomb(_zstd_bomb_of_one_record(), 4), id="zstd-10-gib-one-record"),
    pytest.param(lambda: _bomb(_gzip_bomb(), 1), id="gzip-400-mib"),
    pytest.param(_wrapper_bomb, id="gzip-400-mib-wrapper"),
    pytest.param(lambda: _bomb(b"\xff\xff\xff\xff\x0f\0", 2), id="snappy-claims-4-gib"),
]


@pytest.mark.parametrize("script", [DUMP, READ], ids=["dump", "arrow"])
@pytest.mark.parametrize("build", PROMISES)
def test_a_promise_of_too_much_is_an_error_and_costs_little(
    tmp_path: Path, idle: int, build: Callable[[], bytes], script: str
) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(build())
    status, out, peak = run(script, str(path))
    assert status == 1
    assert script != DUMP or json.loads(out.splitlines()[-1])["errors"] == 1
    assert peak - idle <= ABOVE_IDLE


def test_an_incomplete_last_batch_is_no_error_whatever_it_claims(tmp_path: Path, idle: int) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(_claims(INT32_MAX - 12))
    status, out, peak = run(DUMP, str(path))
    assert status == 0
    assert json.loads(out)["trailingBytes"] == 60
    assert peak - idle <= ABOVE_IDLE


@pytest.fixture(scope="module")
def gibibyte(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A segment of 1 GiB: one batch again and again, as the base offset is outside its CRC."""
    rows = [Row(at, at, b"key %d" % at, b"%d" % at * 100) for at in range(500)]
    whole = builders.batch(rows)
    path = tmp_path_factory.mktemp("large") / "00000000000000000000.log"
    with path.open("wb") as file:
        for base in range(0, len(rows) * (GIB // len(whole) + 1), len(rows)):
            file.write(struct.pack(">q", base) + whole[8:])
    assert path.stat().st_size >= GIB
    return path


@pytest.mark.parametrize(
    ("script", "flags"), [(DUMP, ("--no-records",)), (READ, ())], ids=["dump", "arrow"]
)
def test_reading_a_gibibyte_keeps_memory_low(
    gibibyte: Path, script: str, flags: tuple[str, ...]
) -> None:
    status, _, peak = run(script, *flags, str(gibibyte))
    assert status == 0
    assert peak < MOST
