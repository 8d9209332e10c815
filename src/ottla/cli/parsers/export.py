"""The flags of `ottla export`."""

import argparse
from typing import Any, Final

from ottla.cli.flags import add_out, add_payloads, add_range, add_run, add_selection, add_where
from ottla.cli.output import add_json
from ottla.log.read.mode import Isolation, Mode
from ottla.options.export import FileFormat, PartitionBy, TableColumns

_EXAMPLE: Final = """example:
  ottla demo --out demo-out
  ottla export demo-out/kafka-logs demo-out/orders --topic orders --value-as json

The same command again exports only what came since. Files lie in topic=T/partition=P/ and are
named by their offsets; Spark, DuckDB and others read the folder as one table.

  ottla export demo-out/kafka-logs demo-out/lake --topic orders --format delta
  ottla export demo-out/kafka-logs demo-out/ice --topic orders --format iceberg

A table says itself what it has: each record is in it once, whatever is killed, and whoever else
exports at the same time. See docs/lake.md."""


def add_parser(subparsers: Any, summary: str) -> None:
    """Add the command to `ottla`."""
    parser = subparsers.add_parser(
        "export",
        help=summary,
        description="Write records as a table, in the order of their offsets.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_selection(parser)
    add_out(parser)
    add_range(parser)
    add_where(parser)
    parser.add_argument(
        "--format",
        choices=[*FileFormat],
        type=FileFormat,
        default=FileFormat.PARQUET,
        help="of the files, unlike in other commands (default: %(default)s);"
        " how the account is printed is said by --json",
    )
    add_json(parser, dest="account_format")
    add_payloads(parser)
    parser.add_argument(
        "--schema",
        choices=["one", "each"],
        default="one",
        help="each: a table for each type of records that a topic has (default: one, with a column"
        " for each type where there are several)",
    )
    parser.add_argument(
        "--mode",
        choices=[Mode.FAILFAST, Mode.DROPMALFORMED],
        type=Mode,
        default=Mode.FAILFAST,
        help="stop at a broken batch, or leave it out and count it (default: %(default)s)",
    )
    parser.add_argument(
        "--isolation-level",
        choices=[*Isolation],
        type=Isolation,
        default=Isolation.READ_UNCOMMITTED,
        help="read_committed leaves out aborted transactions, and what lies behind the first open"
        " one; the default is %(default)s, as of consumers and of the Spark source",
    )
    parser.add_argument(
        "--batch-columns",
        action="store_true",
        help="also what the batch of each record says: file, position, magic, codec, baseOffset,"
        " partitionLeaderEpoch, producerId, producerEpoch, sequence, isTransactional",
    )
    parser.add_argument("--level", type=int, default=1, help="of zstd in Parquet (%(default)s)")
    _add_table(parser)
    add_run(parser, split="64m")


def _add_table(parser: argparse.ArgumentParser) -> None:
    """What only tables know."""
    table = parser.add_argument_group("tables (--format iceberg or delta)")
    table.add_argument(
        "--columns",
        choices=[*TableColumns],
        type=TableColumns,
        default=TableColumns.SPARK,
        help="flat, as Spark's connector has them (default: %(default)s), or a struct kafka with"
        " what batches say, then headers, key, key_raw, value, value_raw",
    )
    table.add_argument(
        "--partition-by",
        choices=[*PartitionBy],
        type=PartitionBy,
        default=PartitionBy.PARTITION,
        help="what files are apart by, beside the topic (default: %(default)s)",
    )
    table.add_argument(
        "--catalog",
        metavar="NAME",
        help="of Iceberg, in .pyiceberg.yaml; OUT is NAMESPACE.TABLE then (default: a catalog in"
        " OUT itself, which is a local folder)",
    )
    table.add_argument(
        "--recreated",
        action="store_true",
        help="add a topic that was made anew, with another id, from its beginning",
    )
