"""What a cleaner would do with a partition: what blocks it, and what a whole round would leave.

What it would take is judged as `ottla compact` judges it (`compact_survey`). The round is run, in
one task, not guessed: `rules.cleaning` on every window, and the bytes that stay counted. Its map of
keys has a limit, as Kafka's buffer has: behind it, records stay as they are.
"""

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ottla.catalog.logs import Log
from ottla.errors import CorruptLogError, Severity, UnsupportedError
from ottla.jobs.compact.survey import (
    CompactOptions,
    Headers,
    judge_headers,
    read_cleaner_checkpoint,
    walk_headers,
)
from ottla.log.files.checkpoints import TopicPartition
from ottla.log.files.partition import LogDirectory
from ottla.log.files.transaction_index import write_transaction_index
from ottla.log.read.segment import Window, read_windows
from ottla.rules.cleaner.cleanable import Cleanable, CleanerConfig
from ottla.rules.cleaner.cleaning import clean_window, learn_window, make_decoder
from ottla.rules.cleaner.compaction import Cleaner, KeyOffsets, Round, last_records
from ottla.rules.producers.transactions import Transactions, is_hanging, read_markers
from ottla.storage.files import open_file
from ottla.storage.object_store import StorageOptions

Row = dict[str, Any]

CLEANABILITY_SCHEMA: Final = pa.schema(
    [pa.field("log", pa.int32(), nullable=False), pa.field("row", pa.string(), nullable=False)]
)
MAX_KEYS: Final = 8 << 20
_AS_A_BROKER: Final = CompactOptions(config=CleanerConfig())
_WHOLE: Final = CompactOptions(config=CleanerConfig(), includes_active=True)
_MAX_TIMEOUT_MS: Final = 900_000  # transaction.max.timeout.ms of a broker


@dataclass(frozen=True, slots=True)
class CleaningPart:
    """A partition to judge; `runs` says whether its records are worth a round."""

    number: int
    log: Log
    checkpoint: int | None
    now: int
    runs: bool
    storage: StorageOptions

    @property
    def size(self) -> int:
        return sum(segment.log.size for segment in self.log.partition.segments)


def plan_cleaning(
    logs: Sequence[Log],
    keyed: Sequence[bool],
    directories: Sequence[LogDirectory],
    now: int,
    storage: StorageOptions,
) -> list[CleaningPart]:
    """Every log; a round is run on those of which records have keys."""
    points: dict[TopicPartition, int] = {}
    for directory in directories:
        points |= _cleaner_points(directory, storage)
    return [
        CleaningPart(
            number,
            log,
            None if log.name is None else points.get(log.name),
            now,
            keyed[number],
            storage,
        )
        for number, log in enumerate(logs)
    ]


def _cleaner_points(
    directory: LogDirectory, storage: StorageOptions
) -> Mapping[TopicPartition, int]:
    """How far each log was cleaned; a broken file says nothing, as to a broker."""
    try:
        return read_cleaner_checkpoint(directory, storage)
    except CorruptLogError:
        return {}


def judge_cleaning(part: CleaningPart) -> Iterator[pa.RecordBatch]:
    """A row of JSON: open transactions, dirty ratio, obstacles, and what a round would leave."""
    seen = walk_headers(part.log, part.storage)
    row = _transactions(seen.transactions, part.now)
    if part.log.partition.segments:
        row |= _broker_view(part, seen)
        row |= _run_round(part, seen)
    columns = [pa.array([part.number], pa.int32()), pa.array([json.dumps(row, default=int)])]
    yield pa.RecordBatch.from_arrays(columns, schema=CLEANABILITY_SCHEMA)


def _transactions(transactions: Transactions, now: int) -> Row:
    ones = transactions.open()
    hanging = is_hanging(ones, now, _MAX_TIMEOUT_MS)
    return {
        "endOffset": transactions.end_offset,
        "lastStableOffset": transactions.last_stable_offset(),
        "aborted": write_transaction_index(transactions.aborted()).hex(),
        "open": [
            {
                "producerId": ones.producer_id[row],
                "producerEpoch": ones.producer_epoch[row],
                "firstOffset": ones.first_offset[row],
                "lastTimestamp": ones.last_timestamp[row],
                "hanging": bool(hanging[row]),
            }
            for row in range(ones.first_offset.size)
        ],
    }


def _broker_view(part: CleaningPart, headers: Headers) -> Row:
    """As a broker sees it, that never cleans the segment it writes to."""
    seen = judge_headers(part.log, headers, part.checkpoint, part.now, _AS_A_BROKER)
    return {
        "dirtyRatio": round(seen.dirty_ratio, 4),
        "cleanableBytes": seen.cleanable_size,
        "chosen": seen.is_chosen,
        "obstacles": [obstacle._asdict() for obstacle in seen.obstacles],
    }


def _run_round(part: CleaningPart, headers: Headers) -> Row:
    """Clean everything up to the last stable offset, the active segment too."""
    row: Row = {"distinctKeys": None, "remainingBytes": None, "stoppedBy": None, "keysFull": False}
    if not part.runs:
        return row
    round_ = judge_headers(part.log, headers, part.checkpoint, part.now, _WHOLE)
    transactions = headers.transactions
    secret = np.frombuffer(secrets.token_bytes(16), dtype=np.uint64)
    offsets = KeyOffsets(secret, MAX_KEYS)
    try:
        _learn(part, transactions, round_, offsets)
        remaining = _clean(part, transactions, round_, offsets)
    except (CorruptLogError, UnsupportedError) as error:
        # Kafka's cleaner thread ends here too.
        row["stoppedBy"] = str(error)
        return row
    return row | {
        "distinctKeys": offsets.count,
        "remainingBytes": remaining,
        "keysFull": offsets.is_full,
    }


def _learn(
    part: CleaningPart, transactions: Transactions, round_: Cleanable, offsets: KeyOffsets
) -> None:
    decoder, aborted = make_decoder(), transactions.aborted()
    for window in _windows(part, round_.first_uncleanable_offset):
        learn_window(
            offsets, decoder, window.region, window.batches, aborted, round_.first_dirty_offset
        )
    offsets.advance(round_.first_uncleanable_offset - 1)


def _clean(
    part: CleaningPart, transactions: Transactions, round_: Cleanable, offsets: KeyOffsets
) -> int:
    """The bytes that stay of the partition."""
    bound = round_.first_uncleanable_offset
    told = Round(bound, part.now, _WHOLE.config.delete_retention_ms)
    cleaner = Cleaner(told, offsets, transactions.aborted(), last_records(transactions.state))
    decoder = make_decoder()
    read = stays = 0
    for window in _windows(part, bound):
        markers = read_markers(window.region, window.batches)
        cleaned = clean_window(cleaner, decoder, window.region, window.batches, markers)
        read += int(window.batches.size.sum())
        stays += cleaned.written.size
    return part.size - read + stays


def _windows(part: CleaningPart, bound: int) -> Iterator[Window]:
    """The segments below an offset at which one begins, or with which the log ends."""
    for segment in part.log.partition.segments:
        if segment.base_offset >= bound:
            return
        with open_file(segment.log, part.storage) as file:
            for window in read_windows(file):
                broken = window.violation
                if broken is not None and broken.rule.severity is Severity.ERROR:
                    raise CorruptLogError(broken)
                yield window
