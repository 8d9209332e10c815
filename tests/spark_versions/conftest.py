"""One Spark session for the tests of a version, as in tests/spark."""

from spark.conftest import spark  # noqa: F401
