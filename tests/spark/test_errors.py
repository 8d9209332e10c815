"""What the user of a query is told: where it is broken and what can be done; of a stream too."""

from pathlib import Path

import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

from builders import Row, batch, batch_of
from ottla.options.read import for_stream, parse_read_options
from ottla.spark.reader import LogReadError
from ottla.spark.schema import schema_of
from ottla.spark.stream import KafkaLogStreamReader

pytestmark = pytest.mark.spark

SOUND = batch([Row(0, 1000), Row(1, 1000), Row(2, 1000)])
AFTER = batch([Row(9, 1000)])
BROKEN = {
    "crc-matches": batch([Row(3, 1000)])[:-1] + b"?",
    "batch-size-minimum": b"\0" * 7 + b"\3" + b"\0\0\0\1" + b"x" * 60,
    "batch-bytes-limit": batch([Row(3, 1000, None, bytes(5000))], codec=4),
    "record-": batch_of(b"\x7f\0\0\0\1\1\0", count=1, base_offset=3),
    "timestamp-range": batch([Row(3, 2**62)]),
}


@pytest.fixture(params=BROKEN)
def rule(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def logs(tmp_path: Path, rule: str) -> Path:
    """Three good offsets, then what is broken, then a good batch."""
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020d}.log").write_bytes(SOUND + BROKEN[rule] + AFTER)
    return tmp_path


OPTIONS = {"maxbatchbytes": "4k", "startingoffsets": "earliest"}


def told(error: Exception, logs: Path) -> str:
    """The line of our own error; what is around it is Spark's and Python's."""
    lines = [line for line in str(error).splitlines() if "LogReadError: " in line]
    assert lines, str(error)
    assert f"{logs}/t-0/{0:020d}.log @ {len(SOUND)}" in lines[0]
    return lines[0]


def check(line: str, rule: str) -> None:
    assert rule in line
    if rule != "batch-size-minimum":  # where framing is lost, so is the offset
        assert ", offset 3" in line
    for advice in ("mode=DROPMALFORMED", "mode=PERMISSIVE", "view=violations", "ottla salvage"):
        assert advice in line
    if rule == "batch-bytes-limit":
        assert "maxBatchBytes" in line


def test_a_query_says_where_it_is_broken_and_what_can_be_done(
    spark: SparkSession, logs: Path, rule: str
) -> None:
    frame = spark.read.format("kafka-log").options(**OPTIONS).load(str(logs))
    with pytest.raises(PythonException) as failed:
        frame.collect()
    check(told(failed.value, logs), rule)


def test_a_stream_says_it_too(logs: Path, rule: str) -> None:
    """Its reader, asked as Spark asks it."""
    options = for_stream(parse_read_options({"path": str(logs)} | OPTIONS))
    stream = KafkaLogStreamReader(options, schema_of(options))
    first = stream.initialOffset()
    tasks = stream.partitions(first, stream.latestOffset(first, ReadAllAvailable()))
    with pytest.raises(LogReadError) as failed:
        [list(stream.read(task)) for task in tasks]
    line = str(failed.value)
    assert line.startswith(f"{logs}/t-0/{0:020d}.log @ {len(SOUND)}")
    check(line, rule)
