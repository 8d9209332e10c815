"""Texts of kafka-facts 8.8; the order in meta.properties is what java.util.Properties printed."""

import pytest

from ottla.errors import CorruptLogError
from ottla.log.files.identity import (
    MetaProperties,
    read_meta_properties,
    read_topic_id,
    write_clean_shutdown,
    write_meta_properties,
    write_topic_id,
)

TOPIC_ID = "MkU3OEVBNTcwNTJENDM2Qg"
PARTITION_METADATA = b"version: 0\ntopic_id: MkU3OEVBNTcwNTJENDM2Qg"
DATE = "Sun Nov 15 19:47:06 UTC 2026"
KRAFT = (
    b"#\n#Sun Nov 15 19:47:06 UTC 2026\n"
    b"node.id=1\ndirectory.id=abcdefghijklmnopqrstuQ\nversion=1\n"
    b"cluster.id=MkU3OEVBNTcwNTJENDM2Qg\\=\\=\n"
)
ZOOKEEPER = b"#\n#Sun Nov 15 19:47:06 UTC 2026\nbroker.id=7\nversion=0\ncluster.id=x\n"


def test_a_topic_id_is_read_and_written_back() -> None:
    assert read_topic_id(PARTITION_METADATA, "f") == TOPIC_ID
    assert write_topic_id(TOPIC_ID) == PARTITION_METADATA


def test_a_later_version_of_partition_metadata_is_accepted() -> None:
    assert read_topic_id(PARTITION_METADATA.replace(b"0", b"3", 1), "f") == TOPIC_ID


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"version: 0",
        b"version: -1\ntopic_id: MkU3OEVBNTcwNTJENDM2Qg",
        b"version 0\ntopic_id: MkU3OEVBNTcwNTJENDM2Qg",
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
        b"version: 0\ntopic_id: tooshort",
        b"version: 0\ntopic_id: MkU3OEVBNTcwNTJENDM2+/",
        b"\xff\xfe\n\xff",
    ],
)
def test_malformed_partition_metadata_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptLogError, match="partition-metadata-readable"):
        read_topic_id(data, "f")


@pytest.mark.parametrize(
    ("data", "properties"),
    [
        (KRAFT, MetaProperties(1, TOPIC_ID + "==", 1, "abcdefghijklmnopqrstuQ")),
        (ZOOKEEPER, MetaProperties(0, "x", 7)),
    ],
)
def test_meta_properties_are_read_and_written_back(data: bytes, properties: MetaProperties) -> None:
    assert read_meta_properties(data, "f") == properties
    assert write_meta_properties(properties, DATE) == data


def test_the_oldest_meta_properties_know_only_the_broker() -> None:
    assert read_meta_properties(b"broker.id=7\n", "f") == MetaProperties(0, None, 7)


@pytest.mark.parametrize(
    "data",
    [
        b"version=2\n",
        b"version=one\n",
        b"version=1\nnode.id=1\n",
        b"version=1\n",
        b"broker.id=one\n",
        b"broker.id=2147483648\n",
        b"broker.id=1\ndirectory.id=short\n",
    ],
)
def test_meta_properties_that_stop_a_broker_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptLogError, match="meta-properties-readable"):
        read_meta_properties(data, "f")


def test_a_clean_shutdown_holds_the_broker_epoch() -> None:
    assert write_clean_shutdown(42) == b'{"version":0,"brokerEpoch":42}'
