"""`ottla ls`: topics, partitions and segments of log directories, from batch headers alone."""

import argparse
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ottla.cli.job import chosen_logs
from ottla.cli.output import (
    Format,
    flush,
    json_line,
    print_table,
    tell,
    time_text,
    write,
)
from ottla.errors import CorruptLogError, Row, Severity, Violation
from ottla.format.names import LOG_START_CHECKPOINT, DirectoryState, TopicPartition
from ottla.log.check.directory import check_directory
from ottla.log.check.summary import Summary, combine, problems_beside, summarize
from ottla.log.files.partition import LogDirectory, Partition, Segment, read_checkpoint
from ottla.log.write.extent import remote_offsets

_COLUMNS = (
    "PARTITION",
    "SEGMENTS",
    "BYTES",
    "OFFSETS",
    "TIMES",
    "BATCHES",
    "MAGIC",
    "CODECS",
    "PROBLEMS",
)


def run(arguments: argparse.Namespace) -> int:
    """Print what is there; 1 if something is wrong with it."""
    problems: list[Violation] = []
    rows = _rows(arguments, problems)
    if arguments.format is Format.JSONL:
        for row in rows:
            write(json_line(row))
    else:
        _print_text(rows)
    flush()
    if not arguments.quiet:
        for problem in problems:
            tell(f"{problem.rule.severity}: {problem}")
    return int(any(problem.rule.severity is Severity.ERROR for problem in problems))


def _rows(arguments: argparse.Namespace, problems: list[Violation]) -> Iterator[Row]:
    chosen = chosen_logs(arguments)
    for directory in chosen.catalog.directories:
        problems += check_directory(directory)
        starts = _log_starts(directory, problems)
        for partition in chosen.of(directory):
            start = _log_start(partition, starts)
            yield from _partition_rows(partition, start, arguments.segments, problems)


def _log_starts(directory: LogDirectory, problems: list[Violation]) -> dict[TopicPartition, int]:
    try:
        return read_checkpoint(directory, LOG_START_CHECKPOINT)
    except CorruptLogError as error:
        problems.append(error.violation)
        return {}


def _log_start(partition: Partition, starts: Mapping[TopicPartition, int]) -> int | None:
    """What a checkpoint says of a log; it names none that is being deleted."""
    return starts.get(partition.name) if partition.state is DirectoryState.LIVE else None


def _partition_rows(
    partition: Partition, log_start: int | None, with_segments: bool, problems: list[Violation]
) -> Iterator[Row]:
    pairs = list(summarize(partition))
    whole = combine([summary for _, summary in pairs])
    whole.problems += problems_beside(partition)
    problems += whole.problems
    remote = remote_offsets(partition, log_start)
    yield {
        "type": "partition",
        **_names(partition),
        "segments": len(pairs),
        "logStartOffset": remote.start,
        "remoteOffsets": len(remote),
        **_facts(whole),
    }
    if with_segments:
        for segment, summary in pairs:
            yield {"type": "segment", **_names(partition), **_segment(segment), **_facts(summary)}


def _names(partition: Partition) -> Row:
    return {
        "topic": partition.name.topic,
        "partition": partition.name.partition,
        "state": partition.state.removeprefix("-") or "live",
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


def _print_text(rows: Iterable[Row]) -> None:
    print_table(_COLUMNS, (list(_line(row)) for row in rows))


def _line(row: Row) -> tuple[str, ...]:
    is_segment = row["type"] == "segment"
    name = row["path"] if row["topic"] is None else f"{row['topic']}-{row['partition']}"
    state = "" if row["state"] == "live" else f" ({row['state']})"
    return (
        f"  {row['baseOffset']:020d}" if is_segment else f"{name}{state}",
        "" if is_segment else str(row["segments"]),
        str(row["bytes"]),
        _offsets(row),
        _range(time_text(row["firstTimestamp"]), time_text(row["lastTimestamp"])),
        str(row["batches"]),
        ",".join(map(str, row["magics"])),
        ",".join(row["codecs"]),
        str(len(row["problems"]) or ""),
    )


def _offsets(row: Row) -> str:
    """Those of the batches here, and where the log starts if that is elsewhere."""
    here = _range(row["firstOffset"], row["lastOffset"])
    start, remote = row.get("logStartOffset"), row.get("remoteOffsets")
    if remote:
        there = f"{start}..{start + remote - 1} remote"
        return f"{there}, {here}" if here else there
    if row["firstOffset"] is not None and start is not None and start > row["firstOffset"]:
        return f"{here} from {start}"
    return here


def _range(first: Any, last: Any) -> str:
    """A compressed v0 or v1 message does not say where it begins."""
    return "" if last is None else f"{'?' if first is None else first}..{last}"
