"""A worker's memory does not grow with the segment that it reads, nor with what that expands to."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import ottla
from builders import Row, batch
from jobs import peak

GIB = 1 << 30
BATCH_BYTES = 16 << 20
PRODUCED_BYTES = 1 << 16  # of a batch as producers make them
ALLOWED = 200 << 20
EXPANDED = 9 * GIB // 4  # of batches of 1 MiB, in less than a window
ALLOWED_EXPANDED = 450 << 20
ALLOWED_HERE = 600_000_000  # of the whole process, with Numba and Arrow
TESTS = Path(__file__).parents[1]

PROGRAM = """
import json, resource, sys
from ottla.spark.daemon import load_kernels
from ottla.options.read import for_batch, parse_read_options
from ottla.spark.reader import KafkaLogReader
from ottla.spark.schema import schema_of

options = for_batch(parse_read_options({"path": sys.argv[1], "splitbytes": "4g"}))
reader = KafkaLogReader(options, schema_of(options))
load_kernels()
idle = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
size = 0
for partition in reader.partitions():
    for batch in reader.read(partition):
        size += batch.nbytes
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"grown": (peak - idle) * 1024, "size": size}))
"""

COMMAND = """
import json, re, sys
from pathlib import Path
from ottla.cli import main
status = main(sys.argv[1:])
# Not ru_maxrss, which counts whoever started this process too.
(most,) = re.findall(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())
print(json.dumps({"status": status, "peak": int(most) * 1024}))
"""
# Jobs in which no rows meet: what they hold does not grow with the log.
HERE = {
    "export": [],
    "convert": ["--codec", "zstd"],
    "rebatch": ["--codec", "lz4", "--batch-bytes", "1000000"],
    "restore": ["--where", "value is not null"],
    "salvage": [],
}


def write(path: Path, codec: int, size: int, batch_bytes: int = BATCH_BYTES) -> None:
    """Half of each value is random, so that compression has something to do."""
    noise = np.random.default_rng(5).integers(0, 256, (16 << 10, 512), dtype=np.uint8)
    values = pa.array([row.tobytes() + bytes(512) for row in noise])
    table = pa.RecordBatch.from_arrays([values], names=["value"])
    path.parent.mkdir(parents=True)
    count = size // (16 << 20)
    new_batch = ottla.NewBatch(codec=codec)
    ottla.write_segment([table] * count, path, new_batch=new_batch, batch_bytes=batch_bytes)


SIZES = [
    pytest.param(GIB // 4, marks=pytest.mark.spark_long, id="quarter"),
    pytest.param(GIB, marks=pytest.mark.soak, id="gigabyte"),
]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("codec", [0, 3, 4], ids=["none", "lz4", "zstd"])
def test_a_large_segment_is_read_in_little_memory(tmp_path: Path, codec: int, size: int) -> None:
    write(tmp_path / "t-0" / f"{0:020d}.log", codec, size)
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    found = json.loads(run.stdout)
    assert found["size"] >= size
    assert found["grown"] < ALLOWED, found


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", HERE)
def test_a_job_of_one_process_takes_little_memory(tmp_path: Path, name: str, size: int) -> None:
    for partition in range(2):
        write(tmp_path / "logs" / f"t-{partition}" / f"{0:020d}.log", 3, size // 2, PRODUCED_BYTES)
    command = "convert" if name == "rebatch" else name
    words = [command, tmp_path / "logs", tmp_path / "out", "--engine", "local", "--json"]
    run = subprocess.run(
        [sys.executable, "-c", COMMAND, *map(str, words), *HERE[name]],
        capture_output=True,
        text=True,
        check=True,
        timeout=900,
    )
    *account, found = map(json.loads, run.stdout.splitlines())
    assert sum(row["readRecords"] for row in account) == size >> 10
    assert found["status"] == 0
    assert found["peak"] < ALLOWED_HERE, found


@pytest.fixture(scope="module")
def bomb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Zeros that zstd makes ten thousand times smaller; keys come again and again."""
    logs = tmp_path_factory.mktemp("bomb") / "logs"
    path = logs / "t-0" / f"{0:020d}.log"
    path.parent.mkdir(parents=True)
    rows = (Row(n, n, b"key %d" % (n % 7), bytes(1 << 20)) for n in range(EXPANDED >> 20))
    path.write_bytes(b"".join(batch([row], codec=4) for row in rows))
    assert path.stat().st_size < 1 << 20
    return logs


@pytest.mark.spark_long
@pytest.mark.parametrize("name", peak.JOBS)
def test_a_job_takes_little_memory_for_what_expands_to_gigabytes(
    tmp_path: Path, bomb: Path, name: str
) -> None:
    command = [sys.executable, peak.__file__, name, str(bomb), str(tmp_path / "out")]
    environment = os.environ | {"PYTHONPATH": str(TESTS)}
    run = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True, timeout=600
    )
    shutil.rmtree(tmp_path / "out.ottla", ignore_errors=True)  # gigabytes
    found = json.loads(run.stdout)
    assert found["records"] == EXPANDED >> 20
    assert found["grown"] < ALLOWED_EXPANDED, found
