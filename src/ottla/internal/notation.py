"""The schema tables (`tables/*.txt`) as values: which fields a record has at which version.

A record is `= Name | kind numbers | versions R | flexible R [| until RELEASE]` and its fields. A
field is `name type R [null R] [tag N R] [def X] [{ fields }]`, separated by white space or `;`,
where a range R is `3`, `0-4`, `1+` or `none`, and `[]` before a type makes it an array. The words
mean what they mean in Kafka's message definitions; `until` marks a layout that a later release
replaced without a new version number.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

MAX_VERSION: Final = 2**15 - 1


@dataclass(frozen=True, slots=True)
class Versions:
    """An inclusive range of versions; empty when first is after last."""

    first: int
    last: int

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last


NO_VERSIONS: Final = Versions(0, -1)


@dataclass(frozen=True, slots=True)
class SchemaField:
    """One field; `type` of a struct is "struct" and `fields` are its own."""

    name: str
    type: str
    is_array: bool
    versions: Versions
    nullable: Versions
    tag: int | None
    tagged: Versions
    default: str | None
    fields: tuple["SchemaField", ...]


@dataclass(frozen=True, slots=True)
class Schema:
    """One layout of a record type; `until` is the last release that wrote it, if it is history."""

    name: str
    versions: Versions
    flexible: Versions
    until: str | None
    fields: tuple[SchemaField, ...]


Table = dict[tuple[str, int], tuple[Schema, ...]]


@cache
def read_table(name: str) -> Table:
    """Every layout in `tables/NAME.txt` by kind and number, the newest first."""
    text = (files("ottla.internal") / "tables" / f"{name}.txt").read_text("utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    table: Table = {}
    for record in "\n".join(lines).removeprefix("= ").split("\n= "):
        head, _, body = record.partition("\n")
        kind, numbers, schema = _parse_record(head, body)
        for number in numbers:
            table[kind, number] = (*table.get((kind, number), ()), schema)
    return table


def _parse_record(head: str, body: str) -> tuple[str, list[int], Schema]:
    name, identity, versions, flexible, *until = (part.strip() for part in head.split("|"))
    kind, numbers = identity.split()
    schema = Schema(
        name=name,
        versions=parse_versions(versions.removeprefix("versions ")),
        flexible=parse_versions(flexible.removeprefix("flexible ")),
        until=until[0].removeprefix("until ") if until else None,
        fields=tuple(_parse_fields(body.split())),
    )
    return kind, [int(number) for number in numbers.split(",")], schema


def _parse_fields(words: list[str]) -> Iterator[SchemaField]:
    """Take fields off the front of `words`, up to a closing brace or the end."""
    while words and words[0] != "}":
        if words[0] == ";":
            words.pop(0)
            continue
        yield _parse_field(words)


def _parse_field(words: list[str]) -> SchemaField:
    name, declared, versions = (words.pop(0) for _ in range(3))
    nullable = tagged = NO_VERSIONS
    tag = default = None
    fields: tuple[SchemaField, ...] = ()
    while words and words[0] in {"null", "tag", "def", "{"}:
        word = words.pop(0)
        if word == "null":
            nullable = parse_versions(words.pop(0))
        elif word == "tag":
            tag, tagged = int(words.pop(0)), parse_versions(words.pop(0))
        elif word == "def":
            default = words.pop(0)
        else:
            fields = tuple(_parse_fields(words))
            words.pop(0)
    return SchemaField(
        name=name[0].lower() + name[1:],  # as Kafka's JSON converters name it
        type="struct" if fields else declared.removeprefix("[]"),
        is_array=declared.startswith("[]"),
        versions=parse_versions(versions),
        nullable=nullable,
        tag=tag,
        tagged=tagged,
        default=default,
        fields=fields,
    )


def parse_versions(text: str) -> Versions:
    """
    >>> parse_versions("0-4"), parse_versions("3").last, 7 in parse_versions("1+")
    (Versions(first=0, last=4), 3, True)
    """
    if text == "none":
        return NO_VERSIONS
    if text.endswith("+"):
        return Versions(int(text[:-1]), MAX_VERSION)
    first, _, last = text.partition("-")
    return Versions(int(first), int(last or first))
