"""`ottla compact`: what Kafka's cleaner would leave of logs, or why it leaves so much."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from ottla.cli.job import (
    add_out,
    add_run,
    add_selection,
    chosen_logs,
    engine_for,
    print_account,
    size,
)
from ottla.cli.output import Format, add_format, flush, json_line, print_table, write, write_line
from ottla.errors import OptionError, Row
from ottla.jobs.compact.plan import plan_compaction
from ottla.jobs.compact.run import compact, explain_compaction
from ottla.jobs.compact.survey import CompactOptions
from ottla.options.offsets import Timestamp, parse_when
from ottla.rules.cleaner.cleanable import CleanerConfig
from ottla.rules.producers.producer import DEFAULT_EXPIRATION_MS

_EXAMPLE: Final = """example:
  ottla demo --out demo-out
  ottla compact demo-out/kafka-logs demo-out/compacted --topic users --include-active
  ottla compact demo-out/kafka-logs demo-out/compacted --topic users --explain

The newest record of each key stays, at its offset. Tombstones and the markers of transactions go in
a second round, when --delete-retention-ms have passed since the first. A cleaner-offset-checkpoint
in PATH says what is clean already; otherwise everything is dirty."""
_DEFAULTS: Final = CleanerConfig()
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


def add_parser(subparsers: Any, summary: str) -> None:
    """Add the command to `ottla`."""
    parser = subparsers.add_parser(
        "compact",
        help=summary,
        description="Write what Kafka's cleaner would leave of logs, or say why it leaves so much.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_selection(parser)
    add_out(parser)
    parser.add_argument(
        "--explain",
        action="store_true",
        help="write nothing: say what would remain, and what keeps the rest from being cleaned",
    )
    parser.add_argument(
        "--include-active",
        action="store_true",
        help="clean the last segment too; a broker never does, because it still writes to it",
    )
    parser.add_argument(
        "--drop-unkeyed",
        action="store_true",
        help="drop records without a key, as Kafka's cleaner does (default: they are an error)",
    )
    parser.add_argument(
        "--now", metavar="WHEN", help="@ and a time, or @ and milliseconds since 1970"
    )
    parser.add_argument(
        "--min-cleanable-dirty-ratio",
        type=float,
        metavar="RATIO",
        help="copy logs of which no more than this is dirty (default: 0; Kafka's and that of"
        f" --explain: {_DEFAULTS.min_cleanable_dirty_ratio})",
    )
    for name, default, meaning in (
        ("min-compaction-lag-ms", 0, "leave segments alone that are younger"),
        ("max-compaction-lag-ms", _DEFAULTS.max_compaction_lag_ms, "clean logs that waited longer"),
        ("delete-retention-ms", _DEFAULTS.delete_retention_ms, "how long tombstones stay"),
        ("producer-id-expiration-ms", DEFAULT_EXPIRATION_MS, "forget producers idle for longer"),
    ):
        text = f"{meaning} (default: {default})"
        parser.add_argument(f"--{name}", type=_duration, default=default, metavar="MS", help=text)
    parser.add_argument("--segment-bytes", type=size, default=1 << 30, metavar="SIZE")
    parser.add_argument("--segment-index-bytes", type=size, default=10 << 20, metavar="SIZE")
    add_run(parser, split="256m")
    add_format(parser)
    parser.set_defaults(run=run)


def _duration(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of milliseconds")
    return int(text)


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
        ratio = _DEFAULTS.min_cleanable_dirty_ratio if arguments.explain else 0.0
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
