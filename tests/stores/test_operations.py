"""Every operation on every store gives what it gives on a local disk."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs.plain import tree
from ottla.jobs.demo import make_logs
from ottla.storage.writing import write_file
from stores.conftest import Stores
from stores.operations import OPERATIONS, Place
from stores.servers import SERVERS, Store

LOGS = "kafka-logs"


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The logs of a small cluster, on a disk."""
    folder = tmp_path_factory.mktemp("demo") / LOGS
    make_logs(str(folder))
    return folder


class Places:
    """Where operations work, and what they give on a disk."""

    def __init__(self, stores: Stores, demo: Path, folder: Path, spark: SparkSession) -> None:
        self._stores, self._demo, self._folder, self._spark = stores, demo, folder, spark
        self._filled: set[str] = set()
        self._expected: dict[str, Any] = {}

    def find(self, name: str, operation: str) -> Place:
        store = self._stores[name]
        self._fill(store)
        return self._place(store, operation)

    def expected(self, operation: str) -> Any:
        if operation not in self._expected:
            store = Store("disk", str(self._folder / "disk"))
            self._fill(store)
            self._expected[operation] = OPERATIONS[operation](self._place(store, operation))
        return self._expected[operation]

    def _fill(self, store: Store) -> None:
        if store.name not in self._filled:
            for name, data in tree(self._demo).items():
                write_file(f"{store.base}/{LOGS}/{name}", data, store.options)
            self._filled.add(store.name)

    def _place(self, store: Store, operation: str) -> Place:
        room = f"{store.base}/{operation}"
        disk = self._folder / store.name / f"{operation}-disk"
        disk.mkdir(parents=True)
        return Place(store, f"{store.base}/{LOGS}", room, disk, self._spark)


@pytest.fixture(scope="session")
def places(
    stores: Stores, demo: Path, tmp_path_factory: pytest.TempPathFactory, spark: SparkSession
) -> Places:
    return Places(stores, demo, tmp_path_factory.mktemp("places"), spark)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("store", ["local", *SERVERS])
def test_operation(store: str, operation: str, places: Places) -> None:
    place = places.find(store, operation)
    assert OPERATIONS[operation](place) == places.expected(operation)
