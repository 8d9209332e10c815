"""Options of the sink, as Spark hands them over."""

import pytest

from ottla.errors import OptionError
from ottla.format.attributes import Codec
from ottla.options.write import WriteOptions, parse_write_options

TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def test_names_are_found_whatever_their_case() -> None:
    given = {
        "path": "out",
        "TOPIC": " orders ",
        "numpartitions": '{"orders": 3}',
        "topicIds": f'{{"orders": "{TOPIC_ID}"}}',
        "leaderepoch": "5",
        "keepOffsets": "TRUE",
        "codec": "Zstd",
        "level": "-7",
        "batchbytes": "64k",
        "segmentbytes": "10m",
        "checkpointlocation": "state",
        "kafka.bootstrap.servers": "ignored:9092",
    }
    assert parse_write_options(given) == WriteOptions(
        path="out",
        topic="orders",
        partition_counts={"orders": 3},
        topic_ids={"orders": TOPIC_ID},
        leader_epoch=5,
        keep_offsets=True,
        codec=Codec.ZSTD,
        level=-7,
        batch_bytes=64 << 10,
        segment_bytes=10 << 20,
        ignored=("kafka.bootstrap.servers",),
    )


def test_one_number_of_partitions_is_for_every_topic() -> None:
    options = parse_write_options({"path": "out", "numPartitions": "12"})
    assert (options.partition_count, options.partition_counts) == (12, {})


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("topic", "a/b", "option topic: expected the name of a topic"),
        ("numPartitions", "0", "option numPartitions: expected a positive number"),
        ("numPartitions", "[3]", "option numPartitions: expected a number of partitions, or JSON"),
        ("numPartitions", '{"t": true}', "option numPartitions: expected a positive number"),
        ("topicIds", '{"t": "short"}', "option topicIds: expected JSON of topics"),
        ("leaderEpoch", "-1", "option leaderEpoch: expected a leader epoch of 0 or more"),
        ("codec", "brotli", "option codec: expected none or gzip or snappy or lz4 or zstd"),
        ("level", "5", "codec none has no levels"),
        ("magic", "3", "option magic: expected 0, 1 or 2"),
        ("batchBytes", "0", "option batchBytes: expected a positive size"),
        ("secretkey", "x", "option secretkey looks like a secret"),
        ("segmentByte", "1m", "unknown option segmentbyte: did you mean segmentBytes?"),
    ],
)
def test_what_makes_no_sense_is_refused(name: str, text: str, message: str) -> None:
    with pytest.raises(OptionError) as error:
        parse_write_options({"path": "out", name: text})
    assert message in str(error.value)


@pytest.mark.parametrize(
    "given",
    [
        {"magic": "0", "codec": "gzip"},
        {"magic": "1", "codec": "zstd"},
        {"magic": "1", "leaderEpoch": "3"},
        {"codec": "zstd", "level": "99"},
    ],
)
def test_what_kafka_has_no_bytes_for_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(OptionError):
        parse_write_options({"path": "out"} | given)


def test_a_path_is_needed() -> None:
    with pytest.raises(OptionError, match="no path"):
        parse_write_options({"topic": "t"})
