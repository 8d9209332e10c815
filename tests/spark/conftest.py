"""One Spark session for all tests of a process."""

import os
import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from ottla.jobs.engine import Engine
from ottla.spark.engine import SparkEngine

CONFIGURATION = {
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "ERROR",
    "spark.python.daemon.module": "ottla.spark.daemon",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("ottla tests")
    warehouse = tmp_path_factory.mktemp("warehouse")
    for name, value in (CONFIGURATION | {"spark.sql.warehouse.dir": str(warehouse)}).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture
def engine(spark: SparkSession) -> Engine:
    """Spark as what runs jobs."""
    return SparkEngine(spark)
