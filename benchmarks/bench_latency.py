"""A scan of a log on S3 whose every answer comes 50 ms late, against the same without delay.

Both take turns on the same objects. The server is another process; it shares the cores with the
scan, in both turns alike.
"""

import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

import ottla
from benchmarks.corpus import FULL, Plan
from benchmarks.rounds import best_rates, timed
from benchmarks.table import ratio
from benchmarks.targets import LATE_TO_PROMPT
from ottla.jobs.write.commit import begin_writing, commit_rows, save_job
from ottla.jobs.write.stage import stage_rows
from ottla.options.write import parse_write_options

HEADING = ("what", "MB/s", "MB/s with 50 ms for each request", "ratio", "target")
SECONDS = 0.05
TOPIC = "orders"
VALUE_BYTES = 100
FULL_BYTES = 2 << 30
QUICK_BYTES = 256 << 20
ROUNDS = 3
_RECORD_BYTES = VALUE_BYTES + 7  # and a little more in the log
_ROWS = 200_000  # in one Arrow batch


def rows(plan: Plan) -> Iterator[tuple[str, ...]]:
    """Rows with all columns, and only their count."""
    wanted = FULL_BYTES if plan == FULL else QUICK_BYTES
    with tempfile.TemporaryDirectory() as folder:
        size = _write_log(Path(folder) / "logs", wanted)
        with _servers(Path(folder)) as (prompt, late):
            for what, work in {"all columns": _read_all, "count()": ottla.Scan.count}.items():
                turns = {
                    name: timed(_turn(endpoint, work, size))
                    for name, endpoint in {"prompt": prompt, "late": late}.items()
                }
                best = best_rates(turns, ROUNDS, warm_ups=1)
                told = [f"{best[name] / 1e6:.0f}" for name in ("prompt", "late")]
                label = f"scan of {size / 2**30:.2f} GiB on S3, {what}"
                yield (label, *told, *ratio(best["late"], best["prompt"], LATE_TO_PROMPT))


def _turn(endpoint: str, work: Callable[[ottla.Scan], int], size: int) -> Callable[[], int]:
    """Opening is part of it: it lists."""

    def turn() -> int:
        log = ottla.open("s3://bucket/logs", endpoint=endpoint, region="us-east-1", anonymous=True)
        assert work(log.scan(TOPIC)) > 0
        return size

    return turn


def _read_all(scan: ottla.Scan) -> int:
    return sum(pc.sum(pc.binary_length(batch.column("value"))).as_py() for batch in scan)


def _write_log(out: Path, wanted: int) -> int:
    """A partition with segments of up to 1 GiB and their indexes; how many bytes of log."""
    options = parse_write_options({"path": str(out), "topic": TOPIC, "numpartitions": "1"})
    writing = begin_writing(options)
    job = save_job(options)
    chance = random.Random(23)
    values = [chance.randbytes(VALUE_BYTES) for _ in range(_ROWS)]
    batch = pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary())})
    count = max(1, wanted // (_ROWS * _RECORD_BYTES))
    parts = stage_rows(job, writing, 0, (batch for _ in range(count)))
    commit_rows(job, writing, [parts])
    return sum(path.stat().st_size for path in out.rglob("*.log"))


@contextmanager
def _servers(folder: Path) -> Iterator[tuple[str, str]]:
    command = [sys.executable, "-m", "benchmarks.object_server", str(folder), str(SECONDS)]
    root = Path(__file__).parents[1]
    with subprocess.Popen(
        command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip(), server.stdout.readline().strip()
        server.kill()
