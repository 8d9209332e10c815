"""Which partitions to read, and from where to where; the JSON of both (JsonUtils).

The kinds of limits are those of Spark's connector (KafkaOffsetRangeLimit).
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from ottla.errors import OptionError
from ottla.format.names import TopicPartition
from ottla.format.sentinels import INT64_MAX


class Edge(Enum):
    """An end of a log, and the number that stands for it in offset JSON (JsonUtils)."""

    EARLIEST = -2
    LATEST = -1


@dataclass(frozen=True, slots=True)
class Offsets:
    """An offset for each partition; -2 and -1 are the ends of the log."""

    by_partition: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Timestamps:
    """A timestamp for each partition: its first record that is not older."""

    by_partition: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Timestamp:
    """One timestamp for all partitions."""

    timestamp: int


Limit = Edge | Offsets | Timestamps | Timestamp


@dataclass(frozen=True, slots=True)
class Subscription:
    """Which partitions to read: all of the user's topics unless one of the three says otherwise."""

    topics: frozenset[str] | None = None
    pattern: str | None = None
    assigned: frozenset[TopicPartition] | None = None

    @property
    def takes_all(self) -> bool:
        """Whether nothing was chosen."""
        return self == Subscription()

    def names(self, topic: str) -> bool:
        """Whether the topic is named outright, which alone opens internal topics."""
        if self.assigned is not None:
            return any(topic == assigned.topic for assigned in self.assigned)
        return self.topics is not None and topic in self.topics

    def selects(self, partition: TopicPartition) -> bool:
        """Whether a partition is to be read, internal topics aside."""
        if self.assigned is not None:
            return partition in self.assigned
        if self.pattern is not None:
            return re.search(self.pattern, partition.topic) is not None
        return self.topics is None or partition.topic in self.topics


def parse_subscribe(text: str) -> Subscription:
    topics = frozenset(filter(None, (name.strip() for name in text.split(","))))
    if not topics:
        raise OptionError("topics, separated by commas")
    return Subscription(topics=topics)


def parse_pattern(text: str) -> Subscription:
    try:
        re.compile(text.strip())
    except re.error as error:
        raise OptionError(f"a regular expression ({error})") from error
    if not text.strip():
        raise OptionError("a regular expression")
    return Subscription(pattern=text.strip())


_ASSIGN_FORM: Final = 'JSON such as {"topicA":[0,1],"topicB":[2]}'
_OFFSETS_FORM: Final = 'JSON such as {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'


def _json_object(text: str, form: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise OptionError(form) from error
    if not isinstance(found, dict):
        raise OptionError(form)
    return found


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= INT64_MAX


def parse_assign(text: str) -> Subscription:
    chosen = set()
    for topic, partitions in _json_object(text, _ASSIGN_FORM).items():
        if not isinstance(partitions, list) or not all(map(_is_integer, partitions)):
            raise OptionError(_ASSIGN_FORM)
        chosen |= {TopicPartition(topic, partition) for partition in partitions}
    return Subscription(assigned=frozenset(chosen))


def parse_offsets(text: str) -> dict[TopicPartition, int]:
    """A number for each partition (JsonUtils.partitionOffsets).

    >>> parse_offsets('{"t": {"0": 23, "1": -2}}')
    {TopicPartition(topic='t', partition=0): 23, TopicPartition(topic='t', partition=1): -2}
    """
    numbers = {}
    for topic, partitions in _json_object(text, _OFFSETS_FORM).items():
        if not isinstance(partitions, dict):
            raise OptionError(_OFFSETS_FORM)
        for partition, number in partitions.items():
            if not (partition.isascii() and partition.isdigit() and _is_integer(number)):
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
