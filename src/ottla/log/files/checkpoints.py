"""Checkpoint files: a version, a count, and a line for each entry (CheckpointFile).

`leader-epoch-checkpoint` lies in a partition directory; the others, which give an offset for each
partition, lie in a log directory.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from ottla.errors import CorruptLogError, Rule, Violation
from ottla.format.names import TopicPartition
from ottla.format.sentinels import INT32_MAX, INT64_MAX, NO_PARTITION_LEADER_EPOCH
from ottla.kernels.tables import Batches, Int64s

CURRENT_VERSION: Final = "0"


class EpochStart(NamedTuple):
    """The first offset that a leader of this epoch wrote."""

    epoch: int
    start_offset: int


def read_offset_checkpoint(data: bytes, file: str) -> dict[TopicPartition, int]:
    """The offset of each partition."""
    offsets = {}
    for topic, partition, offset in _read_lines(data, file, fields=3):
        key = TopicPartition(topic, _number(partition, file, INT32_MAX))
        offsets[key] = _number(offset, file)
    return offsets


def write_offset_checkpoint(offsets: Mapping[TopicPartition, int]) -> bytes:
    """The bytes of an offset checkpoint."""
    return _write_lines(
        [f"{key.topic} {key.partition} {offset}" for key, offset in offsets.items()]
    )


def read_leader_epochs(data: bytes, file: str) -> list[EpochStart]:
    """Epochs in the order of the file."""
    return [
        EpochStart(_number(epoch, file, INT32_MAX), _number(offset, file))
        for epoch, offset in _read_lines(data, file, fields=2)
    ]


def write_leader_epochs(epochs: Sequence[EpochStart]) -> bytes:
    """The bytes of a leader epoch checkpoint."""
    return _write_lines([f"{start.epoch} {start.start_offset}" for start in epochs])


def follow_leader_epochs(epochs: list[EpochStart], batches: Batches) -> Int64s:
    """Add where batches have an epoch above all before; the highest one before each batch.

    Messages of magic 0 and 1 have no epoch, and change nothing.
    """
    latest = epochs[-1].epoch if epochs else NO_PARTITION_LEADER_EPOCH
    found = batches.partition_leader_epoch
    highest = np.maximum.accumulate(np.concatenate([[latest], found]))[:-1]
    rises = np.flatnonzero(found > highest)
    starts = zip(found[rises].tolist(), batches.base_offset[rises].tolist(), strict=True)
    epochs.extend(EpochStart(epoch, offset) for epoch, offset in starts)
    return highest


def truncate_epochs_from_end(epochs: Sequence[EpochStart], offset: int) -> list[EpochStart]:
    """Drop epochs that begin at or past the log's end (LeaderEpochFileCache.truncateFromEnd)."""
    return [start for start in epochs if start.start_offset < offset]


def truncate_epochs_from_start(epochs: Sequence[EpochStart], offset: int) -> list[EpochStart]:
    """Let the epoch that `offset` is in begin there (LeaderEpochFileCache.truncateFromStart)."""
    before = [start for start in epochs if start.start_offset <= offset]
    after = [start for start in epochs if start.start_offset > offset]
    return [before[-1]._replace(start_offset=offset), *after] if before else after


def check_leader_epochs(epochs: Sequence[EpochStart], file: str) -> Iterator[Violation]:
    """Epochs and their offsets rise and none is negative."""
    before = EpochStart(-1, -1)
    for start in epochs:
        if start.epoch <= before.epoch or start.start_offset <= before.start_offset:
            yield Violation(
                Rule.LEADER_EPOCH_CHECKPOINT_ORDER,
                "an epoch that does not follow the one before",
                file,
                position=0,
                offset=start.start_offset,
                found=f"epoch {start.epoch} from offset {start.start_offset}",
                expected=f"above epoch {before.epoch} and offset {before.start_offset}",
            )
        before = start


def _read_lines(data: bytes, file: str, *, fields: int) -> Iterator[list[str]]:
    lines = _decode(data, file).splitlines()
    if lines and lines[0] != CURRENT_VERSION:
        raise _unreadable(file, "unknown version", lines[0], CURRENT_VERSION)
    # Kafka reads a file that holds nothing, or only the version, as one without entries.
    if len(lines) < 2:
        return
    if _number(lines[1], file, INT32_MAX) != len(lines) - 2:
        raise _unreadable(file, "the count of entries differs", str(len(lines) - 2), lines[1])
    for line in lines[2:]:
        parts = line.split()
        if len(parts) != fields:
            raise _unreadable(file, "a malformed line", line, f"{fields} fields")
        yield parts


def _write_lines(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in (CURRENT_VERSION, str(len(lines)), *lines)).encode()


def _decode(data: bytes, file: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise _unreadable(file, "not UTF-8", data[:40].hex(), "text") from error


def _number(text: str, file: str, most: int = INT64_MAX) -> int:
    """Java parses partitions, epochs and the count as ints, and offsets as longs."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
        raise _unreadable(file, "not a number", text, "digits")
    if not -most - 1 <= int(text) <= most:
        raise _unreadable(file, "a number out of range", text, f"at most {most}")
    return int(text)


def _unreadable(file: str, detail: str, found: str, expected: str) -> CorruptLogError:
    return CorruptLogError(
        Violation(Rule.CHECKPOINT_READABLE, detail, file, 0, found=found, expected=expected)
    )
