"""Flags that mean the same everywhere; nothing heavy is imported, lest `--help` wait for it."""

import argparse
from collections.abc import Sequence
from typing import Final

from ottla.errors import OptionError, Term

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
}


def add_partitions(parser: argparse.ArgumentParser) -> None:
    """The flags that choose partitions."""
    parser.add_argument("--topic", action="append", help="only this topic; may be repeated")
    parser.add_argument("--partition", action="append", type=int, help="only this partition")
    add_links(parser)


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
