"""Payloads that AWS Glue packed with zlib, within a limit: a few bytes may become gigabytes."""

import zlib
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ottla.format.arrays import Bools


class Unzipped(NamedTuple):
    """A column, null where a payload is no zlib, or where there was no room for it any more."""

    payloads: pa.Array
    is_broken: Bools
    is_too_large: Bools


def unzip(payloads: pa.Array, budget: int) -> Unzipped:
    """Unpack payloads as long as all of them stay below a number of bytes."""
    made: list[bytes | None] = []
    broken, too_large = (np.zeros(len(payloads), np.bool_) for _ in range(2))
    for at, payload in enumerate(payloads.to_pylist()):
        data = _unzip_one(payload, budget)
        if data is not None and len(data) > budget:
            too_large[at:] = True  # the others have to wait for memory of their own
            made += [None] * (len(payloads) - at)
            break
        broken[at] = data is None
        budget -= 0 if data is None else len(data)
        made.append(data)
    return Unzipped(pa.array(made, pa.binary()), broken, too_large)


def _unzip_one(payload: bytes, most: int) -> bytes | None:
    """One byte more than `most` at most; None for what is no zlib."""
    unpacking = zlib.decompressobj()
    try:
        data = unpacking.decompress(payload, most + 1)
    except zlib.error:
        return None
    return data if unpacking.eof or len(data) > most else None
