"""Brokers read what our jobs write: their output in the place of a stopped broker's partitions.

Beside each output stands its control, the files that the job was given, as a broker had written
them. What Kafka's own consumer reads of the control is what every client must read of ours.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from broker import Broker, new_broker
from clients import JavaClients, Sent, create_topic, send
from consumers import Received, consume_aiokafka, consume_java, consume_rdkafka
from raw_client import RawClient
from tally import compared
from test_append_rules import NONE
from test_mount import OUT_OF_ORDER_SEQUENCE_NUMBER, TROUBLE

import naive
from builders import Row, batch
from jobs.plain import lines_of

ISOLATION = ("read_uncommitted", "read_committed")
OTTLA = Path(sys.executable).with_name("ottla")
SINK = "sink"  # no command: a Spark program that writes what it reads
COPY = Path(__file__).with_name("copy_topics.py")
DAMAGED = ("small-batches", "rdkafka-lz4")


Keeps = Callable[[int], bool]


def everything(offset: int) -> bool:
    """What most commands keep of the offsets."""
    return True


@dataclass(frozen=True, slots=True)
class Made:
    """One command and the topics of its output that are mounted."""

    command: str
    source: str
    topics: tuple[str, ...]
    flags: tuple[str, ...] = ()
    keeps: Keeps = everything
    newest_only: bool = False


# Small segments and batches, so that indexes have entries and snapshots stand between segments.
SMALL = ("--segment-bytes", "16k", "--split-bytes", "20k")
MADE = {
    "restored": Made(
        "restore",
        "current",
        ("java-lz4", "transactions", "small-batches", "compacted", "expired", "log-append-time"),
        SMALL,
    ),
    "bounded": Made(
        "restore",
        "current",
        ("rdkafka-zstd",),
        ("--from", "30", "--to", "170"),
        lambda offset: 30 <= offset < 170,
    ),
    "converted": Made(
        "convert",
        "current",
        ("java-none", "transactions", "compacted", "aiokafka-snappy"),
        (*SMALL, "--codec", "zstd", "--batch-bytes", "4k"),
    ),
    "upgraded": Made(
        "convert",
        "legacy",
        ("v0-gzip", "v1-lz4", "v1-log-append-time", "mixed-magics"),
        ("--magic", "2", "--segment-bytes", "16k"),
    ),
    "salvaged": Made("salvage", "damaged", (*DAMAGED, "transactions")),
    "cleaned": Made(
        "compact",
        "current",
        ("java-snappy", "rdkafka-gzip", "compacted"),
        (*SMALL, "--include-active", "--drop-unkeyed"),
        newest_only=True,
    ),
    "sunk": Made(SINK, "current", ("java-gzip", "small-batches", "aiokafka-lz4")),
}
MOUNTS = [(made, topic) for made in MADE for topic in MADE[made].topics]
CONTROLS = sorted({(MADE[made].source == "legacy", topic) for made, topic in MOUNTS})
NAMES = [f"{made}.{topic}" for made, topic in MOUNTS]
each_mount = pytest.mark.parametrize(("made", "topic"), MOUNTS, ids=NAMES)


@dataclass(frozen=True, slots=True)
class Mounted:
    """A broker that runs on the output of jobs, and the directories that they read and wrote."""

    broker: Broker
    sources: dict[str, Path]
    outputs: dict[str, Path]
    lost: dict[str, set[int]]

    def keeps(self, made: str, topic: str) -> Keeps:
        """Which offsets an output has."""
        if made == "salvaged" and topic in self.lost:
            return lambda offset: offset not in self.lost[topic]
        return MADE[made].keeps


@pytest.fixture(scope="module")
def mounted(
    logs: dict[str, Path], legacy_log: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mounted]:
    """All outputs and their controls in one broker."""
    folder = tmp_path_factory.mktemp("mounted-jobs")
    damaged = shutil.copytree(logs["stopped"], folder / "damaged")
    lost = {topic: damage(damaged / f"{topic}-0") for topic in DAMAGED}
    sources = {"current": logs["stopped"], "legacy": legacy_log, "damaged": damaged}
    outputs = {name: run_command(made, sources, folder / name) for name, made in MADE.items()}
    broker = new_broker(folder)
    broker.start()
    for name in [*NAMES, *(f"control.{topic}" for _, topic in CONTROLS)]:
        create_topic(broker.bootstrap, name)
    broker.stop()
    for made, topic in MOUNTS:
        mount(outputs[made] / f"{topic}-0", broker.log_dir / f"{made}.{topic}-0")
    for is_legacy, topic in CONTROLS:
        source = sources["legacy" if is_legacy else "current"]
        mount(source / f"{topic}-0", broker.log_dir / f"control.{topic}-0")
    broker.server_log.unlink()
    broker.start()
    yield Mounted(broker, sources, outputs, lost)
    broker.stop()


def damage(partition: Path) -> set[int]:
    """Flip a byte in the middle of a partition, and tell which offsets this costs."""
    logs = sorted(partition.glob("*.log"))
    log = logs[len(logs) // 2]
    batches = [line for line in naive.decode(log.read_bytes()) if line["type"] == "batch"]
    hit = batches[len(batches) // 2]
    data = bytearray(log.read_bytes())
    data[hit["position"] + hit["size"] - 1] ^= 1
    log.write_bytes(data)
    return set(range(hit["baseOffset"], hit["lastOffset"] + 1))


def run_command(made: Made, sources: dict[str, Path], out: Path) -> Path:
    topics = [word for topic in made.topics for word in ("--topic", topic)]
    command = [OTTLA, made.command, sources[made.source], out, *topics, *made.flags, "--quiet"]
    if made.command == SINK:
        command = [sys.executable, COPY, sources[made.source], out, ",".join(made.topics)]
    paths = os.pathsep.join([str(COPY.parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": paths, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    found_damage = made.source == "damaged"
    assert done.returncode == int(found_damage), done.stderr
    return out


def mount(files: Path, partition: Path) -> None:
    """Replace all that a stopped broker has of a partition but its topic id."""
    for path in partition.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in files.iterdir():
        if path.name != "partition.metadata":
            shutil.copy(path, partition)


def test_the_broker_starts_without_a_complaint(mounted: Mounted) -> None:
    lines = mounted.broker.server_log.read_text().splitlines()
    for name in NAMES:
        of_it = [line for line in lines if f"{name}-0" in line]
        assert of_it
        assert [line for line in of_it if any(word in line for word in TROUBLE)] == []
        compared["mounts"] += 1


@each_mount
def test_the_broker_keeps_the_indexes_that_we_wrote(
    mounted: Mounted, made: str, topic: str
) -> None:
    """A running broker has allocated more for the last segment: zeros behind what we wrote."""
    files = sorted((mounted.outputs[made] / f"{topic}-0").glob("*index"))
    assert len(files) >= 2
    for path in files:
        ours = path.read_bytes()
        kept = (mounted.broker.log_dir / f"{made}.{topic}-0" / path.name).read_bytes()
        assert kept.startswith(ours), path
        assert not any(kept[len(ours) :]), path


@pytest.mark.parametrize("isolation", ISOLATION)
@each_mount
def test_every_client_reads_every_record(
    mounted: Mounted, java: JavaClients, made: str, topic: str, isolation: str
) -> None:
    bootstrap = mounted.broker.bootstrap
    if MADE[made].newest_only:  # what was aborted goes with the first cleaning
        expected = newest(read_control(java, bootstrap, topic, "read_committed"))
    else:
        keeps = mounted.keeps(made, topic)
        control = read_control(java, bootstrap, topic, isolation)
        expected = [record for record in control if keeps(record.offset)]
    assert expected
    asked = (bootstrap, f"{made}.{topic}", isolation)
    assert consume_java(java, *asked) == expected
    assert consume_rdkafka(*asked) == expected
    assert consume_aiokafka(*asked) == expected
    compared["records"] += 3 * len(expected)


def newest(records: list[Received]) -> list[Received]:
    """The last record of each key; tombstones too, which have their time to stay."""
    last = {record.key: record.offset for record in records if record.key is not None}
    return [record for record in records if last.get(record.key) == record.offset]


@cache
def read_control(java: JavaClients, bootstrap: str, topic: str, isolation: str) -> list[Received]:
    return consume_java(java, bootstrap, f"control.{topic}", isolation)


@each_mount
def test_times_are_found(mounted: Mounted, java: JavaClients, made: str, topic: str) -> None:
    """As in the control; where the output has less, as the naive reader finds it there."""
    lines = [
        line
        for line in lines_of(mounted.outputs[made] / f"{topic}-0")
        if line["type"] == "record"  # markers are found by their time too
    ]
    stamps = [max(0, line["timestamp"]) for line in lines]  # nobody can ask for -1
    asked = [0, *stamps[:: len(stamps) // 9], max(stamps), max(stamps) + 1_000_000_000]
    config = {"bootstrap.servers": mounted.broker.bootstrap}

    def find(name: str) -> list[list[int] | None]:
        question = {"topic": name, "partition": 0, "timestamps": asked}
        found: list[list[int] | None] = java.ask(do="offsetsForTimes", config=config, **question)
        return found

    has_all = mounted.keeps(made, topic) is everything and not MADE[made].newest_only
    expected = find(f"control.{topic}") if has_all else [first_at(lines, at) for at in asked]
    assert find(f"{made}.{topic}") == expected


def first_at(lines: list[naive.Line], timestamp: int) -> list[int] | None:
    found = (line for line in lines if line["timestamp"] >= timestamp)
    return next(([line["offset"], line["timestamp"]] for line in found), None)


@each_mount
def test_the_producer_of_our_snapshot_is_known(mounted: Mounted, made: str, topic: str) -> None:
    """A gap is refused, the next sequence is taken, and again it is a duplicate."""
    source = mounted.sources[MADE[made].source] / f"{topic}-0"
    known = last_sequence(source, mounted.keeps(made, topic))
    if known is None or MADE[made].command == SINK:
        pytest.skip("no idempotent producer wrote to this topic")
    producer_id, epoch, sequence = known
    now = int(time.time() * 1000)
    following, gap = (
        batch([Row(0, now)], producer=(producer_id, epoch, sequence + step)) for step in (1, 8)
    )
    with RawClient(mounted.broker.port) as client:
        name = f"{made}.{topic}"
        assert client.produce(name, gap).error_code == OUT_OF_ORDER_SEQUENCE_NUMBER
        taken = client.produce(name, following)
        assert taken.error_code == NONE
        assert client.produce(name, following) == taken


def last_sequence(partition: Path, keeps: Keeps) -> tuple[int, int, int] | None:
    """Id, epoch and last sequence of the last producer that was idempotent, as the naive reader
    finds them in the files that the job was given."""
    found = None
    producer = (-1, -1)
    for line in lines_of(partition):
        if line["type"] == "batch":
            plain = not line["isTransactional"]
            producer = (line["producerId"], line["producerEpoch"]) if plain else (-1, -1)
        elif line["type"] == "record" and producer[0] >= 0 and keeps(line["offset"]):
            found = (*producer, line["sequence"])
    return found


@each_mount
def test_a_producer_continues_the_log(
    mounted: Mounted, java: JavaClients, made: str, topic: str
) -> None:
    name = f"{made}.{topic}"
    before = consume_rdkafka(mounted.broker.bootstrap, name, "read_uncommitted")
    sent = [Sent(b"after", b"ours", int(time.time() * 1000))]
    offsets = java.produce(mounted.broker.bootstrap, [send(name, sent)])
    assert offsets[0] > before[-1].offset
    after = consume_rdkafka(mounted.broker.bootstrap, name, "read_uncommitted")
    assert [record.value for record in after[len(before) :]] == [b"ours"]
