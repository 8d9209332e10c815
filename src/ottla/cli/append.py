"""`ottla append --dry-run`: would a broker take these batches, and what would it store."""

import argparse
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np

from ottla.batch.attributes import codec_ids
from ottla.cli.output import Format, add_format, flush, json_line, write, write_text
from ottla.errors import CorruptLogError, OptionError, Rule, Severity, Violation
from ottla.format.attributes import CODEC_NAMES, Codec, TimestampType
from ottla.format.names import LEADER_EPOCH_CHECKPOINT
from ottla.jobs.verify.transactions import read_transactions
from ottla.kernels.tables import Batches, take_batches
from ottla.log.files.checkpoints import read_leader_epochs
from ottla.log.files.partition import Partition, find_partitions
from ottla.log.read.segment import read_windows
from ottla.region import Region
from ottla.rules.append.accept import Accepted
from ottla.rules.append.checks import (
    ZSTD_PRODUCE_VERSION,
    AppendPolicy,
    check_request,
    find_refused_requests,
)
from ottla.rules.append.each import Appends, LogEnd, Outcome, Taken, append_each
from ottla.rules.producers.producer import Duplicate, Origin, Refusal
from ottla.storage.files import open_file, read_bytes

Row = dict[str, Any]

_EXAMPLE: Final = """example:
  ottla demo --out demo-out
  ottla append demo-out/kafka-logs/users-0/00000000000000000000.log \\
      --to demo-out/kafka-logs/orders-0 --dry-run"""

_COMPRESSION_TYPES: Final = {
    "producer": None,
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
_TIMESTAMP_TYPES: Final = {
    "CreateTime": TimestampType.CREATE_TIME,
    "LogAppendTime": TimestampType.LOG_APPEND_TIME,
}
_INT64_MAX: Final = 2**63 - 1


def add_parser(subparsers: Any, summary: str) -> None:
    """Add the command to `ottla`; settings have the names of Kafka's topic configuration."""
    defaults = AppendPolicy()
    parser = subparsers.add_parser(
        "append",
        help=summary,
        description=summary,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("segments", nargs="+", metavar="SEGMENT", help="batches to append")
    parser.add_argument(
        "--to", required=True, metavar="PARTITION_DIR", help="the partition to append to"
    )
    parser.add_argument("--dry-run", action="store_true", help="required: nothing is written")
    parser.add_argument(
        "--origin",
        choices=[origin.name.lower() for origin in Origin],
        default="client",
        help="who appends; a client's batches are taken to begin at offset 0 (default: client)",
    )
    parser.add_argument("--compression-type", choices=[*_COMPRESSION_TYPES], default="producer")
    parser.add_argument(
        "--message-timestamp-type", choices=[*_TIMESTAMP_TYPES], default="CreateTime"
    )
    for flag, value in (
        ("--message-timestamp-before-max-ms", defaults.timestamp_before_max_ms),
        ("--message-timestamp-after-max-ms", defaults.timestamp_after_max_ms),
        ("--max-message-bytes", defaults.max_message_bytes),
        ("--segment-bytes", defaults.segment_bytes),
    ):
        parser.add_argument(flag, type=int, default=value, metavar="N", help="default: %(default)s")
    parser.add_argument(
        "--cleanup-policy", choices=["delete", "compact", "compact,delete"], default="delete"
    )
    parser.add_argument(
        "--produce-version",
        type=int,
        default=ZSTD_PRODUCE_VERSION,
        metavar="N",
        help="of a client's produce request; below %(default)s there is no zstd"
        " (default: %(default)s)",
    )
    parser.add_argument("--magic", type=int, choices=[0, 1, 2], default=2, help="default: 2")
    parser.add_argument("--leader-epoch", type=int, help="default: the checkpoint's, else 0")
    parser.add_argument(
        "--now", type=int, metavar="MS", help="the time, in milliseconds since 1970 (default: now)"
    )
    add_format(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print a verdict for each batch; 1 if any is refused."""
    if not arguments.dry_run:
        raise OptionError("append writes nothing: say --dry-run, or use `ottla restore`")
    partition = _partition(arguments.to)
    found = read_transactions(partition, from_offset=_INT64_MAX)
    policy = _policy(arguments, _leader_epoch(partition, arguments))
    now = arguments.now if arguments.now is not None else time.time_ns() // 1_000_000
    appends = Appends(now, Origin[arguments.origin.upper()], policy)
    end = LogEnd(found.transactions.end_offset, found.transactions.state)
    counts = {"accepted": 0, "duplicate": 0, "refused": 0}
    for region, batches in _windows(arguments.segments):
        abouts = _about(region, batches)
        verdicts = _judge(end, region, batches, appends, arguments.produce_version)
        for about, verdict in zip(abouts, verdicts, strict=True):
            counts[verdict["verdict"]] += 1
            _print(about | verdict, arguments.format)
    _print({"type": "end", **counts, "nextOffset": end.next_offset}, arguments.format)
    flush()
    return int(counts["refused"] > 0)


def _partition(path: str) -> Partition:
    found = find_partitions([path])
    if len(found) != 1:
        raise OptionError(f"--to {path}: {len(found)} partitions there, expected one directory")
    return found[0]


def _leader_epoch(partition: Partition, arguments: argparse.Namespace) -> int:
    if arguments.leader_epoch is not None:
        return int(arguments.leader_epoch)
    entry = partition.others.get(LEADER_EPOCH_CHECKPOINT)
    if entry is None:
        return 0
    epochs = read_leader_epochs(read_bytes(entry), entry.path)
    return epochs[-1].epoch if epochs else 0


def _policy(arguments: argparse.Namespace, leader_epoch: int) -> AppendPolicy:
    return AppendPolicy(
        compression_type=_COMPRESSION_TYPES[arguments.compression_type],
        magic=arguments.magic,
        timestamp_type=_TIMESTAMP_TYPES[arguments.message_timestamp_type],
        timestamp_before_max_ms=arguments.message_timestamp_before_max_ms,
        timestamp_after_max_ms=arguments.message_timestamp_after_max_ms,
        is_compacted="compact" in arguments.cleanup_policy,
        max_message_bytes=arguments.max_message_bytes,
        segment_bytes=arguments.segment_bytes,
        leader_epoch=leader_epoch,
    )


def _windows(paths: list[str]) -> Iterator[tuple[Region, Batches]]:
    for path in paths:
        with open_file(path) as file:
            for window in read_windows(file):
                yield window.region, window.batches
                problem = window.violation
                if problem is not None and problem.rule.severity is Severity.ERROR:
                    raise CorruptLogError(problem)


def _about(region: Region, batches: Batches) -> Iterator[Row]:
    columns = (batches.position, batches.size, batches.magic, codec_ids(batches))
    for position, size, magic, codec in zip(*(each.tolist() for each in columns), strict=True):
        yield {
            "type": "batch",
            "file": region.path,
            "position": position,
            "size": size,
            "magic": magic,
            "codec": CODEC_NAMES.get(codec),
        }


def _judge(
    end: LogEnd, region: Region, batches: Batches, appends: Appends, produce_version: int
) -> Iterator[Row]:
    """A verdict for each batch, which is an append of its own, the way a producer sends it."""
    sent = Batches(*(column.copy() for column in batches))
    refused = np.zeros(sent.position.size, dtype=np.bool_)
    if appends.origin is Origin.CLIENT:
        # The offset lies outside the CRC, and a broker overwrites it anyway.
        modern = sent.magic >= 2
        sent.base_offset[modern] = 0
        sent.last_offset[modern] = sent.last_offset_delta[modern]
        # Brokers of 4.x take produce requests from version 3 on (KIP-896).
        refused = find_refused_requests(sent, produce_version)
    ends = 1 + np.flatnonzero(np.diff(refused))
    for first, stop in pairwise([0, *ends.tolist(), refused.size]):
        some = take_batches(sent, slice(first, stop))
        if not refused[first:stop].any():
            for outcome in append_each(end, region, some, appends):
                yield from _verdicts(outcome)
            continue
        for row in range(stop - first):
            alone = take_batches(some, slice(row, row + 1))
            wrong = list(check_request(region, alone, produce_version))
            yield _violated(wrong[0].rule, wrong)


def _verdicts(outcome: Outcome) -> Iterator[Row]:
    """One, or as many as were taken at once."""
    if isinstance(outcome, Taken):
        for row in range(outcome.batches.position.size):
            yield {"verdict": "accepted", **_stored(outcome.one(row))}
    elif isinstance(outcome, Accepted):
        yield {"verdict": "accepted", **_stored(outcome)}
    elif isinstance(outcome, Duplicate):
        seen = outcome.batch
        offsets = {"firstOffset": seen.first_offset, "lastOffset": seen.last_offset}
        yield {"verdict": "duplicate", **offsets}
    elif isinstance(outcome, Refusal):
        yield {"verdict": "refused", **_refusal(outcome)}
    else:
        yield _violated(outcome.rule, outcome.violations)


def _violated(rule: Rule, violations: Sequence[Violation]) -> Row:
    rows = [each.as_row() for each in violations]
    return {"verdict": "refused", "rule": str(rule), "violations": rows}


def _refusal(refusal: Refusal) -> Row:
    return {
        "rule": str(refusal.rule),
        "violations": [
            {
                "rule": str(refusal.rule),
                "detail": refusal.detail,
                "found": refusal.found,
                "expected": refusal.expected,
            }
        ],
    }


def _stored(done: Accepted) -> Row:
    batches = done.batches
    stores = batches.position.size > 0  # nothing of a coordinator's batch without records
    return {
        "firstOffset": done.first_offset,
        "lastOffset": done.last_offset,
        "stored": "encoded" if done.was_encoded else "in-place",
        "storedSize": int(batches.size.sum()),
        "storedMagic": int(batches.magic[0]) if stores else None,
        "storedCodec": CODEC_NAMES.get(int(codec_ids(batches)[0])) if stores else None,
        "maxTimestamp": done.max_timestamp,
        "offsetOfMaxTimestamp": done.offset_of_max_timestamp,
        "logAppendTime": done.log_append_time,
    }


def _print(row: Row, form: Format) -> None:
    if form is Format.JSONL:
        write(json_line(row))
    else:
        write_text(_text(row))


def _text(row: Row) -> str:
    if row["type"] == "end":
        return (
            f"{row['accepted']} accepted, {row['duplicate']} duplicate, {row['refused']} refused;"
            f" the log would end at offset {row['nextOffset']}\n"
        )
    where = f"{row['file']} @ {row['position']}"
    if row["verdict"] == "refused":
        reasons = "; ".join(f"{each['rule']}: {each['detail']}" for each in row["violations"][:3])
        more = len(row["violations"]) - 3
        return f"{where}: refused: {reasons}{f' and {more} more' if more > 0 else ''}\n"
    offsets = f"offsets {row['firstOffset']} to {row['lastOffset']}"
    if row["verdict"] == "duplicate":
        return f"{where}: duplicate of {offsets}\n"
    return (
        f"{where}: accepted at {offsets}, {row['stored']},"
        f" {row['size']} -> {row['storedSize']} bytes\n"
    )
