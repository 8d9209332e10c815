"""Offset commits, the bulk of `__consumer_offsets`: keys of type 0 and 1, values of version 0 to 4.

`tables/consumer_offsets.txt` of `ottla.internal` has the same layouts for the interpreter, which
reads everything else; tests hold the two together.
"""

from typing import Final, NamedTuple

import numpy as np

from ottla.format.arrays import Bytes, Int64s
from ottla.kernels._jit import i64, inlined, kernel
from ottla.kernels.bytes.ints import read_i16, read_i32, read_i64
from ottla.kernels.bytes.memory import WIDE, copy_32
from ottla.kernels.bytes.varint import MAX_VARINT_SIZE, read_long_form

# What a row is.
OTHER: Final = 0  # not about an offset
COMMIT: Final = 1
TOMBSTONE: Final = 2
BROKEN: Final = 3
UNKNOWN_VERSION: Final = 4

MAX_TYPE: Final = 1
MAX_VERSION: Final = 4
FLEXIBLE_VERSION: Final = 4
LEADER_EPOCH_VERSION: Final = 3
EXPIRE_VERSION: Final = 1
MAX_STRING_SIZE: Final = 2**15 - 1
UUID_SIZE: Final = 16


class Commits(NamedTuple):
    """One row per record. Texts are spans of the key or value bytes; NO_SPAN starts no topic id."""

    kind: Int64s
    group_start: Int64s
    group_size: Int64s
    topic_start: Int64s
    topic_size: Int64s
    partition: Int64s
    offset: Int64s
    leader_epoch: Int64s
    metadata_start: Int64s
    metadata_size: Int64s
    commit_timestamp: Int64s
    expire_timestamp: Int64s
    topic_id_start: Int64s


NO_SPAN: Final = -1


def allocate_commits(count: int) -> Commits:
    """Room for `count` rows; only `kind` means anything in rows that are no commits."""
    return Commits(*np.empty((len(Commits._fields), count), dtype=np.int64))


@kernel
def read_commit_keys(data: Bytes, bounds: Int64s, commits: Commits) -> None:
    """Set kind and key columns where the key is a commit's; the value is not looked at."""
    for row in range(bounds.size - 1):
        at, end = bounds[row], bounds[row + 1]
        commits.kind[row] = OTHER
        if end - at < 2 or not 0 <= read_i16(data, at) <= MAX_TYPE:
            continue
        commits.kind[row] = BROKEN
        group = at + 4
        if group > end:
            continue
        group_size = read_i16(data, at + 2)
        topic = group + group_size + 2
        if group_size < 0 or topic > end:
            continue
        topic_size = read_i16(data, topic - 2)
        if topic_size < 0 or topic + topic_size + 4 > end:
            continue
        commits.kind[row] = COMMIT
        commits.group_start[row], commits.group_size[row] = group, group_size
        commits.topic_start[row], commits.topic_size[row] = topic, topic_size
        commits.partition[row] = read_i32(data, topic + topic_size)


@inlined
def _clear_value(row: int, commits: Commits) -> None:
    """What a row has that its version, or a tombstone, does not write."""
    commits.offset[row] = commits.leader_epoch[row] = -1
    commits.metadata_start[row] = commits.metadata_size[row] = 0
    commits.commit_timestamp[row] = commits.expire_timestamp[row] = -1
    commits.topic_id_start[row] = NO_SPAN


@inlined
def _read_string_size(data: Bytes, at: int, end: int, version: int) -> tuple[int, int]:
    """A string's size and where it begins; negative where there is none."""
    if version < FLEXIBLE_VERSION:
        if at + 2 > end:
            return -1, -1
        return read_i16(data, at), at + 2
    raw, after = read_long_form(data, at, end, MAX_VARINT_SIZE)
    size = i64(raw) - 1
    return (-1 if size > MAX_STRING_SIZE else size), after


@inlined
def _read_tags(data: Bytes, at: int, end: int, row: int, commits: Commits) -> bool:
    raw, at = read_long_form(data, at, end, MAX_VARINT_SIZE)
    if at < 0:
        return False
    for _ in range(i64(raw)):  # a count too large ends with the bytes
        tag, at = read_long_form(data, at, end, MAX_VARINT_SIZE)
        if at < 0:
            return False
        size, at = read_long_form(data, at, end, MAX_VARINT_SIZE)
        if at < 0 or at + i64(size) > end:
            return False
        if tag == 0:
            if size != UUID_SIZE:
                return False
            commits.topic_id_start[row] = at
        at += i64(size)
    return True


@inlined
def _read_value(data: Bytes, at: int, end: int, version: int, row: int, commits: Commits) -> bool:
    if at + 8 > end:
        return False
    commits.offset[row] = read_i64(data, at)
    at += 8
    if version >= LEADER_EPOCH_VERSION:
        if at + 4 > end:
            return False
        commits.leader_epoch[row] = read_i32(data, at)
        at += 4
    size, at = _read_string_size(data, at, end, version)
    if at < 0 or size < 0 or at + size + 8 > end:
        return False
    commits.metadata_start[row], commits.metadata_size[row] = at, size
    at += size
    commits.commit_timestamp[row] = read_i64(data, at)
    at += 8
    if version == EXPIRE_VERSION:
        if at + 8 > end:
            return False
        commits.expire_timestamp[row] = read_i64(data, at)
    if version >= FLEXIBLE_VERSION:
        return _read_tags(data, at, end, row, commits)
    return True


@kernel
def read_commit_values(data: Bytes, bounds: Int64s, is_null: Bytes, commits: Commits) -> None:
    """Set the value columns of COMMIT rows, or what else such a row turns out to be."""
    for row in range(bounds.size - 1):
        if commits.kind[row] != COMMIT:
            continue
        _clear_value(row, commits)
        if is_null[row]:
            commits.kind[row] = TOMBSTONE
            continue
        at, end = bounds[row], bounds[row + 1]
        if end - at < 2:
            commits.kind[row] = BROKEN
            continue
        version = read_i16(data, at)
        if not 0 <= version <= MAX_VERSION:
            commits.kind[row] = UNKNOWN_VERSION
        elif not _read_value(data, at + 2, end, version, row, commits):
            commits.kind[row] = BROKEN


@kernel
def copy_spans(data: Bytes, starts: Int64s, bounds: Int64s, target: Bytes) -> None:
    """Copy the span at each start to its bounds in `target`; both sides are padded."""
    for row in range(starts.size):
        start, to = starts[row], bounds[row]
        for index in range(0, bounds[row + 1] - to, WIDE):
            copy_32(target, to + index, data, start + index)
