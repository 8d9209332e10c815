"""The flags of `ottla append`."""

import argparse
from typing import Any, Final

from ottla.cli.flags import add_links, add_now, add_quiet
from ottla.cli.output import add_format
from ottla.format.attributes import Codec, TimestampType
from ottla.format.producers import Origin
from ottla.rules.append.policy import ZSTD_PRODUCE_VERSION, AppendPolicy

_EXAMPLE: Final = """example:
  ottla demo --out demo-out
  ottla append demo-out/kafka-logs/users-0/00000000000000000000.log \\
      --to demo-out/kafka-logs/orders-0 --dry-run"""

COMPRESSION_TYPES: Final = {
    "producer": None,
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
TIMESTAMP_TYPES: Final = {
    "CreateTime": TimestampType.CREATE_TIME,
    "LogAppendTime": TimestampType.LOG_APPEND_TIME,
}


def add_parser(subparsers: Any, summary: str) -> None:
    """Add the command to `ottla`; settings have the names of Kafka's topic configuration."""
    defaults = AppendPolicy()
    parser = subparsers.add_parser(
        "append",
        help=summary,
        description=summary,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("segments", nargs="+", metavar="SEGMENT", help="batches to append")
    parser.add_argument(
        "--to", required=True, metavar="PARTITION_DIR", help="the partition to append to"
    )
    parser.add_argument("--dry-run", action="store_true", help="required: nothing is written")
    parser.add_argument(
        "--origin",
        choices=[origin.name.lower() for origin in Origin],
        default="client",
        help="who appends; a client's batches are taken to begin at offset 0 (default: client)",
    )
    parser.add_argument("--compression-type", choices=[*COMPRESSION_TYPES], default="producer")
    parser.add_argument(
        "--message-timestamp-type", choices=[*TIMESTAMP_TYPES], default="CreateTime"
    )
    for flag, value in (
        ("--message-timestamp-before-max-ms", defaults.timestamp_before_max_ms),
        ("--message-timestamp-after-max-ms", defaults.timestamp_after_max_ms),
        ("--max-message-bytes", defaults.max_message_bytes),
        ("--segment-bytes", defaults.segment_bytes),
    ):
        parser.add_argument(flag, type=int, default=value, metavar="N", help="default: %(default)s")
    parser.add_argument(
        "--cleanup-policy", choices=["delete", "compact", "compact,delete"], default="delete"
    )
    parser.add_argument(
        "--produce-version",
        type=int,
        default=ZSTD_PRODUCE_VERSION,
        metavar="N",
        help="of a client's produce request; below %(default)s there is no zstd"
        " (default: %(default)s)",
    )
    parser.add_argument("--magic", type=int, choices=[0, 1, 2], default=2, help="default: 2")
    parser.add_argument("--leader-epoch", type=int, help="default: the checkpoint's, else 0")
    add_now(parser)
    add_links(parser)
    add_quiet(parser, "no line for each batch, only what they come to")
    add_format(parser)
