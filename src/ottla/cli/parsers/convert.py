"""The flags of `ottla convert`."""

import argparse
from collections.abc import Sequence
from typing import Any, Final

from ottla.cli.flags import add_rewrite, parse_pairs, size
from ottla.errors import OptionError
from ottla.format.attributes import CODEC_NAMES, Codec
from ottla.format.magic import Loss
from ottla.options.texts import parse_bytes

_EXAMPLE: Final = """example:
  ottla demo --out demo-out
  ottla convert demo-out/kafka-logs demo-out/converted --topic clicks --topic users \\
      --magic 2 --codec zstd --level 9 --batch-bytes 65536 --set users.codec=lz4

Batches that need no change are copied byte for byte. An older magic has no place for some things:
each kind that would be lost must be named with --allow-loss. Aborted and open transactions are
left out then, because without markers they would look like the others."""
CODECS: Final = {name: Codec(code) for code, name in CODEC_NAMES.items()}


def _codec(text: str) -> Codec:
    if text not in CODECS:
        raise OptionError(f"{text!r} is no codec: choose {', '.join(CODECS)}")
    return CODECS[text]


# What can be set for all topics by a flag, and for one by --set TOPIC.NAME=VALUE.
_SETTINGS: Final[dict[str, tuple[str, Any]]] = {
    "magic": ("magic", int),
    "codec": ("codec", _codec),
    "level": ("level", int),
    "batch-bytes": ("batch_bytes", parse_bytes),
}


def parse_settings(texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What is different for some topics.

    >>> parse_settings(["a.b.level=3", "a.b.magic=2"])
    {'a.b': {'level': 3, 'magic': 2}}
    """
    settings: dict[str, dict[str, Any]] = {}
    for where, text in parse_pairs(texts, "TOPIC.NAME=VALUE").items():
        topic, _, name = where.rpartition(".")
        if not topic or name not in _SETTINGS:
            raise OptionError(f"--set {where}: NAME is one of {', '.join(_SETTINGS)}")
        field, parse = _SETTINGS[name]
        try:
            settings.setdefault(topic, {})[field] = parse(text)
        except ValueError as error:
            raise OptionError(f"--set {where}={text}: {error}") from error
    return settings


def add_parser(subparsers: Any, summary: str) -> None:
    """Add the command to `ottla`."""
    parser = subparsers.add_parser(
        "convert",
        help=summary,
        description="Write logs in another magic, codec or batch size; offsets stay.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_rewrite(parser)
    parser.add_argument("--magic", type=int, choices=[0, 1, 2], help="default: as it is")
    parser.add_argument("--codec", choices=[*CODECS], help="default: as it is")
    parser.add_argument("--level", type=int, help="of the codec (default: Kafka's)")
    parser.add_argument(
        "--batch-bytes",
        type=size,
        metavar="SIZE",
        help="put records together into batches of this size, before compression, where no"
        " producer's sequence forbids it (default: batches of magic 2 stay as they are)",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="TOPIC.NAME=VALUE",
        help=f"for one topic, one of {', '.join(_SETTINGS)}",
    )
    parser.add_argument(
        "--allow-loss", action="append", default=[], choices=[*Loss], help="may be repeated"
    )
