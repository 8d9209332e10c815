"""Bytes worked out from kafka-facts 7 and the cases of TransactionIndexTest."""

import pytest

from ottla.errors import Rule
from ottla.log.files.transaction_index import (
    aborted_transactions,
    check_transaction_index,
    read_transaction_index,
    write_transaction_index,
)

# version, producer id, first offset, last offset, last stable offset
DATA = bytes.fromhex(
    "0000 000000000000000a 0000000000000001 0000000000000007 0000000000000008"
    "0000 00000000000003e8 0000000000000003 000000000000000c 000000000000000d"
)
ROWS = [(0, 0, 10, 11), (1, 5, 15, 13), (2, 18, 35, 25), (3, 32, 50, 40)]


def test_entries_are_thirty_four_bytes_and_written_back() -> None:
    found = read_transaction_index(DATA)
    assert found.tolist() == [(0, 10, 1, 7, 8), (0, 1000, 3, 12, 13)]
    assert write_transaction_index(found) == DATA
    assert write_transaction_index(aborted_transactions([(10, 1, 7, 8), (1000, 3, 12, 13)])) == DATA


def test_a_partial_last_entry_is_ignored_when_reading() -> None:
    assert read_transaction_index(DATA[:-1]).size == 1


@pytest.mark.parametrize(
    ("data", "base", "broken"),
    [
        pytest.param(DATA, 7, [], id="sound"),
        pytest.param(DATA, 8, [Rule.INDEX_OFFSET_RANGE], id="marker-below-base"),
        pytest.param(DATA[:-1], 0, [Rule.INDEX_SIZE], id="partial"),
        pytest.param(b"\x01" + DATA[1:], 0, [Rule.TRANSACTION_INDEX_VERSION], id="version"),
        pytest.param(DATA[34:] + DATA[:34], 0, [Rule.TRANSACTION_INDEX_ORDER], id="markers-fall"),
        pytest.param(
            write_transaction_index(aborted_transactions([(1, 9, 8, 10)])),
            0,
            [Rule.TRANSACTION_INDEX_ORDER],
            id="ends-before-it-begins",
        ),
    ],
)
def test_an_index_is_checked_by_itself(data: bytes, base: int, broken: list[Rule]) -> None:
    assert [violation.rule for violation in check_transaction_index(data, base, "f")] == broken
