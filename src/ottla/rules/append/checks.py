"""What a broker checks of an append, before it changes anything.

Mirrors ProduceRequest, UnifiedLog.analyzeAndValidateRecords and LogValidator.validateBatch. What is
wrong is found for all batches at once (`validate_headers`), and named for one of them (`check_*`);
`ottla.rules.append.accept` says in which order.
"""

from collections.abc import Iterator

import numpy as np

from ottla.batch.attributes import codec_ids, is_transactional
from ottla.batch.new_batch import CURRENT_MAGIC
from ottla.errors import Rule, Violation
from ottla.format.arrays import Bools
from ottla.format.attributes import Codec
from ottla.format.sentinels import (
    NO_OFFSET,
    NO_PRODUCER_ID,
)
from ottla.kernels.records import append as kernels
from ottla.kernels.records.append import HeaderVerdicts, Limits
from ottla.kernels.tables import Batches, Int64s
from ottla.region import Region
from ottla.rules.append.policy import ZSTD_PRODUCE_VERSION as ZSTD_PRODUCE_VERSION
from ottla.rules.append.policy import AppendPolicy as AppendPolicy
from ottla.rules.producers.producer import Origin

ASSIGNS_OFFSETS = (Origin.CLIENT, Origin.COORDINATOR)  # the others bring theirs


def violation(
    region: Region,
    batches: Batches,
    row: int,
    rule: Rule,
    detail: str,
    found: object = None,
    expected: object = None,
) -> Violation:
    """A broken rule of the batch in `row`."""
    base = int(batches.base_offset[row])
    return region.violation(
        rule,
        detail,
        at=int(batches.position[row]) - region.position,
        size=int(batches.size[row]),
        offset=None if base == NO_OFFSET and batches.magic[row] < CURRENT_MAGIC else base,
        last_offset=int(batches.last_offset[row]),
        found=None if found is None else str(found),
        expected=None if expected is None else str(expected),
    )


def find_refused_requests(batches: Batches, version: int = ZSTD_PRODUCE_VERSION) -> Bools:
    """Which batches no produce request since version 3 may bring alone (ProduceRequest)."""
    zstd = codec_ids(batches) == Codec.ZSTD
    refused: Bools = batches.magic != CURRENT_MAGIC
    return refused | zstd if version < ZSTD_PRODUCE_VERSION else refused


def check_request(
    region: Region, batches: Batches, version: int = ZSTD_PRODUCE_VERSION
) -> Iterator[Violation]:
    """One batch of magic 2, as every produce request since version 3 (ProduceRequest)."""
    if batches.position.size != 1:
        detail = "a produce request has exactly one batch for a partition"
        yield region.violation(
            Rule.APPEND_BATCHES, detail, at=0, found=str(batches.position.size), expected="1"
        )
    elif batches.magic[0] != CURRENT_MAGIC:
        detail = "clients write magic 2"
        yield violation(region, batches, 0, Rule.APPEND_MAGIC, detail, batches.magic[0], 2)
    elif find_refused_requests(batches, version)[0]:
        detail = "produce requests know zstd"
        expected = f"at least version {ZSTD_PRODUCE_VERSION}"
        yield violation(region, batches, 0, Rule.APPEND_CODEC, detail, version, expected)


def validate_headers(batches: Batches, origin: Origin, policy: AppendPolicy) -> HeaderVerdicts:
    """What is wrong with batches by their headers, and what becomes of their bytes."""
    headers = allocate_headers(batches.position.size)
    # Numba takes ten times as long to recognise an enum as to do the work.
    kernels.validate_headers(batches, int(origin), limits_of(policy), headers)
    return headers


def allocate_headers(count: int) -> HeaderVerdicts:
    """Room for what headers say."""
    flags = np.empty((2, count), dtype=np.bool_)
    return HeaderVerdicts(np.empty(count, dtype=np.int64), flags[0], flags[1])


def limits_of(policy: AppendPolicy) -> Limits:
    """The settings that headers are validated by."""
    codec = -1 if policy.compression_type is None else int(policy.compression_type)
    return Limits(
        policy.magic, codec, policy.leader_epoch, policy.max_message_bytes, policy.segment_bytes
    )


def check_set(
    region: Region,
    batches: Batches,
    flaws: Int64s,
    origin: Origin,
    next_offset: int,
    policy: AppendPolicy,
) -> Iterator[Violation]:
    """Every batch in order, as analyzeAndValidateRecords looks at them."""
    for row in np.flatnonzero(flaws & kernels.SET_FLAWS).tolist()[:1]:
        found = int(flaws[row])
        if found & kernels.OTHER_LEADER_EPOCH:
            epoch = batches.partition_leader_epoch[row]
            detail = "the leader epoch is not the one of the log"
            yield violation(
                region, batches, row, Rule.APPEND_LEADER_EPOCH, detail, epoch, policy.leader_epoch
            )
        elif found & kernels.BASE_OFFSET_NOT_ZERO:
            detail = "a client's batch begins at offset 0"
            base = batches.base_offset[row]
            yield violation(region, batches, row, Rule.APPEND_BASE_OFFSET, detail, base, 0)
        elif found & kernels.OVER_MAX_MESSAGE_BYTES:
            limit = f"at most {policy.max_message_bytes}"
            detail = "larger than max.message.bytes"
            yield violation(
                region, batches, row, Rule.APPEND_BATCH_SIZE, detail, batches.size[row], limit
            )
        else:
            yield violation(
                region,
                batches,
                row,
                Rule.CRC_MATCHES,
                "the CRC does not match the bytes",
                f"{batches.computed_crc[row]:#010x}",
                f"{batches.crc[row]:#010x}",
            )
        return
    if origin not in ASSIGNS_OFFSETS:
        yield from _check_offsets(region, batches, next_offset)


def _check_offsets(region: Region, batches: Batches, next_offset: int) -> Iterator[Violation]:
    """Offsets that are taken as they come."""
    for row in (1 + np.flatnonzero(np.diff(batches.last_offset) <= 0)).tolist()[:1]:
        yield violation(
            region,
            batches,
            row,
            Rule.APPEND_OFFSETS_RISE,
            "the last offset is not above the one before",
            batches.last_offset[row],
            f"above {batches.last_offset[row - 1]}",
        )
        return
    if batches.position.size:
        legacy = batches.magic[0] < CURRENT_MAGIC
        first = int((batches.last_offset if legacy else batches.base_offset)[0])
        if first < next_offset:
            detail = "the log has this offset already"
            yield violation(
                region, batches, 0, Rule.APPEND_OFFSET, detail, first, f"at least {next_offset}"
            )


def check_sizes(region: Region, batches: Batches, policy: AppendPolicy) -> Iterator[Violation]:
    """What was encoded again is measured again."""
    for row in np.flatnonzero(batches.size > policy.max_message_bytes).tolist()[:1]:
        detail = "larger than max.message.bytes as the topic would store it"
        limit = f"at most {policy.max_message_bytes}"
        yield violation(
            region, batches, row, Rule.APPEND_BATCH_SIZE, detail, batches.size[row], limit
        )


def check_batch_counts(region: Region, batches: Batches, source_codec: int) -> Iterator[Violation]:
    """Only uncompressed messages of magic 0 and 1 may come in numbers."""
    single = batches.magic[0] >= CURRENT_MAGIC or source_codec != Codec.NONE
    if single and batches.position.size > 1:
        detail = "more than one batch"
        yield violation(region, batches, 1, Rule.APPEND_BATCHES, detail, batches.position.size, 1)


def check_batch(
    region: Region, batches: Batches, row: int, flaws: Int64s, to_magic: int
) -> Iterator[Violation]:
    """LogValidator.validateBatch; the first violation counts."""
    found, first = int(batches.magic[row]), int(batches.magic[0])
    if found != first:
        detail = "the magic differs from the first batch's"
        yield violation(region, batches, row, Rule.APPEND_MAGIC, detail, found, first)
    if flaws[row] & kernels.COUNT_DIFFERS:
        detail, count = "count and offsets disagree", int(batches.count[row])
        covered = int(batches.last_offset[row]) - int(batches.base_offset[row]) + 1
        expected = f"{covered} offsets"
        yield violation(region, batches, row, Rule.APPEND_RECORD_COUNT, detail, count, expected)
    if flaws[row] & kernels.CONTROL_FROM_CLIENT:
        detail = "clients do not write control batches"
        yield violation(region, batches, row, Rule.APPEND_CONTROL, detail)
    if flaws[row] & kernels.PRODUCER_WITHOUT_SEQUENCE:
        detail, sequence = "a producer id without a sequence", int(batches.base_sequence[row])
        yield violation(region, batches, row, Rule.APPEND_SEQUENCE, detail, sequence)
    if flaws[row] & kernels.PRODUCER_IN_OLD_FORMAT:
        detail = f"magic {to_magic} has no producer state"
        kind = "transactional" if is_transactional(batches)[row] else "idempotent"
        yield violation(region, batches, row, Rule.APPEND_FORMAT, detail, kind)


def check_encodable(
    region: Region, batches: Batches, flaws: Int64s, target: int, policy: AppendPolicy
) -> Iterator[Violation]:
    """What Kafka's own builder throws at (MemoryRecordsBuilder)."""
    if target == Codec.ZSTD and policy.magic < CURRENT_MAGIC:
        yield violation(region, batches, 0, Rule.APPEND_CODEC, "zstd needs magic 2")
    if flaws[0] & kernels.CONTROL_NOT_ENCODABLE:
        # LogValidator does not hand the control flag on.
        detail = "a control batch cannot be encoded again"
        yield violation(region, batches, 0, Rule.APPEND_CONTROL, detail)
    if policy.magic < CURRENT_MAGIC and batches.producer_id[0] != NO_PRODUCER_ID:
        detail, producer_id = f"magic {policy.magic} has no producers", int(batches.producer_id[0])
        yield violation(region, batches, 0, Rule.APPEND_FORMAT, detail, producer_id)
    if flaws[0] & kernels.TRANSACTION_WITHOUT_PRODUCER:
        detail = "a transactional batch without a producer id cannot be encoded again"
        yield violation(region, batches, 0, Rule.APPEND_SEQUENCE, detail)
    if flaws[0] & kernels.PRODUCER_WITHOUT_STATE:
        detail = "a producer id without epoch or sequence cannot be encoded again"
        sequence = int(batches.base_sequence[0])
        yield violation(region, batches, 0, Rule.APPEND_SEQUENCE, detail, sequence)


def source_codec_of(batches: Batches) -> int:
    """The codec of the last batch that has one."""
    codecs = codec_ids(batches)
    compressed = codecs[codecs != Codec.NONE]
    return int(compressed[-1]) if compressed.size else int(Codec.NONE)
