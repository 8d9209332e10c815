"""`ottla transactions`: which transactions are open, what they hold back, and how to end them."""

import argparse
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, Final

import numpy as np

from ottla.catalog.logs import Log
from ottla.catalog.selection import require_chosen, resolve_selection
from ottla.cli.flags import add_partitions
from ottla.cli.job import selection_of
from ottla.cli.output import (
    Format,
    add_format,
    flush,
    json_line,
    time_text,
    write,
    write_text,
)
from ottla.errors import Severity, Violation
from ottla.format.attributes import ControlType
from ottla.format.names import HIGH_WATERMARK_CHECKPOINT
from ottla.format.sentinels import NO_OFFSET
from ottla.jobs.verify.transactions import PartitionTransactions, read_transactions
from ottla.kernels.producers.state import Completed
from ottla.log.files.checkpoints import TopicPartition, read_offset_checkpoint
from ottla.log.files.partition import LogDirectory, Partition, read_log_directories
from ottla.rules.producers.transactions import Open, is_hanging
from ottla.storage.files import read_bytes

Row = dict[str, Any]

_EXAMPLE: Final = """example:
  ottla demo --out demo-out
  ottla transactions demo-out/kafka-logs --topic orders
  ottla transactions demo-out/kafka-logs --topic orders --from @2025-10-09T08:57:00Z --completed"""

DEFAULT_TIMEOUT_MS: Final = 900_000  # transaction.max.timeout.ms of a broker


def add_parser(subparsers: Any, summary: str) -> None:
    """Add the command to `ottla`."""
    parser = subparsers.add_parser(
        "transactions",
        help=summary,
        description=summary,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="log directories, partition directories or segments",
    )
    add_partitions(parser)
    parser.add_argument(
        "--from",
        dest="start",
        metavar="WHEN",
        help="begin at the newest producer snapshot at or below it: an offset, or @ and a time such"
        " as @2025-10-09T08:53:20Z (default: all of the log)",
    )
    parser.add_argument("--completed", action="store_true", help="a line for each ended one too")
    parser.add_argument(
        "--max-transaction-timeout-ms",
        type=int,
        default=DEFAULT_TIMEOUT_MS,
        metavar="MS",
        help="an open one hangs when its producer was silent for longer (default: %(default)s)",
    )
    parser.add_argument(
        "--now", type=int, metavar="MS", help="the time, in milliseconds since 1970 (default: now)"
    )
    parser.add_argument("--quiet", action="store_true", help="do not print what is wrong")
    add_format(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the transactions; 1 if one hangs or something could not be read."""
    now = arguments.now if arguments.now is not None else time.time_ns() // 1_000_000
    problems: list[Violation] = []
    hanging = 0
    for row in _rows(arguments, now, problems):
        hanging += row["type"] == "partition" and row["hanging"] > 0
        if arguments.format is Format.JSONL:
            write(json_line(row))
        else:
            write_text(_text(row))
    flush()
    if not arguments.quiet:
        for problem in problems:
            print(f"{problem.rule.severity}: {problem}", file=sys.stderr)
    broken = any(problem.rule.severity is Severity.ERROR for problem in problems)
    return int(broken or hanging > 0)


def _rows(arguments: argparse.Namespace, now: int, problems: list[Violation]) -> Iterator[Row]:
    selection = selection_of(arguments)
    directories = read_log_directories(selection.paths)
    require_chosen(selection, [one for found in directories for one in found.partitions])
    for directory in directories:
        watermarks = _high_watermarks(directory)
        for partition in directory.partitions:
            if partition.segments and selection.chooses(partition):
                start = resolve_selection(Log(None, partition), selection).start
                found = read_transactions(partition, from_offset=start)
                problems += found.problems
                yield from _partition_rows(partition, found, watermarks, now, arguments)


def _high_watermarks(directory: LogDirectory) -> Mapping[TopicPartition, int]:
    entry = directory.files.get(HIGH_WATERMARK_CHECKPOINT)
    return {} if entry is None else read_offset_checkpoint(read_bytes(entry), entry.path)


def _partition_rows(
    partition: Partition,
    found: PartitionTransactions,
    watermarks: Mapping[TopicPartition, int],
    now: int,
    arguments: argparse.Namespace,
) -> Iterator[Row]:
    name = partition.name
    names: Row = {
        "topic": name.topic if name else None,
        "partition": name.partition if name else None,
        "path": partition.path,
    }
    transactions = found.transactions
    watermark = watermarks.get(TopicPartition(name.topic, name.partition)) if name else None
    open_ones, completed = transactions.open(), transactions.completed()
    hanging = is_hanging(open_ones, now, arguments.max_transaction_timeout_ms)
    stable = transactions.last_stable_offset(watermark)
    yield {
        "type": "partition",
        **names,
        "startOffset": found.start_offset,
        "endOffset": transactions.end_offset,
        "highWatermark": watermark,
        "lastStableOffset": stable,
        **_summary(completed),
        "open": int(open_ones.first_offset.size),
        "hanging": int(hanging.sum()),
    }
    for row in range(open_ones.first_offset.size):
        yield {
            "type": "open",
            **names,
            **_open(open_ones, row, bool(hanging[row]), now, stable),
        } | {
            "heldBack": transactions.end_offset - int(open_ones.first_offset[row]),
            "abortCommand": _abort_command(names, int(open_ones.first_offset[row])),
        }
    if arguments.completed:
        for row in range(completed.last_offset.size):
            yield {"type": _outcome(completed, row), **names, **_ended(completed, row)}


def _summary(completed: Completed) -> Row:
    """Counts by outcome; durations and sizes of those that wrote something."""
    wrote = completed.first_offset != NO_OFFSET
    aborted = completed.control_type == ControlType.ABORT
    duration = (completed.timestamp - completed.first_timestamp)[wrote]
    size = completed.size[wrote]
    return {
        "committed": int((wrote & ~aborted).sum()),
        "aborted": int((wrote & aborted).sum()),
        "empty": int((~wrote).sum()),
        "durationMs": _spread(duration),
        "bytes": _spread(size),
        "records": _spread(completed.records[wrote]),
    }


def _spread(values: Any) -> Row | None:
    if not values.size:
        return None
    return {
        "median": int(np.median(values)),
        "p99": int(np.percentile(values, 99)),
        "max": int(values.max()),
    }


def _open(open_ones: Open, row: int, hanging: bool, now: int, stable: int) -> Row:
    first = int(open_ones.first_offset[row])
    return {
        "producerId": int(open_ones.producer_id[row]),
        "producerEpoch": int(open_ones.producer_epoch[row]),
        "coordinatorEpoch": int(open_ones.coordinator_epoch[row]),
        "firstOffset": first,
        "lastOffset": int(open_ones.last_offset[row]),
        "firstTimestamp": int(open_ones.first_timestamp[row]),
        "lastTimestamp": int(open_ones.last_timestamp[row]),
        "silentMs": now - int(open_ones.last_timestamp[row]),
        "batches": int(open_ones.batches[row]),
        "records": int(open_ones.records[row]),
        "bytes": int(open_ones.size[row]),
        "hanging": hanging,
        "blocksLastStableOffset": first == stable,
    }


def _outcome(completed: Completed, row: int) -> str:
    if completed.first_offset[row] == NO_OFFSET:
        return "empty"
    return "aborted" if completed.control_type[row] == ControlType.ABORT else "committed"


def _ended(completed: Completed, row: int) -> Row:
    names = {
        "producerId": completed.producer_id,
        "producerEpoch": completed.producer_epoch,
        "coordinatorEpoch": completed.coordinator_epoch,
        "firstOffset": completed.first_offset,
        "lastOffset": completed.last_offset,
        "lastStableOffset": completed.last_stable_offset,
        "firstTimestamp": completed.first_timestamp,
        "timestamp": completed.timestamp,
        "batches": completed.batches,
        "records": completed.records,
        "bytes": completed.size,
    }
    return {name: int(column[row]) for name, column in names.items()}


def _abort_command(names: Row, first_offset: int) -> str | None:
    """What ends a hanging transaction (TransactionsCommand, KIP-664)."""
    if names["topic"] is None:
        return None
    return (
        'kafka-transactions.sh --bootstrap-server "$BOOTSTRAP" abort'
        f" --topic {names['topic']} --partition {names['partition']} --start-offset {first_offset}"
    )


def _text(row: Row) -> str:
    if row["type"] == "partition":
        return _partition_text(row)
    if row["type"] == "open":
        return _open_text(row)
    return (
        f"  {row['type']:9} producer {row['producerId']} epoch {row['producerEpoch']}"
        f"  offsets {row['firstOffset']} to {row['lastOffset']}"
        f"  {row['records']} records, {row['bytes']} bytes\n"
    )


def _partition_text(row: Row) -> str:
    title = f"{row['topic']}-{row['partition']}" if row["topic"] is not None else row["path"]
    held = row["endOffset"] - row["lastStableOffset"]
    text = (
        f"{title}: last stable offset {row['lastStableOffset']} of {row['endOffset']}"
        f"{f' ({held} held back)' if held else ''};"
        f" {row['committed']} committed, {row['aborted']} aborted, {row['empty']} empty,"
        f" {row['open']} open, {row['hanging']} hanging\n"
    )
    if row["durationMs"]:
        longest, largest = row["durationMs"], row["bytes"]
        text += (
            f"  lasted {_span(longest['median'])} (median), {_span(longest['max'])} (max);"
            f" {largest['median']} bytes (median), {largest['max']} (max)\n"
        )
    return text


def _open_text(row: Row) -> str:
    text = (
        f"  {'HANGING' if row['hanging'] else 'open':9}"
        f" producer {row['producerId']} epoch {row['producerEpoch']}"
        f"  from offset {row['firstOffset']}  last write {time_text(row['lastTimestamp'])}"
        f" ({_span(row['silentMs'])} ago)"
        f"  {row['records']} records, {row['bytes']} bytes"
        f"{'  holds the last stable offset' if row['blocksLastStableOffset'] else ''}\n"
    )
    if row["abortCommand"]:
        text += f"            {row['abortCommand']}\n"
    return text


def _span(milliseconds: int) -> str:
    if milliseconds < 0:
        return f"-{_span(-milliseconds)}"
    try:
        return str(timedelta(seconds=milliseconds // 1000))
    except OverflowError:
        return f"{milliseconds} ms"
