"""What tests of faults share: engines for the runs after a fault, and the closing counts."""

from collections import Counter

import pytest
from pyspark.sql import SparkSession

from ottla.engine.local import LocalEngine
from ottla.jobs.engine import Engine
from ottla.spark.engine import SparkEngine
from spark.conftest import spark

__all__ = ["spark"]

_COUNTS = pytest.StashKey[Counter[str]]()


@pytest.fixture
def others(spark: SparkSession) -> dict[str, Engine]:
    """What finishes a job that was killed on an engine: the other one."""
    return {"local": SparkEngine(spark), "spark": LocalEngine()}


@pytest.fixture
def counts(request: pytest.FixtureRequest) -> Counter[str]:
    """What faults there were and what came of them, for the line that ends the run."""
    return request.config.stash.setdefault(_COUNTS, Counter())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the counts of all tests."""
    counted = terminalreporter.config.stash.get(_COUNTS, Counter())
    if counted:
        told = ", ".join(f"{number} {what}" for what, number in sorted(counted.items()))
        terminalreporter.write_line(f"faults: {told}")
