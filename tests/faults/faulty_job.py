"""A job for the tests of faults to break: `faulty_job.py JOB LOGS OUT [MOMENT]`.

Says "running" when tasks begin. MOMENT is where this process, the driver, kills itself: `before`,
`during` or `after` the commit point. With FAIL_SHARE in the environment, tasks fail at random;
with ENGINE=local they run on threads of this process, not on Spark.
JOB is one that writes a directory, or `verify`, whose OUT is a file.
"""

import os
import random
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from choosing import choose
from ottla.batch.convert import Conversion
from ottla.catalog.catalog import list_catalog
from ottla.cli import main as ottla_main
from ottla.engine.local import LocalEngine
from ottla.format.attributes import Codec
from ottla.jobs import output
from ottla.jobs.clone.plan import plan_clone
from ottla.jobs.clone.request import CloneRequest
from ottla.jobs.engine import Engine, JobStep
from ottla.jobs.export.plan import ExportOptions, plan_export
from ottla.jobs.output import OutputJob
from ottla.jobs.rewrite.convert import plan_convert
from ottla.jobs.rewrite.restore import Renaming, compile_filter, plan_restore
from ottla.jobs.rewrite.salvage import plan_salvage_job
from ottla.jobs.run import run_output_job
from ottla.options.choice import EVERY_PARTITION
from ottla.options.offsets import NO_LIMITS
from ottla.publish import journal as publish
from ottla.spark import engine as spark_engine
from ottla.spark.engine import SparkEngine
from ottla.spark.start import start_session
from ottla.storage import writing

JOBS = ("convert", "export", "restore", "salvage")
SPLIT = 3000
MASTER = "local[2, 4]"  # a task may fail three times


def plan_job(name: str, logs: str, out: str) -> OutputJob:
    selection = choose(logs)
    if name == "convert":
        conversion = Conversion(magic=2, codec=Codec.LZ4)
        return plan_convert(selection, out, conversion, {}, split_bytes=SPLIT)
    if name == "export":
        return plan_export(selection, out, ExportOptions(split_bytes=SPLIT))
    if name == "clone":
        request = CloneRequest(node_ids=(1, 2))
        catalog = list_catalog([logs])
        return plan_clone(catalog, EVERY_PARTITION, NO_LIMITS, out, request, split_bytes=SPLIT).job
    if name == "restore":
        wanted = compile_filter((), "key", ())
        return plan_restore(selection, out, wanted, Renaming({}, {}), split_bytes=SPLIT)
    return plan_salvage_job(selection, out)


class FailingWork:
    """Work that fails with some chance, before or after it has done what it should."""

    def __init__(self, work: Any, share: float) -> None:
        self.work = work
        self.share = share

    def __call__(self, *arguments: Any) -> Any:
        chance = random.SystemRandom().random()
        if chance < self.share / 2:
            raise RuntimeError("a fault before the work")
        done = self.work(*arguments)
        if chance < self.share:
            raise RuntimeError("a fault after the work")
        return done


def die(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def arrange_death(moment: str) -> None:
    """Replace the driver's step at which it shall die."""
    if moment == "before":
        output.commit = die
    elif moment == "after":
        output.publish = die
    elif moment == "during":
        move = publish.move_below

        def move_some(out: str, moves: Any, storage: Any) -> None:
            move(out, list(moves)[: len(moves) // 2], storage)
            die()

        publish.move_below = move_some


def run_verify(logs: str, out: str, moment: str, share: float) -> None:
    """The command; its one step that counts is the move of the file that it has written."""
    if moment:
        writing.move_files = die
    map_parts = spark_engine.map_parts

    def map_failing(spark: Any, step: JobStep) -> Any:
        return map_parts(spark, replace(step, work=FailingWork(step.work, share)))

    spark_engine.map_parts = map_failing
    sizes = ["--split-bytes", str(SPLIT)]
    sys.exit(ottla_main(["verify", logs, "--out", out, "--master", MASTER, *sizes]))


@contextmanager
def start_engine() -> Iterator[Engine]:
    """What ENGINE in the environment names, else Spark."""
    if os.environ.get("ENGINE") == "local":
        yield LocalEngine()
        return
    spark = start_session("fault", MASTER)
    try:
        yield SparkEngine(spark)
    finally:
        spark.stop()


def main(name: str, logs: str, out: str, moment: str = "") -> None:
    share = float(os.environ.get("FAIL_SHARE", "0"))
    if name == "verify":
        run_verify(logs, out, moment, share)
    plan = plan_job(name, logs, out)
    if share:
        stage, close = FailingWork(plan.stage, share), FailingWork(plan.close, share)
        plan = replace(plan, stage=stage, close=close)
    arrange_death(moment)
    with start_engine() as engine:
        print("running", flush=True)
        run_output_job(engine, plan)


if __name__ == "__main__":
    main(*sys.argv[1:])
