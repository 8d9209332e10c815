"""Which engine runs a job, and why: this process for small work, Spark for large work."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec

from ottla.engine.local import LocalEngine
from ottla.errors import OptionError, Term
from ottla.jobs.engine import Engine
from ottla.options.engine import DEFAULT_LOCAL_BYTES, DEFAULT_MEMORY
from ottla.options.texts import format_bytes


class EngineKind(StrEnum):
    """What a user can ask for."""

    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What is asked for; a master means Spark, as does being started by spark-submit."""

    kind: EngineKind = EngineKind.AUTO
    master: str | None = None
    local_bytes: int = DEFAULT_LOCAL_BYTES
    memory: int = DEFAULT_MEMORY
    quiet: bool = False


@contextmanager
def start_engine(
    title: str, size: int, options: EngineOptions, tell: Callable[[str], None]
) -> Iterator[Engine]:
    """The engine for a job over `size` bytes; `tell` is given a line that says which, and why."""
    kind, why = choose_engine(size, options)
    if kind is EngineKind.LOCAL:
        tell(f"{title} runs in this process: {why}")
        yield LocalEngine(options.memory, options.quiet)
        return
    from ottla.spark.engine import SparkEngine
    from ottla.spark.start import find_session, refuse_connect, run_session

    tell(f"{title} runs on Spark: {why}")
    running = find_session() if options.master is None else None
    refuse_connect()
    if running is not None:  # a program's own, which goes on after the job
        yield SparkEngine(running, options.quiet)
        return
    with run_session(title, options.master) as spark:
        yield SparkEngine(spark, options.quiet)


def choose_engine(size: int, options: EngineOptions) -> tuple[EngineKind, str]:
    """Where a job over `size` bytes runs, and why."""
    if options.kind is EngineKind.LOCAL:
        if options.master is not None:
            raise OptionError(
                Term.MASTER, " is for Spark: leave it out, or ", Term.ENGINE, " local"
            )
        return EngineKind.LOCAL, "as asked"
    if options.kind is EngineKind.SPARK or options.master is not None:
        return EngineKind.SPARK, "as asked" if options.master is None else options.master
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return EngineKind.SPARK, "spark-submit started it"
    if os.environ.get("MASTER"):
        return EngineKind.SPARK, f"MASTER is {os.environ['MASTER']}"
    amount, limit = format_bytes(size), format_bytes(options.local_bytes)
    if size <= options.local_bytes:
        return EngineKind.LOCAL, f"{amount}, and Spark is for more than {limit}"
    lacking = find_lacking()
    if lacking is not None:
        return EngineKind.LOCAL, f"{amount} are work for Spark, but {lacking}"
    return EngineKind.SPARK, f"{amount} are more than {limit}"


def find_lacking() -> str | None:
    """What Spark would need that this machine does not have."""
    if find_spec("pyspark") is None:
        return "there is no PySpark here"
    from ottla.spark.java import MINIMUM as JAVA  # that folder is for those who have it
    from ottla.spark.java import find_java_problem

    problem = find_java_problem()
    return None if problem is None else f"it needs Java {JAVA} or newer, and {problem}"
