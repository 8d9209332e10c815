"""Binary columns as bytes with places in them, and back."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.batch.memory import allocate_from_pool
from ottla.format.arrays import PADDING, Bytes, Int64s
from ottla.kernels.avro.wire import gather_spans
from ottla.region import read_only


def spans_of(payloads: pa.Array) -> tuple[Bytes, Int64s, Int64s]:
    """The bytes of a column with PADDING behind them, where each value begins, its size or -1."""
    wide = pa.types.is_large_binary(payloads.type)
    assert wide or pa.types.is_binary(payloads.type)
    bounds_type = np.dtype(np.int64 if wide else np.int32)
    _, bounds_buffer, data_buffer = payloads.buffers()
    if not len(payloads) or bounds_buffer is None:
        none = np.zeros(0, dtype=np.int64)
        return read_only(np.zeros(PADDING, dtype=np.uint8)), none, none
    bounds = np.frombuffer(bounds_buffer, dtype=bounds_type)
    bounds = bounds[payloads.offset : payloads.offset + len(payloads) + 1].astype(np.int64)
    sizes = np.diff(bounds)
    if payloads.null_count:
        sizes[pc.is_null(payloads).to_numpy(zero_copy_only=False)] = -1
    data = np.frombuffer(data_buffer or b"", dtype=np.uint8)
    if data.size - bounds[-1] < PADDING:
        first = bounds[0]
        padded = allocate_from_pool(int(bounds[-1] - first) + PADDING)
        padded[:-PADDING] = data[first : bounds[-1]]
        padded[-PADDING:] = 0
        data, bounds = padded, bounds - first
    return read_only(data), bounds[:-1], sizes


def binary_of(data: Bytes, starts: Int64s, sizes: Int64s) -> pa.Array:
    """Copy spans of `data`, which has PADDING behind them, into a column; size -1 is null."""
    rows = starts.size
    total = int(np.maximum(sizes, 0).sum())
    buffer = pa.allocate_buffer(total + PADDING)
    bounds = np.zeros(rows + 1, dtype=np.int64)
    gather_spans(data, starts, sizes, np.frombuffer(buffer, dtype=np.uint8), bounds)
    wide = total >= 2**31
    kind = pa.large_binary() if wide else pa.binary()
    there = sizes >= 0
    valid = None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
    numbers = pa.py_buffer(bounds if wide else bounds.astype(np.int32))
    return pa.Array.from_buffers(kind, rows, [valid, numbers, buffer.slice(0, total)])
