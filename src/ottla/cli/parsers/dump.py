"""The flags of `ottla dump`."""

import argparse
from typing import Any, Final

from ottla.cli.flags import add_partitions, add_payloads, add_quiet, add_range, add_where, positive
from ottla.cli.output import add_format
from ottla.options.dump import Encoding

EXAMPLES: Final = """\
examples:
  ottla dump orders-0/00000000000000000000.log
  ottla dump --no-records orders-0/*.log
  ottla dump --key user-7 --header trace-id=abc orders-0/*.log
  ottla dump --format jsonl orders-0/*.log | grep '"type":"error"'
  ottla dump --format text --max-messages 10 __consumer_offsets-0/*.log
  ottla dump . --topic orders --partition 0 --from 5 --to @2030-01-01

Exit codes: 0 clean, 1 problems found in the data, 2 wrong usage, 3 internal error.
"""
# kafka-dump-log's names for its decoders, and the topics that they are for.
DECODERS: Final = {
    "--offsets-decoder": "__consumer_offsets",
    "--transaction-log-decoder": "__transaction_state",
    "--cluster-metadata-decoder": "__cluster_metadata",
    "--remote-log-metadata-decoder": "__remote_log_metadata",
    "--share-group-state-decoder": "__share_group_state",
}


_TEXT_DECODER: Final = "StringDecoder"
_DECODING: Final = (
    "no Java class is loaded here; --encoding shows bytes as utf8, base64 or hex, and the options"
    " that end in -decoder decode internal topics"
)
_INSTEAD: Final = {
    "--key-decoder-class": _DECODING,
    "--value-decoder-class": _DECODING,
    "--verify-index-only": "`ottla verify` checks indexes, against their log",
    "--index-sanity-check": "`ottla verify` checks indexes, against their log",
    "--max-message-size": "say --max-batch-bytes",
    "--max-bytes": "say --max-messages, or --to and an offset",
    "--skip-record-metadata": "say --format jsonl, and take `key` and `value` of its lines",
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
        nargs="*",
        metavar="PATH",
        help="a .log or .checkpoint file, what lies beside one (indexes, snapshots, checkpoints), a"
        " directory that holds segments, or - for stdin; s3:// and others too",
    )
    add_format(parser)
    add_quiet(parser, "print no lines about what is wrong, only count it")
    parser.add_argument(
        "--no-check-crcs", action="store_true", help="open batches whose CRC is wrong"
    )
    parser.add_argument(
        "--no-records", action="store_true", help="print batches only and decompress nothing"
    )
    parser.add_argument(
        "--max-batch-bytes",
        type=positive,
        metavar="N",
        help="reject batches that are larger, also when decompressed (default: 256 MiB)",
    )
    parser.add_argument(
        "--encoding",
        choices=[*Encoding],
        type=Encoding,
        help="how keys, values and header values are shown (default: utf8 in text, base64 in JSON)",
    )
    parser.add_argument(
        "--no-payload",
        action="store_true",
        help="show sizes and hashes of keys, values and header values, and no byte of them",
    )
    add_payloads(parser)
    _add_selection(parser)
    _add_decoders(parser)
    _add_kafka_words(parser)


def _add_selection(parser: argparse.ArgumentParser) -> None:
    add_partitions(parser)
    add_range(parser)
    add_where(parser)
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
    parser.add_argument("--max-messages", type=positive, metavar="N", help="stop after N records")


def _add_decoders(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--decode",
        action=argparse.BooleanOptionalAction,
        help="decode records of internal topics, by the directory's name (default: in text only)",
    )
    for flag, topic in DECODERS.items():
        words = f"decode records as those of {topic}"
        parser.add_argument(flag, action="store_const", const=topic, dest="decoder", help=words)


def _add_kafka_words(parser: argparse.ArgumentParser) -> None:
    """The options of kafka-dump-log: what they ask for, or what to say instead of them."""
    parser.add_argument("--files", action="append", default=[], metavar="A,B", help="as PATH")
    for flag in ("--print-data-log", "--deep-iteration"):
        parser.add_argument(flag, action="store_true", help="always so; see --no-records")
    for flag, words in _INSTEAD.items():
        given = _TEXT_DECODER if words is _DECODING else ""
        parser.add_argument(flag, nargs="?", action=_Instead, const=given, help=argparse.SUPPRESS)


class _Instead(argparse.Action):
    """An option that is not there, but whose name is known."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: object,  # noqa: ARG002
        values: object,
        flag: str | None = None,
    ) -> None:
        if not str(values).endswith(_TEXT_DECODER):  # what text shows anyway
            parser.error(f"{flag} is for kafka-dump-log: {_INSTEAD[str(flag)]}")
