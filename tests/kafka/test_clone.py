"""A clone of a broker's disks boots as Kafka, and serves what the original served."""

import random
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from broker import (
    KAFKA,
    Broker,
    run_in_background,
    run_tool,
    wait_for_controller,
    wait_for_port,
)
from clients import JavaClients, Rdkafka, Sent, create_topic, send
from confluent_kafka import Consumer, Producer, TopicPartition
from consumers import Received, consume_aiokafka, consume_java, consume_rdkafka
from tally import compared

from kafka import KafkaConsumer
from kafka import TopicPartition as PythonPartition

OTTLA = Path(sys.executable).with_name("ottla")
PATIENCE = 180
PORTS = (15_000, 32_000)
ISOLATION = ("read_uncommitted", "read_committed")
# What a log of a broker must not say of partitions; metadata is loaded from a snapshot first.
TROUBLE = re.compile(r"Recovering unflushed|runcat|stray| ERROR |orrupt|Error ")
# A broker leads by the snapshot until it has registered, and then again: what it began to load
# meanwhile is loaded anew. A snapshot without leaders is no way out: 4.3 then empties the ISR of
# a partition at registration and elects nobody.
HARMLESS = re.compile(r"__cluster_metadata-0|Stopped loading records from __")
WITH_SNAPPY = ("java-snappy", "log-append-time")
TOPICS = (
    *(f"java-{codec}" for codec in ("none", "gzip", "snappy", "lz4", "zstd")),
    "transactions",
    "small-batches",
    "compacted",
    "expired",
    "records-deleted",
    "log-append-time",
    "large",
)


def trouble_in(lines: list[str]) -> list[str]:
    """What a broker complains of that a clone should not give it reason to."""
    return [line for line in lines if TROUBLE.search(line) and not HARMLESS.search(line)]


def clone(source: Path | list[Path], out: Path, *flags: str) -> str:
    """Run the command; free ports are two neighbours for each node."""
    paths = source if isinstance(source, list) else [source]
    command = [OTTLA, "clone", *paths, out, "--engine", "local", *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def free_ports(count: int) -> int:
    """The first of some neighbouring ports that nobody listened on a moment ago.

    They lie below those that Linux gives to clients, of which one may take a port meanwhile.
    """
    while True:
        first = random.randrange(*PORTS)
        try:
            probes = [socket.create_server(("127.0.0.1", first + at)) for at in range(count)]
        except OSError:
            continue
        for probe in probes:
            probe.close()
        return first


def broker_of(out: Path, node: int, port: int, project: Path = KAFKA) -> Broker:
    properties = out / f"node-{node}" / "server.properties"
    return Broker(project, properties, properties.parent / "data", port)


def contents(folder: Path) -> dict[str, bytes]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@dataclass(frozen=True, slots=True)
class Cloned:
    """Two brokers side by side: the original and its clone."""

    original: Broker
    clone: Broker
    out: Path
    source: Path
    before: dict[str, bytes]
    printed: str


@pytest.fixture(scope="module")
def cloned(
    broker: Broker, logs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cloned]:
    out = tmp_path_factory.mktemp("clone") / "out"
    port = free_ports(2)
    before = contents(logs["stopped"])
    printed = clone(logs["stopped"], out, "--port", str(port), "--retention", "keep")
    made = broker_of(out, 1, port)
    made.start()
    yield Cloned(broker, made, out, logs["stopped"], before, printed)
    made.stop()


def tool(broker: Broker, name: str, *words: str) -> str:
    return run_tool(
        f"org.apache.kafka.tools.{name}", "--bootstrap-server", broker.bootstrap, *words
    )


def test_the_clone_starts_without_a_complaint(cloned: Cloned) -> None:
    lines = cloned.clone.server_log.read_text().splitlines()
    assert trouble_in(lines) == []
    assert any("Skipping recovery of" in line for line in lines)


def test_topics_are_described_as_before(cloned: Cloned) -> None:
    """Configs that come from server.properties and from dynamic ones of brokers stay behind."""
    of_brokers = re.compile(r"(min.insync.replicas=1|file.delete.delay.ms=100)(,|$)", re.M)

    def describe(broker: Broker) -> list[str]:
        lines = of_brokers.sub("", tool(broker, "TopicCommand", "--describe")).splitlines()
        return sorted(line.rstrip(",") for line in lines)

    said = [describe(one) for one in (cloned.original, cloned.clone)]
    assert len(said[0]) > 40
    assert said[0] == said[1]


def test_groups_stand_where_they_stood(cloned: Cloned) -> None:
    said = [
        sorted(
            re.sub(r" +", " ", line)
            for line in tool(
                one, "consumer.group.ConsumerGroupCommand", "--describe", "--all-groups"
            ).splitlines()
            if line.strip()
        )
        for one in (cloned.original, cloned.clone)
    ]
    assert any("billing small-batches 0 17" in line for line in said[0])
    assert said[0] == said[1]


def test_transactions_are_known(cloned: Cloned) -> None:
    """With their producers and states; the coordinator may have ended the one left open since."""

    def listed(broker: Broker) -> dict[str, list[str]]:
        rows = [line.split() for line in tool(broker, "TransactionsCommand", "list").splitlines()]
        return {row[0]: row[2:3] if row[0] == "left-open" else row[2:] for row in rows if row}

    said = [listed(one) for one in (cloned.original, cloned.clone)]
    assert {"java-none", "left-open"} < said[0].keys()
    assert said[0] == said[1]


def test_offsets_begin_and_end_where_they_did(cloned: Cloned) -> None:
    for when in ("earliest", "latest"):
        words = ["--time", when, "--topic", ",".join(TOPICS)]
        said = [
            sorted(tool(one, "GetOffsetShell", *words).splitlines())
            for one in (cloned.original, cloned.clone)
        ]
        # The abort of the transaction that was left open may have come since.
        said = [[line for line in one if not line.startswith("transactions:")] for one in said]
        assert said[0] == said[1], when


def consume_python(bootstrap: str, topic: str, isolation: str) -> list[Received]:
    """All records of partition 0 by kafka-python, which no other test has for a client."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, isolation_level=isolation, enable_auto_commit=False
    )
    place = PythonPartition(topic, 0)
    consumer.assign([place])
    consumer.seek_to_beginning(place)
    end = consumer.end_offsets([place])[place]
    received: list[Received] = []
    deadline = time.monotonic() + PATIENCE
    while consumer.position(place) < end:
        assert time.monotonic() < deadline
        for message in consumer.poll(timeout_ms=1000).get(place, ()):
            headers = tuple((key, value) for key, value in message.headers)
            received.append(
                Received(message.offset, message.timestamp, message.key, message.value, headers)
            )
    consumer.close()
    return received


@pytest.mark.parametrize("isolation", ISOLATION)
@pytest.mark.parametrize("topic", TOPICS)
def test_every_client_reads_every_record(
    cloned: Cloned, java: JavaClients, topic: str, isolation: str
) -> None:
    expected: list[Received] = consume_java(java, cloned.original.bootstrap, topic, isolation)
    asked = (cloned.clone.bootstrap, topic, isolation)
    assert expected
    assert consume_java(java, *asked) == expected
    assert consume_rdkafka(*asked) == expected
    # kafka-python opens snappy by a library that nothing else here needs.
    third = consume_aiokafka if topic in WITH_SNAPPY else consume_python
    assert third(*asked) == expected
    compared["clones"] += 1


def test_a_group_goes_on(cloned: Cloned) -> None:
    group = Consumer({"bootstrap.servers": cloned.clone.bootstrap, "group.id": "billing"})
    place = TopicPartition("small-batches", 0)
    (committed,) = group.committed([place], timeout=60)
    assert committed.offset == 17
    group.assign([TopicPartition("small-batches", 0, committed.offset)])
    message = group.poll(60)
    assert message is not None
    assert message.offset() == 17
    group.commit(message, asynchronous=False)
    group.close()


def test_no_producer_id_is_given_out_twice(cloned: Cloned, java: JavaClients) -> None:
    create_topic(cloned.clone.bootstrap, "afterwards")
    java.produce(
        cloned.clone.bootstrap,
        [["init"], ["begin"], send("afterwards", [Sent(b"k", b"v", 1)]), ["commit"]],
        transactional_id="someone-new",
    )
    said = tool(cloned.clone, "TransactionsCommand", "list").splitlines()
    rows = [line.split() for line in said[1:] if line.strip()]
    ids = {row[0]: int(row[2]) for row in rows}
    assert ids["someone-new"] > max(number for name, number in ids.items() if name != "someone-new")


def test_a_transactional_producer_goes_on(cloned: Cloned) -> None:
    producer = Producer(
        {"bootstrap.servers": cloned.clone.bootstrap, "transactional.id": "rdkafka-1"}
    )
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("afterwards", b"once more")
    producer.commit_transaction(60)


def test_only_its_user_may_read_a_clone(cloned: Cloned) -> None:
    assert cloned.out.stat().st_mode & 0o777 == 0o700
    properties = cloned.out / "node-1" / "server.properties"
    assert properties.stat().st_mode & 0o777 == 0o600
    assert f"kafka-server-start.sh {properties}" in cloned.printed


def test_what_was_cloned_is_as_it_was(cloned: Cloned) -> None:
    """Though the clone has run as a broker, and was written to by the tests above."""
    assert contents(cloned.source) == cloned.before


def test_three_nodes_share_the_load_and_one_may_die(logs: dict[str, Path], tmp_path: Path) -> None:
    """Its disk is then behind, and of the two that went on one is damaged: a clone of the three
    disks, without what their controllers had, has all the same.
    """
    port = free_ports(6)
    flags = ["--nodes", "3", "--port", str(port), "--topic", "java-lz4,small-batches"]
    clone(logs["stopped"], tmp_path / "out", *flags)
    nodes = [broker_of(tmp_path / "out", node + 1, port + 2 * node) for node in range(3)]
    try:
        start_all(nodes)
        wait_until_in_sync(nodes[0])
        before = consume_rdkafka(nodes[0].bootstrap, "java-lz4", "read_committed")
        leader = leader_of(nodes[0], "java-lz4")
        nodes[leader - 1].kill()
        others = [node for at, node in enumerate(nodes) if at != leader - 1]
        after = consume_rdkafka(others[0].bootstrap, "java-lz4", "read_committed")
        assert before == after
        assert leader_of(others[0], "java-lz4") != leader
        late = [Sent(b"k", b"late %d" % at, 1_700_000_000_000) for at in range(12)]
        Rdkafka(others[0].bootstrap, acks="all").send("java-lz4", late)
        whole = consume_rdkafka(others[0].bootstrap, "java-lz4", "read_committed")
        assert len(whole) == len(before) + 12
        end_all(others)
    finally:
        for node in nodes:
            if node.process is not None:
                node.kill()
    rebuild_from_disks(nodes, leader - 1, whole, tmp_path / "rebuilt")


def end_all(nodes: list[Broker]) -> None:
    """Stop them together: one alone would wait for a controller that is gone."""
    for node in nodes:
        assert node.process is not None
        node.process.terminate()
    for node in nodes:
        assert node.process is not None
        node.process.wait(timeout=PATIENCE)
        node.process = None


def rebuild_from_disks(nodes: list[Broker], behind: int, whole: list[Received], out: Path) -> None:
    """One disk is behind and one is damaged; the third has all."""
    damaged, sound = (at for at in range(len(nodes)) if at != behind)
    disks = [node.log_dir for node in nodes]
    for disk in disks:
        shutil.rmtree(disk / "__cluster_metadata-0")
    log = max((disks[damaged] / "java-lz4-0").glob("*.log"), key=lambda path: path.stat().st_size)
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    port = free_ports(2)
    printed = " ".join(clone(disks, out, "--port", str(port)).split())
    best = disks[sound] / "java-lz4-0"
    assert f"{disks[behind]}/java-lz4-0 is behind: it lacks 12 records" in printed
    assert f"the one in {best} is taken" in printed
    if damaged < sound:  # else nobody had to look at it
        assert f"{disks[damaged]}/java-lz4-0 is damaged: the batch at" in printed
    made = broker_of(out, 1, port)
    made.start()
    try:
        assert consume_rdkafka(made.bootstrap, "java-lz4", "read_committed") == whole
    finally:
        made.stop()


def start_all(nodes: list[Broker]) -> None:
    """A quorum needs most of its nodes: none of them starts alone."""
    for node in nodes:
        node.process = run_in_background(
            "kafka.Kafka", node.project, node.properties, ("-Xmx256m", *node.jvm[1:])
        )
    for node in nodes:
        assert node.process is not None
        wait_for_port(node.port, node.process, node.server_log)
        wait_for_controller(node.bootstrap, node.process, node.server_log)


def wait_until_in_sync(node: Broker) -> None:
    deadline = time.monotonic() + PATIENCE
    while tool(node, "TopicCommand", "--describe", "--under-replicated-partitions").strip():
        assert time.monotonic() < deadline
    assert "Replicas: " in tool(node, "TopicCommand", "--describe")


def leader_of(node: Broker, topic: str) -> int:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        said = tool(node, "TopicCommand", "--describe", "--topic", topic)
        found = re.search(r"Leader: (\d+)", said)
        if found:
            return int(found[1])
    raise TimeoutError(said)


def test_a_copy_of_a_running_broker_boots(
    broker: Broker, logs: dict[str, Path], tmp_path: Path
) -> None:
    """Its indexes are preallocated, and nothing says that it was shut down."""
    port = free_ports(2)
    clone(logs["running"], tmp_path / "out", "--port", str(port))
    made = broker_of(tmp_path / "out", 1, port)
    made.start()
    try:
        for topic in ("java-zstd", "small-batches", "expired", "compacted"):
            expected = consume_rdkafka(broker.bootstrap, topic, "read_committed")
            assert expected
            assert consume_rdkafka(made.bootstrap, topic, "read_committed") == expected, topic
    finally:
        made.stop()
    lines = made.server_log.read_text().splitlines()
    assert trouble_in(lines) == []


def test_lost_controllers_leave_topics_groups_and_producers(
    logs: dict[str, Path], tmp_path: Path
) -> None:
    """Only partitions are left of a broker: no metadata, no meta.properties."""
    source = shutil.copytree(logs["stopped"], tmp_path / "disks")
    shutil.rmtree(source / "__cluster_metadata-0")
    (source / "meta.properties").unlink()
    port = free_ports(2)
    printed = clone(source, tmp_path / "out", "--port", str(port))
    assert "no metadata of the cluster is here" in printed
    made = broker_of(tmp_path / "out", 1, port)
    made.start()
    try:
        said = tool(made, "TopicCommand", "--describe", "--topic", "java-lz4")
        topic_id = (source / "java-lz4-0" / "partition.metadata").read_text().split()[-1]
        assert f"TopicId: {topic_id}" in said
        groups = tool(made, "consumer.group.ConsumerGroupCommand", "--describe", "--all-groups")
        assert re.search(r"billing +small-batches +0 +17 ", groups)
    finally:
        made.stop()
