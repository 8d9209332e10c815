"""What we read from the internal topics is what the broker's own tools say while it runs."""

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from broker import Broker, new_broker, run_tool
from clients import create_topic
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
)

from ottla.catalog.catalog import list_catalog
from ottla.internal import decode_control_record, decode_record
from ottla.internal.views import VIEWS
from ottla.jobs.read.internal_topics import find_internal_topic, read_current, read_partition
from ottla.log.files.partition import find_partitions

RECORDS = 10
DECODERS = {
    "__consumer_offsets": "--offsets-decoder",
    "__transaction_state": "--transaction-log-decoder",
    "__cluster_metadata": "--cluster-metadata-decoder",
}


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running broker, and its log directory copied while members were in their groups."""

    broker: Broker
    logs: Path


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A broker with groups of every kind, transactions, and things that were deleted again."""
    directory = tmp_path_factory.mktemp("internal")
    broker = new_broker(directory)
    broker.start()
    members = []
    try:
        _fill_topics(broker)
        _commit_in_transactions(broker)
        _commit_without_membership(broker)
        members = [_join(broker, "classic-live"), _join(broker, "modern", protocol="consumer")]
        for group in ("classic-left", "deleted"):
            _join(broker, group).close()
        _delete_and_change(broker)
        vanishing = shutil.ignore_patterns("*-delete")  # the broker runs, and removes them
        yield Cluster(broker, shutil.copytree(broker.log_dir, directory / "copy", ignore=vanishing))
    finally:
        for member in members:
            member.close()
        broker.stop()


def _fill_topics(broker: Broker) -> None:
    create_topic(broker.bootstrap, "orders", partitions=2, retention_ms="86400000")
    create_topic(broker.bootstrap, "gone")
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(RECORDS):
        for partition in (0, 1):
            producer.produce("orders", str(number), partition=partition)
        producer.produce("gone", str(number))
    assert producer.flush(30) == 0


def _consumer(broker: Broker, group: str, **settings: str) -> Consumer:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        | named
    )


def _join(broker: Broker, group: str, protocol: str = "classic") -> Consumer:
    """A member that has read and committed all of `orders`."""
    consumer = _consumer(broker, group, group_protocol=protocol)
    consumer.subscribe(["orders"])
    seen = 0
    while seen < 2 * RECORDS:
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        seen += 1
    consumer.commit(asynchronous=False)
    return consumer


def _commit_without_membership(broker: Broker) -> None:
    consumer = _consumer(broker, "simple")
    position = TopicPartition("orders", 1, 4, metadata="where I was")
    consumer.commit(offsets=[position], asynchronous=False)
    consumer.close()


def _commit_in_transactions(broker: Broker) -> None:
    """Committed offset 5, aborted offset 9, and a transaction that is never ended."""
    consumer = _consumer(broker, "transactional")
    for name, offset in (("committed", 5), ("aborted", 9), ("open", 7)):
        producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": name})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("orders", name, partition=0)
        producer.send_offsets_to_transaction(
            [TopicPartition("orders", 1 if name == "open" else 0, offset)],
            consumer.consumer_group_metadata(),
            30,
        )
        if name == "committed":
            producer.commit_transaction(30)
        elif name == "aborted":
            producer.abort_transaction(30)
        else:
            producer.flush(30)
    consumer.close()


def _delete_and_change(broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.delete_consumer_groups(["deleted"]).values():
        future.result()
    for future in admin.delete_topics(["gone"]).values():
        future.result()
    for name, value, operation in (
        ("retention.ms", "3600000", AlterConfigOpType.SET),
        ("cleanup.policy", "compact", AlterConfigOpType.SET),
        ("segment.ms", "600000", AlterConfigOpType.SET),
        ("cleanup.policy", None, AlterConfigOpType.DELETE),
    ):
        entry = ConfigEntry(name, value, incremental_operation=operation)
        resource = ConfigResource(ResourceType.TOPIC, "orders", incremental_configs=[entry])
        for future in admin.incremental_alter_configs([resource]).values():
            future.result()


def _view(cluster: Cluster, name: str) -> list[dict[str, Any]]:
    view = VIEWS[name]
    contents = read_current(
        find_internal_topic(list_catalog([str(cluster.logs)]), view.topic), view
    )
    rows: list[dict[str, Any]] = contents.rows.to_pylist()
    assert not contents.broken
    assert not [row for row in rows if row["error"]]
    return rows


def _describe_groups(cluster: Cluster, *flags: str) -> list[list[str]]:
    tool = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    words = ("--bootstrap-server", cluster.broker.bootstrap, "--describe", "--all-groups")
    text = run_tool(tool, *words, *flags)
    lines = [line.split() for line in text.splitlines() if line.strip()]
    return [line for line in lines if line[0] not in ("GROUP", "Consumer")]


def test_committed_offsets_are_what_kafka_consumer_groups_prints(cluster: Cluster) -> None:
    told = {
        (group, topic, int(partition)): int(offset)
        for group, topic, partition, offset, *_ in _describe_groups(cluster, "--offsets")
    }
    found = {
        (row["group"], row["topic"], row["partition"]): row["offset"]
        for row in _view(cluster, "group_offsets")
    }
    assert found == told
    assert found["transactional", "orders", 0] == 5
    assert not [key for key in found if key[0] == "deleted"]


def test_states_of_groups_are_what_kafka_consumer_groups_prints(cluster: Cluster) -> None:
    told = {line[0]: (line[-2], int(line[-1])) for line in _describe_groups(cluster, "--state")}
    rows = _view(cluster, "groups")
    assert {row["group"]: (row["state"], len(row["members"])) for row in rows} == told
    types = {row["group"]: row["type"] for row in rows}
    assert types["modern"] == "consumer"
    assert types["classic-live"] == types["classic-left"] == "classic"
    assert types["simple"] == "simple"


def test_transactional_ids_are_what_kafka_transactions_prints(cluster: Cluster) -> None:
    tool = "org.apache.kafka.tools.TransactionsCommand"
    text = run_tool(tool, "--bootstrap-server", cluster.broker.bootstrap, "list")
    told = {
        name: (int(producer), state)
        for name, _, producer, state in (line.split() for line in text.splitlines()[1:] if line)
    }
    found = {
        row["transactionalId"]: (row["producerId"], row["status"])
        for row in _view(cluster, "transactional_ids")
    }
    assert found == told
    assert found["open"][1] == "Ongoing"


def test_topics_and_configs_are_what_the_broker_says(cluster: Cluster) -> None:
    tool = "org.apache.kafka.tools.TopicCommand"
    text = run_tool(tool, "--bootstrap-server", cluster.broker.bootstrap, "--describe")
    told = {
        (line["Topic"], int(line["Partition"])): (
            int(line["Leader"]),
            [int(number) for number in line["Replicas"].split(",")],
            [int(number) for number in line["Isr"].split(",")],
        )
        for line in map(_fields, text.splitlines())
        if "Partition" in line
    }
    rows = _view(cluster, "topics")
    found = {
        (row["topic"], row["partition"]): (row["leader"], row["replicas"], row["isr"])
        for row in rows
    }
    assert found == told
    ids = {
        line["Topic"]: line["TopicId"]
        for line in map(_fields, text.splitlines())
        if "TopicId" in line
    }
    assert {row["topic"]: row["topicId"] for row in rows} == ids
    assert "gone" not in ids
    configs = _view(cluster, "configs")
    assert {
        row["name"]: row["value"] for row in configs if row["resourceName"] == "orders"
    } == _set_configs(cluster, "orders")


def _fields(line: str) -> dict[str, str]:
    return dict(re.findall(r"(\w+): (\S+)", line))


def _set_configs(cluster: Cluster, topic: str) -> dict[str, str]:
    admin = AdminClient({"bootstrap.servers": cluster.broker.bootstrap})
    (future,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    return {
        name: entry.value
        for name, entry in future.result().items()
        if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    }


@pytest.mark.parametrize("topic", DECODERS)
def test_records_read_as_the_decoders_of_kafka_dump_log_print_them(
    cluster: Cluster, topic: str
) -> None:
    folder = cluster.logs / f"{topic}-0"
    ours = list(_said(folder, topic))
    files = [str(path) for path in sorted(folder.glob("*.log"))]
    text = run_tool(
        "org.apache.kafka.tools.DumpLogSegments", DECODERS[topic], "--files", ",".join(files)
    )
    told = [
        line.split("headerKeys: []", 1)[1]
        for line in text.splitlines()
        if line.startswith("| offset:") and "headerKeys: []" in line
    ]
    assert ours == told
    assert len(ours) > 5


def _said(folder: Path, topic: str) -> Iterator[str]:
    """The end of each line as the tool prints it: JSON without spaces, or the marker."""
    (partition,) = find_partitions([str(folder)])
    files = partition.contents._replace(named=(), others={})
    only_log = replace(partition, path=folder.as_posix(), files=files)
    for batch in read_partition(only_log):
        for record in batch.to_pylist():
            yield _said_of_record(topic, record)


def _said_of_record(topic: str, record: dict[str, Any]) -> str:
    key, value = record["key"], record["value"]
    if record["isControl"]:
        decoded = decode_control_record(key, value)
        assert decoded.key is not None
        assert decoded.value is not None
        kind, data = decoded.key["type"], decoded.value["data"]
        if kind in ("ABORT", "COMMIT"):
            return f" endTxnMarker: {kind} coordinatorEpoch: {data['coordinatorEpoch']}"
        words = {"LEADER_CHANGE": "LeaderChange:", "KRAFT_VERSION": "KRaftVersion"}
        words |= {"KRAFT_VOTERS": "KRaftVoters", "SNAPSHOT_HEADER": "SnapshotHeader"}
        return f" {words[kind]} {_json(data)}"
    decoded = decode_record(topic, key, value)
    text = "" if decoded.key is None else f" key: {_json(decoded.key)}"
    return text + (
        " payload: <DELETE>" if decoded.tombstone else f" payload: {_json(decoded.value)}"
    )


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
