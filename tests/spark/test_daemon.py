"""The daemon loads before it forks what every worker would have to load after."""

import subprocess
import sys

PROGRAM = """
import gc
import threading
from numba.core.dispatcher import Dispatcher
from ottla.spark.daemon import load_kernels
from ottla.jobs.read.records import read_slice
from ottla.catalog.slices import plan_tasks
from ottla.options.read import for_batch, parse_read_options

def compiled():
    kernels = [one for one in gc.get_objects() if isinstance(one, Dispatcher)]
    return {(one.__module__, one.__name__, str(s)) for one in kernels for s in one.signatures}

given = {"path": PATH, "kafka.isolation.level": "read_committed"}
options = for_batch(parse_read_options(given))
tasks = [*plan_tasks(options)]
load_kernels()
assert threading.active_count() == 1, 'a thread would not survive the fork'
before = compiled()
for task in tasks:
    for part in task:
        for reading in read_slice(part, ["key", "value", "offset", "headers"], options.access):
            pass
print(sorted(compiled() - before))
"""


def test_nothing_is_left_for_a_worker_to_compile(tmp_path) -> None:
    from jobs.topics import write_topic

    write_topic(tmp_path, "orders")
    program = PROGRAM.replace("PATH", repr(str(tmp_path)))
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300
    )
    assert run.stdout == "[]\n"
