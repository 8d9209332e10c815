"""What the lines of a dump are made from, and the words that JSON and text lines share."""

from typing import Final, NamedTuple

import numpy as np

from ottla.format.arrays import Bools, Bytes, Int32s, Int64s
from ottla.format.attributes import CODEC_NAMES, TIMESTAMP_TYPE_NAMES, Codec, TimestampType
from ottla.kernels._jit import i64, inlined
from ottla.kernels.bytes.ints import wrapping_subtract
from ottla.kernels.producers.sequences import record_sequence
from ottla.kernels.tables import Batches, RecordBuffers
from ottla.kernels.text.characters import (
    NUMBER_ROOM,
    phrase,
    put_int,
    put_int_inlined,
    put_phrase,
)

LINE_ROOM: Final = 1024 + 24 * NUMBER_ROOM  # the words, numbers and overshoot of any line
HEADER_ROOM: Final = 16  # what is around the key and value of one header


class BatchColumns(NamedTuple):
    """One row per batch: what it stores, and what follows from that (see `batch.attributes`)."""

    stored: Batches
    base_known: Bools
    codec: Int64s
    timestamp_type: Int64s
    last_sequence: Int64s
    is_transactional: Bools
    is_control: Bools
    has_delete_horizon: Bools


class ShownPayloads(NamedTuple):
    """What lines show of keys, values and the values of headers."""

    key_bounds: Int32s
    key_bytes: Bytes
    value_bounds: Int32s
    value_bytes: Bytes
    header_value_bounds: Int32s
    header_value_bytes: Bytes


class RecordColumns(NamedTuple):
    """One row per record of a chunk.

    `payloads` are those of the buffers, in the form that a style has for bytes, or where `verbatim`
    says so what is to stand in the line. Of a record's tail, `tail_bounds` says where in `tails` it
    is; it ends the record's line, and in text it stands in place of key and value.
    """

    buffers: RecordBuffers
    payloads: ShownPayloads
    verbatim: bool
    tail_bounds: Int64s
    tails: Bytes


_TRUE = phrase("true")
_FALSE = phrase("false")
_NONE = phrase(CODEC_NAMES[Codec.NONE])
_GZIP = phrase(CODEC_NAMES[Codec.GZIP])
_SNAPPY = phrase(CODEC_NAMES[Codec.SNAPPY])
_LZ4 = phrase(CODEC_NAMES[Codec.LZ4])
_ZSTD = phrase(CODEC_NAMES[Codec.ZSTD])
_NO_TIMESTAMP_TYPE = phrase(TIMESTAMP_TYPE_NAMES[TimestampType.NO_TIMESTAMP_TYPE])
_CREATE_TIME = phrase(TIMESTAMP_TYPE_NAMES[TimestampType.CREATE_TIME])
_LOG_APPEND_TIME = phrase(TIMESTAMP_TYPE_NAMES[TimestampType.LOG_APPEND_TIME])

_CODEC_NONE = int(Codec.NONE)
_CODEC_GZIP = int(Codec.GZIP)
_CODEC_SNAPPY = int(Codec.SNAPPY)
_CODEC_LZ4 = int(Codec.LZ4)
LAST_CODEC = int(Codec.ZSTD)
_TYPE_CREATE_TIME = int(TimestampType.CREATE_TIME)
_TYPE_LOG_APPEND_TIME = int(TimestampType.LOG_APPEND_TIME)


@inlined
def is_valid(bits: Bytes, index: int) -> bool:
    """Whether a value is there and not null."""
    return bool((bits[index >> 3] >> (index & 7)) & 1)


@inlined
def put_number(out: Bytes, at: int, name: Bytes, value: np.int64) -> int:
    """Append a name and a number."""
    return put_int(out, put_phrase(out, at, name), value)


@inlined
def put_record_number(out: Bytes, at: int, name: Bytes, value: int | np.int64) -> int:
    """The same in the line of a record, of which there are many."""
    return put_int_inlined(out, put_phrase(out, at, name), value)


@inlined
def put_sequence(out: Bytes, at: int, name: Bytes, stored: Batches, row: int, offset: int) -> int:
    """Append a name and the sequence of the record that has this offset."""
    delta = wrapping_subtract(offset, i64(stored.base_offset[row]))
    sequence = record_sequence(i64(stored.base_sequence[row]), delta)
    return put_record_number(out, at, name, sequence)


@inlined
def put_flag(out: Bytes, at: int, name: Bytes, value: bool) -> int:
    """Append a name and true or false."""
    at = put_phrase(out, at, name)
    return put_phrase(out, at, _TRUE) if value else put_phrase(out, at, _FALSE)


@inlined
def put_codec(out: Bytes, at: int, codec: int) -> int:
    """Append the name of a codec, which is one that Kafka knows."""
    if codec == _CODEC_NONE:
        return put_phrase(out, at, _NONE)
    if codec == _CODEC_GZIP:
        return put_phrase(out, at, _GZIP)
    if codec == _CODEC_SNAPPY:
        return put_phrase(out, at, _SNAPPY)
    if codec == _CODEC_LZ4:
        return put_phrase(out, at, _LZ4)
    return put_phrase(out, at, _ZSTD)


@inlined
def put_timestamp_type(out: Bytes, at: int, timestamp_type: int) -> int:
    """Append Kafka's name of a timestamp type."""
    if timestamp_type == _TYPE_CREATE_TIME:
        return put_phrase(out, at, _CREATE_TIME)
    if timestamp_type == _TYPE_LOG_APPEND_TIME:
        return put_phrase(out, at, _LOG_APPEND_TIME)
    return put_phrase(out, at, _NO_TIMESTAMP_TYPE)
