"""Logs as Spark tables: the source `kafka-log`. Translation only; nothing else needs Spark."""

from typing import Any


def register(spark: Any) -> None:
    """Make `format("kafka-log")` known to a session that can not discover it.

    An installed package is found by itself; one that was shipped as a zip by `addPyFile` is not.
    """
    from ottla.spark.source import KafkaLogSource

    spark.dataSource.register(KafkaLogSource)
