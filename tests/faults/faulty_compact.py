"""A compaction for the tests of faults to break: `faulty_compact.py LOGS OUT [MOMENT]`.

MOMENT is where this process, the driver, kills itself: `surveyed` or `learnt`, before or after the
offsets that stay are known, or one of those of `faulty_job` around the commit point. With
FAIL_SHARE in the environment, tasks of both passes fail at random; with ENGINE=local they run here.
"""

import os
import sys
from dataclasses import replace
from typing import Any

from choosing import choose
from faults.faulty_job import SPLIT, FailingWork, arrange_death, die, start_engine
from ottla.jobs.compact import run as compact
from ottla.jobs.compact.plan import Compaction, plan_compaction
from ottla.jobs.compact.survey import CompactOptions
from ottla.rules.cleaner.cleanable import CleanerConfig

NOW = 1_700_000_100_000  # soon after the newest record of the generated logs
OPTIONS = CompactOptions(
    config=CleanerConfig(0.0, delete_retention_ms=5000),
    drops_unkeyed=True,
    segment_bytes=9000,
    split_bytes=SPLIT,
)


def plan(logs: str, out: str, now: int | None = NOW) -> Compaction:
    return plan_compaction(choose(logs), out, OPTIONS, now=now)


def arrange_failures(share: float) -> None:
    """Let tasks that find what stays, write it, and write what lies beside it fail."""
    plan_second_pass = compact.plan_second_pass

    def plan_failing(*arguments: Any) -> Any:
        second = plan_second_pass(*arguments)
        stage, close = FailingWork(second.stage, share), FailingWork(second.close, share)
        return replace(second, stage=stage, close=close)

    compact.plan_second_pass = plan_failing
    compact.learn_task = FailingWork(compact.learn_task, share)


def arrange_end(moment: str) -> None:
    """Replace the driver's step at which it shall die."""
    if moment == "surveyed":
        compact.plan_first_pass = die
    elif moment == "learnt":
        write = compact.write_found

        def write_and_die(*arguments: Any) -> None:
            write(*arguments)
            die()

        compact.write_found = write_and_die
    else:
        arrange_death(moment)


def main(logs: str, out: str, moment: str = "") -> None:
    share = float(os.environ.get("FAIL_SHARE", "0"))
    if share:
        arrange_failures(share)
    arrange_end(moment)
    with start_engine() as engine:
        print("running", flush=True)
        compact.compact(engine, plan(logs, out, None if moment else NOW))


if __name__ == "__main__":
    main(*sys.argv[1:])
