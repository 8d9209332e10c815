"""`ottla compact`: what Kafka's cleaner would leave of logs, or why it leaves so much."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ottla.cli.job import (
    chosen_logs,
    engine_for,
    print_account,
)
from ottla.cli.output import Format, flush, json_line, print_table, write, write_line
from ottla.errors import OptionError, Row
from ottla.jobs.compact.plan import plan_compaction
from ottla.jobs.compact.run import compact, explain_compaction
from ottla.jobs.compact.survey import CompactOptions
from ottla.options.offsets import Timestamp, parse_when
from ottla.rules.cleaner.cleanable import CleanerConfig

_SHOWN: Final = {
    "DIRTY RATIO": "dirtyRatio",
    "CLEANED BYTES": "cleanedBytes",
    "REMAINING": "remainingBytes",
    "NOT CLEANED": "otherBytes",
    "RECORDS": "readRecords",
    "REMAINING RECORDS": "remainingRecords",
    "KEYS": "distinctKeys",
    "TOMBSTONES": "tombstones",
}


def run(arguments: argparse.Namespace) -> int:
    """Compact or explain; a broken batch stops the one, and is what the other says of its log."""
    plan = plan_compaction(
        chosen_logs(arguments),
        arguments.out,
        _options(arguments),
        now=_now(arguments.now),
        explains=arguments.explain,
    )
    if arguments.evidence and not arguments.explain:
        plan = replace(plan, gives_evidence=True)
    sizes = (segment.log.size for log in plan.logs for segment in log.partition.segments)
    with engine_for("compact", sizes, arguments) as engine:
        if arguments.explain:
            rows = explain_compaction(engine, plan)
            print_explanation(rows, arguments.format)
            return int(any(row["stoppedBy"] for row in rows))
        rows = compact(engine, plan)
    if not arguments.quiet:
        print_account(rows, arguments.format)
    return 0


def _options(arguments: argparse.Namespace) -> CompactOptions:
    ratio = arguments.min_cleanable_dirty_ratio
    if ratio is None:
        ratio = CleanerConfig().min_cleanable_dirty_ratio if arguments.explain else 0.0
    return CompactOptions(
        config=CleanerConfig(
            ratio,
            arguments.min_compaction_lag_ms,
            arguments.max_compaction_lag_ms,
            arguments.delete_retention_ms,
        ),
        producer_id_expiration_ms=arguments.producer_id_expiration_ms,
        segment_bytes=arguments.segment_bytes,
        segment_index_bytes=arguments.segment_index_bytes,
        split_bytes=arguments.split_bytes,
        includes_active=arguments.include_active,
        drops_unkeyed=arguments.drop_unkeyed,
    )


def _now(text: str | None) -> int | None:
    if text is None:
        return None
    when = parse_when(text)
    if not isinstance(when, Timestamp):
        raise OptionError(f"--now {text}: @ and a time, such as @2025-10-09T08:53:20Z")
    return when.timestamp


def print_explanation(rows: Sequence[Row], style: Format) -> None:
    """A line for each partition, and below the table what keeps it large."""
    if style is Format.JSONL:
        for row in rows:
            write(json_line({"type": "compaction", **row}))
        flush()
        return
    print_table(
        ("PARTITION", *_SHOWN),
        ([_name(row), *(row[column] for column in _SHOWN.values())] for row in rows),
    )
    for row in rows:
        for obstacle in row["obstacles"]:
            held = f" ({obstacle['bytes']} bytes)" if obstacle["bytes"] else ""
            write_line(f"{_name(row)}: {obstacle['cause']}{held}: {obstacle['detail']}")
    flush()


def _name(row: Row) -> str:
    return f"{row['topic']}-{row['partition']}"
