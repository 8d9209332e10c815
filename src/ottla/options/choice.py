"""Which partitions are asked for: what flags and the connector's options both make."""

import re
from dataclasses import dataclass
from typing import Final

from ottla.errors import OptionError
from ottla.format.names import UNNAMED, TopicPartition
from ottla.internal.records import INTERNAL_TOPICS
from ottla.options.texts import is_integer, parse_json_object


@dataclass(frozen=True, slots=True)
class Choice:
    """Empty fields choose every partition; a partition must suit all that are given."""

    topics: tuple[str, ...] = ()
    partitions: tuple[int, ...] = ()
    pattern: str | None = None
    assigned: frozenset[TopicPartition] | None = None

    @property
    def named_topics(self) -> frozenset[str]:
        """The topics that are named outright, not only matched."""
        return frozenset(self.topics) | {name.topic for name in self.assigned or ()}

    def chooses(self, name: TopicPartition) -> bool:
        """Whether a partition is asked for; one without a name is, where nothing is named."""
        if name == UNNAMED:
            return self == EVERY_PARTITION
        if self.assigned is not None and name not in self.assigned:
            return False
        if self.pattern is not None and re.search(self.pattern, name.topic) is None:
            return False
        return (not self.topics or name.topic in self.topics) and (
            not self.partitions or name.partition in self.partitions
        )

    def chooses_for_users(self, name: TopicPartition) -> bool:
        """The same without internal topics, but for those that are named outright."""
        is_hidden = name.topic in INTERNAL_TOPICS and name.topic not in self.named_topics
        return self.chooses(name) and not is_hidden


EVERY_PARTITION: Final = Choice()
_ASSIGN_FORM: Final = 'JSON such as {"topicA":[0,1],"topicB":[2]}'


def parse_subscribe(text: str) -> Choice:
    topics = tuple(dict.fromkeys(filter(None, (name.strip() for name in text.split(",")))))
    if not topics:
        raise OptionError("topics, separated by commas")
    return Choice(topics=topics)


def parse_pattern(text: str) -> Choice:
    try:
        re.compile(text.strip())
    except re.error as error:
        raise OptionError(f"a regular expression ({error})") from error
    if not text.strip():
        raise OptionError("a regular expression")
    return Choice(pattern=text.strip())


def parse_assign(text: str) -> Choice:
    chosen = set()
    for topic, partitions in parse_json_object(text, _ASSIGN_FORM).items():
        if not isinstance(partitions, list) or not all(map(is_integer, partitions)):
            raise OptionError(_ASSIGN_FORM)
        chosen |= {TopicPartition(topic, partition) for partition in partitions}
    return Choice(assigned=frozenset(chosen))
