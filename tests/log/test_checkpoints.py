"""Texts of kafka-facts 8.8."""

import pytest

from ottla.errors import CorruptLogError
from ottla.format.names import TopicPartition
from ottla.log.files.checkpoints import (
    EpochStart,
    check_leader_epochs,
    read_leader_epochs,
    read_offset_checkpoint,
    truncate_epochs_from_end,
    truncate_epochs_from_start,
    write_leader_epochs,
    write_offset_checkpoint,
)

OFFSETS = b"0\n2\norders 3 1042\n__consumer_offsets 17 9\n"
EPOCHS = b"0\n3\n0 0\n4 120\n5 9223372036854775807\n"


def test_an_offset_checkpoint_is_read_and_written_back() -> None:
    found = read_offset_checkpoint(OFFSETS, "f")
    assert found == {
        TopicPartition("orders", 3): 1042,
        TopicPartition("__consumer_offsets", 17): 9,
    }
    assert write_offset_checkpoint(found) == OFFSETS


def test_leader_epochs_are_read_and_written_back() -> None:
    found = read_leader_epochs(EPOCHS, "f")
    assert found == [EpochStart(0, 0), EpochStart(4, 120), EpochStart(5, 2**63 - 1)]
    assert write_leader_epochs(found) == EPOCHS


def test_no_entries_are_written_as_a_count_of_zero() -> None:
    assert write_leader_epochs([]) == b"0\n0\n"


@pytest.mark.parametrize("data", [b"", b"0\n", b"0\n0\n"])
def test_a_checkpoint_without_entries_is_empty(data: bytes) -> None:
    assert read_leader_epochs(data, "f") == []
    assert read_offset_checkpoint(data, "f") == {}


@pytest.mark.parametrize(
    ("data", "detail"),
    [
        (b"1\n0\n", "unknown version"),
        (b"x\n0\n", "unknown version"),
        (b"0\nx\n", "not a number"),
        (b"0\n2\n0 0\n", "count of entries differs"),
        (b"0\n1\n0 0\n1 5\n", "count of entries differs"),
        (b"0\n1\n0\n", "malformed line"),
        (b"0\n1\n0 0 0\n", "malformed line"),
        (b"0\n1\n0 x\n", "not a number"),
        (b"0\n1\n0 \xff\n", "not UTF-8"),
        (b"0\n1\n2147483648 0\n", "out of range"),
        (b"0\n1\n0 9223372036854775808\n", "out of range"),
        (b"0\n4294967297\n0 0\n", "out of range"),
    ],
)
def test_a_malformed_checkpoint_is_refused(data: bytes, detail: str) -> None:
    with pytest.raises(CorruptLogError, match=detail):
        read_leader_epochs(data, "f")


@pytest.mark.parametrize("line", [b"t 2147483648 0", b"t 0 9223372036854775808"])
def test_numbers_that_java_cannot_hold_are_refused(line: bytes) -> None:
    with pytest.raises(CorruptLogError, match="out of range"):
        read_offset_checkpoint(b"0\n1\n" + line + b"\n", "f")


def test_the_end_of_a_log_takes_its_epochs_with_it() -> None:
    epochs = [EpochStart(2, 6), EpochStart(3, 8), EpochStart(4, 11)]
    assert truncate_epochs_from_end(epochs, 11) == epochs[:2]
    assert truncate_epochs_from_end(epochs, 9) == epochs[:2]
    assert truncate_epochs_from_end(epochs, 12) == epochs
    assert truncate_epochs_from_end(epochs, 6) == []


def test_the_start_of_a_log_moves_the_epoch_it_is_in() -> None:
    epochs = [EpochStart(2, 6), EpochStart(3, 8), EpochStart(4, 11)]
    assert truncate_epochs_from_start(epochs, 8) == [EpochStart(3, 8), EpochStart(4, 11)]
    assert truncate_epochs_from_start(epochs, 7) == [EpochStart(2, 7), *epochs[1:]]
    assert truncate_epochs_from_start(epochs, 10) == [EpochStart(3, 10), EpochStart(4, 11)]
    assert truncate_epochs_from_start(epochs, 15) == [EpochStart(4, 15)]
    assert truncate_epochs_from_start(epochs, 1) == epochs


@pytest.mark.parametrize(
    ("epochs", "count"),
    [
        ([EpochStart(0, 0), EpochStart(2, 5)], 0),
        ([EpochStart(2, 0), EpochStart(1, 5)], 1),
        ([EpochStart(1, 5), EpochStart(2, 5)], 1),
        ([EpochStart(-1, 0)], 1),
    ],
)
def test_epochs_and_their_offsets_rise(epochs: list[EpochStart], count: int) -> None:
    assert len(list(check_leader_epochs(epochs, "f"))) == count
