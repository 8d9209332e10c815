"""Brokers read what we write: our segments and side files in the place of a partition's own."""

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from broker import Broker, new_broker
from clients import JavaClients, Sent, create_topic, send
from consumers import Received, consume_aiokafka, consume_java, consume_rdkafka
from raw_client import RawClient
from tally import compared
from workloads import CODECS, records

from builders import Row, batch
from ottla import NewBatch, write_segment
from ottla.format.attributes import Codec
from ottla.format.layout import PRODUCER_SNAPSHOT_ENTRY
from ottla.kernels.tables import Batches, concat_batches
from ottla.log.files.checkpoints import EpochStart, write_leader_epochs
from ottla.log.files.offset_index import write_offset_index
from ottla.log.files.producer_snapshot import write_producer_snapshot
from ottla.log.files.time_index import write_time_index
from ottla.log.read.windows import read_windows
from ottla.log.write.index_builder import build_indexes
from ottla.storage.files import open_file

FIRST_OFFSET = 1000
# Recent: a broker forgets producers that were silent for a day (producer.id.expiration.ms).
FIRST_TIMESTAMP = int(time.time() * 1000) - 3_600_000
BATCH_BYTES = 2048  # many batches, so that the indexes have entries
PRODUCER_ID = 4000
RECORDS = records(7, 400, first_timestamp=FIRST_TIMESTAMP)
EXPECTED = [
    Received(FIRST_OFFSET + index, sent.timestamp, sent.key, sent.value, sent.headers)
    for index, sent in enumerate(RECORDS)
]
END_OFFSET = FIRST_OFFSET + len(RECORDS)
NONE = 0
OUT_OF_ORDER_SEQUENCE_NUMBER = 45
TROUBLE = (" WARN ", " ERROR ", "orrupt", "Recovering", "rebuilding index")


def as_arrow(sent: list[Sent]) -> pa.RecordBatch:
    headers = [[{"key": key, "value": value} for key, value in record.headers] for record in sent]
    pair = pa.struct([("key", pa.string()), ("value", pa.binary())])
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([record.key for record in sent], pa.binary()),
            "value": pa.array([record.value for record in sent], pa.binary()),
            "offset": pa.array(range(FIRST_OFFSET, FIRST_OFFSET + len(sent)), pa.int64()),
            "timestamp": pa.array([record.timestamp for record in sent], pa.int64()),
            "headers": pa.array(headers, pa.list_(pair)),
        }
    )


def mount(partition: Path, codec: str) -> None:
    """Replace all that a stopped broker has of a partition but its topic id."""
    for path in partition.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    log = partition / f"{FIRST_OFFSET:020}.log"
    new = NewBatch(
        codec=Codec[codec.upper()],
        partition_leader_epoch=0,
        producer_id=PRODUCER_ID,
        producer_epoch=0,
        base_sequence=0,
    )
    write_segment([as_arrow(RECORDS)], log, new_batch=new, batch_bytes=BATCH_BYTES)
    batches = read_all(log)
    offsets, times = build_indexes(batches, FIRST_OFFSET)
    log.with_suffix(".index").write_bytes(write_offset_index(offsets))
    log.with_suffix(".timeindex").write_bytes(write_time_index(times))
    epochs = write_leader_epochs([EpochStart(0, FIRST_OFFSET)])
    (partition / "leader-epoch-checkpoint").write_bytes(epochs)
    snapshot = write_producer_snapshot(the_producer(batches))
    (partition / f"{END_OFFSET:020}.snapshot").write_bytes(snapshot)


def read_all(log: Path) -> Batches:
    with open_file(str(log)) as file:
        return concat_batches([window.batches for window in read_windows(file)])


def the_producer(batches: Batches) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """The snapshot entry of the one producer whose batches these are."""
    delta = int(batches.last_offset_delta[-1])
    last_sequence = int(batches.base_sequence[-1]) + delta
    newest = int(batches.max_timestamp[-1])
    entry = (PRODUCER_ID, 0, last_sequence, END_OFFSET - 1, delta, newest, -1, -1)
    return np.array([entry], dtype=PRODUCER_SNAPSHOT_ENTRY)


def prepare(directory: Path) -> Broker:
    """A stopped broker, the partitions of which are ours: one for each codec."""
    broker = new_broker(directory)
    broker.start()
    for codec in CODECS:
        create_topic(broker.bootstrap, f"mounted-{codec}")
    broker.stop()
    for codec in CODECS:
        mount(broker.log_dir / f"mounted-{codec}-0", codec)
    broker.server_log.unlink()
    return broker


@pytest.fixture(scope="module")
def mounted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that runs on partitions of ours."""
    broker = prepare(tmp_path_factory.mktemp("mounted"))
    broker.start()
    yield broker
    broker.stop()


def test_the_broker_starts_without_a_complaint(mounted: Broker) -> None:
    lines = [line for line in mounted.server_log.read_text().splitlines() if "mounted-" in line]
    assert len(lines) >= len(CODECS)
    assert [line for line in lines if any(word in line for word in TROUBLE)] == []
    compared["mounts"] += len(CODECS)


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("codec", CODECS)
def test_every_client_reads_every_record(
    mounted: Broker, java: JavaClients, codec: str, isolation: str
) -> None:
    asked = (mounted.bootstrap, f"mounted-{codec}", isolation)
    assert consume_java(java, *asked)[: len(EXPECTED)] == EXPECTED
    assert consume_rdkafka(*asked)[: len(EXPECTED)] == EXPECTED
    assert consume_aiokafka(*asked)[: len(EXPECTED)] == EXPECTED


@pytest.mark.parametrize("codec", CODECS)
def test_times_are_found(mounted: Broker, java: JavaClients, codec: str) -> None:
    asked = [FIRST_TIMESTAMP - 100, *(sent.timestamp for sent in RECORDS[::37])]
    config = {"bootstrap.servers": mounted.bootstrap}
    topic = f"mounted-{codec}"
    found = java.ask(
        do="offsetsForTimes", config=config, topic=topic, partition=0, timestamps=asked
    )
    assert found == [first_at_or_after(timestamp) for timestamp in asked]


def first_at_or_after(timestamp: int) -> list[int]:
    return next([one.offset, one.timestamp] for one in EXPECTED if one.timestamp >= timestamp)


@pytest.mark.parametrize("codec", CODECS)
def test_a_producer_continues_the_log(mounted: Broker, java: JavaClients, codec: str) -> None:
    topic = f"mounted-{codec}"
    sent = [Sent(b"after", b"ours", FIRST_TIMESTAMP + 1_000_000)]
    offsets = java.produce(mounted.bootstrap, [send(topic, sent)], compression_type=codec)
    assert offsets[0] >= END_OFFSET
    assert consume_rdkafka(mounted.bootstrap, topic, "read_committed")[-1].value == b"ours"


@pytest.mark.parametrize("codec", CODECS)
def test_the_producer_of_our_snapshot_is_known(mounted: Broker, codec: str) -> None:
    """A gap is refused, the next sequence is taken, and again it is a duplicate."""
    topic = f"mounted-{codec}"
    following, gap = (
        batch([Row(0, FIRST_TIMESTAMP)], producer=(PRODUCER_ID, 0, sequence))
        for sequence in (len(RECORDS), len(RECORDS) + 7)
    )
    with RawClient(mounted.port) as client:
        assert client.produce(topic, gap).error_code == OUT_OF_ORDER_SEQUENCE_NUMBER
        taken = client.produce(topic, following)
        assert taken.error_code == NONE
        assert client.produce(topic, following) == taken


def test_a_recovery_keeps_the_log_and_rebuilds_the_indexes_that_we_wrote(tmp_path: Path) -> None:
    broker = prepare(tmp_path)
    partitions = [broker.log_dir / f"mounted-{codec}-0" for codec in CODECS]
    ours = [contents(partition) for partition in partitions]
    (broker.log_dir / ".kafka_cleanshutdown").unlink()
    broker.start()
    broker.stop()
    assert "Recovering unflushed segment 1000" in broker.server_log.read_text()
    assert [contents(partition) for partition in partitions] == ours


def contents(partition: Path) -> dict[str, bytes]:
    """All files but the one to which every new leader adds its epoch."""
    files = sorted(path for path in partition.iterdir() if path.name != "leader-epoch-checkpoint")
    return {path.name: path.read_bytes() for path in files}
