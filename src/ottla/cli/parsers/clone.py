"""The flags of `ottla clone`."""

import argparse
from typing import Any, Final

from ottla.cli.flags import (
    add_links,
    add_out,
    add_range,
    add_run,
    add_topics,
    positive,
)
from ottla.cli.output import add_format

_EXAMPLE: Final = """example:
  ottla demo --out demo-out
  ottla clone demo-out/kafka-logs demo-out/clone --exclude payments --dry-run
  ottla clone demo-out/kafka-logs demo-out/clone --exclude payments

OUT has a folder for each node: the last lines printed start them. PATH may be the log directories
of several brokers: of each partition the best replica is taken."""


def add_parser(subparsers: Any, summary: str) -> None:
    """Add the command to `ottla`."""
    parser = subparsers.add_parser(
        "clone",
        help=summary,
        description="Make a cluster in OUT that starts as Kafka, from the disks of another one.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "paths", nargs="+", metavar="PATH", help="log directories of brokers and controllers"
    )
    add_out(parser)
    add_topics(parser)
    parser.add_argument(
        "--exclude", action="append", default=[], metavar="TOPIC", help="leave out, as --topic"
    )
    add_range(parser)
    parser.add_argument(
        "--rename", action="append", default=[], metavar="TOPIC=NEW", help="give a topic a new name"
    )
    _add_cluster(parser)
    parser.add_argument(
        "--keep",
        action="append",
        metavar="WHAT",
        help="besides topics: groups, transactions (default: both), acls, quotas, scram,"
        " broker-configs, tokens; several with commas",
    )
    parser.add_argument(
        "--retention",
        choices=("keep", "unlimited"),
        default="unlimited",
        help="keep: brokers delete what is old as topics say (default: unlimited)",
    )
    parser.add_argument(
        "--salvage",
        action="store_true",
        help="take what is intact of damaged partitions, which are refused otherwise",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="only say what would be made, and what would not"
    )
    add_links(parser)
    add_run(parser, split="1g")
    add_format(parser)


def _add_cluster(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--nodes", type=positive, metavar="N", help="how many (default: 1)")
    parser.add_argument("--node-ids", metavar="N,...", help="their ids (default: 1, 2, ...)")
    parser.add_argument(
        "--replication", type=positive, metavar="N", help="replicas (default: one a node, up to 3)"
    )
    parser.add_argument("--cluster-id", metavar="ID", help="default: a new one")
    parser.add_argument(
        "--metadata-version", metavar="V", help="such as 4.0 (default: the backup's, else 4.0-IV3)"
    )
    parser.add_argument(
        "--host", default="127.0.0.1", help="where nodes listen (default: %(default)s)"
    )
    parser.add_argument(
        "--port",
        type=positive,
        default=9092,
        help="of the first node; each takes two (default: %(default)s)",
    )
