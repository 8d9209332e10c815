"""What the brokers of the demo wrote about themselves: its internal topics, as Kafka 4.3 has them.

Values are those that `ottla dump --decode` shows, and the versions those that a broker writes.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from ottla.batch.encode import encode, encode_control
from ottla.batch.new_batch import NewBatch
from ottla.batch.rows import NewRecord, pack_rows
from ottla.errors import Row
from ottla.format.attributes import ControlType
from ottla.internal import CLUSTER_METADATA, CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.internal.encode import encode_blob, encode_framed, encode_key, encode_value

_COMMIT, _GROUP, _TRANSACTIONAL_ID = 1, 2, 0  # types of keys
_BROKER, _TOPIC, _PARTITION, _CONFIG, _CHANGE, _FEATURE = 0, 2, 3, 4, 17, 12  # api keys
_SUBSCRIPTION, _ASSIGNMENT = 0, 1  # blobs
_ONGOING, _COMPLETE_COMMIT = 1, 4
_TOPIC_RESOURCE: Final = 2
_METADATA_VERSION: Final = 30  # of Kafka 4.3
_BROKERS: Final = (1, 2, 3)
_DIRECTORIES: Final = tuple(f"demo-log-directory-{broker}-A" for broker in _BROKERS)


class Story(NamedTuple):
    """What the internal topics must agree with: the topics, where they end, and what hangs."""

    topic_ids: Mapping[str, str]
    ends: Mapping[str, int]  # by the name of a directory
    hanging_producer: int
    hanging_from: int  # an offset of orders-1
    hanging_since: int
    start: int  # when the first record was written


class _Commit(NamedTuple):
    group: str
    topic: str
    partition: int
    offset: int | None  # None: it is forgotten


def consumer_offsets(story: Story) -> Iterator[bytes]:
    """A group that waits for the transaction that hangs, one that is behind, one that is gone."""
    ends, start = story.ends, story.start
    yield _group(0, start, "billing", _member("billing", "orders", 3))
    yield _group(1, start, "clickstream", None)
    commits = [
        _Commit("billing", "orders", 0, 120),
        _Commit("audit", "payments", 0, 360),
        _Commit("billing", "orders", 0, ends["orders-0"] - 120),
        _Commit("billing", "orders", 1, story.hanging_from),
        _Commit("billing", "orders", 2, ends["orders-2"]),
        _Commit("clickstream", "clicks", 0, ends["clicks-0"] // 4 * 3),
        _Commit("audit", "payments", 0, None),
    ]
    for offset, commit in enumerate(commits, start=2):
        yield _commit(offset, start + offset * 60_000, commit, story.topic_ids[commit.topic])


def _commit(offset: int, timestamp: int, commit: _Commit, topic_id: str) -> bytes:
    named = {"group": commit.group, "topic": commit.topic, "partition": commit.partition}
    key = encode_key(CONSUMER_OFFSETS, _COMMIT, named)
    if commit.offset is None:
        return _batch(offset, timestamp, key, None)
    value = {"offset": commit.offset, "commitTimestamp": timestamp, "topicId": topic_id}
    return _batch(offset, timestamp, key, encode_value(CONSUMER_OFFSETS, _COMMIT, 4, value))


def _group(offset: int, timestamp: int, group: str, member: Row | None) -> bytes:
    value = {
        "protocolType": "consumer",
        "generation": 4,
        "protocol": "range" if member else None,
        "leader": member["memberId"] if member else None,
        "currentStateTimestamp": timestamp,
        "members": [member] if member else [],
    }
    return _batch(
        offset,
        timestamp,
        encode_key(CONSUMER_OFFSETS, _GROUP, {"group": group}),
        encode_value(CONSUMER_OFFSETS, _GROUP, 3, value),
    )


def _member(group: str, topic: str, partitions: int) -> Row:
    assigned = [{"topic": topic, "partitions": list(range(partitions))}]
    return {
        "memberId": f"{group}-1-7c1f0a52-6f2e-4b7d-9a53-0f6c1d2e3b4a",
        "clientId": f"{group}-1",
        "clientHost": "/10.0.0.21",
        "rebalanceTimeout": 300_000,
        "sessionTimeout": 45_000,
        "subscription": encode_blob(_SUBSCRIPTION, 1, {"topics": [topic], "userData": None}),
        "assignment": encode_blob(_ASSIGNMENT, 1, {"assignedPartitions": assigned}),
    }


def transaction_state(story: Story) -> Iterator[bytes]:
    """A transactional id between transactions, and the one whose transaction never ended."""
    done = {"producerId": story.hanging_producer - 1, "transactionStatus": _COMPLETE_COMMIT}
    orders = [{"topic": "orders", "partitionIds": [1]}]
    hangs = {"producerId": story.hanging_producer, "transactionStatus": _ONGOING}
    since = story.hanging_since
    yield _transaction(0, since, "checkout-1", done | {"transactionPartitions": []})
    yield _transaction(1, since, "checkout-2", hangs | {"transactionPartitions": orders})


def _transaction(offset: int, timestamp: int, name: str, values: Row) -> bytes:
    value = {
        "producerEpoch": 0,
        "transactionTimeoutMs": 60_000,
        "transactionLastUpdateTimestampMs": timestamp,
        "transactionStartTimestampMs": timestamp,
        "clientTransactionVersion": 2,
    }
    return _batch(
        offset,
        timestamp,
        encode_key(TRANSACTION_STATE, _TRANSACTIONAL_ID, {"transactionalId": name}),
        encode_value(TRANSACTION_STATE, _TRANSACTIONAL_ID, 1, value | values),
    )


def cluster_metadata(story: Story, configs: Mapping[str, Mapping[str, str]]) -> Iterator[bytes]:
    """Three brokers and the topics; one partition has lost all replicas in sync but this one."""
    voters = [{"voterId": broker} for broker in _BROKERS]
    leader = {"leaderId": 1, "voters": voters, "grantingVoters": voters}
    control = NewBatch(base_offset=0, partition_leader_epoch=1, is_control=True)
    yield encode_control(control, story.start, [(ControlType.LEADER_CHANGE, leader)])
    offset = 1
    for values in [_features(), *map(_broker, _BROKERS), *_topics(story, configs)]:
        rows = [NewRecord(offset + at, story.start, None, value) for at, value in enumerate(values)]
        yield encode(pack_rows(rows), NewBatch(partition_leader_epoch=1))
        offset += len(rows)


def _metadata(api_key: int, version: int, values: Row) -> bytes:
    return encode_framed(CLUSTER_METADATA, api_key, version, values)


def _features() -> list[bytes]:
    return [
        _metadata(_FEATURE, 0, {"name": name, "featureLevel": level})
        for name, level in (("metadata.version", _METADATA_VERSION), ("transaction.version", 2))
    ]


def _broker(broker: int) -> list[bytes]:
    """A broker that registers and is let in."""
    end_point = {"name": "PLAINTEXT", "host": f"kafka-{broker}", "port": 9092}
    known = {"brokerId": broker, "brokerEpoch": 2 * broker + 1}
    register = {
        "incarnationId": f"demo-incarnation-{broker}AAAA",
        "endPoints": [end_point],
        "logDirs": [_DIRECTORIES[broker - 1]],
    }
    return [
        _metadata(_BROKER, 3, known | register),
        _metadata(_CHANGE, 0, known | {"fenced": -1}),
    ]


def _topics(story: Story, configs: Mapping[str, Mapping[str, str]]) -> Iterator[list[bytes]]:
    for topic, topic_id in story.topic_ids.items():
        settings = configs.get(topic, {})
        partitions = [name for name in story.ends if name.rpartition("-")[0] == topic]
        yield [
            _metadata(_TOPIC, 0, {"name": topic, "topicId": topic_id}),
            *(_config(topic, name, value) for name, value in settings.items()),
            *(_partition(topic, topic_id, at) for at in range(len(partitions))),
        ]


def _config(topic: str, name: str, value: str) -> bytes:
    resource = {"resourceType": _TOPIC_RESOURCE, "resourceName": topic}
    return _metadata(_CONFIG, 0, resource | {"name": name, "value": value})


def _partition(topic: str, topic_id: str, partition: int) -> bytes:
    values = {
        "partitionId": partition,
        "topicId": topic_id,
        "replicas": _BROKERS,
        "isr": (1,) if topic == "payments" else _BROKERS,
        "leader": 1,
        "leaderEpoch": 2 if topic == "orders" else 0,
        "partitionEpoch": 0,
        "directories": _DIRECTORIES,
    }
    return _metadata(_PARTITION, 2, values)


def _batch(offset: int, timestamp: int, key: bytes, value: bytes | None) -> bytes:
    row = NewRecord(offset, timestamp, key, value)
    return encode(pack_rows([row]), NewBatch(partition_leader_epoch=0))
