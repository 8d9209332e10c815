"""The flags of `ottla schemas`."""

import argparse
from typing import Any, Final

from ottla.cli.flags import add_links, add_run, add_schemas, add_topics
from ottla.cli.output import add_format

_EXAMPLE: Final = """example:
  ottla schemas kafka-logs
  ottla schemas kafka-logs --topic orders --exact
  ottla schemas kafka-logs --out schemas
  ottla schemas kafka-logs --import import && sh import/import.sh http://localhost:8081"""


def add_parser(subparsers: Any, summary: str) -> None:
    """Add the command to `ottla`."""
    parser = subparsers.add_parser(
        "schemas",
        help=summary,
        description="The schemas of a registry, from its topic _schemas, and which of them the"
        " records of topics name. Exit code 1: some name schemas that are not there.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="a log directory; s3://, gs:// and abfs:// too",
    )
    add_topics(parser)
    add_links(parser)
    add_schemas(parser)
    parser.add_argument(
        "--exact",
        action="store_true",
        help="count all records, as a job; else a few windows of each partition are looked at",
    )
    parser.add_argument(
        "--out", metavar="DIR", help="write the schemas as .avsc, .proto and .json files"
    )
    parser.add_argument(
        "--import",
        dest="import_out",
        metavar="DIR",
        help="write a script, and what it sends, that puts the schemas into an empty registry with"
        " their ids",
    )
    add_run(parser, split="64m")
    add_format(parser)
