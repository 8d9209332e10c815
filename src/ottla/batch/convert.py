"""Stored batches in another magic or codec: what is derived, what is lost, what is refused.

Offsets and their gaps always survive. Downwards Kafka drops what an old format has no place for
(AbstractRecords.downConvert); here each kind of loss needs the caller's word. A batch that is
already as wanted is copied byte for byte. Nobody decides here what a transaction means: give only
batches that should be read, since without markers aborted ones look like the others.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from ottla.batch.attributes import (
    codec_ids,
    has_delete_horizon,
    is_control,
    timestamp_types,
)
from ottla.batch.decode import DEFAULT_MAX_BATCH_BYTES, Decoder
from ottla.batch.encode import encode_batches, split
from ottla.batch.new_batch import NewBatch
from ottla.batch.rebuild import header_of
from ottla.batch.records import Decoded, Reused, decode_sound_groups, take_records
from ottla.errors import OptionError
from ottla.format.arrays import Bools
from ottla.format.attributes import Codec, TimestampType
from ottla.format.magic import CURRENT_MAGIC
from ottla.format.magic import Loss as Loss
from ottla.format.sentinels import NO_PRODUCER_ID, NO_TIMESTAMP
from ottla.kernels.tables import Batches, Int64s, RecordBuffers, Wanted, take_batches
from ottla.region import Region

DEFAULT_BATCH_BYTES: Final = 16384  # batch.size of a producer

_ALL: Final = Wanted.KEYS | Wanted.VALUES | Wanted.HEADERS


@dataclass(frozen=True, slots=True)
class Conversion:
    """What is wanted; None keeps what each batch has. `allowed` names what may be lost.

    Messages without a wrapper are put together into batches of about `batch_bytes`.
    """

    magic: int | None = None
    codec: Codec | None = None
    level: int | None = None
    allowed: frozenset[Loss] = frozenset()
    batch_bytes: int = DEFAULT_BATCH_BYTES

    def __post_init__(self) -> None:
        legacy = self.magic is not None and self.magic < CURRENT_MAGIC
        if legacy and self.codec == Codec.ZSTD:
            raise OptionError(f"magic {self.magic} has no zstd: choose another codec")


class Converted(NamedTuple):
    """The bytes of some batches as wanted, and what became of how many."""

    data: bytes
    copied: int
    converted: int
    dropped: int


def make_decoder(max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES) -> Decoder:
    """A decoder that gives what conversion needs."""
    return Decoder(_ALL, max_batch_bytes=max_batch_bytes, allocate=Reused())


def convert(
    decoder: Decoder, region: Region, batches: Batches, conversion: Conversion
) -> Iterator[Converted]:
    """Convert the batches of a window, by groups; a broken one raises, as does a loss nobody
    allowed.
    """
    for span, decoded in decode_sound_groups(decoder, region, batches):
        yield _convert_group(region, take_batches(batches, span), decoded, conversion)


def _convert_group(
    region: Region, batches: Batches, decoded: Decoded, conversion: Conversion
) -> Converted:
    records, rows = decoded
    magic, codec = _wanted(batches, conversion)
    control = is_control(batches)
    empty = (batches.magic >= CURRENT_MAGIC) & (batches.count == 0)
    same = (magic == batches.magic) & ((codec == codec_ids(batches)) | control | empty)
    dropped = ~same & (control | empty)
    _check_losses(batches, magic, rows, records, conversion)
    parts = _write(region, batches, same, dropped, magic, codec, rows, records, conversion)
    data = b"".join(parts)
    copied, gone = int(same.sum()), int(dropped.sum())
    return Converted(data, copied, rows.size - copied - gone, gone)


def _wanted(batches: Batches, conversion: Conversion) -> tuple[Int64s, Int64s]:
    """The magic and codec that each batch shall have."""
    magic = (
        batches.magic if conversion.magic is None else np.full_like(batches.magic, conversion.magic)
    )
    codecs = codec_ids(batches)
    codec = codecs if conversion.codec is None else np.full_like(codecs, conversion.codec)
    bad = (codec == Codec.ZSTD) & (magic < CURRENT_MAGIC)
    if bad.any():
        offset = int(batches.last_offset[np.flatnonzero(bad)[0]])
        raise OptionError(f"offset {offset}: magic 0 and 1 have no zstd: choose another codec")
    return magic, codec


def _check_losses(
    batches: Batches, magic: Int64s, rows: Int64s, records: RecordBuffers, conversion: Conversion
) -> None:
    down = (magic < CURRENT_MAGIC) & (batches.magic >= CURRENT_MAGIC)
    has_headers = np.diff(records.header_bounds) > 0
    known_time = records.timestamp != NO_TIMESTAMP
    control = is_control(batches)
    losses: dict[Loss, Bools] = {
        Loss.HEADERS: down & _any_by_batch(has_headers, rows),
        Loss.PRODUCER_STATE: down & (batches.producer_id > NO_PRODUCER_ID) & ~control,
        Loss.CONTROL_RECORDS: down & control,
        Loss.LEADER_EPOCHS: down & (batches.partition_leader_epoch >= 0),
        Loss.TIMESTAMPS: (magic == 0) & (batches.magic > 0) & _any_by_batch(known_time, rows),
    }
    for loss, where in losses.items():
        if loss not in conversion.allowed and where.any():
            offset = int(batches.last_offset[np.flatnonzero(where)[0]])
            raise OptionError(
                f"{loss} would be lost, first in the batch with last offset {offset}:"
                f" allow it, or keep magic {CURRENT_MAGIC}"
            )


def _any_by_batch(flags: Bools, rows: Int64s) -> Bools:
    """Whether any record of a batch has the flag."""
    found = np.zeros(rows.size, dtype=np.bool_)
    found[np.repeat(np.arange(rows.size), rows)[flags]] = True
    return found


def _write(
    region: Region,
    batches: Batches,
    same: Bools,
    dropped: Bools,
    magic: Int64s,
    codec: Int64s,
    rows: Int64s,
    records: RecordBuffers,
    conversion: Conversion,
) -> Iterator[bytes | memoryview]:
    """What is as wanted is copied; of the rest, neighbours that can be are encoded at once."""
    first = np.cumsum(rows) - rows
    plain = (batches.magic < CURRENT_MAGIC) & (codec_ids(batches) == Codec.NONE) & ~same
    # Only batches that stay of magic 2 have headers of their own to keep.
    alike = ~same & ~dropped & ~plain & (np.minimum(magic, batches.magic) < CURRENT_MAGIC)
    begins = np.flatnonzero(~_follows(batches, codec, plain, alike))
    for at, stop in pairwise([*begins.tolist(), rows.size]):
        if same[at]:
            begin = int(batches.position[at]) - region.position
            yield region.data[begin : begin + int(batches.size[at])].data
        elif not dropped[at]:
            new = _new_batch(batches, at, int(magic[at]), int(codec[at]), conversion)
            left = take_records(records, np.arange(first[at], first[stop - 1] + rows[stop - 1]))
            if int(magic[at]) < CURRENT_MAGIC:
                left = _without_headers(left)
            bounds = np.append(0, np.cumsum(rows[at:stop]))
            if plain[at]:
                bounds = split(left, new, conversion.batch_bytes)
            yield encode_batches(left, bounds, new).data.data


def _follows(batches: Batches, codec: Int64s, plain: Bools, alike: Bools) -> Bools:
    """Which batches get the same header as the one before: append time is one for all of them."""
    kinds = timestamp_types(batches)
    own_time = kinds == TimestampType.LOG_APPEND_TIME

    def as_before(column: Int64s) -> Bools:
        equal: Bools = column[1:] == column[:-1]
        return equal

    follows = np.zeros(plain.size, dtype=np.bool_)
    follows[1:] = (plain[1:] & plain[:-1]) | (alike[1:] & alike[:-1])
    follows[1:] &= as_before(batches.magic) & as_before(codec) & as_before(kinds)
    follows[1:] &= ~own_time[1:] | as_before(batches.max_timestamp)
    follows[1:] &= np.diff(batches.last_offset) > 0
    return follows


def _new_batch(
    batches: Batches, row: int, magic: int, codec: int, conversion: Conversion
) -> NewBatch:
    batches, row = take_batches(batches, slice(row, row + 1)), 0
    level = conversion.level if codec == conversion.codec else None
    if magic == batches.magic[row]:
        has_horizon = bool(has_delete_horizon(batches)[row])
        kept = header_of(batches, row, int(batches.base_timestamp[row]) if has_horizon else -1)
        return replace(kept, codec=codec, level=level)
    kind = int(timestamp_types(batches)[row])
    append_time = magic > 0 and kind == TimestampType.LOG_APPEND_TIME
    return NewBatch(
        magic=magic,
        codec=codec,
        level=level,
        timestamp_type=TimestampType.LOG_APPEND_TIME if append_time else TimestampType.CREATE_TIME,
        log_append_time=int(batches.max_timestamp[row]) if append_time else NO_TIMESTAMP,
    )


def _without_headers(records: RecordBuffers) -> RecordBuffers:
    return records._replace(header_bounds=np.zeros_like(records.header_bounds))
