"""The transaction index (`.txnindex`): transactions whose abort marker lies in the segment."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from ottla.errors import Rule, Violation
from ottla.format.attributes import ControlType
from ottla.format.layout import TRANSACTION_INDEX_ENTRY
from ottla.format.sentinels import NO_OFFSET
from ottla.kernels.producers.state import Completed
from ottla.log.files.index_file import Entries, read_entries, rows_that_do_not_rise

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
    entries: Entries, completed: Completed, file: str
) -> Iterator[Violation]:
    """What an index says of transactions that is not so; `completed` are those of its segment.

    The cleaner takes records away and keeps the marker and the entry while any batch is left: a
    transaction may begin later in the log than in the index, or be empty there.
    """
    rows = np.flatnonzero(completed.control_type == ControlType.ABORT)
    columns = (completed.producer_id, completed.last_offset, completed.first_offset)
    aborts = {
        (producer_id, last): first
        for producer_id, last, first in zip(
            *(column[rows].tolist() for column in columns), strict=True
        )
    }
    for entry in entries:
        key = int(entry["producer_id"]), int(entry["last_offset"])
        first, stored = aborts.pop(key, None), int(entry["first_offset"])
        if first is None:
            yield _differs(*key, stored, file, "no abort marker in the log")
        elif first != NO_OFFSET and first < stored:
            yield _differs(*key, stored, file, f"in the log it begins at {first}")
    for key, first in aborts.items():
        if first != NO_OFFSET:
            why = "not in the index, and consumers that read committed records get its records"
            yield _differs(*key, first, file, why)


def _differs(producer_id: int, last: int, first: int, file: str, detail: str) -> Violation:
    return Violation(
        Rule.TRANSACTION_INDEX_LOG,
        f"an aborted transaction of producer {producer_id}: {detail}",
        file,
        position=0,
        offset=first,
        last_offset=last,
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
