"""The transactions of logs as rows: each partition, what is open in it, and what has ended."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ottla.catalog.chosen import ChosenLogs
from ottla.catalog.logs import Log
from ottla.errors import Row, Violation
from ottla.format.attributes import ControlType
from ottla.format.names import HIGH_WATERMARK_CHECKPOINT, TopicPartition
from ottla.format.sentinels import NO_OFFSET
from ottla.jobs.verify.transactions import PartitionTransactions, read_transactions
from ottla.kernels.producers.state import Completed
from ottla.log.files.partition import Partition, read_checkpoint
from ottla.rules.producers.transactions import Open, Transactions, is_hanging


@dataclass(frozen=True, slots=True)
class TransactionQuery:
    """What is asked: an open transaction hangs when its producer was silent for `timeout_ms`.

    Those that ended have rows only if `with_completed`.
    """

    now: int
    timeout_ms: int
    with_completed: bool


def transaction_rows(
    chosen: ChosenLogs, query: TransactionQuery, problems: list[Violation]
) -> Iterator[Row]:
    """Rows of each partition in turn; what stood in the way is added to `problems`."""
    for directory in chosen.catalog.directories:
        watermarks = read_checkpoint(directory, HIGH_WATERMARK_CHECKPOINT, chosen.storage)
        for partition in chosen.of(directory):
            if partition.segments:
                start = chosen.bounds_of(Log(partition)).start
                found = read_transactions(partition, from_offset=start, storage=chosen.storage)
                problems += found.problems
                yield from _partition_rows(partition, found, watermarks, query)


def _partition_rows(
    partition: Partition,
    found: PartitionTransactions,
    watermarks: Mapping[TopicPartition, int],
    query: TransactionQuery,
) -> Iterator[Row]:
    name = partition.name
    names: Row = {"topic": name.topic, "partition": name.partition, "path": partition.path}
    transactions = found.transactions
    watermark = watermarks.get(name)
    open_ones, completed = transactions.open(), transactions.completed()
    hanging = is_hanging(open_ones, query.now, query.timeout_ms)
    stable = transactions.last_stable_offset(watermark)
    yield {
        "type": "partition",
        **names,
        "startOffset": found.start_offset,
        "endOffset": transactions.end_offset,
        "highWatermark": watermark,
        "lastStableOffset": stable,
        "heldBackBy": _held_back_by(transactions, stable),
        **_summary(completed),
        "open": int(open_ones.first_offset.size),
        "hanging": int(hanging.sum()),
    }
    for row in range(open_ones.first_offset.size):
        yield {
            "type": "open",
            **names,
            **_open(open_ones, row, bool(hanging[row]), query.now, stable),
            "heldBack": transactions.end_offset - int(open_ones.first_offset[row]),
        }
    if query.with_completed:
        for row in range(completed.last_offset.size):
            yield {"type": _outcome(completed, row), **names, **_ended(completed, row)}


def _held_back_by(transactions: Transactions, stable: int) -> str | None:
    """What ends the stable part before the log ends; a checkpoint may be older than the log."""
    if stable >= transactions.end_offset:
        return None
    return "highWatermark" if transactions.last_stable_offset() > stable else "transaction"


def _summary(completed: Completed) -> Row:
    """Counts by outcome; durations and sizes of those that wrote something."""
    wrote = completed.first_offset != NO_OFFSET
    aborted = completed.control_type == ControlType.ABORT
    duration = (completed.timestamp - completed.first_timestamp)[wrote]
    size = completed.size[wrote]
    return {
        "committed": int((wrote & ~aborted).sum()),
        "aborted": int((wrote & aborted).sum()),
        "empty": int((~wrote).sum()),
        "durationMs": _spread(duration),
        "bytes": _spread(size),
        "records": _spread(completed.records[wrote]),
    }


def _spread(values: Any) -> Row | None:
    if not values.size:
        return None
    return {
        "median": int(np.median(values)),
        "p99": int(np.percentile(values, 99)),
        "max": int(values.max()),
    }


def _open(open_ones: Open, row: int, hanging: bool, now: int, stable: int) -> Row:
    first = int(open_ones.first_offset[row])
    return {
        "producerId": int(open_ones.producer_id[row]),
        "producerEpoch": int(open_ones.producer_epoch[row]),
        "coordinatorEpoch": int(open_ones.coordinator_epoch[row]),
        "firstOffset": first,
        "lastOffset": int(open_ones.last_offset[row]),
        "firstTimestamp": int(open_ones.first_timestamp[row]),
        "lastTimestamp": int(open_ones.last_timestamp[row]),
        "silentMs": now - int(open_ones.last_timestamp[row]),
        "batches": int(open_ones.batches[row]),
        "records": int(open_ones.records[row]),
        "bytes": int(open_ones.size[row]),
        "hanging": hanging,
        "blocksLastStableOffset": first == stable,
    }


def _outcome(completed: Completed, row: int) -> str:
    if completed.first_offset[row] == NO_OFFSET:
        return "empty"
    return "aborted" if completed.control_type[row] == ControlType.ABORT else "committed"


def _ended(completed: Completed, row: int) -> Row:
    names = {
        "producerId": completed.producer_id,
        "producerEpoch": completed.producer_epoch,
        "coordinatorEpoch": completed.coordinator_epoch,
        "firstOffset": completed.first_offset,
        "lastOffset": completed.last_offset,
        "lastStableOffset": completed.last_stable_offset,
        "firstTimestamp": completed.first_timestamp,
        "timestamp": completed.timestamp,
        "batches": completed.batches,
        "records": completed.records,
        "bytes": completed.size,
    }
    return {name: int(column[row]) for name, column in names.items()}
