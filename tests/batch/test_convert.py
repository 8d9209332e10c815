"""Stored logs in another format: what survives, what is derived, what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import builders
import naive
from builders import Row
from ottla.batch.convert import Conversion, Converted, Loss, convert, make_decoder
from ottla.errors import CorruptLogError, OptionError
from ottla.format.attributes import Codec
from ottla.kernels.bytes.crc import compute_crcs
from rules.histories import COMMIT, data_batch, empty_marker, marker, tables

ALL_LOSSES = frozenset(Loss)
CODECS = list(Codec)


def run(data: bytes, conversion: Conversion) -> Converted:
    region, batches, _ = tables(data)
    compute_crcs(region.data, 0, batches)
    (converted,) = convert(make_decoder(), region, batches, conversion)
    return converted


def lines(data: bytes, kind: str) -> list[dict[str, object]]:
    found = naive.decode(data)
    assert not [line for line in found if line["type"] == "error"]
    return [line for line in found if line["type"] == kind]


def rows_of(data: bytes, *names: str) -> list[tuple[object, ...]]:
    return [tuple(line[name] for name in names) for line in lines(data, "record")]


def log(magic: int, codec: int) -> bytes:
    """Two batches with a gap inside and between."""
    first = [Row(10, 500, b"a", b"1"), Row(12, 400, None, b"2"), Row(13, -1, b"c", None)]
    second = [Row(20, 700, b"d", b"")]
    return b"".join(builders.segment(rows, magic=magic, codec=codec) for rows in (first, second))


FORMATS = [(m, c) for m in (0, 1, 2) for c in CODECS if m == 2 or c != Codec.ZSTD]


@pytest.mark.parametrize("source", FORMATS)
@pytest.mark.parametrize("target", FORMATS)
def test_offsets_gaps_keys_values_and_known_times_survive(
    source: tuple[int, int], target: tuple[int, int]
) -> None:
    data = log(*source)
    wanted = Conversion(magic=target[0], codec=Codec(target[1]), allowed=ALL_LOSSES)
    done = run(data, wanted).data
    assert rows_of(done, "offset", "key", "value") == rows_of(data, "offset", "key", "value")
    if source[0] and target[0]:
        assert rows_of(done, "timestamp") == rows_of(data, "timestamp")
    else:
        assert set(rows_of(done, "timestamp")) == {(-1,)}
    formats = {(line["magic"], line["codecId"]) for line in lines(done, "batch")}
    assert formats == {target}


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_what_is_as_wanted_is_copied(magic: int, codec: Codec) -> None:
    data = log(magic, codec)
    done = run(data, Conversion(magic=magic, codec=codec))
    assert (done.data, done.converted) == (data, 0)
    assert run(data, Conversion()).data == data


def test_a_codec_change_keeps_everything_else_of_a_batch() -> None:
    rows = [Row(5, 90, b"a"), Row(8, 70, b"b", b"v", ((b"h", None),))]
    source = builders.batch(
        rows,
        codec=1,
        base_offset=4,
        last_offset_delta=6,
        attributes=0x10,
        producer=(3, 2, 9),
        leader_epoch=7,
    )
    done = run(source, Conversion(codec=Codec.ZSTD)).data
    (before,), (after,) = lines(source, "batch"), lines(done, "batch")
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"size", "crc", "attributes", "codecId", "codec"}
    assert rows_of(done, "offset", "timestamp", "headers") == rows_of(
        source, "offset", "timestamp", "headers"
    )


def test_a_delete_horizon_survives_a_codec_change() -> None:
    payload = builders.record(Row(0, 40, b"a", None), base_timestamp=9000)
    source = builders.batch_of(payload, count=1, attributes=0x40, timestamps=(9000, 40))
    done = run(source, Conversion(codec=Codec.GZIP)).data
    assert lines(done, "batch")[0]["deleteHorizonMs"] == 9000
    assert rows_of(done, "timestamp") == [(40,)]


@pytest.mark.parametrize("magic", [0, 1])
def test_plain_messages_are_put_together(magic: int) -> None:
    data = b"".join(
        builders.message(Row(at, 50, b"k", b"v" * 100), magic=magic) for at in range(40)
    )
    done = run(data, Conversion(magic=2, batch_bytes=1000)).data
    batches = lines(done, "batch")
    assert 4 < len(batches) < 10
    assert max(int(str(line["size"])) for line in batches) <= 1000
    assert rows_of(done, "offset") == [(at,) for at in range(40)]


def test_append_time_stays_each_messages_own() -> None:
    times = [100, 100, 200, 300]
    data = b"".join(
        builders.message(Row(at, time), magic=1, attributes=8) for at, time in enumerate(times)
    )
    done = run(data, Conversion(magic=2)).data
    assert rows_of(done, "timestamp") == [(time,) for time in times]
    assert {line["timestampType"] for line in lines(done, "batch")} == {"LogAppendTime"}


def test_append_time_of_a_batch_goes_down_with_it() -> None:
    source = builders.batch([Row(0, 10), Row(1, 30)], attributes=8)
    done = run(source, Conversion(magic=1, allowed=ALL_LOSSES)).data
    assert rows_of(done, "timestamp") == [(30,), (30,)]


HEADERS = builders.batch([Row(0, 5, b"k", b"v", ((b"h", b"1"),))], leader_epoch=-1)
LOSSES = [
    pytest.param(HEADERS, 1, Loss.HEADERS, id="headers"),
    pytest.param(
        builders.batch([Row(0, 5)], producer=(1, 0, 0), leader_epoch=-1),
        1,
        Loss.PRODUCER_STATE,
        id="producer",
    ),
    pytest.param(builders.batch([Row(0, 5)]), 1, Loss.LEADER_EPOCHS, id="leader-epoch"),
    pytest.param(builders.message(Row(0, 5), magic=1), 0, Loss.TIMESTAMPS, id="timestamps"),
]


@pytest.mark.parametrize(("data", "magic", "loss"), LOSSES)
def test_each_loss_needs_the_callers_word(data: bytes, magic: int, loss: Loss) -> None:
    with pytest.raises(OptionError, match=f"{loss} would be lost"):
        run(data, Conversion(magic=magic, allowed=ALL_LOSSES - {loss}))
    run(data, Conversion(magic=magic, allowed=frozenset({loss})))


def test_markers_and_empty_batches_have_no_old_form() -> None:
    data = data_batch(0, producer=(1, 0, 0)) + marker(1, 1, 0, COMMIT) + empty_marker(2, 1, 0)
    with pytest.raises(OptionError, match="control-records"):
        run(data, Conversion(magic=1, allowed=ALL_LOSSES - {Loss.CONTROL_RECORDS}))
    done = run(data, Conversion(magic=1, allowed=ALL_LOSSES))
    assert rows_of(done.data, "offset") == [(0,)]
    assert (done.copied, done.converted, done.dropped) == (0, 1, 2)


def test_markers_and_empty_batches_keep_their_bytes_when_only_the_codec_changes() -> None:
    tail = marker(1, 1, 0, COMMIT) + empty_marker(2, 1, 0)
    done = run(data_batch(0) + tail, Conversion(codec=Codec.LZ4))
    assert done.data.endswith(tail)
    assert done.copied == 2


def test_zstd_can_not_go_down() -> None:
    with pytest.raises(OptionError, match="no zstd"):
        run(log(2, Codec.ZSTD), Conversion(magic=1, allowed=ALL_LOSSES))
    with pytest.raises(OptionError, match="no zstd"):
        Conversion(magic=0, codec=Codec.ZSTD)


def test_a_broken_batch_is_not_dropped_in_silence() -> None:
    data = bytearray(log(2, 0))
    data[70] ^= 1
    with pytest.raises(CorruptLogError):
        run(bytes(data), Conversion(magic=2, codec=Codec.GZIP))


@given(st.data())
def test_any_mix_of_formats_becomes_one(draw: st.DataObject) -> None:
    offset, parts, expected = 0, [], []
    for _ in range(draw.draw(st.integers(1, 5))):
        magic, codec = draw.draw(st.sampled_from(FORMATS))
        count = draw.draw(st.integers(1, 4))
        rows = [
            Row(
                offset + at * 2,
                draw.draw(st.integers(-1, 1000)) if magic else -1,
                draw.draw(st.sampled_from([None, b"", b"key"])),
                draw.draw(st.sampled_from([None, b"", b"value"])),
            )
            for at in range(count)
        ]
        offset = rows[-1].offset + draw.draw(st.integers(1, 5))
        parts.append(builders.segment(rows, magic=magic, codec=codec))
        expected += rows
    codec = draw.draw(st.sampled_from(CODECS))
    done = run(b"".join(parts), Conversion(magic=2, codec=codec)).data
    found = rows_of(done, "offset", "timestamp", "key", "value")
    assert found == [(row.offset, row.timestamp, row.key, row.value) for row in expected]


def test_each_batch_keeps_its_own_kind_of_time_on_the_way_down() -> None:
    data = (
        builders.batch([Row(0, 10, b"a"), Row(1, 30, b"b")])
        + builders.batch([Row(2, 50, b"c"), Row(3, 40, b"d")], attributes=8, codec=1)
        + marker(4, 1, 0, COMMIT)
    )
    done = run(data, Conversion(magic=1, allowed=ALL_LOSSES)).data
    assert rows_of(done, "offset", "timestamp") == [(0, 10), (1, 30), (2, 50), (3, 50)]
    kinds = [line["timestampType"] for line in lines(done, "batch")]
    assert kinds == ["CreateTime", "CreateTime", "LogAppendTime"]


def test_old_messages_go_up_while_newer_batches_go_down() -> None:
    data = builders.message(Row(0, 0, b"a"), magic=0) + builders.batch([Row(1, 7, b"b")])
    done = run(data, Conversion(magic=1, allowed=ALL_LOSSES)).data
    assert {line["magic"] for line in lines(done, "batch")} == {1}
    assert rows_of(done, "offset", "timestamp", "key") == [(0, -1, b"a"), (1, 7, b"b")]


def test_a_wrapper_around_messages_of_two_magics_is_copied_or_becomes_one() -> None:
    inner = builders.message(Row(0, 40, b"a"), magic=0) + builders.message(
        Row(1, 50, b"b"), magic=1
    )
    value = builders.compress(inner, 1, magic=1)
    mixed = builders.message(Row(11, 50, None, value), magic=1, attributes=1)
    assert run(mixed, Conversion(magic=1)).data == mixed
    for wanted in (Conversion(codec=Codec.SNAPPY), Conversion(magic=2)):
        done = run(mixed, wanted).data
        rows = rows_of(done, "offset", "timestamp", "key")
        assert rows == [(10, -1, b"a"), (11, 50, b"b")]


@pytest.mark.parametrize(("source", "target"), [(0, 2), (1, 2), (2, 1), (1, 0)])
def test_compressed_neighbours_stay_batches_of_their_own(source: int, target: int) -> None:
    data = log(source, Codec.GZIP)
    wanted = Conversion(magic=target, codec=Codec.LZ4, allowed=ALL_LOSSES)
    found = [
        (line["baseOffset"], line["lastOffset"]) for line in lines(run(data, wanted).data, "batch")
    ]
    assert found == [(10, 13), (20, 20)]
