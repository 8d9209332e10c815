"""Arguments of Python programs, as the options and limits that all readers share."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import Enum
from os import PathLike, fspath
from typing import TypeVar

import pyarrow.compute as pc

from ottla.engines import EngineKind, EngineOptions
from ottla.errors import OptionError
from ottla.format.names import TopicPartition
from ottla.format.sentinels import INT64_MAX
from ottla.options.export import ValueAs
from ottla.options.fields import Names, check_names
from ottla.options.offsets import (
    Limit,
    Offset,
    Offsets,
    Timestamp,
    Timestamps,
    parse_time,
    parse_when,
)
from ottla.storage.object_store import StorageOptions
from ottla.where.parse import as_where, parse_where
from ottla.where.tree import Predicate, Where

Path = str | PathLike[str]
Topics = str | Sequence[str] | None
When = int | str | datetime
Member = TypeVar("Member", bound=Enum)


def paths_of(given: Path | Sequence[Path]) -> tuple[str, ...]:
    """One path or several, as texts."""
    if isinstance(given, str | PathLike):
        return (fspath(given),)
    paths = tuple(fspath(path) for path in given)
    if not paths:
        raise OptionError("no path: name a log directory, a partition directory or a segment")
    return paths


def storage_of(given: Mapping[str, object]) -> StorageOptions:
    """Where files are; what is unknown or looks like a secret is refused."""
    known = {name: value for name, value in given.items() if name in StorageOptions.__slots__}
    others = {name.lower(): str(value) for name, value in given.items() if name not in known}
    check_names(others, Names((), (), ()))
    return StorageOptions(**known)  # type: ignore[arg-type]


def topics_of(given: Topics) -> tuple[str, ...]:
    """Names and globs; none is every topic."""
    if given is None:
        return ()
    return (given,) if isinstance(given, str) else tuple(given)


def limit_of(given: When | Mapping[int, When] | None, topics: Sequence[str]) -> Limit | None:
    """An offset, a time, or one of these for each partition of one topic.

    >>> limit_of("2025-10-09T08:00Z", ()), limit_of(5, ())
    (Timestamp(timestamp=1759996800000), Offset(offset=5))
    """
    if given is None:
        return None
    if not isinstance(given, Mapping):
        return _place_of(given)
    if len(topics) != 1:
        raise OptionError("places by partition are for a scan of one topic: name it")
    places = {TopicPartition(topics[0], number): _place_of(one) for number, one in given.items()}
    offsets = {name: one.offset for name, one in places.items() if isinstance(one, Offset)}
    times = {name: one.timestamp for name, one in places.items() if isinstance(one, Timestamp)}
    if offsets and times:
        raise OptionError("places by partition are offsets or times, not both")
    return Timestamps(times) if times else Offsets(offsets)


def _place_of(given: When) -> Offset | Timestamp:
    if isinstance(given, datetime):
        return Timestamp(milliseconds_of(given))
    if isinstance(given, str):
        return parse_when(given) if given.isdigit() else Timestamp(parse_time(given))
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= INT64_MAX:
        raise OptionError(f"{given!r} is no offset (0 or more), and no time such as a datetime")
    return Offset(given)


def one_of(choices: type[Member], given: object, name: str) -> Member:
    """The member that is given, or named."""
    for member in choices:
        if given in (member, member.value) or str(given).lower() == str(member.value).lower():
            return member
    words = ", ".join(str(member.value) for member in choices)
    raise OptionError(f"{name}={given!r} is unknown: choose one of {words}")


def value_as_of(given: str, name: str) -> ValueAs:
    """How keys or values are given."""
    return one_of(ValueAs, given, name)


def where_of(given: str | pc.Expression | None) -> Where | None:
    """Which records are wanted: a text, or an expression over the connector's columns."""
    return None if given is None else as_where(given)


def predicate_of(given: str | None) -> Predicate | None:
    """Which records a job takes: a text, which is written into its account."""
    return None if given is None else parse_where(given)


def milliseconds_of(time: datetime) -> int:
    """Since 1970; a time without a zone is of UTC."""
    return parse_time(time.isoformat())


def engine_of(kind: str, master: str | None) -> EngineOptions:
    """What runs a job: threads of this process, unless something else is asked for."""
    chosen = one_of(EngineKind, kind, "engine")
    if master is not None and chosen is EngineKind.LOCAL:
        chosen = EngineKind.SPARK
    return EngineOptions(chosen, master, quiet=True)
