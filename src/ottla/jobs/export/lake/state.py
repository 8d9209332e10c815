"""What a table says of what is in it: the form of the export, topics by their ids, next offsets."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import pyarrow as pa

from ottla.errors import PublishError
from ottla.format.names import TopicPartition
from ottla.jobs.export.lake.files import MeasuredFile

FORM: Final = "ottla.form"
OFFSETS: Final = "ottla.offsets"
TOPIC_IDS: Final = "ottla.topic-ids"
JOB: Final = "ottla.job"

Offsets = dict[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class TableState:
    """`ids` has "" for a topic whose id was not known; `next` what was not exported yet."""

    form: Mapping[str, Any] = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)
    next: Offsets = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Addition:
    """What one commit adds: files, up to which offsets, by a job that planned `after` others."""

    job: str
    files: Sequence[MeasuredFile]
    form: Mapping[str, Any]
    columns: pa.Schema
    ids: Mapping[str, str]
    after: Offsets
    upto: Offsets


class LakeTable(Protocol):
    """A table of one of the libraries; `location` is where its files lie."""

    location: str

    def read_state(self, names: Iterable[TopicPartition]) -> TableState | None:
        """What it says of these partitions, as it is now; None if there is no table."""

    def read_columns(self) -> pa.Schema:
        """The columns that it has."""

    def append(self, addition: Addition) -> None:
        """Make it have the files, once, if it still says what the job planned from."""

    def has_files(self, addition: Addition) -> bool:
        """Whether it has them now."""

    def referenced(self, targets: Iterable[str]) -> set[str]:
        """Which of these files any state of it, that can still be read, has."""


def parse_state(properties: Mapping[str, str], where: str) -> TableState:
    """The state in the properties of a table, which may be anybody's.

    >>> parse_state({OFFSETS: '{"orders":{"0":1200}}'}, "a table").next
    {TopicPartition(topic='orders', partition=0): 1200}
    """
    form, ids, offsets = (_parse(properties, name, where) for name in (FORM, TOPIC_IDS, OFFSETS))
    try:
        found = {
            TopicPartition(str(topic), int(partition)): int(offset)
            for topic, partitions in offsets.items()
            for partition, offset in partitions.items()
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise _unreadable(OFFSETS, where) from error
    return TableState(form, {topic: str(one) for topic, one in ids.items()}, found)


def encode_offsets(offsets: Offsets) -> str:
    """As Spark's connector writes them: the next offset of each partition."""
    by_topic: dict[str, dict[str, int]] = {}
    for name, offset in sorted(offsets.items()):
        by_topic.setdefault(str(name.topic), {})[str(name.partition)] = offset
    return json.dumps(by_topic, separators=(",", ":"))


def _parse(properties: Mapping[str, str], name: str, where: str) -> dict[str, Any]:
    try:
        content = json.loads(properties.get(name, "{}"))
    except ValueError as error:
        raise _unreadable(name, where) from error
    if not isinstance(content, dict):
        raise _unreadable(name, where)
    return content


def _unreadable(name: str, where: str) -> PublishError:
    return PublishError(f"{name} of {where} is not as ottla writes it: choose another TABLE")


def moved_on(where: str) -> PublishError:
    """What to raise when a table is not any more as it was when the job was planned."""
    return PublishError(
        f"another export added to {where} since this one began, and this one added nothing: run it"
        " again"
    )


def same_topics(state: TableState, ids: Mapping[str, str]) -> Offsets:
    """The offsets of topics that have the same id as ever: those of others mean nothing now."""
    return {
        name: offset
        for name, offset in state.next.items()
        if ids.get(str(name.topic)) == state.ids.get(str(name.topic))
    }


def of_names(offsets: Offsets, names: Iterable[TopicPartition]) -> Offsets:
    """Some of the offsets."""
    return {name: offsets[name] for name in names if name in offsets}
