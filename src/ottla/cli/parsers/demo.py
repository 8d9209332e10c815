"""The flags of `ottla demo`."""

from typing import Any


def add_parser(subparsers: Any, summary: str) -> None:
    """Describe the command line."""
    parser = subparsers.add_parser(
        "demo",
        help=summary,
        description="Make the log directory of a small cluster and show on it what Ottla does.",
        epilog="example: ottla demo --out demo-out",
    )
    parser.add_argument("--out", default="demo-out", help="where to leave the data (%(default)s)")
    parser.add_argument(
        "--no-tour", action="store_true", help="only make the logs, for you to try commands on"
    )
    parser.add_argument("--master", help="Spark master URL (default: local[*])")
