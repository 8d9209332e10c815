"""Validate batches by their headers alone, in Kafka's order, and point at their records."""

from ottla.format.arrays import Bytes
from ottla.format.attributes import CODEC_MASK, Codec
from ottla.format.layout import BATCH_OVERHEAD
from ottla.kernels._jit import inlined, kernel
from ottla.kernels.records.legacy import locate_fields
from ottla.kernels.status import (
    BATCH_TOO_LARGE,
    CODEC_NOT_ALLOWED,
    CODEC_UNKNOWN,
    CRC_MISMATCH,
    HEADER_INCOMPLETE,
    OK,
    WRAPPER_VALUE_NULL,
)
from ottla.kernels.tables import Batches, Payloads

_LZ4 = int(Codec.LZ4)
_ZSTD = int(Codec.ZSTD)


@inlined
def validate_header(batches: Batches, row: int, check_crcs: bool, most: int) -> int:
    """What is wrong with a batch before its records are looked at; `most` bytes are accepted."""
    if batches.magic[row] == 2 and batches.size[row] < BATCH_OVERHEAD:
        return HEADER_INCOMPLETE
    if batches.size[row] > most:
        return BATCH_TOO_LARGE
    if check_crcs and batches.crc[row] != batches.computed_crc[row]:
        return CRC_MISMATCH
    codec = batches.attributes[row] & CODEC_MASK
    if codec > _ZSTD:
        return CODEC_UNKNOWN
    if codec == _ZSTD and batches.magic[row] < 2:
        return CODEC_NOT_ALLOWED
    return OK


@kernel
def validate_batches(
    data: Bytes, origin: int, batches: Batches, payloads: Payloads, check_crcs: bool, most: int
) -> tuple[int, int]:
    """Fill status, payload and codec of every batch; count the compressed and the broken ones.

    A wrapper with a bad CRC is to be opened all the same: only its messages know its base offset.
    """
    compressed = 0
    broken = 0
    for row in range(batches.position.size):
        at = batches.position[row] - origin
        end = at + batches.size[row]
        status = validate_header(batches, row, check_crcs, most)
        codec = batches.attributes[row] & CODEC_MASK
        payloads.stop[row] = end
        if batches.magic[row] == 2:
            payloads.start[row] = min(at + BATCH_OVERHEAD, end)
            if codec != 0 and status == OK:
                payloads.codec[row] = codec
                compressed += 1
        elif codec == 0:
            payloads.start[row] = at
        elif codec <= _LZ4:
            found, _, _, value_at, value_size = locate_fields(data, at, end)
            if found == OK and value_size < 0:
                found = WRAPPER_VALUE_NULL
            if found == OK:
                payloads.start[row] = value_at
                payloads.stop[row] = value_at + value_size
                payloads.codec[row] = codec
                compressed += 1
            elif status == OK:
                status = found
        if status != OK:
            payloads.status[row] = status
            broken += 1
    return compressed, broken
