"""What Ottla does with files, each once: the same results are wanted of every store.

An operation gets a place and gives what can be compared with another place: no path, no time. What
must hold by itself is asserted.
"""

import hashlib
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import ottla
from cli.command import run
from ottla.errors import PublishError
from ottla.publish.checked import StagedFile
from ottla.publish.job import Job
from ottla.publish.journal import (
    commit,
    new_staged_name,
    open_journals,
    publish,
    run_job,
    settle,
    staged_path,
)
from ottla.storage.files import open_file, read_bytes
from ottla.storage.listing import exists, list_files, list_names
from ottla.storage.object_store import StorageOptions
from ottla.storage.paths import is_remote
from ottla.storage.writing import (
    create_file,
    delete_file,
    delete_tree,
    move_files,
    open_output,
    write_file,
)
from stores.servers import Store

RACES = 20
LARGE = 11 << 20  # more than one part of an upload
NOW = "@2025-10-10T00:00:00Z"
SEGMENT = "00000000000000000000.log"
KILLED = """
import os, signal, sys
from ottla.cli import main
from ottla.publish import journal

move = journal.move_below

def move_some(out, moves, options):
    move(out, moves[:1], options)
    os.kill(os.getpid(), signal.SIGKILL)

journal.move_below = move_some
main(sys.argv[1:])
"""


@dataclass(frozen=True)
class Place:
    """Where an operation works: logs that are there, room for more, and a Spark that can read."""

    store: Store
    logs: str
    room: str
    disk: Path
    spark: SparkSession | None

    @property
    def options(self) -> StorageOptions:
        return self.store.options

    def at(self, *names: str) -> str:
        return "/".join((self.room, *names))

    def shown(self, text: str) -> str:
        """What was printed, as it would be at any place."""
        return text.replace(self.store.base, "BASE").replace(str(self.disk), "DISK")

    def command(self, *words: str) -> tuple[int, list[str]]:
        """Run a command here, and keep status and lines."""
        with self._reachable():
            ran = run(*words)
        return ran.status, self.shown(ran.out).splitlines()

    @contextmanager
    def _reachable(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.store.environment.items():
                patch.setenv(name, value)
            yield

    def job(self, command: str, *words: str) -> dict[str, str]:
        """Run a command that writes, and give what it wrote."""
        out = self.at(command)
        status, lines = self.command(command, *words, self.logs, out, "--quiet")
        assert status == 0, lines
        assert open_journals(out, self.options) == []
        return self.tree(out)

    def tree(self, folder: str) -> dict[str, str]:
        """The files below a folder by their names, with a hash of their bytes."""
        return {
            entry.path.removeprefix(f"{folder}/"): digest(read_bytes(entry, self.options))
            for entry in list_files(folder, self.options)
        }

    def frame_options(self) -> dict[str, str]:
        return {"endpoint": self.store.endpoint} if self.store.endpoint else {}


def digest(data: bytes) -> str:
    return f"{len(data)} {hashlib.sha256(data).hexdigest()[:16]}"


def names(place: Place) -> Any:
    found = list_names(place.logs, place.options)
    assert len(found) == 9
    inside = list_names(f"{place.logs}/orders-0", place.options)
    assert SEGMENT in inside
    return found, inside, list_names(place.at("nothing"), place.options)


def tree(place: Place) -> Any:
    entries = list_files(place.logs, place.options)
    with pytest.raises(FileNotFoundError):
        list_files(place.at("nothing"), place.options)
    return [(entry.path.removeprefix(place.logs), entry.size) for entry in entries]


def ranged_reads(place: Place) -> Any:
    (entry,) = list_files(f"{place.logs}/orders-0/{SEGMENT}", place.options)
    chance, found = random.Random(1), []
    with open_file(entry, place.options) as file:
        whole = np.frombuffer(file.read(), dtype=np.uint8)
        for _ in range(40):
            position, size = chance.randrange(entry.size + 9), chance.randrange(1, 9000)
            buffer = np.zeros(size, dtype=np.uint8)
            count = file.read_into(buffer, position, size)
            assert (buffer[:count] == whole[position : position + size]).all()
            found.append((position, size, count))
    return found


def whole_reads(place: Place) -> Any:
    return place.tree(place.logs)


def put(place: Place) -> Any:
    path, large = place.at("put", "a b+ü%41.json"), place.at("put", "large.log")
    write_file(path, b"first", place.options)
    write_file(path, b"second", place.options)
    write_file(place.at("put", "empty"), b"", place.options)
    piece = random.Random(2).randbytes(LARGE // 11)
    with open_output(large, place.options) as stream:
        for _ in range(11):
            stream.write(piece)
    assert read_bytes(large, place.options) == piece * 11
    return place.tree(place.at("put"))


def put_if_absent(place: Place) -> Any:
    path = place.at("once", "commit.json")
    won = [create_file(path, data, place.options) for data in (b"first", b"second")]
    assert won == [True, False]
    assert read_bytes(path, place.options) == b"first"
    delete_file(path, place.options)
    assert create_file(path, b"second", place.options)
    return place.tree(place.at("once"))


def races(place: Place) -> Any:
    """Two writers put the same name at the same moment: one of them wins, and knows it."""
    with ThreadPoolExecutor(2) as writers:
        for number in range(RACES):
            path = place.at("races", f"{number}.json")
            start = threading.Barrier(2)

            def create(data: bytes, path: str = path, start: threading.Barrier = start) -> bool:
                start.wait()
                return create_file(path, data, place.options)

            contents = [b"one" * 99, b"other" * 99]
            won = list(writers.map(create, contents))
            assert sorted(won) == [False, True]
            assert read_bytes(path, place.options) == contents[won.index(True)]
    return len(list_names(place.at("races"), place.options))


def delete(place: Place) -> Any:
    for name in ("a", "b/c", "b/d/e"):
        write_file(place.at("delete", *name.split("/")), b"x", place.options)
    for _ in range(2):  # a clean-up can be repeated
        delete_file(place.at("delete", "a"), place.options)
        delete_tree(place.at("delete", "b"), place.options)
    write_file(place.at("delete", "kept"), b"x", place.options)
    return place.tree(place.at("delete"))


def staged(job: Job, *files: tuple[str, bytes]) -> list[StagedFile]:
    found = []
    for target, data in files:
        name = new_staged_name(target)
        write_file(staged_path(job, name), data, job.storage)
        found.append(StagedFile(name, target, len(data)))
    return found


def publish_staged(place: Place) -> Any:
    out = place.at("published")
    with run_job(out, "job", place.options) as job:
        files = staged(job, (f"t-0/{SEGMENT}", b"log"), (f"t-1/{SEGMENT}", b""))
        assert not exists(out, place.options)
        commit(job, files, [])
        publish(job)
    assert open_journals(out, place.options) == []
    left = {name for name in place.tree(f"{out}.ottla") if not name.endswith("lock")}
    assert left == {"job/published.json"}
    return place.tree(out)


def recover(place: Place) -> Any:
    """A commit of which a file was copied and not deleted is finished; another job is discarded."""
    out = place.at("recovered")
    with run_job(out, "job", place.options) as job:
        files = staged(job, (f"t-0/{SEGMENT}", b"log"), (f"t-1/{SEGMENT}", b"more"))
        commit(job, files, [])
        moved = (staged_path(job, files[0].staged), f"{out}/{files[0].target}")
        move_files([moved], place.options)
        if is_remote(out):
            write_file(moved[0], b"log", place.options)
    staged(Job(out, "dead", place.options), (f"t-0/{SEGMENT}", b"lost"))
    assert set(open_journals(out, place.options)) == {"dead", "job"}
    settle(out, place.options)
    assert open_journals(out, place.options) == []
    return place.tree(out)


def finish_killed(place: Place) -> Any:
    """A job that is killed while it publishes; `ottla finish` does the rest."""
    out = place.at("killed")
    words = ["convert", "--codec", "zstd", "--topic", "users", "--engine", "local", "--quiet"]
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, *words, place.logs, out],
        env={**os.environ, **place.store.environment},
        capture_output=True,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    before = place.tree(out)
    assert len(before) == 1
    status, lines = place.command("ls", out)
    assert status in (0, 1), lines
    status, lines = place.command("finish", out, "--quiet")
    assert status == 0, lines
    after = place.tree(out)
    assert len(after) > len(before)
    return after


def second_writer(place: Place) -> Any:
    """Of two jobs that write to one OUT at the same time, one fails; which, locks decide."""
    out = place.at("contended")
    failed = []
    try:
        with run_job(out, "first", place.options) as first:
            files = staged(first, (f"t-0/{SEGMENT}", b"first"))
            try:
                with run_job(out, "second", place.options) as second:
                    commit(second, staged(second, (f"t-0/{SEGMENT}", b"second")), [])
                    publish(second)
            except PublishError:
                failed.append("second")
            commit(first, files, [])
            publish(first)
    except PublishError:
        failed.append("first")
    (winner,) = {"first", "second"} - set(failed)
    assert read_bytes(f"{out}/t-0/{SEGMENT}", place.options) == winner.encode()
    assert open_journals(out, place.options) == []
    return list(place.tree(out))


def ls(place: Place) -> Any:
    return place.command("ls", place.logs, "--segments"), place.command("ls", place.logs, "--json")


def dump(place: Place) -> Any:
    one = place.command("dump", place.logs, "--topic", "users", "--where", "offset < 50", "--json")
    whole = place.command("dump", f"{place.logs}/payments-0/{SEGMENT}", "--no-records")
    assert whole[0] == 1  # a damaged batch
    return one, whole


def inspect(place: Place) -> Any:
    return place.command("inspect", f"{place.logs}/orders-0/{SEGMENT}", "--offset", "17")


def verify(place: Place) -> Any:
    out = place.at("violations.jsonl")
    words = ("--engine", "local", "--out", out, "--quiet")
    status, _ = place.command("verify", place.logs, *words)
    assert status == 1
    recovery = place.command("verify", place.logs, "--recovery", "--all")
    return place.shown(read_bytes(out, place.options).decode()), recovery


def internal_topics(place: Place) -> Any:
    commands = (("groups",), ("groups", "--state"), ("topics",), ("transactions", "--now", NOW))
    return [place.command(*command, place.logs, "--json") for command in commands]


def schemas(place: Place) -> Any:
    return place.command("schemas", place.logs, "--json")


def diff(place: Place) -> Any:
    for name in list_names(f"{place.logs}/orders-0", place.options)[:4]:
        data = read_bytes(f"{place.logs}/orders-0/{name}", place.options)
        write_file(place.at("replica", "orders-0", name), data, place.options)
    replicas = (place.logs, place.at("replica"))
    status, lines = place.command("diff", *replicas, "--topic", "orders", "--json")
    assert status == 1
    return lines


def append(place: Place) -> Any:
    segment = f"{place.logs}/users-0/{SEGMENT}"
    words = ("--to", f"{place.logs}/orders-0", "--dry-run", "--now", NOW)
    return place.command("append", segment, *words)


def convert(place: Place) -> Any:
    return place.job("convert", "--topic", "clicks", "--codec", "lz4", "--engine", "local")


def compact(place: Place) -> Any:
    return place.job("compact", "--topic", "users", "--now", NOW, "--engine", "local")


def restore(place: Place) -> Any:
    words = ("--topic", "orders", "--to", "9000", "--rename", "orders=again", "--engine", "local")
    return place.job("restore", *words)


def salvage(place: Place) -> Any:
    out = place.at("salvage")
    status, lines = place.command(
        "salvage", place.logs, out, "--topic", "payments", "--engine", "local", "--quiet"
    )
    assert status == 1, lines
    kept = [name for name in place.tree(f"{out}.ottla") if "/quarantine/" in name]
    assert kept
    return place.tree(out), len(kept)


def export(place: Place) -> Any:
    words = ("--topic", "users", "--engine", "local")
    rows = place.job("export", *words, "--format", "jsonl")
    out = place.at("parquet")
    status, lines = place.command("export", *words, place.logs, out, "--quiet")
    assert status == 0, lines
    return rows, place.tree(out)


def report(place: Place) -> Any:
    page = place.at("report.html")
    words = ("--without", "what-if", "--now", NOW, "--engine", "local", "--topic", "users")
    status, lines = place.command("report", place.logs, "-o", page, *words)
    assert status == 0, lines
    assert read_bytes(page, place.options).startswith(b"<!doctype html>")
    return lines


def clone(place: Place) -> Any:
    """A broker starts from a disk, so that only the backup lies in the store."""
    out = place.disk / "clone"
    words = ("--exclude", "payments", "--cluster-id", "AAAAAAAAAAAAAAAAAAAAAQ", "--engine", "local")
    status, lines = place.command("clone", place.logs, str(out), *words, "--quiet")
    assert status == 0, lines
    kept = {path.parent.name: path for path in sorted(out.rglob(f"*-0/{SEGMENT}"))}
    return {name: digest(path.read_bytes()) for name, path in kept.items() if name[0] != "_"}


def scan(place: Place) -> Any:
    log = ottla.open(place.logs, endpoint=place.store.endpoint)
    chosen = log.scan("orders", where="offset < 900", columns=["partition", "offset", "value"])
    table = chosen.to_arrow().sort_by([("partition", "ascending"), ("offset", "ascending")])
    assert table.num_rows > 900
    return table.to_pylist()


def spark_batch(place: Place) -> Any:
    assert place.spark
    reader = place.spark.read.format("kafka-log").option("subscribe", "orders,users")
    frame = reader.options(splitBytes="200k", **place.frame_options()).load(place.logs)
    assert frame.rdd.getNumPartitions() > 3
    return _rows(frame)


def _rows(frame: Any) -> list[Any]:
    rows = frame.select("topic", "partition", "offset", "key", "value", "timestamp").collect()
    return sorted(tuple(row) for row in rows)


def spark_stream(place: Place) -> Any:
    assert place.spark
    reader = place.spark.readStream.format("kafka-log").option("subscribe", "users")
    reader = reader.options(startingOffsets="earliest", maxOffsetsPerTrigger="2000")
    frame = reader.options(**place.frame_options()).load(place.logs)
    sink = place.disk / "stream"
    writer = frame.writeStream.format("parquet").option("checkpointLocation", f"{sink}.state")
    query = writer.trigger(availableNow=True).start(str(sink))
    query.awaitTermination()
    batches = sum(progress.numInputRows > 0 for progress in query.recentProgress)
    assert batches > 1
    return batches, _rows(place.spark.read.parquet(str(sink)))


def spark_sink(place: Place) -> Any:
    """Two saves, of which the second is asked for twice; each row is there once."""
    assert place.spark
    out = place.at("sink")
    value = F.col("id").cast("string").alias("value")
    rows = place.spark.range(0, 600, 1, 2).select(value, F.lit(0).alias("partition"))
    options = {"topic": "t", "numPartitions": "2", "codec": "zstd", **place.frame_options()}
    for write_id in ("one", "two", "two"):
        writer = rows.write.format("kafka-log").options(**options, writeId=write_id)
        writer.mode("append").save(out)
    assert open_journals(out, place.options) == []
    reader = place.spark.read.format("kafka-log").options(**place.frame_options())
    found = [tuple(row) for row in reader.load(out).select("offset", "value").collect()]
    assert sorted(offset for offset, _ in found) == list(range(1200))
    logs = [name for name in place.tree(out) if name.endswith(".log")]
    return sorted(int(value) for _, value in found), logs


def spark_job(place: Place) -> Any:
    """A job whose tasks run in Spark's workers."""
    assert place.spark
    out = place.at("on-spark")
    log = ottla.open(place.logs, endpoint=place.store.endpoint)
    log.convert(out, "clicks", codec="gzip", engine="spark")
    assert open_journals(out, place.options) == []
    return place.tree(out)


OPERATIONS: dict[str, Callable[[Place], Any]] = {
    operation.__name__: operation
    for operation in (
        names,
        tree,
        ranged_reads,
        whole_reads,
        put,
        put_if_absent,
        races,
        delete,
        publish_staged,
        recover,
        finish_killed,
        second_writer,
        ls,
        dump,
        inspect,
        verify,
        internal_topics,
        schemas,
        diff,
        append,
        convert,
        compact,
        restore,
        salvage,
        export,
        report,
        clone,
        scan,
        spark_batch,
        spark_stream,
        spark_sink,
        spark_job,
    )
}
