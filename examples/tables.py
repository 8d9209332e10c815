"""A log directory as tables, without Spark: `python examples/tables.py [PATH [TOPIC]]`.

Without PATH it makes the logs of a small cluster and reads those. `make types` checks this file
with mypy --strict, as a program would be checked that uses Ottla.
"""

import sys
import tempfile
from pathlib import Path

import ottla
from ottla.jobs.demo import make_logs


def describe(log: ottla.Log) -> None:
    """What is there, and whether it is sound."""
    print(log)
    for name, topic in log.topics.items():
        offsets = {number: part.offsets for number, part in topic.partitions.items()}
        print(name, offsets)
    found = log.verify()
    print("sound" if found.ok else found)


def count_values(log: ottla.Log, topic: str) -> dict[str, int]:
    """How many values of a topic are JSON, and how many are not; read a batch at a time."""
    scan: ottla.Scan = log.scan(
        topic,
        columns=["value", "valueRaw"],
        value_as=ottla.ValueAs.JSON,
        isolation=ottla.Isolation.READ_COMMITTED,
        mode=ottla.Mode.DROPMALFORMED,
    )
    counts = {"JSON": 0, "other": 0}
    for batch in scan:
        other = batch.num_rows - batch.column("valueRaw").null_count
        counts["other"] += other
        counts["JSON"] += batch.num_rows - batch.column("value").null_count
    return counts


def main(path: str | None = None, topic: str = "orders") -> None:
    with tempfile.TemporaryDirectory() as folder:
        if path is None:
            path = f"{folder}/kafka-logs"
            make_logs(path)
        log = ottla.open(Path(path) if "://" not in path else path)
        describe(log)
        print(count_values(log, topic))
        try:
            print(log.scan(topic).head(2).to_pylist())
        except ottla.CorruptLogError as error:
            print(error.violation)
        account = log.convert(f"{folder}/smaller", topic, codec=ottla.Codec.ZSTD, level=9)
        print(account.to_pylist()[0]["writtenBytes"], "bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
