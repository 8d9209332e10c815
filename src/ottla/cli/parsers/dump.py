"""The flags of `ottla dump`."""

import argparse
from typing import Any, Final

from ottla.cli.flags import add_partitions, add_range
from ottla.cli.output import add_format

EXAMPLES: Final = """\
examples:
  ottla dump orders-0/00000000000000000000.log
  ottla dump --no-records orders-0/*.log
  ottla dump --key user-7 --header trace-id=abc orders-0/*.log
  ottla dump --format jsonl orders-0/*.log | grep '"type":"error"'
  ottla dump --format text --max-messages 10 __consumer_offsets-0/*.log
  ottla dump . --topic orders --partition 0 --from 5 --to @2030-01-01

Exit codes: 0 clean, 1 problems found in the data, 2 wrong usage, 3 our own fault.
"""
# kafka-dump-log's names for its decoders, and the topics that they are for.
DECODERS: Final = {
    "--offsets-decoder": "__consumer_offsets",
    "--transaction-log-decoder": "__transaction_state",
    "--cluster-metadata-decoder": "__cluster_metadata",
    "--remote-log-metadata-decoder": "__remote_log_metadata",
    "--share-group-state-decoder": "__share_group_state",
}


def add_parser(subparsers: Any, summary: str) -> None:
    """Describe the command line of `ottla dump`."""
    parser = subparsers.add_parser(
        "dump",
        help=summary,
        description="Print the batches and records of log segments and metadata snapshots.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="a .log or .checkpoint file, or a directory that holds segments; s3:// and others too",
    )
    add_format(parser)
    parser.add_argument(
        "--quiet", action="store_true", help="print no lines about what is wrong, only count it"
    )
    parser.add_argument(
        "--no-check-crcs", action="store_true", help="open batches whose CRC is wrong"
    )
    parser.add_argument(
        "--no-records", action="store_true", help="print batches only and decompress nothing"
    )
    parser.add_argument(
        "--max-batch-bytes",
        type=_positive,
        metavar="N",
        help="reject batches that are larger, also when decompressed (default: 256 MiB)",
    )
    _add_selection(parser)
    _add_decoders(parser)


def _add_selection(parser: argparse.ArgumentParser) -> None:
    add_partitions(parser)
    add_range(parser)
    parser.add_argument(
        "--key",
        action="append",
        default=[],
        metavar="K",
        help="only records with this key; repeat it for any of several",
    )
    parser.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="NAME[=VALUE]",
        help="only records with this header; repeat it for all of several",
    )
    parser.add_argument("--max-messages", type=_positive, metavar="N", help="stop after N records")


def _add_decoders(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--decode",
        action=argparse.BooleanOptionalAction,
        help="decode records of internal topics, by the directory's name (default: in text only)",
    )
    for flag, topic in DECODERS.items():
        words = f"decode records as those of {topic}"
        parser.add_argument(flag, action="store_const", const=topic, dest="decoder", help=words)


def _positive(text: str) -> int:
    number = int(text)
    if number <= 0:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return number
