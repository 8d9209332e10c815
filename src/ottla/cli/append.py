"""`ottla append --dry-run`: would a broker take these batches, and what would it store."""

import argparse
import time

from ottla.catalog.catalog import list_catalog
from ottla.cli.job import storage_of
from ottla.cli.output import Format, flush, json_line, write, write_line
from ottla.cli.parsers.append import COMPRESSION_TYPES, TIMESTAMP_TYPES
from ottla.dump.dry_run import last_leader_epoch, try_append
from ottla.errors import OptionError, Row
from ottla.log.files.partition import Partition
from ottla.rules.append.checks import AppendPolicy
from ottla.rules.append.each import Appends
from ottla.rules.producers.producer import Origin
from ottla.storage.object_store import StorageOptions


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
        if row["type"] == "end" or not arguments.quiet:
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
        compression_type=COMPRESSION_TYPES[arguments.compression_type],
        magic=arguments.magic,
        timestamp_type=TIMESTAMP_TYPES[arguments.message_timestamp_type],
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
