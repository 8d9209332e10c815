"""One thing at scale, in a process of its own: `python -m benchmarks.scale_work WHAT PATH [OUT]`.

Prints seconds, CPU seconds, the most memory that the process ever had, and how many things there
were.
"""

import json
import os
import pickle
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from ottla.catalog.catalog import list_catalog
from ottla.catalog.chosen import ChosenLogs
from ottla.cli import main as ottla
from ottla.engine.local import LocalEngine
from ottla.format.names import parse_directory_name
from ottla.jobs.compact.plan import plan_compaction, plan_surveys
from ottla.jobs.compact.survey import CompactOptions
from ottla.jobs.export.plan import plan_export
from ottla.jobs.report.survey import plan_survey
from ottla.jobs.verify.plan import VerifyOptions, plan_verify
from ottla.jobs.verify.run import verify
from ottla.jobs.write.commit import begin_writing, commit_rows, save_job
from ottla.jobs.write.stage import stage_rows
from ottla.options.export import ExportOptions
from ottla.options.read import for_batch, parse_read_options
from ottla.options.write import parse_write_options
from ottla.publish.job import job_name
from ottla.spark.reader import KafkaLogReader
from ottla.spark.schema import schema_of

NOW = 1_760_000_000_000
PER_TASK = 1000  # partitions: a task has a file open for each
Measured = tuple[float, float, int]  # seconds, CPU seconds, and how many things there were


def timed(work: Callable[[], int]) -> Measured:
    """How long something takes that says how many things it met."""
    began, used = time.perf_counter(), time.process_time()
    count = work()
    return time.perf_counter() - began, time.process_time() - used, count


def chosen(path: str) -> ChosenLogs:
    """All of a log directory."""
    return ChosenLogs(list_catalog([path]))


def list_logs(path: str, _: str) -> Measured:
    """`ottla ls --segments --json`; the lines go nowhere."""
    keep, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        return timed(lambda: ottla(["ls", "--segments", "--json", path]))
    finally:
        os.dup2(keep, 1)


def plan_read(path: str, _: str) -> Measured:
    """What Spark asks a reader for, and what travels: the count is of tasks."""
    options = for_batch(parse_read_options({"path": path}))

    def work() -> int:
        tasks = KafkaLogReader(options, schema_of(options)).partitions()
        sizes = [len(pickle.dumps(task)) for task in tasks]
        print(f"{sum(sizes)} bytes of tasks, at most {max(sizes)}", file=sys.stderr)
        return len(tasks)

    return timed(work)


def commit_sink(path: str, _: str) -> Measured:
    """A save with a record for each partition: what the driver does when all rows are staged."""
    writing = begin_writing(parse_write_options({"path": path}))
    names = [parse_directory_name(each)[0] for each in sorted(os.listdir(path))]
    job = save_job(writing.options)
    staged = []
    for number, at in enumerate(range(0, len(names), PER_TASK)):
        topics, numbers = zip(*names[at : at + PER_TASK], strict=True)
        columns = {
            "value": pa.array([b"value"] * len(topics)),
            "topic": pa.array(topics),
            "partition": pa.array(numbers, pa.int32()),
        }
        staged.append(stage_rows(job, writing, number, [pa.RecordBatch.from_pydict(columns)]))
    return timed(lambda: len(commit_rows(job, writing, staged)))


def plan_to_verify(path: str, _: str) -> Measured:
    """The parts of a verify."""
    return timed(lambda: len(plan_verify(chosen(path).partitions, VerifyOptions())))


def verify_all(path: str, _: str) -> Measured:
    """A whole verify in this process."""
    account: list[dict[str, object]] = []

    def work() -> int:
        found = verify(LocalEngine(quiet=True), chosen(path).partitions, VerifyOptions(), account)
        assert list(found) == []
        return len(account)

    return timed(work)


def plan_to_export(path: str, out: str) -> Measured:
    """The parts of an export, and the name of its job."""

    def work() -> int:
        plan = plan_export(chosen(path), out, ExportOptions())
        job_name(plan.inputs, plan.options)
        return len(plan.parts)

    return timed(work)


def plan_to_compact(path: str, out: str) -> Measured:
    """The first tasks of a compaction, and the name of its job."""

    def work() -> int:
        plan = plan_compaction(chosen(path), out, CompactOptions(), now=NOW)
        assert plan.name
        return len(plan_surveys(plan, NOW))

    return timed(work)


def plan_to_report(path: str, _: str) -> Measured:
    """The first tasks of a report."""
    return timed(lambda: len(plan_survey((found := chosen(path)).logs(), 64 << 20, found.storage)))


WORK = {
    "ls": list_logs,
    "plan": plan_read,
    "sink": commit_sink,
    "verify plan": plan_to_verify,
    "verify": verify_all,
    "export plan": plan_to_export,
    "compact plan": plan_to_compact,
    "report plan": plan_to_report,
}


def main(what: str, path: str, out: str = "") -> None:
    """Measure one of them."""
    seconds, cpu, count = WORK[what](path, out)
    # Not ru_maxrss, which counts whoever started this process too.
    (most,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    print(json.dumps({"seconds": seconds, "cpu": cpu, "peak": int(most) * 1024, "count": count}))


if __name__ == "__main__":
    main(*sys.argv[1:])
