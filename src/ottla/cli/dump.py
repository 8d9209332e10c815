"""`ottla dump`: the batches and records of segments, as JSON lines or as kafka-dump-log has them.

Numba takes long to import: nothing here needs it, so that `--help` does not wait for it.
"""

import argparse
import os
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.flags import add_partitions, add_range
from ottla.cli.output import Format, add_format, flush, write

if TYPE_CHECKING:
    from ottla.dump.request import HeaderFilter, Request

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
    parser.set_defaults(run=run)


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


def run(arguments: argparse.Namespace) -> int:
    """Dump the files one after another."""
    from ottla.cli.job import choice_of, limits_of, storage_of
    from ottla.dump.files import dump_files
    from ottla.dump.sources import find_sources

    chosen = choice_of(arguments), limits_of(arguments), storage_of(arguments)
    sources = find_sources(arguments.paths, *chosen)
    found_error = dump_files(sources, _request(arguments), write)
    flush()
    return int(found_error)


def _request(arguments: argparse.Namespace) -> "Request":
    from ottla.batch.decode import DEFAULT_MAX_BATCH_BYTES
    from ottla.dump.jsonl import JSONL
    from ottla.dump.request import Request
    from ottla.dump.text import TEXT

    is_text = arguments.format is Format.TEXT
    return Request(
        style=TEXT if is_text else JSONL,
        keys=tuple(os.fsencode(key) for key in arguments.key),
        headers=tuple(_header_filter(header) for header in arguments.header),
        checks_crcs=not arguments.no_check_crcs,
        opens_records=not arguments.no_records,
        decodes=is_text if arguments.decode is None else arguments.decode,
        decoder=arguments.decoder,
        max_messages=arguments.max_messages,
        quiet=arguments.quiet,
        max_batch_bytes=arguments.max_batch_bytes or DEFAULT_MAX_BATCH_BYTES,
    )


def _header_filter(text: str) -> "HeaderFilter":
    """
    >>> _header_filter("trace-id=a=b"), _header_filter("trace-id")
    (HeaderFilter(key=b'trace-id', value=b'a=b'), HeaderFilter(key=b'trace-id', value=None))
    """
    from ottla.dump.request import HeaderFilter

    key, equals, value = os.fsencode(text).partition(b"=")
    return HeaderFilter(key, value if equals else None)
