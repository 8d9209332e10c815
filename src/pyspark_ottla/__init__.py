"""Where Spark looks for `format("kafka-log")`: it imports every top-level `pyspark_*` package.

A failing import here would hide the sources of all other packages too, so nothing heavy is
imported before the source is used.
"""

from ottla.spark.source import KafkaLogSource as DefaultSource

__all__ = ["DefaultSource"]
