"""The transaction index (`.txnindex`): transactions whose abort marker lies in the segment."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from ottla.errors import Rule, Violation
from ottla.format.layout import TRANSACTION_INDEX_ENTRY
from ottla.log.index_file import Entries, read_entries, rows_that_do_not_rise

CURRENT_VERSION: Final = 0


def read_transaction_index(data: bytes) -> Entries:
    """Aborted transactions in order of their markers; Kafka ignores a partial last entry too."""
    return read_entries(data, TRANSACTION_INDEX_ENTRY)


def write_transaction_index(entries: Entries) -> bytes:
    """The bytes of a transaction index; without entries a broker makes no file."""
    return np.ascontiguousarray(entries, dtype=TRANSACTION_INDEX_ENTRY).tobytes()


def aborted_transactions(rows: list[tuple[int, int, int, int]]) -> Entries:
    """Entries from (producer id, first offset, last offset, last stable offset)."""
    return np.array([(CURRENT_VERSION, *row) for row in rows], dtype=TRANSACTION_INDEX_ENTRY)


def collect_aborted(entries: Entries, fetch_offset: int, upper_bound: int) -> tuple[Entries, bool]:
    """Transactions that touch [fetch_offset, upper_bound), and whether later segments need no look.

    TransactionIndex.collectAbortedTxns: an entry whose last stable offset is at or past the bound
    says that every transaction which began before it has ended.
    """
    ends = np.flatnonzero(entries["last_stable_offset"] >= upper_bound)
    seen = entries[: int(ends[0]) + 1] if ends.size else entries
    touches = (seen["last_offset"] >= fetch_offset) & (seen["first_offset"] < upper_bound)
    return seen[touches], bool(ends.size)


def truncate_transaction_index(entries: Entries, offset: int) -> Entries:
    """Entries before the first whose marker is at or past `offset` (truncateTo)."""
    past = np.flatnonzero(entries["last_offset"] >= offset)
    return entries[: int(past[0])] if past.size else entries


def check_transaction_index(data: bytes, base_offset: int, file: str) -> Iterator[Violation]:
    """What is wrong with an index whatever its log says."""
    entries = read_transaction_index(data)
    excess = len(data) - entries.nbytes
    if excess:
        yield Violation(
            Rule.INDEX_SIZE, "a partial last entry", file, position=entries.nbytes, size=excess
        )
    # Kafka looks at the high byte only (AbortedTxn.version); a low byte was never written either.
    for row in np.flatnonzero(entries["version"] != CURRENT_VERSION):
        yield _broken(entries, int(row), file, Rule.TRANSACTION_INDEX_VERSION, "an unknown version")
    for row in np.flatnonzero(entries["last_offset"] < base_offset):
        detail = "a marker below the segment's base"
        yield _broken(entries, int(row), file, Rule.INDEX_OFFSET_RANGE, detail)
    for row in np.flatnonzero(entries["first_offset"] > entries["last_offset"]):
        detail = "a transaction that ends before it begins"
        yield _broken(entries, int(row), file, Rule.TRANSACTION_INDEX_ORDER, detail)
    for row in rows_that_do_not_rise(entries["last_offset"].astype(np.int64)):
        detail = "a marker not above the one before"
        yield _broken(entries, int(row), file, Rule.TRANSACTION_INDEX_ORDER, detail)


def check_transaction_index_against(
    entries: Entries, expected: Entries, file: str
) -> Iterator[Violation]:
    """Where an index differs from the one that the log gives."""
    fields = ("producer_id", "first_offset", "last_offset")
    found = {tuple(int(row[field]) for field in fields): row for row in entries}
    wanted = {tuple(int(row[field]) for field in fields): row for row in expected}
    for key, row in found.items():
        if key not in wanted:
            yield _differs(row, file, "the log has no such aborted transaction")
    for key, row in wanted.items():
        if key not in found:
            yield _differs(row, file, "an aborted transaction of the log is missing")


def _differs(row: np.void, file: str, detail: str) -> Violation:
    return Violation(
        Rule.TRANSACTION_INDEX_LOG,
        f"{detail}: producer {row['producer_id']}",
        file,
        position=0,
        offset=int(row["first_offset"]),
        last_offset=int(row["last_offset"]),
    )


def _broken(entries: Entries, row: int, file: str, rule: Rule, detail: str) -> Violation:
    entry = entries[row]
    return Violation(
        rule,
        detail,
        file,
        position=row * TRANSACTION_INDEX_ENTRY.itemsize,
        size=TRANSACTION_INDEX_ENTRY.itemsize,
        offset=int(entry["first_offset"]),
        last_offset=int(entry["last_offset"]),
        found=f"version {entry['version']}, producer {entry['producer_id']}",
    )
