"""A save as the Spark sink makes it, without Spark: `saved_rows.py OUT TOPIC`.

Two tasks stage rows of two partitions, then the driver's commit places, stamps and publishes them.
"""

import sys

import pyarrow as pa

from ottla.jobs.write.commit import begin_writing, commit_rows, is_done, save_job
from ottla.jobs.write.stage import stage_rows
from ottla.options.write import WriteOptions
from ottla.publish.locks import hold

TASKS, ROWS = 2, 6


def rows_of(task: int) -> pa.RecordBatch:
    values = [f"{task}/{row}".encode() for row in range(ROWS)]
    columns = {"value": values, "partition": [row % 2 for row in range(ROWS)]}
    moment = pa.array([0] * ROWS, pa.timestamp("us", "UTC"))
    return pa.RecordBatch.from_pydict(columns | {"timestamp": moment})


def main(out: str, topic: str) -> None:
    """As KafkaLogWriter does; the id lets a second run of the same save know the first."""
    ids = {topic: "AAAAAAAAAAAAAAAAAAAAAQ"}
    options = WriteOptions(out, topic, 2, topic_ids=ids, leader_epoch=3, write_id=topic)
    job, writing = save_job(options), begin_writing(options)
    hold(job)
    tasks = [] if is_done(job) else range(TASKS)
    staged = [stage_rows(job, writing, task, [rows_of(task)]) for task in tasks]
    commit_rows(job, writing, staged)


if __name__ == "__main__":
    main(*sys.argv[1:])
