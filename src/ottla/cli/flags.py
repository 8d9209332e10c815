"""Flags that mean the same everywhere; nothing heavy is imported, lest `--help` wait for it."""

import argparse
from collections.abc import Sequence
from typing import Final

from ottla.cli.output import add_bytes, add_format
from ottla.errors import OptionError, Term
from ottla.options.engine import DEFAULT_LOCAL_BYTES, DEFAULT_MEMORY
from ottla.options.export import ValueAs
from ottla.options.offsets import parse_time
from ottla.options.texts import parse_bytes, parse_positive
from ottla.schemas.wires import WireFormat

# What errors are about, as it is called here.
FLAGS: Final = {
    Term.TOPICS: "--topic",
    Term.PARTITIONS: "--partition",
    Term.START: "--from",
    Term.STOP: "--to",
    Term.DROP_UNKEYED: "--drop-unkeyed",
    Term.RENAME: "--rename",
    Term.TOPIC_IDS: "--topic-id",
    Term.LEADER_EPOCH: "--leader-epoch",
    Term.SALVAGE: "`ottla salvage`",
    Term.FINISH: "`ottla finish --help`",
    Term.RESTORE: "`ottla restore`",
    Term.ENGINE: "--engine",
    Term.MASTER: "--master",
    Term.MEMORY: "--memory",
    Term.FOLLOW_LINKS: "--follow-links",
    Term.DUMP: "`ottla dump`",
    Term.SCHEMAS: "`ottla schemas`",
    Term.CATALOG: "--catalog",
    Term.RECREATED: "--recreated",
}


def add_partitions(parser: argparse.ArgumentParser) -> None:
    """The flags that choose partitions."""
    add_topics(parser)
    parser.add_argument("--partition", action="append", type=int, help="only this partition")
    add_links(parser)


def add_topics(parser: argparse.ArgumentParser) -> None:
    """The flag that chooses topics."""
    parser.add_argument(
        "--topic",
        action="append",
        help="only this topic, or those that a pattern such as 'pay*' matches; several with commas,"
        " or repeated",
    )


def add_links(parser: argparse.ArgumentParser) -> None:
    """The flag that lets files be read which lie elsewhere."""
    parser.add_argument(
        "--follow-links",
        action="store_true",
        help="read files that are links out of PATH; links to directories always are",
    )


def add_range(parser: argparse.ArgumentParser) -> None:
    """The flags that choose records."""
    form = "an offset, or @ and a time: @2025-10-09T08:53:20Z or @ and milliseconds since 1970"
    parser.add_argument("--from", dest="start", metavar="WHEN", help=f"{form}; inclusive")
    parser.add_argument("--to", dest="stop", metavar="WHEN", help="as --from; exclusive")


def add_where(parser: argparse.ArgumentParser) -> None:
    """The flag that chooses records by what is in them."""
    parser.add_argument(
        "--where",
        metavar="TEXT",
        help="only records that match, such as \"key = 'anna' and offset < 5000\"; docs/where.md"
        " has the columns and the grammar",
    )


def add_payloads(parser: argparse.ArgumentParser) -> None:
    """The flags that say what keys and values are."""
    for side in ("key", "value"):
        parser.add_argument(
            f"--{side}-as",
            choices=[*ValueAs],
            type=ValueAs,
            default=ValueAs.BINARY,
            help="decode values as text, as JSON or by a schema; one that does not decode is null,"
            " and valueRaw has its bytes"
            if side == "value"
            else "the same for keys (keyRaw)",
        )
    add_schemas(parser)


def add_schemas(parser: argparse.ArgumentParser) -> None:
    """The flags that say where schemas are, and how bytes name them."""
    parser.add_argument(
        "--schemas",
        metavar="PATH",
        help="a log directory that holds _schemas, or a folder of .avsc, .proto and .json files"
        " (default: PATH itself)",
    )
    parser.add_argument(
        "--wire",
        choices=[*WireFormat],
        type=WireFormat,
        default=WireFormat.AUTO,
        help="how keys and values name their schemas (default: %(default)s)",
    )


def add_selection(parser: argparse.ArgumentParser, *, paths: str = "+") -> None:
    """The flags that choose partitions."""
    parser.add_argument(
        "paths",
        nargs=paths,
        metavar="PATH",
        help="a log directory or a partition; s3://, gs:// and abfs:// too",
    )
    add_partitions(parser)


def add_now(parser: argparse.ArgumentParser) -> None:
    """The flag that says what time it is."""
    parser.add_argument(
        "--now",
        type=_time,
        metavar="TIME",
        help="the time: @2025-10-09T08:53:20Z or @ and milliseconds since 1970 (default: now)",
    )


def add_quiet(parser: argparse.ArgumentParser, what: str = "do not print what is wrong") -> None:
    """The flag for those who look at the exit code."""
    parser.add_argument("--quiet", action="store_true", help=what)


def add_out(parser: argparse.ArgumentParser) -> argparse.Action:
    """Where a job writes; what is no partition lies in the sibling OUT.ottla."""
    out = parser.add_argument(
        "out", metavar="OUT", help="where to write; OUT.ottla holds the account"
    )
    parser.add_argument(
        "--evidence",
        action="store_true",
        help="list every input file in the account, with its size and SHA-256",
    )
    parser.set_defaults(writes=True)
    return out


def add_rewrite(parser: argparse.ArgumentParser) -> None:
    """The arguments of jobs that write logs anew, with the offsets they had."""
    add_selection(parser)
    add_out(parser)
    add_range(parser)
    parser.add_argument(
        "--segment-bytes",
        type=size,
        default=1 << 30,
        metavar="SIZE",
        help="of the segments that are written (default: 1g)",
    )
    add_run(parser, split="1g")
    add_format(parser)


def add_run(parser: argparse.ArgumentParser, *, split: str | None = None) -> None:
    """The flags that say how to run; `split` is given where tasks can be cut by size."""
    add_engine(parser)
    if split is not None:
        parser.add_argument(
            "--split-bytes",
            type=size,
            default=parse_bytes(split),
            metavar="SIZE",
            help=f"about how much one task takes, cut between batches (default: {split})",
        )
    add_quiet(parser, "no progress bar and no account")
    add_bytes(parser)


def add_engine(parser: argparse.ArgumentParser) -> None:
    """The flags that say where tasks run."""
    parser.add_argument(
        "--engine",
        choices=("auto", "local", "spark"),
        default="auto",
        help="local: threads of this process; spark: local[*] or --master; auto (default): local"
        " up to --local-bytes of input, or where Spark or Java is missing",
    )
    parser.add_argument("--master", metavar="URL", help="run on Spark, on this master")
    parser.add_argument(
        "--local-bytes",
        type=size,
        default=DEFAULT_LOCAL_BYTES,
        metavar="SIZE",
        help="how much input auto runs in this process (default: 1g)",
    )
    parser.add_argument(
        "--memory",
        type=size,
        default=DEFAULT_MEMORY,
        metavar="SIZE",
        help="what --engine local may hold where rows must meet, beside about 500 MB for itself"
        " (default: 1g)",
    )


def size(text: str) -> int:
    """A size as a flag gives it."""
    try:
        return parse_bytes(text)
    except OptionError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not {error}") from error


def positive(text: str) -> int:
    """A number of things as a flag gives it."""
    try:
        return parse_positive(text)
    except OptionError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not {error}") from error


def _time(text: str) -> int:
    try:
        return parse_time(text)
    except OptionError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def parse_pairs(texts: Sequence[str], form: str) -> dict[str, str]:
    """
    >>> parse_pairs(["orders=orders-copy"], "TOPIC=NEW")
    {'orders': 'orders-copy'}
    """
    pairs = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name or not value:
            raise OptionError(f"{text!r} is not {form}")
        pairs[name] = value
    return pairs
