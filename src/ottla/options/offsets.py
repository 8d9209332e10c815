"""From where to where logs are read: limits, as flags and as the JSON of Spark (JsonUtils).

The kinds of limits are those of Spark's connector (KafkaOffsetRangeLimit), and one offset for all.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Final, NamedTuple

from ottla.errors import OptionError
from ottla.format.names import TopicPartition
from ottla.options.texts import is_integer, parse_json_object


class Edge(Enum):
    """An end of a log, and the number that stands for it in offset JSON (JsonUtils)."""

    EARLIEST = -2
    LATEST = -1


@dataclass(frozen=True, slots=True)
class Offset:
    """One offset for all partitions."""

    offset: int

    def __str__(self) -> str:
        return str(self.offset)


@dataclass(frozen=True, slots=True)
class Timestamp:
    """One timestamp for all partitions: the first record of each that is not older."""

    timestamp: int

    def __str__(self) -> str:
        return f"@{self.timestamp}"


@dataclass(frozen=True, slots=True)
class Offsets:
    """An offset for each partition; -2 and -1 are the ends of the log."""

    by_partition: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Timestamps:
    """A timestamp for each partition: its first record that is not older."""

    by_partition: Mapping[TopicPartition, int]


Place = Edge | Offset | Timestamp
Limit = Place | Offsets | Timestamps


class LimitPair(NamedTuple):
    """From where to before where; None is the end of the log on that side."""

    start: Limit | None = None
    stop: Limit | None = None


NO_LIMITS: Final = LimitPair()
_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def parse_when(text: str) -> Offset | Timestamp:
    """
    >>> parse_when("120"), parse_when("@1700000000000")
    (Offset(offset=120), Timestamp(timestamp=1700000000000))
    >>> parse_when("@2023-11-14T22:13:20Z")
    Timestamp(timestamp=1700000000000)
    """
    if _NUMBER.fullmatch(text):
        return Offset(int(text))
    time = _milliseconds(text[1:]) if text.startswith("@") else None
    if time is None:
        raise OptionError(
            f"{text!r} is not an offset such as 120, nor a time such as @2025-10-09T08:53:20Z or"
            " @1760000000000"
        )
    return Timestamp(time)


def parse_time(text: str) -> int:
    """Milliseconds since 1970; where no offset can be meant, the @ may be left out.

    >>> parse_time("@2023-11-14T22:13:20Z"), parse_time("@1700000000000"), parse_time("5")
    (1700000000000, 1700000000000, 5)
    """
    time = _milliseconds(text.removeprefix("@"))
    if time is None:
        raise OptionError(
            f"{text!r} is not a time such as @2025-10-09T08:53:20Z or @1760000000000 (milliseconds)"
        )
    return time


def _milliseconds(text: str) -> int | None:
    if _NUMBER.fullmatch(text):
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return -((_EPOCH - time) // timedelta(milliseconds=1))  # the first millisecond not before it


_OFFSETS_FORM: Final = 'JSON such as {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'


def parse_offsets(text: str) -> dict[TopicPartition, int]:
    """A number for each partition (JsonUtils.partitionOffsets).

    >>> parse_offsets('{"t": {"0": 23, "1": -2}}')
    {TopicPartition(topic='t', partition=0): 23, TopicPartition(topic='t', partition=1): -2}
    """
    numbers = {}
    for topic, partitions in parse_json_object(text, _OFFSETS_FORM).items():
        if not isinstance(partitions, dict):
            raise OptionError(_OFFSETS_FORM)
        for partition, number in partitions.items():
            if not (partition.isascii() and partition.isdigit() and is_integer(number)):
                raise OptionError(_OFFSETS_FORM)
            numbers[TopicPartition(topic, int(partition))] = number
    return numbers


def offsets_by_topic(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """The same as nested objects in one fixed order: Spark compares the text.

    >>> offsets_by_topic({TopicPartition("b", 10): 1, TopicPartition("b", 9): 2})
    {'b': {'9': 2, '10': 1}}
    """
    nested: dict[str, dict[str, int]] = {}
    for key in sorted(offsets):
        nested.setdefault(key.topic, {})[str(key.partition)] = offsets[key]
    return nested


def parse_limit(text: str) -> Limit:
    if text.strip().lower() in ("earliest", "latest"):
        return Edge[text.strip().upper()]
    return Offsets(parse_offsets(text))
