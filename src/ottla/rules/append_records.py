"""The records of an append: decoded, and judged one by one (LogValidator.validateRecord)."""

from collections.abc import Iterator

import numpy as np

from ottla.batch.decode import Decoder
from ottla.batch.records import Reused, decode_whole
from ottla.errors import Rule, Violation
from ottla.format.attributes import TimestampType
from ottla.kernels import append as kernels
from ottla.kernels.tables import Batches, Int64s, RecordBuffers
from ottla.region import Bytes, Region
from ottla.rules.append_checks import CURRENT_MAGIC, AppendPolicy, check_batch, violation
from ottla.rules.producer import Origin

_BROKEN = {
    kernels.OTHER_MAGIC: (Rule.APPEND_RECORD_MAGIC, "the message's magic is not its wrapper's"),
    kernels.NO_KEY: (Rule.APPEND_KEY, "a compacted topic takes no record without a key"),
    kernels.FAR_FROM_NOW: (Rule.APPEND_TIMESTAMP, "the timestamp is too far from now"),
    kernels.CLAIMED_TIME: (Rule.APPEND_TIMESTAMP_TYPE, "a producer must not claim append time"),
}


class Decoders(dict[int, Decoder]):
    """Decoders by what they give of a record; their memory serves one append after another."""

    def __missing__(self, wanted: int) -> Decoder:
        self[wanted] = Decoder(wanted, allocate=Reused())
        return self[wanted]


def validate(
    region: Region,
    batches: Batches,
    now: int,
    origin: Origin,
    policy: AppendPolicy,
    decoder: Decoder,
) -> tuple[RecordBuffers, Int64s, tuple[Violation, ...]]:
    """All records, how many each batch has, and what the first bad batch did wrong."""
    records, rows = decode_whole(decoder, region, batches)
    verdicts = np.zeros(records.offset.size, dtype=np.uint8)
    if batches.magic[0] < CURRENT_MAGIC:
        kernels.mark_other_magic(decoder.arena.data, batches, decoder.payloads, verdicts)
    refused = kernels.judge_records(
        batches.magic,
        batches.attributes,
        rows,
        records.timestamp,
        records.key_valid,
        policy.is_compacted,
        policy.timestamp_type == TimestampType.CREATE_TIME,
        (now, policy.timestamp_before_max_ms, policy.timestamp_after_max_ms),
        verdicts,
    )
    broken = {each.row: each.violation for each in reversed(decoder.broken)}
    for row in range(batches.position.size):
        for found in check_batch(region, batches, row, origin, policy.magic):
            return records, rows, (found,)
        if row in broken:
            return records, rows, (broken[row],)
        if refused:
            named = tuple(_name(region, batches, row, rows, records.timestamp, verdicts))
            if named:
                return records, rows, named
    return records, rows, ()


def _name(
    region: Region, batches: Batches, row: int, rows: Int64s, timestamps: Int64s, verdicts: Bytes
) -> Iterator[Violation]:
    """The violations of a batch's records, one for each bad record."""
    first = int(rows[:row].sum())
    for at in np.flatnonzero(verdicts[first : first + rows[row]]).tolist():
        verdict = int(verdicts[first + at])
        rule, detail = _BROKEN[verdict]
        value = int(timestamps[first + at]) if verdict == kernels.FAR_FROM_NOW else None
        yield violation(region, batches, row, rule, f"record {at}: {detail}", value)
