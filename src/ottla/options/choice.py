"""Which partitions are asked for: what flags and the connector's options both make."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from ottla.errors import OptionError, Term
from ottla.format.names import UNNAMED, TopicPartition
from ottla.internal.records import INTERNAL_TOPICS
from ottla.options.texts import is_integer, parse_json_object


@dataclass(frozen=True, slots=True)
class Choice:
    """Empty fields choose every partition; a partition must suit all that are given.

    Topics and globs are one field: a topic is named, or matches.
    """

    topics: tuple[str, ...] = ()
    partitions: tuple[int, ...] = ()
    pattern: str | None = None
    assigned: frozenset[TopicPartition] | None = None
    globs: tuple[str, ...] = ()

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
        return self.chooses_topic(name.topic) and (
            not self.partitions or name.partition in self.partitions
        )

    def chooses_topic(self, topic: str) -> bool:
        """Whether a topic is named or matches, or none is asked for."""
        if not self.topics and not self.globs:
            return True
        return topic in self.topics or any(fnmatchcase(topic, glob) for glob in self.globs)

    def missing_topics(self, there: Collection[str]) -> set[str]:
        """The topics that are named, and the globs that match none."""
        found = {glob for glob in self.globs if any(fnmatchcase(topic, glob) for topic in there)}
        return {*self.named_topics.difference(there), *set(self.globs) - found}

    def chooses_for_users(self, name: TopicPartition) -> bool:
        """The same without internal topics, but for those that are named outright."""
        is_hidden = name.topic in INTERNAL_TOPICS and name.topic not in self.named_topics
        return self.chooses(name) and not is_hidden


EVERY_PARTITION: Final = Choice()
_GLOB: Final = re.compile(r"[*?\[]")
_ASSIGN_FORM: Final = 'JSON such as {"topicA":[0,1],"topicB":[2]}'


def parse_subscribe(text: str) -> Choice:
    topics = tuple(dict.fromkeys(filter(None, (name.strip() for name in text.split(",")))))
    if not topics:
        raise OptionError("topics, separated by commas")
    return Choice(topics=topics)


def choose_topics(words: Iterable[str], partitions: Iterable[int] = ()) -> Choice:
    """Names and globs, several in a word with commas; no name of a topic has what makes a glob.

    >>> choose_topics(["orders,pay*", "users"])
    Choice(topics=('orders', 'users'), partitions=(), pattern=None, assigned=None, globs=('pay*',))
    """
    given = [name.strip() for word in words for name in word.split(",")]
    if "" in given:
        raise OptionError(Term.TOPICS, ": a topic has no name; write them as a,b or one at a time")
    names = dict.fromkeys(name for name in given if not _GLOB.search(name))
    globs = dict.fromkeys(name for name in given if _GLOB.search(name))
    return Choice(tuple(names), tuple(partitions), globs=tuple(globs))


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
