"""A registry of schemas as its topic `_schemas` tells it: Confluent's, Karapace's, Redpanda's.

The topic is a table whose keys and values are JSON. What was deleted stays usable by its id: data
that was written with it is still there. Everything here was written by strangers.
"""

import base64
import binascii
import hashlib
import json
import re
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple

from ottla.errors import SchemaError

TOPIC: Final = "_schemas"
DEFAULT_CONTEXT: Final = "."
NO_ID: Final = -1  # of a schema from a file that names none
_SUBJECT: Final = re.compile(r":(\.[^:]*):(.*)", re.DOTALL)
_MOST_PROBLEMS: Final = 1000
_MOST_REFERENCES: Final = 1000
_MOST_REFERENCED: Final = 10_000_000  # characters


class SchemaType(StrEnum):
    """The language of a schema."""

    AVRO = "AVRO"
    PROTOBUF = "PROTOBUF"
    JSON = "JSON"


class State(StrEnum):
    """Whether a version still counts: a soft delete hides it, a hard one forgets it."""

    LIVE = "live"
    SOFT = "soft-deleted"
    HARD = "hard-deleted"


class Reference(NamedTuple):
    """Another schema that one needs, under the name that it calls it by."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a subject: `body` is all that the registry had stored of it."""

    subject: str
    version: int
    id: int
    type: SchemaType
    text: str
    references: tuple[Reference, ...] = ()
    state: State = State.LIVE
    guid: str = ""
    encoding_rules: tuple[str, ...] = ()
    field_rules: tuple[str, ...] = ()
    written: int = field(default=0, compare=False, repr=False)  # its place in the log
    body: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def context(self) -> str:
        return split_subject(self.subject)[0]

    def __str__(self) -> str:
        return f"{self.subject} version {self.version} (id {self.id})"


def split_subject(subject: str) -> tuple[str, str]:
    """The context of a subject and its name there.

    >>> split_subject(":.eu:orders-value"), split_subject("orders-value")
    (('.eu', 'orders-value'), ('.', 'orders-value'))
    """
    found = _SUBJECT.fullmatch(subject)
    return (found[1], found[2]) if found else (DEFAULT_CONTEXT, subject)


@dataclass(slots=True)
class Registry:
    """All versions, in the order in which they were stored; `problems` are told to people."""

    versions: list[Version] = field(default_factory=list)
    compatibility: dict[str | None, str] = field(default_factory=dict)
    modes: dict[str | None, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    _ids: dict[int, list[Version]] = field(default_factory=dict, repr=False)
    _guids: dict[str, Version] = field(default_factory=dict, repr=False)
    _subjects: dict[str, list[Version]] = field(default_factory=dict, repr=False)
    _fingerprints: dict[int, Version] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        for one in sorted(self.versions, key=_worth):
            self._ids.setdefault(one.id, []).append(one)
            self._guids.setdefault(one.guid, one)
            self._subjects.setdefault(one.subject, []).append(one)

    def find_id(self, number: int) -> Version | None:
        """The schema of an id: of the default context first, since payloads name none."""
        found = self._ids.get(number)
        return found[0] if found and number != NO_ID else None

    def find_guid(self, guid: str) -> Version | None:
        """The schema of a GUID."""
        return self._guids.get(guid)

    def find_fingerprint(self, number: int) -> Version | None:
        """The schema of Avro with a fingerprint; all are computed when the first is asked for."""
        if self._fingerprints is None:
            from ottla.schemas.avro_language import fingerprint_of

            self._fingerprints = {}
            for one in self.versions:
                found = fingerprint_of(one, self) if one.type is SchemaType.AVRO else None
                if found is not None:
                    self._fingerprints.setdefault(found, one)
        return self._fingerprints.get(number)

    def of_subject(self, subject: str) -> list[Version]:
        """The versions of a subject, newest first: live ones, then those that were deleted."""
        found = self._subjects.get(subject, [])
        order = {State.LIVE: 0, State.SOFT: 1, State.HARD: 2}
        return sorted(found, key=lambda one: (order[one.state], -one.version))

    def subjects_named(self, name: str) -> list[str]:
        """The subjects of that name: that of the default context, else those of all others."""
        found = [
            subject
            for subject, versions in self._subjects.items()
            if split_subject(subject)[1] == name
            and any(one.state is not State.HARD for one in versions)
        ]
        return [name] if name in found else sorted(found)

    def find_version(self, subject: str, number: int) -> Version | None:
        """One version of a subject, a live one before a deleted one of its number."""
        same = [one for one in self.of_subject(subject) if number in (one.version, -1)]
        return same[0] if same else None

    def referenced(self, version: Version) -> list[tuple[Reference, Version]]:
        """All schemas that one needs, each once, those first that others need."""
        found: list[tuple[Reference, Version]] = []
        done: set[str] = set()
        size = 0
        # Not by recursion: references may be as deep as there are schemas.
        waiting: list[tuple[Reference | None, Version, bool]] = [(None, version, False)]
        open_names: set[tuple[str, int]] = set()
        while waiting:
            reference, one, is_done = waiting.pop()
            if is_done:
                open_names.discard((one.subject, one.version))
                if reference is not None and reference.name not in done:
                    done.add(reference.name)
                    found.append((reference, one))
                continue
            if (one.subject, one.version) in open_names:
                raise SchemaError(f"{version} refers to itself, through {one}")
            if reference is not None and reference.name in done:
                continue
            size += len(one.text)
            if len(found) > _MOST_REFERENCES or size > _MOST_REFERENCED:
                raise SchemaError(f"{version} refers to too much")
            open_names.add((one.subject, one.version))
            waiting.append((reference, one, True))
            for each in reversed(one.references):
                if each.name in done:
                    continue
                waiting.append((each, self._need(each, one), False))
        return found

    def _need(self, reference: Reference, version: Version) -> Version:
        subject = reference.subject
        context = version.context
        inside = f":{context}:{subject}"
        if context != DEFAULT_CONTEXT and not _SUBJECT.fullmatch(subject):
            found = self.find_version(inside, reference.version)
            found = found or self.find_version(subject, reference.version)
        else:
            found = self.find_version(subject, reference.version)
        if found is None:
            raise SchemaError(
                f"{version} needs {subject} version {reference.version}, which is not there"
            )
        return found


def _worth(version: Version) -> tuple[bool, str, bool]:
    """Which of several schemas of one id counts: a registry keeps the first."""
    context = version.context
    return context != DEFAULT_CONTEXT, context, version.state is State.HARD


def fold_registry(records: Iterable[tuple[bytes | None, bytes | None]]) -> Registry:
    """What keys and values of `_schemas` add up to, in the order of the log."""
    return _RegistryFolding().fold(records)


class _RegistryFolding:
    """Versions by their keys. Redpanda's keys are of one write: a tombstone takes that one back."""

    def __init__(self) -> None:
        self.stored: dict[str, dict[int, dict[tuple[Any, ...], Version]]] = {}
        self.gone: list[Version] = []
        self.compatibility: dict[str | None, str] = {}
        self.modes: dict[str | None, str] = {}
        self.problems: list[str] = []
        self.at = 0

    def fold(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> Registry:
        for at, (key, value) in enumerate(records):
            self.at = at
            try:
                self.add(_object(key), None if value is None else _object(value))
            except (SchemaError, ValueError, RecursionError) as error:
                self.tell(f"record {at} of {TOPIC} is not understood: {error}")
        versions = [
            list(writes.values())[-1]
            for numbers in self.stored.values()
            for writes in numbers.values()
            if writes
        ]
        versions += self.gone
        versions.sort(key=lambda one: one.written)
        self.tell_clashes(versions)
        return Registry(versions, self.compatibility, self.modes, self.problems)

    def tell(self, problem: str) -> None:
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(problem)

    def add(self, key: dict[str, Any], value: dict[str, Any] | None) -> None:
        kind = key.get("keytype")
        if kind == "SCHEMA":
            self.add_schema(key, value)
        elif kind == "DELETE_SUBJECT" and value is not None:
            subject, last = _text(value, "subject"), _number(value, "version")
            for number, writes in self.stored.get(subject, {}).items():
                if number <= last and writes:
                    newest = list(writes)[-1]
                    writes[newest] = replace(writes[newest], state=State.SOFT)
        elif kind == "CLEAR_SUBJECT" and value is not None:
            self.clear(_text(value, "subject"))
        elif kind in ("CONFIG", "MODE"):
            name, told = (
                ("compatibilityLevel", self.compatibility)
                if kind == "CONFIG"
                else ("mode", self.modes)
            )
            named = key.get("subject")
            whose = named if isinstance(named, str) else None
            level = None if value is None else value.get(name)
            if isinstance(level, str):
                told[whose] = level
            elif value is None:
                told.pop(whose, None)

    def clear(self, subject: str) -> None:
        for writes in self.stored.get(subject, {}).values():
            if writes:
                newest = list(writes.values())[-1]
                if newest.state is State.SOFT:
                    self.gone.append(replace(newest, state=State.HARD))
                    writes.clear()

    def add_schema(self, key: dict[str, Any], value: dict[str, Any] | None) -> None:
        subject, number = _text(key, "subject"), _number(key, "version")
        writes = self.stored.setdefault(subject, {}).setdefault(number, {})
        write = (key.get("seq"), key.get("node"))
        if not all(isinstance(each, int | str | None) for each in write):
            write = (None, None)
        # What is written again, as with a soft delete, still came when it first did.
        at = next((one.written for one in writes.values()), self.at)
        before = writes.pop(write, None)
        if value is None:
            if before is not None and not writes:
                self.gone.append(replace(before, state=State.HARD))
            return
        writes[write] = replace(parse_version(subject, number, value), written=at)

    def tell_clashes(self, versions: list[Version]) -> None:
        first: dict[int, Version] = {}
        for one in sorted(versions, key=_worth):
            other = first.setdefault(one.id, one)
            if (other.text, other.type) != (one.text, one.type) and one.state is not State.HARD:
                self.tell(
                    f"id {one.id} is {other} and also {one}, another schema: the first counts"
                )


def parse_version(subject: str, number: int, value: dict[str, Any]) -> Version:
    """The value of a record of `_schemas`."""
    text = _text(value, "schema")
    named = value.get("schemaType", "AVRO")
    if named not in list(SchemaType):
        raise SchemaError(f"schemaType {str(named)[:40]!r} is unknown")
    references = tuple(_references(value.get("references")))
    rules = value.get("ruleSet")
    return Version(
        subject=subject,
        version=number,
        id=_number(value, "id"),
        type=SchemaType(named),
        text=text,
        references=references,
        state=State.SOFT if value.get("deleted") is True else State.LIVE,
        guid=_guid(value, text, references),
        encoding_rules=tuple(_rule_names(rules, "encodingRules")),
        field_rules=tuple(_rule_names(rules, "domainRules")),
        body=value,
    )


def _object(data: bytes | None) -> dict[str, Any]:
    if data is None:
        raise SchemaError("it has no key")
    found = json.loads(data)
    if not isinstance(found, dict):
        raise SchemaError("it is no JSON object")
    return found


def _text(values: dict[str, Any], name: str) -> str:
    found = values.get(name)
    if not isinstance(found, str):
        raise SchemaError(f"{name} is no text")
    found.encode()  # half of a surrogate pair is none either
    return found


def _number(values: dict[str, Any], name: str) -> int:
    found = values.get(name)
    if type(found) is not int or not -(2**31) <= found < 2**31:
        raise SchemaError(f"{name} is no number")
    return found


def _references(given: Any) -> Iterator[Reference]:
    if given is None:
        return
    if not isinstance(given, list):
        raise SchemaError("references are no list")
    for each in given:
        if not isinstance(each, dict):
            raise SchemaError("a reference is no object")
        yield Reference(_text(each, "name"), _text(each, "subject"), _number(each, "version"))


def _rule_names(rules: Any, name: str) -> Iterator[str]:
    """What rules do to data, as far as it can be told: ENCRYPT, CEL and others."""
    found = rules.get(name) if isinstance(rules, dict) else None
    for each in found if isinstance(found, list) else ():
        if isinstance(each, dict) and each.get("disabled") is not True:
            yield str(each.get("type") or each.get("name") or "a rule")[:40]


def _guid(value: dict[str, Any], text: str, references: tuple[Reference, ...]) -> str:
    """As stored, or computed as the registry does: the MD5 of all that makes a schema."""
    stored = value.get("md5")
    if isinstance(stored, str):
        try:
            digest = base64.b64decode(stored, validate=True)
        except (binascii.Error, ValueError):
            digest = b""
        if len(digest) == 16:
            return str(uuid.UUID(bytes=digest))
    hashed = hashlib.md5(text.encode(), usedforsecurity=False)
    for each in references:
        hashed.update(each.name.encode() + each.subject.encode())
        hashed.update(each.version.to_bytes(4, "big", signed=True))
    for part in (*_metadata_parts(value.get("metadata")), *_rule_parts(value.get("ruleSet"))):
        hashed.update(part)
    return str(uuid.UUID(bytes=hashed.digest()))


def _metadata_parts(metadata: Any) -> Iterator[bytes]:
    if not isinstance(metadata, dict):
        return
    yield b"\x01"
    for name, values in _items(metadata.get("tags")):
        yield from (name, *_texts(values))
    for name, value in _items(metadata.get("properties")):
        yield from (name, *_texts([value]))
    yield from _texts(metadata.get("sensitive"))


_RULE_PARTS: Final = ("name", "doc", "kind", "mode", "type")


def _rule_parts(rules: Any) -> Iterator[bytes]:
    if not isinstance(rules, dict):
        return
    yield b"\x01"
    for name in ("migrationRules", "domainRules", "encodingRules"):
        found = rules.get(name)
        for rule in found if isinstance(found, list) else ():
            if not isinstance(rule, dict):
                continue
            yield from _texts([rule.get(part) for part in _RULE_PARTS])
            yield from _texts(rule.get("tags"))
            for param, value in _items(rule.get("params")):
                yield from (param, *_texts([value]))
            yield from _texts([rule.get(part) for part in ("expr", "onSuccess", "onFailure")])
            if rule.get("disabled") is True:
                yield b"\x01"
    yield from _texts([rules.get("enableAt")])


def _items(given: Any) -> Iterator[tuple[bytes, Any]]:
    for name, value in given.items() if isinstance(given, dict) else ():
        yield from ((each, value) for each in _texts([name]))


def _texts(given: Any) -> Iterator[bytes]:
    for each in given if isinstance(given, list) else ():
        if isinstance(each, str):
            yield each.encode("utf-8", "surrogatepass")
