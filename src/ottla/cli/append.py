"""`ottla append --dry-run`: would a broker take these batches, and what would it store."""

import argparse
import time
from typing import Any, Final

from ottla.catalog.catalog import list_catalog
from ottla.cli.flags import add_links
from ottla.cli.job import storage_of
from ottla.cli.output import Format, add_format, flush, json_line, write, write_line
from ottla.dump.dry_run import last_leader_epoch, try_append
from ottla.errors import OptionError, Row
from ottla.format.attributes import Codec, TimestampType
from ottla.log.files.partition import Partition
from ottla.rules.append.checks import ZSTD_PRODUCE_VERSION, AppendPolicy
from ottla.rules.append.each import Appends
from ottla.rules.producers.producer import Origin
from ottla.storage.object_store import StorageOptions

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
    add_links(parser)
    add_format(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print a verdict for each batch; 1 if any is refused."""
    if not arguments.dry_run:
        raise OptionError("append writes nothing: say --dry-run, or use `ottla restore`")
    partition = _partition(arguments.to, storage_of(arguments))
    now = arguments.now if arguments.now is not None else time.time_ns() // 1_000_000
    epoch = arguments.leader_epoch
    policy = _policy(arguments, last_leader_epoch(partition) if epoch is None else epoch)
    appends = Appends(now, Origin[arguments.origin.upper()], policy)
    refused = 0
    for row in try_append(arguments.segments, partition, appends, arguments.produce_version):
        refused += row.get("verdict") == "refused"
        _print(row, arguments.format)
    flush()
    return int(refused > 0)


def _partition(path: str, storage: StorageOptions) -> Partition:
    found = list_catalog([path], storage).partitions
    if len(found) != 1:
        raise OptionError(f"--to {path}: {len(found)} partitions there, expected one directory")
    return found[0]


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


def _print(row: Row, form: Format) -> None:
    if form is Format.JSONL:
        write(json_line(row))
    else:
        write_line(_text(row))


def _text(row: Row) -> str:
    if row["type"] == "end":
        return (
            f"{row['accepted']} accepted, {row['duplicate']} duplicate, {row['refused']} refused;"
            f" the log would end at offset {row['nextOffset']}"
        )
    where = f"{row['file']} @ {row['position']}"
    if row["verdict"] == "refused":
        reasons = "; ".join(f"{each['rule']}: {each['detail']}" for each in row["violations"][:3])
        more = len(row["violations"]) - 3
        return f"{where}: refused: {reasons}{f' and {more} more' if more > 0 else ''}"
    offsets = f"offsets {row['firstOffset']} to {row['lastOffset']}"
    if row["verdict"] == "duplicate":
        return f"{where}: duplicate of {offsets}"
    return (
        f"{where}: accepted at {offsets}, {row['stored']},"
        f" {row['size']} -> {row['storedSize']} bytes"
    )
