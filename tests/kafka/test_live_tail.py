"""The streaming source follows a broker at full speed, also over a crash and its recovery."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from broker import Broker, new_broker
from clients import create_topic
from confluent_kafka import KafkaError, Message, Producer
from tally import compared

from spark.test_stream_kill import committed_files, start, wait_for_progress

TOPIC = "tailed"
QUERY = str(Path(__file__).with_name("follow_broker.py"))
AT_ONCE = 150_000
PATIENCE = 300


class Numbers:
    """An idempotent producer of counted values, and where the broker said it put each."""

    def __init__(self, bootstrap: str) -> None:
        settings = {"compression.codec": "lz4", "enable.idempotence": "true", "linger.ms": "5"}
        self.producer = Producer({"bootstrap.servers": bootstrap} | settings)
        self.sent = 0
        self.offsets: dict[int, int] = {}

    def send(self, count: int) -> None:
        """Hand over so many values; they wait in the producer's queue while no broker is there."""
        for number in range(self.sent, self.sent + count):
            while not self._hand_over(number):
                self.producer.poll(0.1)
        self.sent += count

    def _hand_over(self, number: int) -> bool:
        try:
            value = b"%d" % number
            self.producer.produce(TOPIC, value, partition=0, on_delivery=self._delivered)
        except BufferError:
            return False
        self.producer.poll(0)
        return True

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        self.offsets[int(message.value())] = message.offset()


@pytest.fixture
def tailed(tmp_path: Path) -> Iterator[Broker]:
    """A broker with one topic that rolls its segments early."""
    broker = new_broker(tmp_path / "broker")
    broker.start()
    create_topic(broker.bootstrap, TOPIC, segment_bytes=str(1 << 20))
    yield broker
    broker.stop()


@pytest.fixture
def query(tailed: Broker, tmp_path: Path) -> "Iterator[subprocess.Popen[str]]":
    """The process that follows the topic."""
    places = (tailed.log_dir, TOPIC, tmp_path / "sink", tmp_path / "stop")
    process = start(QUERY, tmp_path / "errors", *places)
    yield process
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_a_stream_gives_each_offset_once_over_a_crash_of_the_broker(
    tailed: Broker, query: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    sink = tmp_path / "sink"
    numbers = Numbers(tailed.bootstrap)
    numbers.send(AT_ONCE)
    wait_for_progress(sink, 0, query)
    numbers.send(AT_ONCE)
    tailed.kill()
    before = len(committed_files(sink))
    tailed.start()
    numbers.send(AT_ONCE)
    assert numbers.producer.flush(PATIENCE) == 0
    assert "Recovering unflushed segment" in tailed.server_log.read_text()
    (tmp_path / "stop").touch()
    assert query.wait(PATIENCE) == 0, (tmp_path / "errors").read_text()[-4000:]
    assert len(committed_files(sink)) > before

    rows = pa.concat_tables(
        pq.read_table(path, partitioning=None) for path in sorted(committed_files(sink))
    ).sort_by("offset")
    assert np.array_equal(rows["offset"].to_numpy(), np.arange(numbers.sent))
    told = sorted(numbers.offsets.items(), key=lambda pair: pair[1])
    assert [int(value) for value in rows["value"].to_pylist()] == [number for number, _ in told]
    assert len(told) == numbers.sent
    compared["records"] += numbers.sent
