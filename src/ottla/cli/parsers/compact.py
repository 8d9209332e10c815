"""The flags of `ottla compact`."""

import argparse
from typing import Any, Final

from ottla.cli.flags import add_now, add_out, add_run, add_selection, size
from ottla.cli.output import add_format
from ottla.format.producers import DEFAULT_EXPIRATION_MS
from ottla.rules.cleaner.cleanable import CleanerConfig

_EXAMPLE: Final = """example:
  ottla demo --out demo-out
  ottla compact demo-out/kafka-logs demo-out/compacted --topic users --include-active
  ottla compact demo-out/kafka-logs --topic users --explain

The newest record of each key stays, at its offset. Tombstones and the markers of transactions go in
a second round, when --delete-retention-ms have passed since the first. A cleaner-offset-checkpoint
in PATH says what is clean already; otherwise everything is dirty."""


_DEFAULTS: Final = CleanerConfig()


def add_parser(subparsers: Any, summary: str) -> None:
    """Add the command to `ottla`."""
    parser = subparsers.add_parser(
        "compact",
        help=summary,
        description="Write what Kafka's cleaner would leave of logs, or say why it leaves so much.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_selection(parser)
    parser.add_argument(
        "--explain",
        action=_Explain,
        out=add_out(parser),
        help="write nothing, so that no OUT is needed: say what would remain, and what keeps the"
        " rest from being cleaned",
    )
    parser.add_argument(
        "--include-active",
        action="store_true",
        help="clean the last segment too; a broker never does, because it still writes to it",
    )
    parser.add_argument(
        "--drop-unkeyed",
        action="store_true",
        help="drop records without a key, as Kafka's cleaner does (default: they are an error)",
    )
    add_now(parser)
    parser.add_argument(
        "--min-cleanable-dirty-ratio",
        type=float,
        metavar="RATIO",
        help="copy logs of which no more than this is dirty (default: 0; Kafka's and that of"
        f" --explain: {_DEFAULTS.min_cleanable_dirty_ratio})",
    )
    for name, default, meaning in (
        ("min-compaction-lag-ms", 0, "leave segments alone that are younger"),
        ("max-compaction-lag-ms", _DEFAULTS.max_compaction_lag_ms, "clean logs that waited longer"),
        ("delete-retention-ms", _DEFAULTS.delete_retention_ms, "how long tombstones stay"),
        ("producer-id-expiration-ms", DEFAULT_EXPIRATION_MS, "forget producers idle for longer"),
    ):
        text = f"{meaning} (default: {default})"
        parser.add_argument(f"--{name}", type=_duration, default=default, metavar="MS", help=text)
    parser.add_argument("--segment-bytes", type=size, default=1 << 30, metavar="SIZE")
    parser.add_argument("--segment-index-bytes", type=size, default=10 << 20, metavar="SIZE")
    add_run(parser, split="256m")
    add_format(parser)


class _Explain(argparse.Action):
    """A flag with which OUT may be missing."""

    def __init__(self, out: argparse.Action, **settings: Any) -> None:
        super().__init__(nargs=0, default=False, **settings)
        self._out = out

    def __call__(
        self,
        parser: object,  # noqa: ARG002
        namespace: argparse.Namespace,
        values: object,  # noqa: ARG002
        flag: object = None,  # noqa: ARG002
    ) -> None:
        setattr(namespace, self.dest, True)
        self._out.required = False


def _duration(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of milliseconds")
    return int(text)
