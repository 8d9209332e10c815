"""A job for test_kill.py to kill: writes `count` partitions to OUT and publishes them.

Run as `python killed_job.py OUT COUNT`; says "ready" when the work begins.
"""

import sys

from ottla.publish.checked import FinishedPartition, StagedFile
from ottla.publish.journal import (
    commit,
    finished_partitions,
    is_published,
    mark_finished,
    new_staged_name,
    publish,
    run_job,
    staged_path,
)
from ottla.storage.writing import open_output


def payload(partition: int, name: str) -> bytes:
    """What a file of the new state holds."""
    return f"{partition}/{name} ".encode() * 2000


def new_state(count: int) -> dict[str, bytes]:
    """What OUT gains when the job is done."""
    return {
        f"t-{partition}/{name}": payload(partition, name)
        for partition in range(count)
        for name in ("00000000000000000100.log", "00000000000000000100.index")
    }


def main(out: str, count: int) -> None:
    with run_job(out, "job") as job:
        if is_published(job):
            return
        finished = finished_partitions(job)
        for partition in range(count):
            if f"t-{partition}" in finished:
                continue
            files = []
            for name in ("00000000000000000100.log", "00000000000000000100.index"):
                staged = new_staged_name(name)
                with open_output(staged_path(job, staged)) as stream:
                    stream.write(payload(partition, name))
                size = len(payload(partition, name))
                files.append(StagedFile(staged, f"t-{partition}/{name}", size))
            mark_finished(job, f"t-{partition}", FinishedPartition(files, {}))
        staged_files = [file for part in finished_partitions(job).values() for file in part.files]
        commit(job, staged_files, [])
        publish(job)


if __name__ == "__main__":
    print("ready", flush=True)
    main(sys.argv[1], int(sys.argv[2]))
    print("done", flush=True)
