"""What a broker takes from producers and coordinators, and what it stores."""

import struct

import numpy as np
import pytest

import builders
import naive
from builders import Row
from ottla.errors import OptionError, Rule
from ottla.format.attributes import Codec, TimestampType
from ottla.kernels.bytes.crc import compute_crcs
from ottla.rules.append.accept import Accepted, Refused, append
from ottla.rules.append.checks import AppendPolicy, check_request
from ottla.rules.producers.producer import Origin
from rules.histories import COMMIT, marker, tables

NOW = 1_700_000_000_000
CREATE = TimestampType.CREATE_TIME
APPEND = TimestampType.LOG_APPEND_TIME
CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
HOUR = 3_600_000


def send(
    data: bytes,
    *,
    next_offset: int = 1000,
    origin: Origin = Origin.CLIENT,
    **policy: object,
) -> Accepted | Refused:
    region, batches, _ = tables(data)
    compute_crcs(region.data, 0, batches)
    return append(
        region,
        batches,
        next_offset=next_offset,
        now=NOW,
        origin=origin,
        policy=AppendPolicy(**policy),  # type: ignore[arg-type]
    )


def take(data: bytes, **policy: object) -> Accepted:
    done = send(data, **policy)  # type: ignore[arg-type]
    assert isinstance(done, Accepted), done
    for line in naive.decode(done.data.tobytes()):
        assert line["type"] != "error"
        assert line.get("crcValid", True)
    return done


def refuse(data: bytes, **policy: object) -> Refused:
    done = send(data, **policy)  # type: ignore[arg-type]
    assert isinstance(done, Refused), done
    return done


def stored(done: Accepted, kind: str) -> list[dict[str, object]]:
    return [line for line in naive.decode(done.data.tobytes()) if line["type"] == kind]


def values(done: Accepted, name: str) -> list[object]:
    return [line[name] for line in stored(done, "record")]


ROWS = [Row(at, NOW + time, b"k%d" % at, b"value") for at, time in enumerate([5, 9, 7])]


def records(magic: int, codec: int, rows: list[Row] = ROWS, **fields: object) -> bytes:
    if magic == 2:
        return builders.batch(rows, codec=codec, **fields)  # type: ignore[arg-type]
    if codec:
        return builders.wrapper(rows, magic=magic, codec=codec, **fields)  # type: ignore[arg-type]
    return b"".join(builders.message(row, magic=magic, **fields) for row in rows)  # type: ignore[arg-type]


MAGICS_AND_CODECS = [(m, c) for m in (0, 1, 2) for c in CODECS if m == 2 or c != Codec.ZSTD]


@pytest.mark.parametrize(("magic", "codec"), MAGICS_AND_CODECS)
def test_offsets_are_assigned_one_after_another(magic: int, codec: Codec) -> None:
    done = take(records(magic, codec), magic=magic)
    assert values(done, "offset") == [1000, 1001, 1002]
    assert (done.first_offset, done.last_offset) == (1000, 1002)
    assert values(done, "key") == [b"k0", b"k1", b"k2"]


@pytest.mark.parametrize(("magic", "codec"), MAGICS_AND_CODECS)
def test_only_compressed_messages_of_magic_zero_are_encoded_anew(magic: int, codec: Codec) -> None:
    done = take(records(magic, codec), magic=magic)
    assert done.was_encoded == (magic == 0 and codec != Codec.NONE)


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_in_place_changes_only_what_a_broker_stamps(codec: Codec) -> None:
    source = records(2, codec, producer=(7, 1, 40))
    done = take(source, leader_epoch=33)
    kept = bytearray(done.data.tobytes())
    assert struct.unpack_from(">q", kept, 0) == (1000,)
    assert struct.unpack_from(">i", kept, 12) == (33,)
    kept[:8], kept[12:16] = source[:8], source[12:16]
    assert bytes(kept) == source


@pytest.mark.parametrize("source", CODECS)
@pytest.mark.parametrize("target", CODECS)
def test_the_topics_codec_is_applied(source: Codec, target: Codec) -> None:
    done = take(records(2, source, producer=(7, 1, 40)), compression_type=target, leader_epoch=4)
    (line,) = stored(done, "batch")
    assert done.was_encoded == (source != target)
    assert (line["codecId"], line["producerId"], line["producerEpoch"]) == (target, 7, 1)
    assert (line["baseSequence"], line["partitionLeaderEpoch"], line["baseOffset"]) == (40, 4, 1000)
    assert values(done, "timestamp") == [NOW + 5, NOW + 9, NOW + 7]


def test_another_level_alone_does_not_recompress() -> None:
    done = take(records(2, Codec.GZIP), compression_type=Codec.GZIP, compression_level=9)
    assert not done.was_encoded


# magic, codec -> offset that the time index gets for the largest timestamp (create, append time).
SHALLOW = [
    pytest.param(0, Codec.NONE, -1, -1, id="v0"),
    pytest.param(0, Codec.GZIP, -1, 1002, id="v0-wrapper"),
    pytest.param(1, Codec.NONE, 1001, 1000, id="v1"),
    pytest.param(1, Codec.GZIP, 1002, 1002, id="v1-wrapper"),
    pytest.param(2, Codec.NONE, 1002, 1002, id="v2"),
    pytest.param(2, Codec.GZIP, 1002, 1002, id="v2-compressed"),
]


@pytest.mark.parametrize(("magic", "codec", "create", "append_time"), SHALLOW)
def test_the_largest_timestamp_and_its_batch_are_known(
    magic: int, codec: Codec, create: int, append_time: int
) -> None:
    done = take(records(magic, codec), magic=magic)
    assert done.max_timestamp == (NOW + 9 if magic else -1)
    assert done.offset_of_max_timestamp == create
    assert done.log_append_time == -1
    done = take(records(magic, codec), magic=magic, timestamp_type=APPEND)
    assert done.max_timestamp == (NOW if magic or codec else -1)
    assert done.offset_of_max_timestamp == append_time
    assert done.log_append_time == NOW


@pytest.mark.parametrize("magic", [1, 2])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("target", [None, Codec.GZIP])
def test_append_time_is_every_records_time(magic: int, codec: Codec, target: Codec | None) -> None:
    done = take(records(magic, codec), magic=magic, timestamp_type=APPEND, compression_type=target)
    assert set(values(done, "timestamp")) == {NOW}
    assert {line["timestampType"] for line in stored(done, "batch")} == {"LogAppendTime"}


def test_a_wrong_largest_timestamp_is_put_right() -> None:
    source = bytearray(records(2, Codec.GZIP))
    struct.pack_into(">q", source, 35, 5)
    (line,) = stored(take(builders.reseal(bytes(source))), "batch")
    assert line["maxTimestamp"] == NOW + 9


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_create_time_topics_take_append_time_in_range_and_clear_the_flag(codec: Codec) -> None:
    done = take(records(2, codec, attributes=0x08))
    assert stored(done, "batch")[0]["timestampType"] == "CreateTime"


@pytest.mark.parametrize("magic", [1, 2])
def test_append_time_topics_refuse_producers_who_claim_it(magic: int) -> None:
    done = refuse(records(magic, Codec.NONE, attributes=0x08), magic=magic, timestamp_type=APPEND)
    assert done.rule is Rule.APPEND_TIMESTAMP_TYPE


# Upwards and downwards, where Kafka 3.9 still converts; v0 knows no time.
CONVERSIONS = [(a, b) for a in (0, 1, 2) for b in (0, 1, 2) if a != b]


@pytest.mark.parametrize(("source", "target"), CONVERSIONS)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_messages_are_converted_to_the_topics_magic(source: int, target: int, codec: Codec) -> None:
    done = take(records(source, codec), magic=target)
    batches = stored(done, "batch")
    assert {line["magic"] for line in batches} == {target}
    assert len(batches) == (3 if target < 2 and codec == Codec.NONE else 1)
    assert values(done, "offset") == [1000, 1001, 1002]
    times = [NOW + 5, NOW + 9, NOW + 7] if source and target else [-1, -1, -1]
    assert values(done, "timestamp") == times


def test_old_messages_become_one_batch_with_append_time_where_the_topic_wants_it() -> None:
    done = take(records(0, Codec.NONE), timestamp_type=APPEND)
    assert len(stored(done, "batch")) == 1
    assert set(values(done, "timestamp")) == {NOW}


def test_headers_can_not_go_down() -> None:
    rows = [Row(0, NOW, b"k", b"v", ((b"h", b"1"),))]
    assert refuse(records(2, Codec.NONE, rows), magic=1).rule is Rule.RECORD_HEADERS


@pytest.mark.parametrize("attributes", [0, 0x10])
@pytest.mark.parametrize("magic", [0, 1])
def test_producer_state_can_not_go_down(attributes: int, magic: int) -> None:
    source = records(2, Codec.NONE, producer=(7, 1, 0), attributes=attributes)
    assert refuse(source, magic=magic).rule is Rule.APPEND_FORMAT


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_have_no_zstd(magic: int) -> None:
    done = refuse(records(magic, Codec.GZIP), magic=magic, compression_type=Codec.ZSTD)
    assert done.rule is Rule.APPEND_CODEC


@pytest.mark.parametrize(("magic", "codec"), MAGICS_AND_CODECS)
def test_only_plain_old_messages_come_in_numbers(magic: int, codec: Codec) -> None:
    twice = records(magic, codec) + records(magic, codec)
    if magic < 2 and codec == Codec.NONE:
        assert values(take(twice, magic=magic), "offset") == list(range(1000, 1006))
    else:
        assert refuse(twice, magic=magic).rule is Rule.APPEND_BATCHES


@pytest.mark.parametrize("target", [Codec.GZIP, Codec.LZ4])
def test_plain_old_messages_become_one_wrapper_of_the_topics_codec(target: Codec) -> None:
    done = take(records(1, Codec.NONE), magic=1, compression_type=target)
    (line,) = stored(done, "batch")
    assert (line["codecId"], line["lastOffset"]) == (target, 1002)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("target", CODECS)
def test_a_batch_without_records_is_refused(codec: Codec, target: Codec) -> None:
    empty = builders.batch_of(builders.compress(b"", codec, magic=2), count=0, attributes=codec)
    assert refuse(empty, compression_type=target).rule is Rule.APPEND_RECORD_COUNT


# (last offset delta, count) of three records: LogValidatorTest's own pairs among them.
COUNTS = [(0, 3), (15, 3), (-3, 3), (2, 5), (2, 1), (5, 6), (1, 2)]


@pytest.mark.parametrize(("delta", "count"), COUNTS)
@pytest.mark.parametrize("target", [Codec.NONE, Codec.GZIP])
def test_count_and_offsets_must_agree_with_each_other_and_the_records(
    delta: int, count: int, target: Codec
) -> None:
    payload = b"".join(builders.record(row, base_timestamp=NOW) for row in ROWS)
    source = builders.batch_of(
        payload, count=count, last_offset_delta=delta, timestamps=(NOW, NOW + 9)
    )
    done = refuse(source, compression_type=target)
    assert done.rule in (Rule.APPEND_RECORD_COUNT, Rule.RECORD_COMPLETE, Rule.RECORDS_REMAIN)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_odd_inner_offsets_of_old_wrappers_are_written_anew(codec: Codec, magic: int) -> None:
    rows = [row._replace(offset=row.offset * 2) for row in ROWS]
    source = records(magic, Codec.GZIP, rows)
    done = take(source, magic=magic, compression_type=codec)
    assert done.was_encoded
    assert values(done, "offset") == [1000, 1001, 1002]


def test_odd_offset_deltas_of_a_compressed_batch_are_refused() -> None:
    rows = [Row(0, NOW), Row(2, NOW), Row(1, NOW)]
    source = builders.batch(rows, codec=1, last_offset_delta=2)
    assert refuse(source).rule is Rule.APPEND_RECORD_COUNT


def test_a_wrapper_with_messages_of_another_magic_is_refused() -> None:
    inner = builders.message(Row(0, NOW, b"k"), magic=0) + builders.message(
        Row(1, NOW, b"k"), magic=1
    )
    value = builders.compress(inner, 1, magic=1)
    source = builders.message(Row(1, NOW, None, value), magic=1, attributes=1)
    done = refuse(source, magic=1)
    assert [each.rule for each in done.violations] == [Rule.APPEND_RECORD_MAGIC]
    assert "record 0" in done.violations[0].detail


def test_messages_of_two_magics_are_refused() -> None:
    mixed = builders.message(Row(0, NOW), magic=0) + builders.message(Row(1, NOW), magic=1)
    assert refuse(mixed, magic=1).rule is Rule.APPEND_MAGIC


# Distance of the timestamp from now, and whether the defaults of 4.x take it.
DISTANCES = [(-(10**12), True), (0, True), (HOUR, True), (HOUR + 1, False)]


@pytest.mark.parametrize(("distance", "taken"), DISTANCES)
@pytest.mark.parametrize("magic", [1, 2])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.SNAPPY])
def test_timestamps_far_ahead_are_refused(
    distance: int, taken: bool, magic: int, codec: Codec
) -> None:
    source = records(magic, codec, [Row(0, NOW + distance, b"k")])
    done = send(source, magic=magic)
    assert isinstance(done, Accepted) == taken
    if isinstance(done, Refused):
        assert done.rule is Rule.APPEND_TIMESTAMP


@pytest.mark.parametrize(("distance", "taken"), [(-1000, True), (-1001, False), (-1 - NOW, True)])
def test_timestamps_far_behind_are_refused_but_not_missing_ones(distance: int, taken: bool) -> None:
    source = records(2, Codec.NONE, [Row(0, NOW + distance, b"k")])
    assert isinstance(send(source, timestamp_before_max_ms=1000), Accepted) == taken


def test_every_bad_timestamp_of_a_batch_is_named() -> None:
    rows = [Row(at, NOW - at * 1000, b"k") for at in range(5)]
    done = refuse(records(2, Codec.GZIP, rows), timestamp_before_max_ms=1500)
    assert [each.detail.split(":")[0] for each in done.violations] == [
        "record 2",
        "record 3",
        "record 4",
    ]


def test_every_record_without_key_is_named_for_a_compacted_topic() -> None:
    rows = [Row(at, NOW, None) for at in range(20)]
    done = refuse(records(2, Codec.NONE, rows), is_compacted=True)
    assert {each.rule for each in done.violations} == {Rule.APPEND_KEY}
    assert len(done.violations) == 20


@pytest.mark.parametrize(("magic", "codec"), MAGICS_AND_CODECS)
def test_a_compacted_topic_takes_keys_only(magic: int, codec: Codec) -> None:
    rows = [Row(0, NOW, b"k"), Row(1, NOW, None)]
    done = refuse(records(magic, codec, rows), magic=magic, is_compacted=True)
    assert done.rule is Rule.APPEND_KEY
    take(records(magic, codec), magic=magic, is_compacted=True)


def test_one_bad_timestamp_outweighs_missing_keys() -> None:
    rows = [
        Row(at, NOW + (2 * HOUR if at == 5 else 0), b"k" if at == 5 else None) for at in range(6)
    ]
    done = refuse(records(2, Codec.NONE, rows), is_compacted=True)
    assert len(done.violations) == 6
    assert done.rule is Rule.APPEND_TIMESTAMP


def test_clients_do_not_write_markers() -> None:
    source = marker(0, 7, 1, COMMIT, timestamp=NOW)
    assert refuse(source).rule is Rule.APPEND_CONTROL


@pytest.mark.parametrize("target", [None, *CODECS])
def test_a_coordinators_marker_is_never_compressed(target: Codec | None) -> None:
    source = marker(0, 7, 1, COMMIT, timestamp=NOW)
    done = take(source, origin=Origin.COORDINATOR, compression_type=target)
    (line,) = stored(done, "batch")
    assert (line["codecId"], line["isControl"], line["baseOffset"]) == (0, True, 1000)


def test_a_compressed_marker_can_not_change_its_codec() -> None:
    source = marker(0, 7, 1, COMMIT, timestamp=NOW, codec=1)
    done = refuse(source, origin=Origin.COORDINATOR, compression_type=Codec.LZ4)
    assert done.rule is Rule.APPEND_CONTROL
    take(source, origin=Origin.COORDINATOR)


def test_a_producer_id_needs_a_sequence() -> None:
    source = records(2, Codec.NONE, producer=(7, 1, -1))
    assert refuse(source).rule is Rule.APPEND_SEQUENCE
    take(source, origin=Origin.COORDINATOR)
    encoded = refuse(source, origin=Origin.COORDINATOR, compression_type=Codec.GZIP)
    assert encoded.rule is Rule.APPEND_SEQUENCE


def test_a_transaction_without_a_producer_can_not_be_encoded_anew() -> None:
    source = records(2, Codec.NONE, attributes=0x10)
    assert refuse(source, compression_type=Codec.GZIP).rule is Rule.APPEND_SEQUENCE
    take(source)


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_have_no_producer_ids_not_even_negative_ones(magic: int) -> None:
    source = records(2, Codec.NONE, producer=(-3, 0, 0))
    assert refuse(source, magic=magic).rule is Rule.APPEND_FORMAT
    take(source, compression_type=Codec.GZIP)


@pytest.mark.parametrize(("magic", "codec"), MAGICS_AND_CODECS)
def test_a_wrong_crc_is_refused(magic: int, codec: Codec) -> None:
    source = bytearray(records(magic, codec))
    source[30] ^= 1
    assert refuse(bytes(source), magic=magic).rule is Rule.CRC_MATCHES


@pytest.mark.parametrize("magic", [0, 1])
def test_a_wrong_crc_inside_a_wrapper_is_refused(magic: int) -> None:
    inner = bytearray(b"".join(builders.message(row, magic=magic) for row in ROWS))
    inner[-1] ^= 1
    value = builders.compress(bytes(inner), 1, magic=magic)
    source = builders.message(Row(2, NOW, None, value), magic=magic, attributes=1)
    assert refuse(source, magic=magic).rule is Rule.INNER_CRC_MATCHES


def test_a_clients_batch_begins_at_zero() -> None:
    source = builders.batch([Row(5, NOW)])
    assert refuse(source).rule is Rule.APPEND_BASE_OFFSET
    take(source, origin=Origin.COORDINATOR)


def test_the_size_of_the_whole_batch_is_limited() -> None:
    source = records(2, Codec.NONE)
    take(source, max_message_bytes=len(source))
    done = refuse(source, max_message_bytes=len(source) - 1)
    assert done.rule is Rule.APPEND_BATCH_SIZE


def test_what_was_encoded_is_measured_again() -> None:
    source = records(2, Codec.GZIP, [Row(0, NOW, b"k", b"a" * 5000)])
    done = refuse(source, compression_type=Codec.NONE, max_message_bytes=1000)
    assert done.rule is Rule.APPEND_BATCH_SIZE
    take(source, max_message_bytes=1000)


def test_an_append_must_fit_into_a_segment() -> None:
    source = records(2, Codec.NONE)
    assert refuse(source, segment_bytes=len(source) - 1).rule is Rule.APPEND_SET_SIZE


def test_a_replica_stores_the_leaders_bytes() -> None:
    source = builders.batch([Row(1000, NOW + 10 * HOUR)]) + builders.batch([Row(1004, NOW)])
    done = take(source, origin=Origin.REPLICATION, max_message_bytes=1, is_compacted=True)
    assert done.data.tobytes() == source
    assert (done.first_offset, done.last_offset) == (1000, 1004)
    assert done.offset_of_max_timestamp == 1000


def test_a_replica_takes_offsets_only_in_order_and_after_its_own() -> None:
    one, other = builders.batch([Row(1000, NOW)]), builders.batch([Row(1001, NOW)])
    assert refuse(other + one, origin=Origin.REPLICATION).rule is Rule.APPEND_OFFSETS_RISE
    late = refuse(one + other, origin=Origin.REPLICATION, next_offset=1001)
    assert late.rule is Rule.APPEND_OFFSET


def test_a_raft_leader_writes_its_own_epoch() -> None:
    source = builders.batch([Row(1000, NOW)], leader_epoch=3)
    take(source, origin=Origin.RAFT_LEADER, leader_epoch=3)
    done = refuse(source, origin=Origin.RAFT_LEADER, leader_epoch=4)
    assert done.rule is Rule.APPEND_LEADER_EPOCH


@pytest.mark.parametrize("epoch", [-2, 2**31])
def test_a_leader_epoch_has_32_bits(epoch: int) -> None:
    with pytest.raises(OptionError, match="does not fit 32 bits"):
        AppendPolicy(leader_epoch=epoch)


def test_a_record_that_is_broken_refuses_the_batch() -> None:
    payload = builders.record(Row(0, NOW), base_timestamp=NOW)[:-1]
    source = builders.batch_of(payload, count=1, timestamps=(NOW, NOW))
    assert refuse(source).rule is Rule.RECORD_COMPLETE


def test_nothing_sent_is_nothing_stored() -> None:
    done = take(b"")
    assert (done.data.size, done.first_offset, done.last_offset) == (0, 1000, 999)


def test_a_produce_request_has_one_batch_of_magic_two() -> None:
    for data, rule in [
        (b"", Rule.APPEND_BATCHES),
        (records(2, 0) + records(2, 0), Rule.APPEND_BATCHES),
        (records(1, 1), Rule.APPEND_MAGIC),
    ]:
        region, batches, _ = tables(data)
        assert [each.rule for each in check_request(region, batches)] == [rule]
    region, batches, _ = tables(records(2, 0))
    assert list(check_request(region, batches)) == []


@pytest.mark.parametrize(
    ("version", "rules"), [(3, [Rule.APPEND_CODEC]), (6, [Rule.APPEND_CODEC]), (7, [])]
)
def test_produce_requests_before_version_seven_have_no_zstd(
    version: int, rules: list[Rule]
) -> None:
    region, batches, _ = tables(records(2, Codec.ZSTD))
    assert [each.rule for each in check_request(region, batches, version)] == rules
    region, batches, _ = tables(records(2, Codec.LZ4))
    assert list(check_request(region, batches, version)) == []


def test_the_table_of_what_is_stored_matches_its_bytes() -> None:
    done = take(records(1, Codec.NONE), magic=1, timestamp_type=APPEND)
    _, batches, _ = tables(done.data.tobytes())
    for name in ("position", "size", "base_offset", "last_offset", "max_timestamp", "attributes"):
        assert np.array_equal(getattr(batches, name), getattr(done.batches, name)), name
