"""Jobs in this process, one part after another, and what an output holds by the naive reader."""

from pathlib import Path
from typing import Any

import naive
from ottla.jobs.output import OutputJob, publish_output, require_room
from ottla.publish.account import read_account
from ottla.publish.job import Job, job_name
from ottla.publish.journal import is_published, run_job

Record = tuple[int, int, bytes | None, bytes | None, tuple[tuple[bytes, bytes | None], ...]]


def run_plainly(plan: OutputJob) -> list[dict[str, Any]]:
    """Stage, close, commit and publish without Spark."""
    with run_job(plan.out, job_name(plan.inputs, plan.options), plan.storage) as job:
        if is_published(job):
            return read_account(job)
        require_room(job, plan.log_starts)
        return publish_plainly(job, plan)


def publish_plainly(job: Job, plan: OutputJob) -> list[dict[str, Any]]:
    """The same for a job that has begun."""
    finished = {key: plan.stage(job, part) for key, part in plan.parts.items()}
    closed = {key: plan.close(job, part) for key, part in plan.closing(finished).items()}
    return publish_output(job, plan, finished | closed)


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def lines_of(folder: Path) -> list[dict[str, Any]]:
    """What the naive reader says of all logs of a partition, in order."""
    return [line for log in sorted(folder.glob("*.log")) for line in naive.decode(log.read_bytes())]


def records_of(folder: Path) -> list[Record]:
    """The records of a partition, by the naive reader; control records are none."""
    records = []
    for log in sorted(folder.glob("*.log")):
        lines = naive.decode(log.read_bytes())
        assert not [line for line in lines if line["type"] == "error"], log
        control = {
            line["position"] for line in lines if line["type"] == "batch" and line["isControl"]
        }
        records += [
            (
                line["offset"],
                line["timestamp"],
                line["key"],
                line["value"],
                tuple(map(tuple, line["headers"])),
            )
            for line in lines
            if line["type"] == "record" and line["position"] not in control
        ]
    return records
