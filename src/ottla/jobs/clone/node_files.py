"""What a node of the clone has besides its logs: properties, checkpoints and the first snapshot."""

import os
from collections.abc import Iterator, Mapping
from typing import Final

from ottla.format.names import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    META_PROPERTIES,
    RECOVERY_POINT_CHECKPOINT,
    TopicPartition,
)
from ottla.internal.records import (
    CLUSTER_METADATA,
    CONSUMER_OFFSETS,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
)
from ottla.jobs.clone.cluster import NewCluster, NewNode
from ottla.jobs.clone.request import CloneRequest, Keep, Retention
from ottla.log.files.checkpoints import write_offset_checkpoint
from ottla.log.files.identity import (
    MetaProperties,
    write_clean_shutdown,
    write_meta_properties,
)

SERVER_PROPERTIES: Final = "server.properties"
_WRITTEN: Final = "Thu Jan 01 00:00:00 UTC 1970"  # by nobody in particular
_NO_BROKER_EPOCH: Final = -1
_MOST: Final = 2**31 - 1
# How a broker makes the topics that it makes itself, should one of them be missing.
_INTERNAL: Final = {
    CONSUMER_OFFSETS: "offsets.topic",
    TRANSACTION_STATE: "transaction.state.log",
    SHARE_GROUP_STATE: "share.coordinator.state.topic",
}


def properties_of(
    cluster: NewCluster, node: NewNode, request: CloneRequest, out: str
) -> dict[str, str]:
    """The server.properties of a node; nothing secret is ever in it."""
    host = f"[{request.host}]" if ":" in request.host else request.host
    settings = {
        "process.roles": "broker,controller",
        "node.id": str(node.node_id),
        "controller.quorum.voters": ",".join(
            f"{each.node_id}@{host}:{each.controller_port}" for each in cluster.nodes
        ),
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{host}:{node.client_port},"
        f"CONTROLLER://{host}:{node.controller_port}",
        "log.dirs": os.path.join(out, node.data),
    }
    counts = {topic.source.name: topic.source.count for topic in cluster.topics}
    for topic, prefix in _INTERNAL.items():
        settings[f"{prefix}.replication.factor"] = str(request.replicas)
        if topic in counts:
            settings[f"{prefix}.num.partitions"] = str(counts[topic])
    least = str(max(1, request.replicas - 1))
    settings |= {f"{_INTERNAL[topic]}.min.isr": least for topic in _WITH_LEAST}
    if request.retention is Retention.UNLIMITED:
        settings["offsets.retention.minutes"] = str(_MOST)
        # No time is long enough for what was idle in an old backup: nobody looks for such ids.
        settings["transactional.id.expiration.ms"] = str(_MOST)
        settings["transaction.remove.expired.transaction.cleanup.interval.ms"] = str(_MOST)
    if Keep.ACLS in request.keep:
        # Without users of its own all who connect are ANONYMOUS, brokers too.
        settings["authorizer.class.name"] = (
            "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
        )
        settings["super.users"] = "User:ANONYMOUS"
    return settings


_WITH_LEAST: Final = (TRANSACTION_STATE, SHARE_GROUP_STATE)


def write_properties(settings: Mapping[str, str]) -> bytes:
    """Java's form of properties: what is not ASCII is escaped.

    >>> write_properties({"log.dirs": "/srv/caf\\u00e9"})
    b'log.dirs=/srv/caf\\\\u00e9\\n'
    """
    lines = [f"{name}={_escaped(value)}\n" for name, value in settings.items()]
    return "".join(lines).encode("ascii")


def _escaped(value: str) -> str:
    units = value.replace("\\", "\\\\").encode("utf-16-be", "surrogatepass")
    codes = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
    return "".join(chr(code) if 32 <= code < 127 else f"\\u{code:04x}" for code in codes)


def files_of_node(
    cluster: NewCluster,
    node: NewNode,
    request: CloneRequest,
    out: str,
    ends: Mapping[TopicPartition, int],
    log_starts: Mapping[TopicPartition, int | None],
) -> Iterator[tuple[str, bytes]]:
    """The small files of a node, by their names below OUT."""
    own = [
        TopicPartition(topic.source.name, number)
        for topic in cluster.topics
        for number, replicas in enumerate(topic.replicas)
        if node.node_id in replicas
    ]
    settings = properties_of(cluster, node, request, out)
    yield f"{node.folder}/{SERVER_PROPERTIES}", write_properties(settings)
    meta = MetaProperties(1, cluster.cluster_id, node.node_id, node.directory_id)
    yield f"{node.data}/{META_PROPERTIES}", write_meta_properties(meta, _WRITTEN)
    yield f"{node.data}/{CLEAN_SHUTDOWN}", write_clean_shutdown(_NO_BROKER_EPOCH)
    points = write_offset_checkpoint({name: ends.get(name, 0) for name in own})
    yield f"{node.data}/{RECOVERY_POINT_CHECKPOINT}", points
    yield f"{node.data}/{HIGH_WATERMARK_CHECKPOINT}", points
    starts = {name: start for name in own if (start := log_starts.get(name)) is not None}
    yield f"{node.data}/{LOG_START_CHECKPOINT}", write_offset_checkpoint(starts)


def metadata_folder(node: NewNode) -> str:
    """Where a node looks for the metadata of its cluster."""
    return f"{node.data}/{TopicPartition(CLUSTER_METADATA, 0)}"
