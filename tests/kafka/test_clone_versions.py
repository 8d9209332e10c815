"""Clones of brokers with rights, quotas and groups, of 4.3 and of 3.9, on both."""

import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest
from benchmarks.maven import class_path, java
from broker import KAFKA, KAFKA_3_9, Broker, free_port, run_tool, write_properties
from clients import JavaClients, Rdkafka, Sent, create_topic, send
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from consumers import Received, consume_aiokafka, consume_java, consume_rdkafka
from test_clone import ISOLATION, broker_of, clone, free_ports, trouble_in
from workloads import CODECS, records

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
NODE_3_9, NODE_4_3 = 7, 1
TOPICS = (*(f"t-{codec}" for codec in CODECS), "compacted", "deleted", "transactions")
USER = ("--entity-type", "users", "--entity-name", "alice")
ASKED = {
    "topics": ("org.apache.kafka.tools.TopicCommand", "--describe"),
    "configs": ("kafka.admin.ConfigCommand", "--describe", "--entity-type", "topics"),
    "users": ("kafka.admin.ConfigCommand", "--describe", "--entity-type", "users"),
    "groups": (
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        *("--describe", "--all-groups"),
    ),
    "acls": ("org.apache.kafka.tools.AclCommand", "--list"),
    "transactions": ("org.apache.kafka.tools.TransactionsCommand", "list"),
}
ASKED_OF_4_3 = ASKED | {
    "group configs": ("kafka.admin.ConfigCommand", "--describe", "--entity-type", "groups"),
    "all groups": ("org.apache.kafka.tools.GroupsCommand", "--list"),
    "share groups": (
        "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
        *("--describe", "--all-groups"),
    ),
    # Of a streams group without members the tool describes nothing.
    "streams groups": (
        "org.apache.kafka.tools.streams.StreamsGroupCommand",
        *("--list", "--state"),
    ),
}
Said = dict[str, list[str]]


class Backup(NamedTuple):
    """The disk of a stopped broker, what tools said of it before, and what consumers got."""

    disk: Path
    node: int
    asked: dict[str, tuple[str, ...]]
    said: Said
    received: dict[tuple[str, str], list[Received]]


def ask(broker: Broker, main_class: str, *words: str) -> list[str]:
    """What a tool prints, line by line; a replica that 3.9 does not count is no difference."""
    said = run_tool(main_class, "--bootstrap-server", broker.bootstrap, *words)
    lines = (re.sub(r"\t?(LastKnown)?Elr: \S*", "", line) for line in said.splitlines())
    return sorted(" ".join(line.split()) for line in lines if line.strip())


def ask_all(broker: Broker, asked: dict[str, tuple[str, ...]]) -> Said:
    with ThreadPoolExecutor(2) as pool:
        said = pool.map(lambda words: ask(broker, *words), asked.values())
        return dict(zip(asked, said, strict=True))


def join(broker: Broker, topic: str) -> None:
    """Be the member of a group by the protocol of Kafka 4 (KIP-848), read a record and commit."""
    settings = {"group.id": "modern", "group.protocol": "consumer", "enable.auto.commit": "false"}
    settings |= {"bootstrap.servers": broker.bootstrap, "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    assert consumer.consume(1, timeout=120)
    consumer.commit(asynchronous=False)
    consumer.close()


def share(broker: Broker, java: JavaClients, topic: str) -> None:
    """Be the member of a share group (KIP-932), from the first record on."""
    words = ("--entity-type", "groups", "--entity-name", "shared", "--alter", "--add-config")
    ask(broker, "kafka.admin.ConfigCommand", *words, "share.auto.offset.reset=earliest")
    config = {"bootstrap.servers": broker.bootstrap, "group.id": "shared"}
    assert java.ask(do="share", config=config, topic=topic)


def stream(broker: Broker, java: JavaClients, topic: str, state: Path) -> None:
    """Be the member of a streams group (KIP-1071), which copies a topic."""
    create_topic(broker.bootstrap, "copied", retention_ms="-1")
    config = {
        "bootstrap.servers": broker.bootstrap,
        "application.id": "streaming",
        "group.protocol": "streams",
        "auto.offset.reset": "earliest",
        "state.dir": str(state),
    }
    assert java.ask(do="stream", config=config, topic=topic, to="copied", count=200) == 200


def commit(broker: Broker, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def committed(broker: Broker, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=60)
    consumer.close()
    return int(found.offset)


def fill(broker: Broker) -> None:
    """All codecs, both policies, deleted records, a group, transactions, a right and a quota."""
    for codec in CODECS:
        create_topic(broker.bootstrap, f"t-{codec}", retention_ms="-1", max_message_bytes="900000")
        sent = records(5, 200, first_timestamp=1_700_000_000_000)
        Rdkafka(broker.bootstrap, compression_codec=codec).send(f"t-{codec}", sent)
    create_topic(broker.bootstrap, "compacted", partitions=2, cleanup_policy="compact")
    Rdkafka(broker.bootstrap).send("compacted", [Sent(b"k", b"v", 1)])
    create_topic(broker.bootstrap, "deleted", retention_ms="-1")
    Rdkafka(broker.bootstrap).send("deleted", records(6, 50, first_timestamp=1_700_000_000_000))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for deleted in admin.delete_records([TopicPartition("deleted", 0, 20)]).values():
        deleted.result()
    transact(broker)
    commit(broker, "billing", "t-lz4", 17)
    words = ("--add", "--allow-principal", "User:alice", "--operation", "Read", "--topic", "t-")
    prefixed = ("--resource-pattern-type", "prefixed")
    ask(broker, "org.apache.kafka.tools.AclCommand", *words, *prefixed)
    scram = "SCRAM-SHA-256=[iterations=4096,password=hunter2]"
    for setting in ("producer_byte_rate=1048576", scram):
        ask(broker, "kafka.admin.ConfigCommand", "--alter", "--add-config", setting, *USER)


def transact(broker: Broker) -> None:
    """Committed, aborted, and left open for longer than any test takes."""
    create_topic(broker.bootstrap, "transactions", retention_ms="-1")
    ends = {"transaction_timeout_ms": "86400000"}
    writer = Rdkafka(broker.bootstrap, transactional_id="one", **ends)
    left = Rdkafka(broker.bootstrap, transactional_id="left-open", **ends)
    for client in (writer, left):
        client.producer.init_transactions()
    for ending in (writer.producer.commit_transaction, writer.producer.abort_transaction):
        writer.producer.begin_transaction()
        writer.send("transactions", [Sent(b"k", b"in a transaction", 1_700_000_000_500)])
        ending()
    left.producer.begin_transaction()
    left.send("transactions", [Sent(b"k", b"nobody knows yet", 1_700_000_000_600)])


def backup_of(
    broker: Broker, node: int, asked: dict[str, tuple[str, ...]], java: JavaClients | None = None
) -> Backup:
    """Only with Java's clients are there groups of the kinds that Kafka 4 has."""
    broker.start()
    try:
        fill(broker)
        if java is not None:
            join(broker, "t-none")
            share(broker, java, "t-gzip")
            stream(broker, java, "t-lz4", broker.properties.parent / "state")
        said = ask_all(broker, asked)
        received = {
            (topic, isolation): consume_rdkafka(broker.bootstrap, topic, isolation)
            for topic in TOPICS
            for isolation in ISOLATION
        }
    finally:
        broker.stop()
    return Backup(broker.log_dir, node, asked, said, received)


def new_kraft(directory: Path, project: Path, node: int) -> Broker:
    """A broker and controller in one, formatted by its own tool; topics have their defaults."""
    port, controller = free_port(), free_port()
    log_dir, properties = directory / "log", directory / "server.properties"
    settings = AUTHORIZER | {
        "process.roles": "broker,controller",
        "node.id": str(node),
        "controller.quorum.voters": f"{node}@127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "log.dirs": str(log_dir),
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "2",
        "transaction.max.timeout.ms": "86400000",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "2",
        "group.initial.rebalance.delay.ms": "0",
    }
    write_properties(properties, settings)
    tool = java("kafka.tools.StorageTool", class_path(project), "-Xmx256m")
    words = ["format", "-t", "AAAAAAAAAAAAAAAAAAAAAw", "-c", str(properties)]
    subprocess.run([*tool, *words], check=True, capture_output=True)
    return Broker(project, properties, log_dir, port)


@pytest.fixture(scope="module")
def backup_3_9(tmp_path_factory: pytest.TempPathFactory) -> Backup:
    broker = new_kraft(tmp_path_factory.mktemp("kraft-3.9"), KAFKA_3_9, NODE_3_9)
    return backup_of(broker, NODE_3_9, ASKED)


@pytest.fixture(scope="module")
def backup_4_3(java: JavaClients, tmp_path_factory: pytest.TempPathFactory) -> Backup:
    broker = new_kraft(tmp_path_factory.mktemp("kraft-4.3"), KAFKA, NODE_4_3)
    found = backup_of(broker, NODE_4_3, ASKED_OF_4_3, java)
    assert any(line.startswith("modern t-none 0") for line in found.said["groups"])
    # All 200 records were acknowledged, so that nothing is left to be given out.
    assert "shared t-gzip 0 0 0" in found.said["share groups"]
    assert "streaming Empty" in found.said["streams groups"]
    return found


@pytest.mark.parametrize(
    ("made_by", "project"),
    [
        pytest.param("backup_4_3", KAFKA, id="4.3"),
        pytest.param("backup_3_9", KAFKA, id="3.9-on-4.3"),
        pytest.param("backup_3_9", KAFKA_3_9, id="3.9"),
    ],
)
def test_a_clone_is_what_the_original_was(
    request: pytest.FixtureRequest, java: JavaClients, tmp_path: Path, made_by: str, project: Path
) -> None:
    backup: Backup = request.getfixturevalue(made_by)
    port = free_ports(2)
    # Kafka 4.1 and later begin with a config of all brokers, which tools show with each topic's.
    kept = "groups,transactions,acls,quotas,broker-configs"
    flags = ["--retention", "keep", "--keep", kept]
    flags += ["--port", str(port), "--node-ids", str(backup.node)]
    printed = clone(backup.disk, tmp_path / "out", *flags)
    assert "1 record of scram stays behind" in printed
    made = broker_of(tmp_path / "out", backup.node, port, project)
    made.start()
    try:
        assert ask_all(made, backup.asked) == without_passwords(backup.said)
        for (topic, isolation), expected in backup.received.items():
            for consume in (consume_rdkafka, consume_aiokafka):
                found = consume(made.bootstrap, topic, isolation)
                assert found == expected, (topic, isolation, consume)
            assert consume_java(java, made.bootstrap, topic, isolation) == expected
        assert committed(made, "billing", "t-lz4") == 17
        if backup.asked is ASKED_OF_4_3:
            assert committed(made, "streaming", "t-lz4") == 200
        go_on(made, java)
    finally:
        made.stop()
    lines = made.server_log.read_text().splitlines()
    assert trouble_in(lines) == []


def without_passwords(said: Said) -> Said:
    """SCRAM credentials stay behind unless they are named."""
    kept = [line for line in said["users"] if "SCRAM" not in line]
    assert len(kept) == len(said["users"]) - 1
    return said | {"users": kept}


def go_on(made: Broker, java: JavaClients) -> None:
    """Producers with and without transactions, those that were there and new ones."""
    more = [Sent(b"k", b"afterwards", 1_700_000_001_000)]
    Rdkafka(made.bootstrap, enable_idempotence="true").send("t-lz4", more)
    java.produce(made.bootstrap, [send("t-zstd", more)], enable_idempotence="true")
    for name in ("one", "left-open", "new"):
        writer = Rdkafka(made.bootstrap, transactional_id=name)
        writer.producer.init_transactions(60)
        writer.producer.begin_transaction()
        writer.send("transactions", more)
        writer.producer.commit_transaction(60)
    ended = consume_rdkafka(made.bootstrap, "transactions", "read_committed")
    assert [record.value for record in ended] == [b"in a transaction", *[b"afterwards"] * 3]
    rows = [line.split() for line in ask(made, *ASKED["transactions"])]
    ids = {row[0]: int(row[2]) for row in rows if row[2].isdigit()}
    assert ids["new"] > max(number for name, number in ids.items() if name != "new")
