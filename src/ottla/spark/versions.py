"""What versions of Spark lack: one table for fallbacks, for refusals and for docs/clusters.md."""

from enum import Enum
from typing import Final

from pyspark.version import __version__ as pyspark_version

from ottla.errors import OptionError

MINIMUM: Final = (4, 0)  # as in pyproject.toml

Version = tuple[int, int]


class Feature(Enum):
    """What not every version has: the first one that has it, and what is done before that one."""

    STREAM_LIMITS = (
        "`maxOffsetsPerTrigger`, `minOffsetsPerTrigger`, `maxTriggerDelay`, `maxBytesPerTrigger`",
        (4, 2),
        "refused: Spark does not tell a source where a batch begins. `availableNow` is one batch",
    )
    ARROW_STREAM_SINK = (
        "a stream's sink that takes Arrow batches (`DataSourceStreamArrowWriter`)",
        (4, 1),
        "the same: the sink is also a `DataSourceArrowWriter`, which gives it Arrow batches",
    )
    PARTITION_BY_ID = (
        "a shuffle that places rows by number (`repartitionById`, for `verify` and `compact`)",
        (4, 1),
        "the same: Ottla looks for numbers that Spark's hash places there, in a small query",
    )

    def __init__(self, title: str, since: Version, before: str) -> None:
        self.title = title
        self.since = since
        self.before = before


def minor_version(version: str) -> Version:
    """The part of a version that says what it can do.

    >>> minor_version("4.1.4")
    (4, 1)
    """
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def has(feature: Feature) -> bool:
    """Whether the Spark of this process has it."""
    return minor_version(pyspark_version) >= feature.since


def require(feature: Feature, what: str) -> None:
    """Refuse `what` where Spark lacks the feature that it is built on."""
    if not has(feature):
        raise OptionError(
            f"{what} needs Spark {format_version(feature.since)} or newer, and this is"
            f" {pyspark_version}"
        )


def format_version(version: Version) -> str:
    """As it is written: `4.2`."""
    return ".".join(map(str, version))
