"""Whose a directory is: partition.metadata, meta.properties and .kafka_cleanshutdown."""

import base64
import json
import re
import uuid
from dataclasses import dataclass
from typing import Final

from ottla.errors import CorruptLogError, Rule, Violation

_ZERO_ID: Final = bytes(16)
_UUID: Final = re.compile(r"[A-Za-z0-9_-]{22}")
_FIELD: Final = re.compile(r":\s+")
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,99}")
_DIRECTORY_ID: Final = re.compile(r"[A-Za-z0-9_-]{22}(==)?")
_ESCAPED: Final = re.compile(r"([\\:=#!])")


def read_topic_id(data: bytes, file: str) -> str:
    """The topic id in a `partition.metadata` (PartitionMetadataReadBuffer)."""
    lines = data.decode(errors="replace").splitlines()
    version, topic_id = ([_FIELD.split(line) for line in lines[:2]] + [[], []])[:2]
    if len(version) != 2 or not version[1].isdecimal():
        raise _bad_metadata(file, "no version of at least 0 in the first line", lines[:1])
    if len(topic_id) != 2 or not is_uuid(topic_id[1]):
        raise _bad_metadata(file, "no topic id in the second line", lines[1:2])
    return topic_id[1]


def write_topic_id(topic_id: str) -> bytes:
    """The bytes of a `partition.metadata`; there is no newline at its end."""
    return f"version: 0\ntopic_id: {topic_id}".encode()


def new_topic_id() -> str:
    """An id for a topic that has none (Uuid.randomUuid, which no command line takes for a flag)."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if is_uuid(text) and not text.startswith("-"):
            return text


def is_uuid(text: str) -> bool:
    """Whether text is 16 bytes, not all zero, in Kafka's base64 without padding (Uuid).

    >>> is_uuid("AAAAAAAAAAAAAAAAAAAAAQ"), is_uuid("AAAAAAAAAAAAAAAAAAAAAA"), is_uuid("x")
    (True, False, False)
    """
    if not _UUID.fullmatch(text):
        return False
    return base64.urlsafe_b64decode(f"{text}==") != _ZERO_ID


def _bad_metadata(file: str, detail: str, lines: list[str]) -> CorruptLogError:
    found = lines[0] if lines else "nothing"
    return CorruptLogError(
        Violation(Rule.PARTITION_METADATA_READABLE, detail, file, 0, found=found)
    )


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """Whose a log directory is; version 0 calls the node a broker and may know neither id."""

    version: int
    cluster_id: str | None
    node_id: int | None
    directory_id: str | None = None


def read_meta_properties(data: bytes, file: str) -> MetaProperties:
    """The properties of a log directory (MetaProperties.Builder)."""
    properties = _parse_properties(data.decode(errors="replace"))
    version = _read_int(properties.get("version", "0"))
    if version not in (0, 1):
        raise _bad_properties(file, "unknown version", properties["version"])
    text = properties.get("broker.id" if version == 0 else "node.id")
    cluster, identity = properties.get("cluster.id"), properties.get("directory.id")
    if version == 1 and (text is None or cluster is None):
        raise _bad_properties(file, "node.id and cluster.id are required", str(properties))
    node = None if text is None else _read_int(text)
    if text is not None and node is None:
        raise _bad_properties(file, "a node id that is no number", text)
    if identity is not None and not _DIRECTORY_ID.fullmatch(identity):
        raise _bad_properties(file, "a directory.id that is no id", identity)
    return MetaProperties(version, cluster, node, identity)


def _read_int(text: str) -> int | None:
    """As Java's Integer.parseInt."""
    number = int(text) if _INTEGER.fullmatch(text) else None
    return number if number is not None and -(2**31) <= number < 2**31 else None


def write_meta_properties(properties: MetaProperties, written: str) -> bytes:
    """The bytes of a `meta.properties`; `written` is the date of its second line.

    The order of keys is that of Java's hash table (java.util.Properties.store).
    """
    node = "broker.id" if properties.version == 0 else "node.id"
    values = {
        node: properties.node_id,
        "directory.id": properties.directory_id,
        "version": properties.version,
        "cluster.id": properties.cluster_id,
    }
    lines = ["#", f"#{written}"]
    lines += [f"{key}={_escape(str(value))}" for key, value in values.items() if value is not None]
    return "".join(f"{line}\n" for line in lines).encode()


def _parse_properties(text: str) -> dict[str, str]:
    """The part of Java's properties syntax that a broker writes."""
    found = {}
    for line in text.splitlines():
        key, separator, value = line.strip().partition("=")
        if separator and not key.startswith(("#", "!")):
            found[key.strip()] = re.sub(r"\\(.)", r"\1", value.strip())
    return found


def _escape(value: str) -> str:
    return _ESCAPED.sub(r"\\\1", value)


def _bad_properties(file: str, detail: str, found: str) -> CorruptLogError:
    # MetaPropertiesEnsemble: such a directory is offline; if all are, the broker does not start.
    detail = f"{detail}: a broker does not use this log directory"
    return CorruptLogError(Violation(Rule.META_PROPERTIES_READABLE, detail, file, 0, found=found))


def write_clean_shutdown(broker_epoch: int) -> bytes:
    """The bytes of a `.kafka_cleanshutdown`; that it exists is what a broker looks at."""
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()
