"""`ottla restore`: a copy that a broker can mount, of some records, at the offsets they had."""

import argparse
from typing import Any, Final

from ottla.cli.flags import parse_pairs
from ottla.cli.job import add_rewrite, chosen_logs, run_plan
from ottla.jobs.rewrite.restore import Renaming, compile_filter, plan_restore
from ottla.log.write.index_builder import SegmentConfig

_EXAMPLE: Final = """example:
  ottla demo --out demo-out
  ottla restore demo-out/kafka-logs demo-out/restored --topic orders \\
      --to @2025-10-09T08:57:00Z --rename orders=orders-before

Stop the broker, move the partition directories of OUT into its log directory, start it."""


def add_parser(subparsers: Any, summary: str) -> None:
    """Add the command to `ottla`."""
    parser = subparsers.add_parser(
        "restore",
        help=summary,
        description="Copy some records into OUT as partitions that a broker can mount.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_rewrite(parser)
    parser.add_argument("--key", action="append", default=[], help="only records with this key")
    parser.add_argument("--key-pattern", metavar="REGEX", help="only records whose key matches")
    parser.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="NAME[=VALUE]",
        help="only records with this header; may be repeated, then all must be there",
    )
    parser.add_argument(
        "--rename", action="append", default=[], metavar="TOPIC=NEW", help="give a topic a new name"
    )
    parser.add_argument(
        "--topic-id",
        action="append",
        default=[],
        metavar="TOPIC=ID",
        help="the id of a topic of OUT; a renamed one has none otherwise, the others keep theirs",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Restore; a broken batch stops it."""
    plan = plan_restore(
        chosen_logs(arguments),
        arguments.out,
        compile_filter(tuple(arguments.key), arguments.key_pattern, tuple(arguments.header)),
        Renaming(
            parse_pairs(arguments.rename, "TOPIC=NEW"),
            parse_pairs(arguments.topic_id, "TOPIC=ID"),
        ),
        split_bytes=arguments.split_bytes,
        config=SegmentConfig(segment_bytes=arguments.segment_bytes),
    )
    run_plan(plan, arguments, arguments.format)
    return 0
