"""The records of an append: decoded, and validated one by one (LogValidator.validateRecord)."""

from collections.abc import Iterator

import numpy as np

from ottla.batch.decode import Decoder
from ottla.batch.new_batch import CURRENT_MAGIC
from ottla.batch.records import Decoded, Reused, decode_whole
from ottla.errors import Rule, Violation
from ottla.format.attributes import TimestampType
from ottla.kernels.records import append as kernels
from ottla.kernels.records.append import HeaderVerdicts, RecordLimits, RecordVerdicts
from ottla.kernels.tables import Batches, Int64s, Wanted
from ottla.region import Bytes, Region
from ottla.rules.append.checks import (
    AppendPolicy,
    allocate_headers,
    check_batch,
    limits_of,
    violation,
)
from ottla.rules.producers.producer import Origin

EVERYTHING = Wanted.CONTROL | Wanted.KEYS | Wanted.VALUES | Wanted.HEADERS

_BROKEN = {
    kernels.OTHER_MAGIC: (Rule.APPEND_RECORD_MAGIC, "the message's magic is not its wrapper's"),
    kernels.KEY_MISSING: (Rule.APPEND_KEY, "a compacted topic takes no record without a key"),
    kernels.TIMESTAMP_FAR_FROM_NOW: (Rule.APPEND_TIMESTAMP, "the timestamp is too far from now"),
    kernels.APPEND_TIME_FROM_CLIENT: (
        Rule.APPEND_TIMESTAMP_TYPE,
        "a producer must not claim append time",
    ),
}


class AppendDecoders(dict[Wanted, Decoder]):
    """Decoders by what they give of a record; their memory serves one append after another."""

    def __missing__(self, wanted: Wanted) -> Decoder:
        self[wanted] = Decoder(wanted, allocate=Reused())
        return self[wanted]


def wanted_in_place(policy: AppendPolicy) -> Wanted:
    """What is looked at of records whose bytes stay."""
    return Wanted.CONTROL | Wanted.KEYS if policy.is_compacted else Wanted.CONTROL


def validate(
    region: Region,
    batches: Batches,
    headers: HeaderVerdicts,
    now: int,
    policy: AppendPolicy,
    decoder: Decoder,
) -> tuple[Decoded, RecordVerdicts, tuple[Violation, ...]]:
    """All records, what was seen of them, and what the first bad batch did wrong."""
    _, decoded, left_out = decode_whole(decoder, region, batches)
    records, rows = decoded
    verdicts = np.zeros(records.offset.size, dtype=np.uint8)
    if batches.magic[0] < CURRENT_MAGIC:
        kernels.mark_other_magic(decoder.arena.data, batches, decoder.payloads, verdicts)
    seen = _validate_records(batches, headers, decoded, now, policy, verdicts)
    broken = {found.row: found.violation for found in reversed(left_out)}
    for row in range(batches.position.size):
        for found in check_batch(region, batches, row, headers.flaws, policy.magic):
            return decoded, seen, (found,)
        if row in broken:
            return decoded, seen, (broken[row],)
        if seen.refused[row]:
            named = _name(region, batches, row, rows, records.timestamp, verdicts)
            return decoded, seen, tuple(named)
    return decoded, seen, ()


def _validate_records(
    batches: Batches,
    headers: HeaderVerdicts,
    decoded: Decoded,
    now: int,
    policy: AppendPolicy,
    verdicts: Bytes,
) -> RecordVerdicts:
    """Say what is wrong with each record, and what was seen of each batch."""
    records, rows = decoded
    seen = _allocate_seen(rows.size)
    kernels.validate_records(
        batches,
        headers,
        rows,
        records.offset,
        records.timestamp,
        records.key_valid,
        _record_limits(now, policy),
        verdicts,
        seen,
    )
    return seen


def _record_limits(now: int, policy: AppendPolicy) -> RecordLimits:
    return RecordLimits(
        policy.is_compacted,
        policy.timestamp_type == TimestampType.CREATE_TIME,
        now,
        policy.timestamp_before_max_ms,
        policy.timestamp_after_max_ms,
    )


def validate_appends(
    batches: Batches, decoded: Decoded, now: int, origin: Origin, policy: AppendPolicy
) -> tuple[HeaderVerdicts, RecordVerdicts]:
    """What headers and records of batches of magic 2 say, each an append of its own."""
    records, rows = decoded
    headers, seen = allocate_headers(rows.size), _allocate_seen(rows.size)
    kernels.validate_appends(
        batches,
        int(origin),
        limits_of(policy),
        rows,
        records.offset,
        records.timestamp,
        records.key_valid,
        _record_limits(now, policy),
        np.zeros(records.offset.size, dtype=np.uint8),
        headers,
        seen,
    )
    return headers, seen


def _allocate_seen(count: int) -> RecordVerdicts:
    newest, refused = np.empty((2, count), dtype=np.int64)
    sequential = np.empty(count, dtype=np.bool_)
    return RecordVerdicts(newest, sequential, refused, np.empty(count, dtype=np.uint8))


def _name(
    region: Region, batches: Batches, row: int, rows: Int64s, timestamps: Int64s, verdicts: Bytes
) -> Iterator[Violation]:
    """The violations of a batch's records, one for each bad record."""
    first = int(rows[:row].sum())
    for at in np.flatnonzero(verdicts[first : first + rows[row]]).tolist():
        verdict = int(verdicts[first + at])
        rule, detail = _BROKEN[verdict]
        value = int(timestamps[first + at]) if verdict == kernels.TIMESTAMP_FAR_FROM_NOW else None
        yield violation(region, batches, row, rule, f"record {at}: {detail}", value)
