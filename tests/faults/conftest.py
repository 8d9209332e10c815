"""The session of the tests on Spark, for the runs that come after a fault."""

from spark.conftest import spark

__all__ = ["spark"]
