"""What a broker checks of an append, before it changes anything.

Mirrors ProduceRequest, UnifiedLog.analyzeAndValidateRecords and LogValidator.validateBatch. Each
check gives a violation; `ottla.rules.append` says in which order they count.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ottla.batch.attributes import codec_ids
from ottla.batch.new_batch import INT64_MAX
from ottla.errors import OptionError, Rule, Violation
from ottla.format.attributes import CONTROL, TRANSACTIONAL, Codec, TimestampType
from ottla.format.sentinels import (
    INT32_MAX,
    NO_OFFSET,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_ID,
)
from ottla.kernels.tables import Batches
from ottla.region import Region
from ottla.rules.producer import Origin

CURRENT_MAGIC = 2
ZSTD_PRODUCE_VERSION = 7  # ProduceRequest.validateRecords: older clients could not read it back
ASSIGNS_OFFSETS = (Origin.CLIENT, Origin.COORDINATOR)  # the others bring theirs


@dataclass(frozen=True, slots=True)
class AppendPolicy:
    """A topic's settings with Kafka's defaults; `compression_type` None is "producer"."""

    compression_type: Codec | None = None
    compression_level: int | None = None
    magic: int = CURRENT_MAGIC
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    timestamp_before_max_ms: int = INT64_MAX
    timestamp_after_max_ms: int = 3_600_000
    is_compacted: bool = False
    max_message_bytes: int = 1_048_588
    segment_bytes: int = 1 << 30
    leader_epoch: int = 0

    def __post_init__(self) -> None:
        if not NO_PARTITION_LEADER_EPOCH <= self.leader_epoch <= INT32_MAX:
            raise OptionError(f"partition leader epoch {self.leader_epoch} does not fit 32 bits")


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
    elif version < ZSTD_PRODUCE_VERSION and codec_ids(batches)[0] == Codec.ZSTD:
        detail = "produce requests know zstd"
        expected = f"at least version {ZSTD_PRODUCE_VERSION}"
        yield violation(region, batches, 0, Rule.APPEND_CODEC, detail, version, expected)


def check_set(
    region: Region, batches: Batches, origin: Origin, next_offset: int, policy: AppendPolicy
) -> Iterator[Violation]:
    """Every batch in order, as analyzeAndValidateRecords looks at them."""
    foreign = np.zeros(batches.position.size, dtype=np.bool_)
    based = foreign.copy()
    if origin is Origin.RAFT_LEADER:
        foreign = batches.partition_leader_epoch != policy.leader_epoch
    if origin is Origin.CLIENT:
        based = (batches.magic >= CURRENT_MAGIC) & (batches.base_offset != 0)
    # Replicas must be able to take whatever the leader has.
    limited = origin is not Origin.REPLICATION
    large = limited & (batches.size > policy.max_message_bytes)
    corrupt = batches.crc != batches.computed_crc
    for row in np.flatnonzero(foreign | based | large | corrupt).tolist()[:1]:
        if foreign[row]:
            epoch = batches.partition_leader_epoch[row]
            detail = "the leader epoch is not the one of the log"
            yield violation(
                region, batches, row, Rule.APPEND_LEADER_EPOCH, detail, epoch, policy.leader_epoch
            )
        elif based[row]:
            detail = "a client's batch begins at offset 0"
            base = batches.base_offset[row]
            yield violation(region, batches, row, Rule.APPEND_BASE_OFFSET, detail, base, 0)
        elif large[row]:
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
                "the bytes are not those that were sealed",
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
    region: Region, batches: Batches, row: int, origin: Origin, to_magic: int
) -> Iterator[Violation]:
    """LogValidator.validateBatch; the first violation counts."""
    found, first = int(batches.magic[row]), int(batches.magic[0])
    attributes = int(batches.attributes[row]) if found >= CURRENT_MAGIC else 0
    if found != first:
        detail = "the magic differs from the first batch's"
        yield violation(region, batches, row, Rule.APPEND_MAGIC, detail, found, first)
    if origin is Origin.CLIENT:
        yield from _check_client_batch(region, batches, row, attributes)
    if to_magic >= CURRENT_MAGIC:
        return
    if attributes & TRANSACTIONAL or batches.producer_id[row] > NO_PRODUCER_ID:
        detail = f"magic {to_magic} has no producer state"
        kind = "transactional" if attributes & TRANSACTIONAL else "idempotent"
        yield violation(region, batches, row, Rule.APPEND_FORMAT, detail, kind)


def _check_client_batch(
    region: Region, batches: Batches, row: int, attributes: int
) -> Iterator[Violation]:
    count = int(batches.count[row])
    covered = int(batches.last_offset[row]) - int(batches.base_offset[row]) + 1
    if batches.magic[row] >= CURRENT_MAGIC and not 0 < covered == count:
        detail = "count and offsets disagree"
        yield violation(
            region, batches, row, Rule.APPEND_RECORD_COUNT, detail, count, f"{covered} offsets"
        )
    if attributes & CONTROL:
        detail = "clients do not write control batches"
        yield violation(region, batches, row, Rule.APPEND_CONTROL, detail)
    sequence = int(batches.base_sequence[row])
    if sequence < 0 and batches.producer_id[row] > NO_PRODUCER_ID:
        detail = "a producer id without a sequence"
        yield violation(region, batches, row, Rule.APPEND_SEQUENCE, detail, sequence)


def source_codec_of(batches: Batches) -> int:
    """The codec of the last batch that has one."""
    codecs = codec_ids(batches)
    compressed = codecs[codecs != Codec.NONE]
    return int(compressed[-1]) if compressed.size else int(Codec.NONE)
