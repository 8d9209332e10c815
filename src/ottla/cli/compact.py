"""`ottla compact`: what Kafka's cleaner would leave of logs, or why it leaves so much."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from ottla.cli.colours import Emphasis, Styled
from ottla.cli.job import (
    chosen_logs,
    engine_for,
    print_account,
)
from ottla.cli.output import (
    Format,
    ShowSize,
    flush,
    json_line,
    print_table,
    write,
    write_line,
)
from ottla.cli.partitions import name_of
from ottla.cli.scratch import scratch_beside
from ottla.cli.table import Cell, Column, number
from ottla.errors import Row
from ottla.jobs.compact.plan import Compaction, plan_compaction
from ottla.jobs.compact.run import compact, explain_compaction
from ottla.jobs.compact.survey import CompactOptions
from ottla.jobs.output import has_errors
from ottla.rules.cleaner.cleanable import CleanerConfig
from ottla.storage.listing import exists

_SHOWN: Final = {
    "dirtyRatio": number("DIRTY", rank=2),
    "cleanedBytes": number("CLEANED"),
    "remainingBytes": number("REMAINING"),
    "otherBytes": number("NOT CLEANED"),
    "readRecords": number("RECORDS", rank=3),
    "remainingRecords": number("REMAINING RECORDS", rank=4),
    "distinctKeys": number("KEYS", rank=1),
    "tombstones": number("TOMBSTONES", rank=5),
}


def run(arguments: argparse.Namespace) -> int:
    """Compact or explain; a broken batch stops the one, and is what the other says of its log."""
    if arguments.explain:
        return _explain(arguments)
    plan = replace(_plan(arguments, arguments.out), gives_evidence=arguments.evidence)
    with engine_for("compact", _sizes(plan), arguments) as engine:
        rows = compact(engine, plan)
    if not arguments.quiet:
        print_account(rows, arguments.format, arguments.show_size)
    return int(has_errors(plan.logs))


def _explain(arguments: argparse.Namespace) -> int:
    # Nothing is written to OUT: a place where something is, is a PATH.
    if arguments.out is not None and exists(arguments.out):
        arguments.paths.append(arguments.out)
        arguments.out = None
    with scratch_beside(arguments.out) as scratch:
        plan = _plan(arguments, scratch)
        with engine_for("compact", _sizes(plan), arguments) as engine:
            rows = explain_compaction(engine, plan)
    print_explanation(rows, arguments.format, arguments.show_size)
    return int(any(row["stoppedBy"] for row in rows))


def _plan(arguments: argparse.Namespace, out: str) -> Compaction:
    options, explains = _options(arguments), arguments.explain
    return plan_compaction(
        chosen_logs(arguments), out, options, now=arguments.now, explains=explains
    )


def _sizes(plan: Compaction) -> Iterator[int]:
    return (segment.log.size for log in plan.logs for segment in log.partition.segments)


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


def print_explanation(rows: Sequence[Row], style: Format, show_size: ShowSize) -> None:
    """A line for each partition, and below the table what keeps it large."""
    if style is Format.JSONL:
        for row in rows:
            write(json_line({"type": "compaction", **row}))
        flush()
        return
    print_table(
        (Column("PARTITION"), *_SHOWN.values()),
        ([name_of(row), *(_cell(row, name, show_size) for name in _SHOWN)] for row in rows),
    )
    for row in rows:
        for obstacle in row["obstacles"]:
            held = f" ({show_size(obstacle['bytes'])})" if obstacle["bytes"] else ""
            cause = f": {obstacle['cause']}{held}: {obstacle['detail']}"
            write_line(Styled(name_of(row), Emphasis.TITLE), cause)
    flush()


def _cell(row: Row, name: str, show_size: ShowSize) -> Cell:
    value: Cell = row[name]
    return show_size(row[name]) if name.endswith("Bytes") and value is not None else value
