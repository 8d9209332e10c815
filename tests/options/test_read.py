"""Options of the source, as Spark's Kafka connector parses, defaults and refuses them."""

import pytest

from ottla.errors import OptionError
from ottla.format.names import TopicPartition
from ottla.log.read.records import Mode
from ottla.options.choice import Choice
from ottla.options.offsets import (
    Edge,
    Offsets,
    Timestamp,
    Timestamps,
    offsets_by_topic,
    parse_offsets,
)
from ottla.options.read import (
    Isolation,
    NoMatch,
    ReadOptions,
    UpTo,
    View,
    for_batch,
    for_stream,
    parse_read_options,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def parsed(**options: str) -> ReadOptions:
    return parse_read_options({"path": "/logs"} | options)


def dotted(name: str, text: str) -> ReadOptions:
    return parse_read_options({"path": "/logs", name: text})


VALUES = [
    pytest.param("subscribe", " a, ,b ", "choice", Choice(topics=("a", "b")), id="topics"),
    pytest.param("SUBSCRIBEPATTERN", " a.* ", "choice", Choice(pattern="a.*"), id="any-case"),
    pytest.param(
        "assign",
        '{"t":[0,1]}',
        "choice",
        Choice(assigned=frozenset({T0, T1})),
        id="assign",
    ),
    pytest.param("startingOffsets", " Earliest", "starting", Edge.EARLIEST, id="earliest"),
    pytest.param(
        "startingoffsets",
        '{"t":{"0":23,"1":-2}}',
        "starting",
        Offsets({T0: 23, T1: -2}),
        id="offsets",
    ),
    pytest.param("startingTimestamp", "1000", "starting", Timestamp(1000), id="timestamp"),
    pytest.param(
        "endingOffsetsByTimestamp", '{"t":{"0":9}}', "ending", Timestamps({T0: 9}), id="timestamps"
    ),
    pytest.param(
        "startingOffsetsByTimestampStrategy",
        "LATEST",
        "starting_no_match",
        NoMatch.LATEST,
        id="strategy",
    ),
    pytest.param("failOnDataLoss", "False", "fail_on_data_loss", False, id="boolean"),
    pytest.param("minPartitions", "7", "min_partitions", 7, id="count"),
    pytest.param(
        "maxOffsetsPerTrigger",
        str(2**63 - 1),
        "max_offsets_per_trigger",
        2**63 - 1,
        id="SPARK-26718",
    ),
    pytest.param(
        "kafka.isolation.level",
        "read_committed",
        "isolation",
        Isolation.READ_COMMITTED,
        id="isolation",
    ),
    pytest.param("splitBytes", "4k", "split_bytes", 4096, id="size"),
    pytest.param("maxTriggerDelay", "5 min", "max_trigger_delay_ms", 300_000, id="delay"),
    pytest.param("mode", "dropmalformed", "mode", Mode.DROPMALFORMED, id="mode"),
    pytest.param("view", "batches", "view", View.BATCHES, id="view"),
    pytest.param("upTo", "highwatermark", "up_to", UpTo.HIGH_WATERMARK, id="up-to"),
    pytest.param("paths", '["/a","/b"]', "paths", ("/a", "/b"), id="several-paths"),
]


@pytest.mark.parametrize(("name", "text", "place", "value"), VALUES)
def test_an_option_is_read(name: str, text: str, place: str, value: object) -> None:
    assert getattr(dotted(name, text), place) == value


REFUSALS = [
    pytest.param("subscribe", " , ", "expected topics", id="no-topics"),
    pytest.param("subscribePattern", "  ", "expected a regular expression", id="empty-pattern"),
    pytest.param("subscribePattern", "(", "expected a regular expression", id="bad-pattern"),
    pytest.param("assign", "t", 'expected JSON such as {"topicA":[0,1]', id="assign-no-json"),
    pytest.param("assign", '{"t":0}', 'expected JSON such as {"topicA":[0,1]', id="assign-no-list"),
    pytest.param("startingOffsets", "first", "expected JSON", id="offsets-no-json"),
    pytest.param("startingOffsets", "[" * 100_000, "expected", id="offsets-too-deep"),
    pytest.param("startingOffsets", '{"t":{"0":"x"}}', "expected JSON", id="offset-no-number"),
    pytest.param("startingOffsets", '{"t":{"0":true}}', "expected JSON", id="offset-boolean"),
    pytest.param("startingTimestamp", "now", "expected a whole number", id="timestamp-no-number"),
    pytest.param(
        "startingOffsetsByTimestampStrategy", "skip", "expected error or latest", id="strategy"
    ),
    pytest.param("minPartitions", "0", "expected a positive number", id="min-partitions"),
    pytest.param("maxRecordsPerPartition", "-1", "expected a positive number", id="max-records"),
    pytest.param("failOnDataLoss", "yes", "expected true or false", id="boolean"),
    pytest.param(
        "kafka.isolation.level", "dirty", "read_uncommitted or read_committed", id="isolation"
    ),
    pytest.param("splitBytes", "0", "expected a positive size", id="size"),
    pytest.param("maxTriggerDelay", "soon", "expected a time", id="delay"),
    pytest.param("kafka.auto.offset.reset", "earliest", "is not supported", id="auto-offset-reset"),
    pytest.param("kafka.key.deserializer", "x", "is not supported", id="deserializer"),
    pytest.param("startingOfsets", "earliest", "did you mean startingOffsets?", id="misspelt"),
    pytest.param(
        "maxOffsetPerTriger", "5", "did you mean maxOffsetsPerTrigger?", id="misspelt-more"
    ),
    pytest.param("zzz", "5", "known are path,", id="unknown"),
    pytest.param("s3.secretKey", "5", "looks like a secret", id="secret"),
    pytest.param("accessKey", "5", "looks like a secret", id="access-key"),
    pytest.param("endpoint", "http://u:hunter2@h", "looks like a secret", id="endpoint-secret"),
]


@pytest.mark.parametrize(("name", "text", "message"), REFUSALS)
def test_an_option_is_refused_with_what_was_expected(name: str, text: str, message: str) -> None:
    with pytest.raises(OptionError) as refused:
        dotted(name, text)
    assert message in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_a_path_must_be_given() -> None:
    with pytest.raises(OptionError, match="no path"):
        parse_read_options({"subscribe": "t"})


def test_only_one_way_to_choose_topics_can_be_given() -> None:
    with pytest.raises(OptionError, match="not subscribe and assign"):
        parsed(subscribe="t", assign='{"t":[0]}')


def test_options_that_only_a_broker_needs_are_noted() -> None:
    given = {"path": "/logs", "kafka.bootstrap.servers": "b:9092", "groupidprefix": "x"}
    assert parse_read_options(given).ignored == ("groupIdPrefix", "kafka.bootstrap.servers")


def test_a_broker_password_is_not_taken_for_one_of_ours() -> None:
    assert dotted("kafka.ssl.key.password", "x").ignored == ("kafka.ssl.key.password",)


def test_a_timestamp_for_all_beats_timestamps_which_beat_offsets() -> None:
    by_timestamp = '{"t":{"0":9}}'
    all_three = parsed(
        startingoffsets="earliest", startingoffsetsbytimestamp=by_timestamp, startingtimestamp="5"
    )
    assert all_three.starting == Timestamp(5)
    two = parsed(endingoffsets="latest", endingoffsetsbytimestamp=by_timestamp)
    assert two.ending == Timestamps({T0: 9})


def test_a_batch_reads_everything_and_a_stream_what_is_new() -> None:
    batch, stream = for_batch(parsed()), for_stream(parsed())
    assert (batch.starting, batch.ending) == (Edge.EARLIEST, Edge.LATEST)
    assert stream.starting is Edge.LATEST


BATCH_REFUSALS = [
    pytest.param({"startingoffsets": "latest"}, "cannot be latest", id="starts-latest"),
    pytest.param({"startingoffsets": '{"t":{"0":-1}}'}, "cannot be latest", id="starts-minus-one"),
    pytest.param({"endingoffsets": "earliest"}, "cannot be earliest", id="ends-earliest"),
    pytest.param({"endingoffsets": '{"t":{"0":-2}}'}, "cannot be earliest", id="ends-minus-two"),
    pytest.param(
        {"startingoffsets": '{"t":{"0":1}}', "endingoffsets": '{"t":{"0":2,"1":2}}'},
        "name different partitions: t-1",
        id="partitions-differ",
    ),
    pytest.param(
        {"startingoffsets": '{"t":{"0":3}}', "endingoffsets": '{"t":{"0":2}}'},
        "t-0 would start at 3, after its end at 2",
        id="start-after-end",
    ),
    pytest.param(
        {
            "startingoffsetsbytimestamp": '{"t":{"0":3}}',
            "endingoffsetsbytimestamp": '{"t":{"0":2}}',
        },
        "after its end",
        id="start-time-after-end",
    ),
]


@pytest.mark.parametrize(("options", "message"), BATCH_REFUSALS)
def test_a_batch_refuses(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        for_batch(parsed(**options))


@pytest.mark.parametrize(
    "options", [{"endingoffsets": "latest"}, {"endingoffsetsbytimestamp": '{"t":{"0":1}}'}]
)
def test_a_stream_refuses_an_end(options: dict[str, str]) -> None:
    with pytest.raises(OptionError, match="no meaning in a stream"):
        for_stream(parsed(**options))


def test_the_least_per_trigger_may_not_exceed_the_most() -> None:
    with pytest.raises(OptionError, match="above maxOffsetsPerTrigger"):
        parsed(minoffsetspertrigger="5", maxoffsetspertrigger="4")


def test_a_pattern_matches_anywhere_in_a_topic() -> None:
    assert parsed(subscribepattern="order").choice.chooses(TopicPartition("all-orders", 0))


def test_offset_json_is_the_same_text_whatever_the_order() -> None:
    text = '{"b":{"10":1,"9":2},"a":{"0":0}}'
    assert offsets_by_topic(parse_offsets(text)) == {"a": {"0": 0}, "b": {"9": 2, "10": 1}}
    assert str(offsets_by_topic(parse_offsets(text))) == "{'a': {'0': 0}, 'b': {'9': 2, '10': 1}}"
