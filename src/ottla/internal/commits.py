"""Offset commits of an Arrow batch, by kernel: numbers as arrays, texts only of rows asked for."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ottla.batch.utf8 import java_utf8
from ottla.format.arrays import Int64s
from ottla.internal.primitives import uuid_text
from ottla.kernels.records.offset_commits import (
    NO_SPAN,
    UUID_SIZE,
    Commits,
    allocate_commits,
    copy_spans,
    read_commit_keys,
    read_commit_values,
)
from ottla.region import PADDING, Bytes, padded


@dataclass(frozen=True, slots=True)
class DecodedCommits:
    """The columns of `Commits` and the bytes that their spans are in."""

    commits: Commits
    keys: Bytes
    values: Bytes


def decode_commits(keys: pa.Array, values: pa.Array) -> DecodedCommits:
    """Read every record whose key is an offset commit's."""
    commits = allocate_commits(len(keys))
    key_bounds, key_bytes = _spans(keys)
    value_bounds, value_bytes = _spans(values)
    read_commit_keys(key_bytes, key_bounds, commits)
    is_null = values.is_null().to_numpy(zero_copy_only=False).view(np.uint8)
    read_commit_values(value_bytes, value_bounds, is_null, commits)
    return DecodedCommits(commits, key_bytes, value_bytes)


def _spans(array: pa.Array) -> tuple[Int64s, Bytes]:
    """Where each value begins and ends, in a copy of the bytes that kernels may read past."""
    _, bounds, data = array.buffers()
    if len(array) == 0 or bounds is None:
        return np.zeros(len(array) + 1, dtype=np.int64), padded(b"")
    limits = np.frombuffer(bounds, dtype=np.int32)[array.offset : array.offset + len(array) + 1]
    start, stop = int(limits[0]), int(limits[-1])
    used = memoryview(data)[start:stop] if data is not None else b""
    return limits.astype(np.int64) - start, padded(used)


def texts(data: Bytes, starts: Int64s, sizes: Int64s) -> pa.Array:
    """The text of each span; the spans are parts of one array, so their sum is an int32."""
    bounds = np.zeros(starts.size + 1, dtype=np.int64)
    np.cumsum(sizes, out=bounds[1:])
    size = int(bounds[-1])
    target = np.empty(size + PADDING, dtype=np.uint8)
    copy_spans(data, starts, bounds, target)
    buffers = [None, pa.py_buffer(bounds.astype(np.int32)), pa.py_buffer(target)]
    if not np.any(target[:size] & 0x80):
        return pa.Array.from_buffers(pa.string(), starts.size, buffers)
    raw = pa.Array.from_buffers(pa.binary(), starts.size, buffers)
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:  # not UTF-8: with replacement marks, as Java reads it
        return pa.array([java_utf8(value) for value in raw.to_pylist()])


def topic_ids(data: Bytes, starts: Int64s) -> pa.Array:
    """Topic ids as Kafka writes them; null where a commit has none."""
    if not np.any(starts != NO_SPAN):
        return pa.nulls(starts.size, pa.string())
    ids = [
        bytes(UUID_SIZE) if start == NO_SPAN else data[start : start + UUID_SIZE].tobytes()
        for start in starts.tolist()
    ]
    return pa.array([uuid_text(one) if any(one) else None for one in ids], pa.string())
