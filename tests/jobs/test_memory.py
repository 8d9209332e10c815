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
ALLOWED = 200 << 20
EXPANDED = 9 * GIB // 4  # of batches of 1 MiB, in less than a window
ALLOWED_EXPANDED = 450 << 20
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


def write(path: Path, codec: int, size: int) -> None:
    """Batches of 16 MB; half of each value is random, so that compression has something to do."""
    noise = np.random.default_rng(5).integers(0, 256, (16 << 10, 512), dtype=np.uint8)
    values = pa.array([row.tobytes() + bytes(512) for row in noise])
    table = pa.RecordBatch.from_arrays([values], names=["value"])
    path.parent.mkdir(parents=True)
    count = size // (16 << 20)
    new_batch = ottla.NewBatch(codec=codec)
    ottla.write_segment([table] * count, path, new_batch=new_batch, batch_bytes=BATCH_BYTES)


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
