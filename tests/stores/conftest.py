"""The stores and the Spark session that all tests of this folder share."""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ottla.spark.start import start_session
from stores.servers import SECRETS, SERVERS, ServerMissingError, Store

_DONE: Counter[str] = Counter()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here needs a server, or a place like those of servers."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.stores)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count what passed, by store."""
    if "test_operation[" in report.nodeid and report.when == "call" and report.passed:
        _DONE[report.nodeid.rpartition("[")[2].partition("-")[0]] += 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How much was the same as on a disk."""
    if _DONE:
        counts = ", ".join(f"{name} {count}" for name, count in _DONE.items())
        terminalreporter.write_line(f"operations as on a local disk: {counts}")


class Stores:
    """The stores, each started when it is first asked for."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self._started: dict[str, Store] = {"local": Store("local", str(folder / "local"))}

    def __getitem__(self, name: str) -> Store:
        if name not in self._started:
            folder = self._folder / name
            folder.mkdir()
            try:
                self._started[name] = self._stack.enter_context(SERVERS[name](folder))
            except ServerMissingError as error:
                if os.environ.get("ALL_STORES"):  # as in .ci/run
                    raise
                pytest.skip(str(error))
        return self._started[name]


@pytest.fixture(scope="session")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stores]:
    with ExitStack() as stack:
        yield Stores(tmp_path_factory.mktemp("stores"), stack)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Workers have the environment in which their JVM was started: secrets are in it."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SECRETS.items():
            patch.setenv(name, value)
        settings = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}
        session = start_session("stores", "local[2]", settings)
        yield session
        session.stop()


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the clients of this process find in their environment."""
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_ENDPOINT_URL", "STORAGE_EMULATOR_HOST", "AZURE_STORAGE_SERVICE_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
