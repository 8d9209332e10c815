"""Stamping batches that are already sealed: what changes, what stays, and when the CRC moves."""

import struct
from pathlib import Path

import numpy as np
import pytest

import naive
from builders import Row, batch, message, reseal, wrapper
from corpus import expected_lines
from ottla.batch.restamp import move_offsets, set_leader_epoch
from ottla.errors import OptionError, UnsupportedError
from ottla.format.attributes import TimestampType
from ottla.kernels.bytes.crc import compute_crcs
from ottla.kernels.records.scan import scan
from ottla.kernels.records.stamping import stamp_timestamps
from ottla.kernels.tables import Batches, allocate_batches
from ottla.region import PADDING, Bytes, padded

ROWS = [Row(0, 5), Row(1, 9), Row(2, 7)]
CREATE, APPEND = TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME


def opened(data: bytes) -> tuple[Bytes, Batches]:
    array = padded(data)
    batches = allocate_batches(50)
    rows = scan(array, 0, len(data), 0, batches)[0]
    found = Batches(*(column[:rows].copy() for column in batches))
    compute_crcs(array, 0, found)
    return array, found


def content(array: Bytes) -> bytes:
    return array[: array.size - PADDING].tobytes()


def check_table(array: Bytes, batches: Batches) -> None:
    """The table still says what the bytes do."""
    again = opened(content(array))[1]
    for name, ours, theirs in zip(Batches._fields, batches, again, strict=True):
        assert ours.tolist() == theirs.tolist(), name
    assert again.crc.tolist() == again.computed_crc.tolist()


def stamp(array: Bytes, batches: Batches, timestamp_type: TimestampType, timestamp: int) -> None:
    """RecordBatch.setMaxTimestamp: base timestamp, deltas and inner messages stay."""
    stamps = np.full(batches.position.size, timestamp, dtype=np.int64)
    stamp_timestamps(array, 0, batches, int(timestamp_type), stamps)


def test_offsets_move_and_nothing_else_does() -> None:
    data = batch(ROWS) + wrapper(ROWS, magic=1, codec=1) + message(Row(3), magic=0)
    array, batches = opened(data)
    move_offsets(array, batches, shift=1000)
    check_table(array, batches)
    records = [line for line in naive.decode(content(array)) if line["type"] == "record"]
    assert [line["offset"] for line in records] == [1000, 1001, 1002, 1000, 1001, 1002, 1003]
    changed = np.flatnonzero(np.frombuffer(data, np.uint8) != array[:-PADDING])
    starts = batches.position
    assert all(any(start <= at < start + 8 for start in starts) for at in changed)


def test_absolute_offsets_inside_a_wrapper_can_not_move() -> None:
    array, batches = opened(wrapper(ROWS, magic=0, codec=1))
    with pytest.raises(UnsupportedError, match="magic 0"):
        move_offsets(array, batches, shift=1)


def test_a_leader_epoch_needs_no_new_crc() -> None:
    array, batches = opened(batch(ROWS) + batch(ROWS))
    before = batches.crc.tolist()
    set_leader_epoch(array, batches, epoch=12)
    check_table(array, batches)
    assert batches.partition_leader_epoch.tolist() == [12, 12]
    assert batches.crc.tolist() == before


def test_only_magic_2_has_a_leader_epoch() -> None:
    array, batches = opened(message(Row(0), magic=1))
    with pytest.raises(UnsupportedError, match="leader epoch"):
        set_leader_epoch(array, batches, epoch=1)


@pytest.mark.parametrize("epoch", [-2, 2**31])
def test_a_leader_epoch_fits_its_field(epoch: int) -> None:
    array, batches = opened(batch(ROWS))
    with pytest.raises(OptionError, match="32 bits"):
        set_leader_epoch(array, batches, epoch=epoch)


def test_the_broker_stamps_its_time_on_magic_2() -> None:
    array, batches = opened(batch(ROWS, codec=4, attributes=0x10, producer=(1, 0, 0)))
    stamp(array, batches, APPEND, 777)
    check_table(array, batches)
    assert batches.attributes.tolist() == [4 | 8 | 0x10]
    records = [line for line in naive.decode(content(array)) if line["type"] == "record"]
    assert [line["timestamp"] for line in records] == [777] * 3
    assert batches.base_timestamp.tolist() == [5]


def test_the_broker_stamps_its_time_on_a_wrapper_of_magic_1() -> None:
    array, batches = opened(wrapper(ROWS, magic=1, codec=2))
    stamp(array, batches, APPEND, 777)
    check_table(array, batches)
    assert batches.attributes.tolist() == [2 | 8]
    records = [line for line in naive.decode(content(array)) if line["type"] == "record"]
    assert [line["timestamp"] for line in records] == [777] * 3


def test_bits_without_meaning_are_lost_only_when_something_changes() -> None:
    data = batch(ROWS, attributes=0x5580)
    array, batches = opened(data)
    stamp(array, batches, CREATE, 9)
    assert content(array) == data
    stamp(array, batches, CREATE, 10)
    plain = bytearray(batch(ROWS))
    plain[35:43] = struct.pack(">q", 10)
    assert content(array) == reseal(bytes(plain))


def test_kafka_stamped_the_same_bytes(corpus: Path) -> None:
    """The case was made with setMaxTimestamp: taking the stamp off and on again changes nothing."""
    data = (corpus / "segments" / "ok-v2-none-setmaxts.log").read_bytes()
    lines = [line for line in expected_lines(corpus, "ok-v2-none-setmaxts") if "crc" in line]
    stamped = [line for line in lines if line["timestampType"] == "LogAppendTime"]
    assert stamped
    for line in stamped:
        sealed = data[line["position"] : line["position"] + line["size"]]
        array, batches = opened(sealed)
        stamp(array, batches, CREATE, 0)
        assert content(array) != sealed
        stamp(array, batches, APPEND, line["maxTimestamp"])
        assert content(array) == sealed
