"""Jobs on Spark against what they can not beat: one process, the JVM's writer, the compressor.

The data is large enough to hide that a Spark job has to start; it is read from the page cache.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

from benchmarks import ours
from benchmarks.bench_spark import session
from benchmarks.corpus import SEGMENTS, Case, Plan, link_partitions, segment, size_of
from benchmarks.rounds import best_rates, cpu_timed, timed
from benchmarks.table import ratio
from ottla.batch.convert import Conversion
from ottla.catalog.catalog import list_catalog
from ottla.catalog.chosen import ChosenLogs
from ottla.codec import compress, resolve_level
from ottla.format.attributes import Codec
from ottla.format.layout import BATCH_OVERHEAD
from ottla.jobs.export.plan import ExportOptions, plan_export
from ottla.jobs.rewrite.convert import plan_convert
from ottla.jobs.run import run_output_job
from ottla.jobs.verify.plan import VerifyOptions
from ottla.jobs.verify.run import verify
from ottla.log.files.partition import find_partitions
from ottla.log.read.windows import read_windows
from ottla.options.choice import Choice
from ottla.publish.journal import run_job
from ottla.spark.engine import SparkEngine
from ottla.storage.files import open_file

HEADING = ("what", "Ottla", "against", "ratio", "target")
PARTITIONS = 16
VERIFIED = 96  # partitions, for a job that one core does at more than a gigabyte a second
CORES = 2
MOST_ROUNDS = 3  # a turn takes up to half a minute
WARM_UPS = 1

VERIFY_TO_ONE_PROCESS = 0.7
EXPORT_TO_JVM = 4.0
CONVERT_TO_COMPRESSOR = 0.9


def rows(plan: Plan) -> Iterator[tuple[str, ...]]:
    """Verify for two codecs, then export and convert."""
    scratch = SEGMENTS / "jobs-out"
    for codec in ("none", "lz4"):
        yield _verify(codec, plan)
    for codec in ("none", "lz4"):
        yield _export(codec, plan, scratch)
    yield _convert(plan, scratch)
    shutil.rmtree(scratch, ignore_errors=True)


def log_directory(codec: str, plan: Plan, partitions: int = PARTITIONS) -> Path:
    """The same segment under many names."""
    source = segment(Case(codec), plan)
    root = SEGMENTS / "jobs" / f"{source.stem}-{partitions}"
    link_partitions(source, root, partitions)
    return root


def _verify(codec: str, plan: Plan) -> tuple[str, ...]:
    larger = replace(plan, uncompressed_bytes=10 * plan.uncompressed_bytes)
    root = log_directory(codec, larger, VERIFIED)
    partitions, size = find_partitions([root]), size_of(root)

    def on_spark() -> int:
        for _ in verify(SparkEngine(session()), partitions, VerifyOptions(), []):
            pass
        return size

    def on_one_core() -> int:
        """One process, whose thread that reads ahead would take a second core if it could."""
        cores = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(cores)})
        try:
            for partition in partitions[:PARTITIONS]:
                for _ in ours.check_partition(partition):
                    continue
        finally:
            os.sched_setaffinity(0, cores)
        return size // VERIFIED * PARTITIONS

    turns = {"spark": timed(on_spark), "one": timed(on_one_core)}
    best = best_rates(turns, min(plan.rounds, MOST_ROUNDS), WARM_UPS)
    return _line(
        f"{codec}: verify, MB/s per core, and one process on one core",
        best["spark"] / CORES,
        best["one"],
        VERIFY_TO_ONE_PROCESS,
    )


def _export(codec: str, plan: Plan, scratch: Path) -> tuple[str, ...]:
    root = log_directory(codec, plan)
    size = size_of(root)
    names = (scratch / f"export-{number}" for number in count())

    def ours() -> int:
        out = next(names)
        job_plan = plan_export(ChosenLogs(list_catalog([str(root)])), str(out), ExportOptions())
        run_output_job(SparkEngine(session()), job_plan)
        return size

    def through_the_jvm() -> int:
        frame = session().read.format("kafka-log").option("includeHeaders", "true").load(str(root))
        writer = frame.write.partitionBy("topic", "partition").option("compression", "zstd")
        writer.parquet(str(next(names)))
        return size

    turns = {"ours": timed(_fresh(ours, scratch)), "jvm": timed(_fresh(through_the_jvm, scratch))}
    best = best_rates(turns, min(plan.rounds, MOST_ROUNDS), WARM_UPS)
    what = f"{codec}: export to Parquet, MB/s, and the JVM's writer"
    return _line(what, best["ours"], best["jvm"], EXPORT_TO_JVM)


def _fresh(work: Callable[[], int], scratch: Path) -> Callable[[], int]:
    def run() -> int:
        shutil.rmtree(scratch, ignore_errors=True)
        return work()

    return run


def _convert(plan: Plan, scratch: Path) -> tuple[str, ...]:
    """One part of the job, in this process, and nothing but compressing its payloads."""
    larger = replace(plan, uncompressed_bytes=10 * plan.uncompressed_bytes)
    root = log_directory("none", larger, VERIFIED)
    selection = ChosenLogs(list_catalog([str(root)]), Choice(partitions=(0,)))
    job_plan = plan_convert(selection, str(scratch / "convert"), Conversion(codec=Codec.ZSTD), {})
    (part,) = job_plan.parts.values()
    payloads = []
    with open_file(part.slice.log) as file:
        for window in read_windows(file):
            data, origin = window.region.data, window.region.position
            starts = (window.batches.position - origin + BATCH_OVERHEAD).tolist()
            stops = (window.batches.position - origin + window.batches.size).tolist()
            payloads += [
                data[start:stop].tobytes() for start, stop in zip(starts, stops, strict=True)
            ]

    def convert_part() -> int:
        with run_job(str(scratch / "convert"), "bench") as job:
            job_plan.stage(job, part)
        return part.size

    def compress_only() -> int:
        level = resolve_level(Codec.ZSTD, None)
        for payload in payloads:
            compress(Codec.ZSTD, 2, payload, level=level)
        return part.size

    turns = {
        "ours": cpu_timed(_fresh(convert_part, scratch)),
        "alone": cpu_timed(compress_only),
    }
    best = best_rates(turns, min(plan.rounds, MOST_ROUNDS), WARM_UPS)
    what = "none -> zstd: convert, MB per CPU second, and the compressor alone"
    return _line(what, best["ours"], best["alone"], CONVERT_TO_COMPRESSOR)


def _line(what: str, ours: float, theirs: float, target: float) -> tuple[str, ...]:
    return (what, f"{ours / 1e6:.0f}", f"{theirs / 1e6:.0f}", *ratio(ours, theirs, target))
