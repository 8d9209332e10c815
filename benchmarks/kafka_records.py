"""Kafka's Java record classes as a child process that answers one question at a time."""

import json
import subprocess
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from benchmarks.maven import class_path, java

PROJECT = Path(__file__).parent / "java"


class Answer(NamedTuple):
    """How long the work took inside the JVM, and how many records or batches it met."""

    seconds: float
    count: int


@cache
def _command() -> list[str]:
    # One thread is measured, so the collector gets one as well.
    return java("bench.KafkaRecords", class_path(PROJECT), "-XX:+UseSerialGC", "-Xms2g", "-Xmx4g")


class KafkaRecords:
    """One JVM. A fresh one for each file keeps its compiler's profile free of other codecs."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            _command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.communicate()

    def ask(self, question: str) -> Answer:
        """Send one command of KafkaRecords.java and wait for its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(question + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the JVM ended at: {question}")
        answer = json.loads(line)
        return Answer(answer["seconds"], answer["count"])
