"""Bytes worked out from kafka-facts 6.7; the CRC by a bit-by-bit CRC-32C written here."""

import numpy as np
import pytest

from ottla.errors import CorruptLogError
from ottla.format.layout import PRODUCER_SNAPSHOT_ENTRY
from ottla.log.files.producer_snapshot import read_producer_snapshot, write_producer_snapshot


def slow_crc32c(data: bytes) -> int:
    register = 0xFFFFFFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = (register >> 1) ^ (0x82F63B78 if register & 1 else 0)
    return register ^ 0xFFFFFFFF


ENTRY = bytes.fromhex(
    "0000000000000001"  # producer id
    "0002"  # epoch
    "0000000f"  # last sequence
    "0000000000000065"  # last offset
    "00000003"  # offset delta
    "0000018f121d1c00"  # timestamp
    "00000007"  # coordinator epoch
    "ffffffffffffffff"  # no open transaction
)
BODY = bytes.fromhex("00000001") + ENTRY
DATA = bytes.fromhex("0001") + slow_crc32c(BODY).to_bytes(4, "big") + BODY


def test_the_slow_crc_gives_the_published_check_value() -> None:
    assert slow_crc32c(b"123456789") == 0xE3069283


def test_a_snapshot_is_read_and_written_back() -> None:
    found = read_producer_snapshot(DATA, "f")
    assert found.tolist() == [(1, 2, 15, 101, 3, 0x18F121D1C00, 7, -1)]
    assert len(DATA) == 56
    assert write_producer_snapshot(found) == DATA


def test_an_empty_snapshot_is_ten_bytes() -> None:
    data = write_producer_snapshot(np.empty(0, dtype=PRODUCER_SNAPSHOT_ENTRY))
    assert data == bytes.fromhex("0001") + slow_crc32c(bytes(4)).to_bytes(4, "big") + bytes(4)
    assert read_producer_snapshot(data, "f").size == 0


def flipped(position: int) -> bytes:
    return DATA[:position] + bytes([DATA[position] ^ 1]) + DATA[position + 1 :]


@pytest.mark.parametrize("position", range(len(DATA)))
def test_any_flipped_byte_is_found(position: int) -> None:
    with pytest.raises(CorruptLogError, match="snapshot-readable"):
        read_producer_snapshot(flipped(position), "f")


@pytest.mark.parametrize("size", range(len(DATA)))
def test_any_truncation_is_found(size: int) -> None:
    with pytest.raises(CorruptLogError, match="snapshot-readable"):
        read_producer_snapshot(DATA[:size], "f")


@pytest.mark.parametrize("count", [2, -1, 2**31 - 1])
def test_a_count_of_more_than_is_there_is_found_whatever_the_crc_says(count: int) -> None:
    body = count.to_bytes(4, "big", signed=True) + ENTRY
    data = bytes.fromhex("0001") + slow_crc32c(body).to_bytes(4, "big") + body
    with pytest.raises(CorruptLogError, match="fewer entries than counted"):
        read_producer_snapshot(data, "f")
