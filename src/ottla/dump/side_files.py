"""Dump what lies beside segments: indexes, producer snapshots, checkpoints, the id of a topic.

An entry is a row in the words of kafka-dump-log, where it has any. Whether entries fit their log is
for `verify` to say; what is wrong with them whatever the log says comes after them.
"""

import posixpath
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, Self

from ottla.dump.lines import Write
from ottla.dump.request import Request
from ottla.dump.style import EntriesEnd, Problem
from ottla.errors import CorruptLogError, Row, Severity, Violation
from ottla.format.names import (
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    Kind,
    TopicPartition,
    parse_file_name,
)
from ottla.format.sentinels import MAX_SEQUENCE
from ottla.log.files.checkpoints import (
    check_leader_epochs,
    read_leader_epochs,
    read_offset_checkpoint,
)
from ottla.log.files.identity import read_topic_id
from ottla.log.files.offset_index import check_offset_index, read_offset_index
from ottla.log.files.producer_snapshot import read_producer_snapshot
from ottla.log.files.small_files import read_preallocated, read_small
from ottla.log.files.time_index import check_time_index, read_time_index
from ottla.log.files.transaction_index import check_transaction_index, read_transaction_index
from ottla.storage.files import open_file

_ENTRIES_AT_ONCE: Final = 1 << 14


@dataclass(frozen=True, slots=True)
class _SideFile:
    """The bytes of a file that has `size`; its kind is its name, where no offset names it."""

    path: str
    size: int
    kind: str
    base_offset: int = 0
    data: bytes = b""

    def read(self) -> Self:
        """With its bytes; too many of them raise."""
        read = (
            read_preallocated if self.kind in (Kind.OFFSET_INDEX, Kind.TIME_INDEX) else read_small
        )
        return replace(self, data=read(self.path))


def _open(path: str) -> _SideFile:
    name = posixpath.basename(path)
    parsed = parse_file_name(name)
    with open_file(path) as opened:
        if parsed is None:
            return _SideFile(path, opened.size, name)
        return _SideFile(path, opened.size, parsed.kind, parsed.offset)


def dump_side_file(path: str, partition: TopicPartition, request: Request, write: Write) -> bool:
    """Print the entries of one file and what is wrong with it; return whether that is an error."""
    style, file = request.style, _open(path)
    write(style.open_file(path))
    count = 0
    problems: list[Violation] = []
    try:
        file = file.read()
        rows = _READ.get(file.kind, _offsets)(file)
        while some := list(islice(rows, _ENTRIES_AT_ONCE)):
            write(style.say_entries(path, file.kind.removeprefix("."), some))
            count += len(some)
        problems += _CHECK.get(file.kind, _check_nothing)(file)
    except CorruptLogError as error:
        problems.append(error.violation)
    if not request.quiet:
        for violation in problems:
            named = replace(violation, topic=partition.topic, partition=partition.partition)
            write(style.say_problem(Problem(named)))
    write(style.say_entries_end(path, EntriesEnd(file.size, count, len(problems))))
    return any(violation.rule.severity is Severity.ERROR for violation in problems)


def _offset_entries(file: _SideFile) -> Iterator[Row]:
    index = read_offset_index(file.data, file.base_offset)
    for offset, position in zip(index.offset.tolist(), index.position.tolist(), strict=True):
        yield {"offset": offset, "position": position}


def _time_entries(file: _SideFile) -> Iterator[Row]:
    index = read_time_index(file.data, file.base_offset)
    for timestamp, offset in zip(index.timestamp.tolist(), index.offset.tolist(), strict=True):
        yield {"timestamp": timestamp, "offset": offset}


def _aborted_transactions(file: _SideFile) -> Iterator[Row]:
    names = ("version", "producerId", "firstOffset", "lastOffset", "lastStableOffset")
    for entry in read_transaction_index(file.data).tolist():
        yield dict(zip(names, entry, strict=True))


def _producers(file: _SideFile) -> Iterator[Row]:
    for entry in read_producer_snapshot(file.data, file.path).tolist():
        producer_id, epoch, sequence, offset, delta, timestamp, coordinator, first = entry
        row = {
            "producerId": producer_id,
            "producerEpoch": epoch,
            "coordinatorEpoch": coordinator,
            "currentTxnFirstOffset": first if first >= 0 else None,
            "lastTimestamp": timestamp,
        }
        if offset >= 0:  # ProducerStateManager.readSnapshot: else it has appended no batch
            row |= {
                "firstSequence": (sequence - delta) % (MAX_SEQUENCE + 1),
                "lastSequence": sequence,
                "lastOffset": offset,
                "offsetDelta": delta,
                "timestamp": timestamp,
            }
        yield row


def _leader_epochs(file: _SideFile) -> Iterator[Row]:
    for start in read_leader_epochs(file.data, file.path):
        yield {"epoch": start.epoch, "startOffset": start.start_offset}


def _offsets(file: _SideFile) -> Iterator[Row]:
    for name, offset in read_offset_checkpoint(file.data, file.path).items():
        yield {"topic": name.topic, "partition": name.partition, "offset": offset}


def _topic_id(file: _SideFile) -> Iterator[Row]:
    yield {"topicId": read_topic_id(file.data, file.path)}


_READ: Final[dict[str, Callable[[_SideFile], Iterator[Row]]]] = {
    Kind.OFFSET_INDEX: _offset_entries,
    Kind.TIME_INDEX: _time_entries,
    Kind.TRANSACTION_INDEX: _aborted_transactions,
    Kind.PRODUCER_SNAPSHOT: _producers,
    LEADER_EPOCH_CHECKPOINT: _leader_epochs,
    PARTITION_METADATA: _topic_id,
}


def _checked_by(
    check: Callable[[bytes, int, str], Iterator[Violation]],
) -> Callable[[_SideFile], Iterator[Violation]]:
    return lambda file: check(file.data, file.base_offset, file.path)


def _check_epochs(file: _SideFile) -> Iterator[Violation]:
    return check_leader_epochs(read_leader_epochs(file.data, file.path), file.path)


def _check_nothing(_: _SideFile) -> Iterator[Violation]:
    """What is read at all is right."""
    return iter(())


_CHECK: Final[dict[str, Callable[[_SideFile], Iterator[Violation]]]] = {
    Kind.OFFSET_INDEX: _checked_by(check_offset_index),
    Kind.TIME_INDEX: _checked_by(check_time_index),
    Kind.TRANSACTION_INDEX: _checked_by(check_transaction_index),
    LEADER_EPOCH_CHECKPOINT: _check_epochs,
}
