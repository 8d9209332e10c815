"""What a scan takes of memory does not grow with the log, whoever takes its rows."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from jobs.test_memory import PRODUCED_BYTES, write

GIB = 1 << 30
ALLOWED = 400_000_000  # of the whole process

COUNT = """
import duckdb
rows = duckdb.sql("select count(*) from scan").fetchall()[0][0]
"""
PARQUET = """
import pyarrow.parquet as pq
rows = 0
with pq.ParquetWriter(sys.argv[2], scan.schema) as writer:
    for batch in scan.to_reader():
        writer.write_batch(batch)
        rows += batch.num_rows
"""
PROGRAM = """
import json, re, sys
from pathlib import Path
import ottla
scan = ottla.open(sys.argv[1]).scan("t")
{use}
# Not ru_maxrss, which counts whoever started this process too.
(most,) = re.findall(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())
peak = int(most) * 1024
print(json.dumps({{"peak": peak, "rows": rows}}))
"""

SIZES = [
    pytest.param(GIB // 4, marks=pytest.mark.spark_long, id="quarter"),
    pytest.param(GIB, marks=pytest.mark.soak, id="gigabyte"),
]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("use", [COUNT, PARQUET], ids=["duckdb", "parquet"])
def test_a_large_log_is_scanned_in_little_memory(tmp_path: Path, use: str, size: int) -> None:
    write(tmp_path / "logs" / "t-0" / f"{0:020d}.log", 3, size, PRODUCED_BYTES)
    program = PROGRAM.format(use=use)
    paths = [str(tmp_path / "logs"), str(tmp_path / "out.parquet")]
    done = subprocess.run(
        [sys.executable, "-c", program, *paths],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])  # DuckDB may show its progress
    assert found["rows"] == size >> 10
    assert found["peak"] < ALLOWED, found
