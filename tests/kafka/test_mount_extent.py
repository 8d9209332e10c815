"""A broker that mounts what our jobs write keeps what lies elsewhere, and where logs begin and end.

Topics with remote storage (Kafka's own LocalTieredStorage, plain files) have most of their records
there. One of them is mounted with fewer leader epochs than it had, as our jobs once wrote them: a
broker that has deleted its remote segments has judged those of the others too.
"""

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from broker import Broker, new_broker
from clients import Rdkafka, Sent, create_topic
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from consumers import consume_rdkafka
from tally import compared
from test_mount_jobs import mount

from choosing import choose
from jobs.test_extent import BOUNDED, ENDS, JOBS, STRADDLED, write_log
from ottla.log.check.recovery import Recovery, plan_recovery
from ottla.log.files.partition import read_log_directories
from ottla.options.offsets import Offset

PATIENCE = 240
TIERED = {
    "remote.log.storage.system.enable": "true",
    "remote.log.metadata.manager.listener.name": "PLAINTEXT",
    "remote.log.storage.manager.class.name": (
        "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
    ),
    "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "2",
    "remote.log.manager.task.interval.ms": "500",
}
REMOTE_JOBS = ("convert", "restore", "compact", "salvage")
STOPS = ("clean", "unclean")
REMOTE_TOPICS = [f"tiered-{name}" for name in (*REMOTE_JOBS, *STOPS)]  # each stop costs one its own
RECORDS = [Sent(b"%d" % at, bytes(1000), 1_700_000_000_000 + at) for at in range(4600)]
RESTART = 2500  # the records before are of an older leader epoch

# By topic: what is written to it, the job, and the first and last offset that a broker must tell.
LOCAL = {
    "start.convert": (STRADDLED["compressed"], 100, "convert", (100, 150)),
    "start.compact": (STRADDLED["compressed"], 100, "compact", (100, 150)),
    "start.salvage": (STRADDLED["magic-2"], 100, "salvage", (100, 150)),
    "end.rebatch": (ENDS["batch-tail"][0], None, "rebatch", (0, 29)),
    "end.no-keys": (ENDS["aborted"][0], None, "no-keys", (0, 29)),
    "end.down": (ENDS["aborted"][0], None, "down", (0, 29)),
    "end.compact": (ENDS["batch-tail"][0], None, "compact", (0, 29)),
}
BOUNDS = (85, 130)  # of a topic that is restored in part


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, Path]]:
    """A stopped broker with all topics, and the output of all jobs."""
    folder = tmp_path_factory.mktemp("extents")
    remote = folder / "remote"
    remote.mkdir()
    broker = new_broker(folder, **TIERED, **{"rsm.config.dir": str(remote)})
    broker.start()
    tiered = {"remote_storage_enable": "true", "local_retention_bytes": "1"}
    for topic in REMOTE_TOPICS:
        create_topic(broker.bootstrap, topic, **tiered, segment_bytes="1048576", retention_ms="-1")
    for topic in (*LOCAL, "bounded"):
        create_topic(broker.bootstrap, topic, retention_ms="-1")
    produce(broker, RECORDS[:RESTART])
    broker.stop()
    broker.start()
    produce(broker, RECORDS[RESTART:])
    wait_until(lambda: all(local_start(broker, topic) > RESTART for topic in REMOTE_TOPICS))
    broker.stop()
    yield broker, run_jobs(broker, folder)
    if broker.process is not None:
        broker.stop()


def produce(broker: Broker, records: list[Sent]) -> None:
    producer = Rdkafka(broker.bootstrap)
    for topic in REMOTE_TOPICS:
        producer.send(topic, records)


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def local_start(broker: Broker, topic: str) -> int:
    return min(int(path.stem) for path in (broker.log_dir / f"{topic}-0").glob("*.log"))


def run_jobs(broker: Broker, folder: Path) -> Path:
    """All jobs write to one OUT, whose checkpoint of log starts then names all their logs."""
    out = folder / "out"
    source = shutil.copytree(broker.log_dir, folder / "source")
    for name in REMOTE_JOBS:
        JOBS[name](choose(source, topics=(f"tiered-{name}",)), str(out))
    for stop in STOPS:
        cut_epochs(
            shutil.copytree(source / f"tiered-{stop}-0", folder / "cut" / f"tiered-{stop}-0")
        )
    for topic, (data, log_start, name, _) in LOCAL.items():
        logs = write_log(folder / topic, {0: data}, log_start=log_start, topic=topic)
        JOBS[name](choose(logs), str(out))
    logs = write_log(folder / "bounded", {0: STRADDLED["compressed"]}, topic="bounded")
    start, stop = (Offset(at) for at in BOUNDS)
    BOUNDED["convert"](choose(logs, start=start, stop=stop), str(out))
    return out


def cut_epochs(partition: Path) -> None:
    """Leave only the epoch of the local log."""
    checkpoint = partition / "leader-epoch-checkpoint"
    *_, last = checkpoint.read_text().splitlines()
    checkpoint.write_text(f"0\n1\n{last}\n")


def remote_logs(broker: Broker, topic: str) -> set[str]:
    folders = (broker.log_dir.parent / "remote").rglob(f"{topic}-0-*")
    return {path.name for folder in folders for path in folder.glob("*.log")}


class Mounted(NamedTuple):
    """The broker on our files, the remote segments before, and the topic that loses its own."""

    broker: Broker
    before: dict[str, set[str]]
    cut: str
    plans: dict[str, Recovery]
    epochs: dict[str, list[str]]


@pytest.fixture(scope="module", params=STOPS)
def mounted(made: tuple[Broker, Path], request: pytest.FixtureRequest) -> Iterator[Mounted]:
    """After a clean stop and without."""
    broker, out = made
    cut = f"tiered-{request.param}"
    before = {topic: remote_logs(broker, topic) for topic in REMOTE_TOPICS}
    for folder in (*out.glob("*-0"), out.parent / "cut" / f"{cut}-0"):
        mount(folder, broker.log_dir / folder.name)
    shutil.copy(out / "log-start-offset-checkpoint", broker.log_dir)
    if request.param == "unclean":
        (broker.log_dir / ".kafka_cleanshutdown").unlink()
        (broker.log_dir / "recovery-point-offset-checkpoint").unlink()
    plans, epochs = predict(broker)
    broker.start()
    yield Mounted(broker, before, cut, plans, epochs)
    broker.stop()


def predict(broker: Broker) -> tuple[dict[str, Recovery], dict[str, list[str]]]:
    """By topic, what the start of the broker will do, and the lines of leader epochs before it."""
    (directory,) = read_log_directories([broker.log_dir])
    ours = {each.name.topic: each for each in directory.partitions if each.name}
    plans = {topic: plan_recovery(directory, each) for topic, each in ours.items()}
    return plans, {topic: epochs_of(broker, topic) for topic in (*REMOTE_TOPICS, *LOCAL)}


def epochs_of(broker: Broker, topic: str) -> list[str]:
    path = broker.log_dir / f"{topic}-0" / "leader-epoch-checkpoint"
    return path.read_text().splitlines()[2:]


def told_offsets(broker: Broker, topic: str) -> tuple[int, int]:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    found = []
    for spec in (OffsetSpec.earliest(), OffsetSpec.latest()):
        asked = admin.list_offsets({TopicPartition(topic, 0): spec})
        found.append(asked[TopicPartition(topic, 0)].result().offset)
    return found[0], found[1]


def test_remote_segments_stay(mounted: Mounted) -> None:
    broker, before, cut, *_ = mounted
    older = {name for name in before[cut] if int(name[:20]) < RESTART // 2}
    assert older
    wait_until(lambda: not older & remote_logs(broker, cut))
    for topic in (f"tiered-{name}" for name in REMOTE_JOBS):
        assert len(before[topic]) >= 3
        assert before[topic] <= remote_logs(broker, topic)
        assert told_offsets(broker, topic) == (0, len(RECORDS))
        received = consume_rdkafka(broker.bootstrap, topic, "read_uncommitted")
        assert [(each.offset, each.key) for each in received] == [
            (at, sent.key) for at, sent in enumerate(RECORDS)
        ]
        compared["records"] += len(received)
        compared["mounts"] += 1


@pytest.mark.parametrize("topic", [*LOCAL, "bounded"])
def test_logs_begin_and_end_where_they_did(mounted: Mounted, topic: str) -> None:
    expected = BOUNDS if topic == "bounded" else LOCAL[topic][3]
    assert told_offsets(mounted.broker, topic) == expected
    compared["mounts"] += 1


def test_the_broker_did_what_was_predicted(mounted: Mounted) -> None:
    """A log with remote segments was said to be cut to its local part."""
    topics = [f"tiered-{name}" for name in REMOTE_JOBS] + [*LOCAL, "bounded"]
    for topic in topics:
        assert mounted.plans[topic][1:] == told_offsets(mounted.broker, topic), topic
    for topic in (*REMOTE_TOPICS[: len(REMOTE_JOBS)], *LOCAL):
        rewritten = any(
            action.file.endswith("leader-epoch-checkpoint")
            for action in mounted.plans[topic].actions
        )
        # The leader that the broker has become is in a line more.
        known = mounted.epochs[topic]
        kept = epochs_of(mounted.broker, topic)[: len(known)] == known
        assert kept != rewritten, (topic, known, mounted.plans[topic])


@pytest.mark.parametrize("topic", ["end.rebatch", "end.no-keys", "end.compact", "bounded"])
def test_a_consumer_comes_to_the_end(mounted: Mounted, topic: str) -> None:
    """A batch without records takes it there."""
    received = consume_rdkafka(mounted.broker.bootstrap, topic, "read_committed")
    expected = {"end.rebatch": 20, "end.no-keys": 0, "end.compact": 7, "bounded": 45}
    assert len(received) == expected[topic]
