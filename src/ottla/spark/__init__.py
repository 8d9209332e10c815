"""Logs as Spark tables: the source `kafka-log`. Translation only; nothing else needs Spark."""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ottla.extras import missing_extra

# Here, since whatever is imported from this folder comes by: `ottla.read_log`, sessions, engines.
if find_spec("pyspark") is None:
    raise missing_extra("spark", "this needs Spark")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session(
    master: str | None = None, *, name: str = "logs", settings: Mapping[str, str] | None = None
) -> "SparkSession":
    """A Spark session that knows `format("kafka-log")`: the one that runs, else a new one.

    A new one has this Python for its workers, where Spark would take the first `python3` on the
    PATH, and prints errors only. `settings` are Spark's, and win over ours.
    """
    from ottla.spark.start import find_session, start_session

    spark = find_session() or start_session(name, master, settings)
    register(spark)
    return spark


def register(spark: Any) -> None:
    """Make `format("kafka-log")` known to a session that cannot discover it.

    An installed package is found by itself; one that was shipped as a zip by `addPyFile` is not.
    """
    from pyspark.errors import AnalysisException

    from ottla.spark.source import KafkaLogSource

    try:
        spark.dataSource.register(KafkaLogSource)
    except AnalysisException as error:  # of Spark 4.0, when it has found the source by itself
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
