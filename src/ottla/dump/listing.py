"""What is there, as rows: partitions and their segments, from batch headers alone."""

from collections.abc import Iterator, Mapping

from ottla.catalog.chosen import ChosenLogs
from ottla.errors import CorruptLogError, Row, Violation
from ottla.format.names import LOG_START_CHECKPOINT, DirectoryState, TopicPartition
from ottla.jobs.read.internal_topics import ranges_of_metadata
from ottla.log.check.directory import check_directory
from ottla.log.check.summary import Summary, combine, problems_beside, summarize
from ottla.log.files.partition import (
    LogDirectory,
    Partition,
    Segment,
    read_checkpoint,
    topic_id_of,
)
from ottla.log.tiered.names import is_remote_log
from ottla.log.write.extent import remote_offsets, remote_range
from ottla.storage.object_store import StorageOptions


def list_rows(
    chosen: ChosenLogs, problems: list[Violation], *, with_segments: bool
) -> Iterator[Row]:
    """A row for each partition, and for its segments if asked; `problems` gets what is wrong."""
    storage = chosen.storage
    told = ranges_of_metadata(chosen.catalog)
    for directory in chosen.catalog.directories:
        problems += check_directory(directory, storage)
        starts = _log_starts(directory, problems, storage)
        for partition in chosen.of(directory):
            start = _log_start(partition, starts)
            found = list_partition(partition, start, storage, problems)
            if told:
                _add_range(found[0], told.get(_identity(partition, storage)))
            yield from found if with_segments else found[:1]


def _identity(partition: Partition, storage: StorageOptions) -> tuple[str, int]:
    return topic_id_of(partition, storage) or "", partition.name.partition


def _add_range(row: Row, told: tuple[int, int] | None) -> None:
    """Remote storage also has copies of what is still here: only its metadata knows of them."""
    if told is not None:
        first, last = row["remoteRange"] or told
        row["remoteRange"] = [min(first, told[0]), max(last, told[1])]


def offsets_here(row: Row) -> tuple[int | None, int]:
    """The first and last offset that a reader gets of a row that has batches.

    The log may start inside of them, or behind; the first is None if no batch says where it begins.
    """
    first, last, start = row["firstOffset"], row["lastOffset"], row.get("logStartOffset")
    if start is not None and start > last:
        return start, last
    if start is not None and (first is None or start > first) and not row["remoteOffsets"]:
        first = start
    return first, last


def _log_starts(
    directory: LogDirectory, problems: list[Violation], storage: StorageOptions
) -> dict[TopicPartition, int]:
    try:
        return read_checkpoint(directory, LOG_START_CHECKPOINT, storage)
    except CorruptLogError as error:
        problems.append(error.violation)
        return {}


def _log_start(partition: Partition, starts: Mapping[TopicPartition, int]) -> int | None:
    """What a checkpoint says of a log; it names none that is being deleted."""
    return starts.get(partition.name) if partition.state is DirectoryState.LIVE else None


def list_partition(
    partition: Partition,
    log_start: int | None,
    storage: StorageOptions,
    problems: list[Violation],
) -> list[Row]:
    """The row of a partition, and those of its segments."""
    pairs = list(summarize(partition, storage))
    whole = combine([summary for _, summary in pairs])
    whole.problems += problems_beside(partition, storage)
    problems += whole.problems
    remote = remote_offsets(partition, log_start)
    row: Row = {
        "type": "partition",
        **_names(partition),
        "segments": len(pairs),
        "logStartOffset": remote.start,
        "remoteOffsets": len(remote),
        "remoteSegments": sum(is_remote_log(segment.log.path) for segment, _ in pairs),
        "remoteRange": remote_range(
            remote, ((segment, summary.last_offset) for segment, summary in pairs)
        ),
        **_facts(whole),
    }
    return [
        row,
        *(
            {"type": "segment", **_names(partition), **_segment(segment), **_facts(summary)}
            for segment, summary in pairs
        ),
    ]


def _names(partition: Partition) -> Row:
    return {
        "topic": partition.name.topic,
        "partition": partition.name.partition,
        "state": partition.state.word,
        "path": partition.path,
    }


def _segment(segment: Segment) -> Row:
    return {
        "baseOffset": segment.base_offset,
        "file": segment.log.path,
        "sideFiles": sorted(kind.removeprefix(".") for kind in segment.side_files),
    }


def _facts(summary: Summary) -> Row:
    return {
        "bytes": summary.size,
        "batches": summary.batches,
        "records": summary.records if summary.magics <= {2} else None,
        "firstOffset": summary.first_offset,
        "lastOffset": summary.last_offset,
        "firstTimestamp": summary.first_timestamp,
        "lastTimestamp": summary.last_timestamp,
        "magics": sorted(summary.magics),
        "codecs": sorted(summary.codecs),
        "problems": [problem.as_row() for problem in summary.problems],
    }
