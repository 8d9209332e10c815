"""A sink for the tests of faults to break: `faulty_sink.py save|stream OUT [INPUT]`.

The environment says how: FAIL_SHARE of the tasks fail at random; DIE_AT is where the driver is
killed in its last commit: `before`, `during` or `after` the commit point.
"""

import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from ottla.options.write import parse_write_options
from ottla.publish import journal as publish
from ottla.spark.sink import KafkaLogStreamWriter, KafkaLogWriter, StagedRows
from ottla.spark.source import KafkaLogSource
from ottla.spark.start import start_session

COUNT, TASKS, PARTITIONS = 6000, 6, 3
LAST_BATCH = 2
OPTIONS = {"topic": "t", "numPartitions": str(PARTITIONS), "codec": "zstd"}


def kill_driver() -> None:
    """Kill the driver, its JVM and this process, which the JVM started for the commit."""
    above, each = [], os.getpid()
    while each != int(os.environ["DRIVER"]):
        above.append(each)
        each = int(Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()[1])
    for process in (each, *reversed(above)):
        os.kill(process, signal.SIGKILL)


def arrange_death() -> None:
    """Replace the step of the commit at which the driver shall die."""
    moment = os.environ.get("DIE_AT")
    if moment == "before":
        publish.create_file = lambda *_: kill_driver()
    elif moment:
        move = publish.move_below

        def move_some(out: str, moves: Any, storage: Any) -> None:
            if moment == "during":
                move(out, list(moves)[: len(moves) // 2], storage)
            kill_driver()

        publish.move_below = move_some


def fail_at_random(work: Callable[[], StagedRows]) -> StagedRows:
    """Fail with some chance, before or after the rows are staged."""
    share = float(os.environ.get("FAIL_SHARE", "0"))
    chance = random.SystemRandom().random()
    if chance < share / 2:
        raise RuntimeError("a fault before the work")
    staged = work()
    if chance < share:
        raise RuntimeError("a fault after the work")
    return staged


class FaultyWriter(KafkaLogWriter):
    def write(self, iterator: Any) -> StagedRows:
        return fail_at_random(lambda: KafkaLogWriter.write(self, iterator))

    def commit(self, messages: Any) -> None:
        arrange_death()
        super().commit(messages)


class FaultyStreamWriter(KafkaLogStreamWriter):
    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803
        if batchId == LAST_BATCH:
            arrange_death()
        super().commit(messages, batchId)


class FaultySource(KafkaLogSource):
    @classmethod
    def name(cls) -> str:
        return "faulty-kafka-log"

    def writer(self, schema: StructType, overwrite: bool) -> KafkaLogWriter:
        return FaultyWriter(parse_write_options(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> KafkaLogStreamWriter:  # noqa: N802
        return FaultyStreamWriter(parse_write_options(self.options), schema)


def numbers(spark: SparkSession) -> DataFrame:
    """Values 0 to COUNT, of which each key has every hundredth."""
    ids = spark.range(0, COUNT, 1, TASKS)
    return ids.selectExpr("cast(id % 100 as string) as key", "cast(id as string) as value")


def save(spark: SparkSession, out: str, form: str = "kafka-log") -> None:
    writer = numbers(spark).write.format(form).options(**OPTIONS, writeId="numbers")
    writer.mode("append").save(out)


def stream(spark: SparkSession, out: str, files: str, form: str = "kafka-log") -> None:
    """Copy JSON lines, a batch for each file."""
    frame = spark.readStream.schema("key string, value string").option("maxFilesPerTrigger", 1)
    writer = frame.json(files).writeStream.format(form).options(**OPTIONS)
    writer = writer.option("checkpointLocation", f"{out}.state").trigger(availableNow=True)
    writer.start(out).awaitTermination()


def main(kind: str, *arguments: str) -> None:
    os.environ["DRIVER"] = str(os.getpid())
    spark = start_session("fault", "local[2, 4]")  # a task may fail three times
    spark.dataSource.register(FaultySource)
    print("running", flush=True)
    {"save": save, "stream": stream}[kind](spark, *arguments, form=FaultySource.name())
    spark.stop()


if __name__ == "__main__":
    from faults.faulty_sink import main as run  # so that workers find the classes by their module

    run(*sys.argv[1:])
