"""JSON Schema as one of the languages of schemas: to columns where it maps, else to text.

A document must be what its columns say, with no property beside them: one that is not stays bytes.
"""

import json
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from ottla.errors import SchemaError
from ottla.schemas.payloads import Faults, split_whole
from ottla.schemas.registry import Registry, Version, split_subject
from ottla.schemas.wires import WireFormat

_MOST_TYPES: Final = 1000  # that a schema comes to with all that it refers to
_MOST_DEPTH: Final = 32
_MOST_REFS: Final = 32  # one after the other
_BROKEN: Final = 1
_TOO_LARGE: Final = 2
Take = Callable[[Any], Any]
split = split_whole


def names(version: Version, registry: Registry, indexes: tuple[int, ...]) -> list[str]:  # noqa: ARG001
    """The title of a schema, else its subject: all versions of it are one type."""
    found = _loaded(version.text)
    title = found.get("title") if isinstance(found, dict) else None
    return [title if isinstance(title, str) and title else split_subject(version.subject)[1]]


def all_names(version: Version, registry: Registry) -> list[str]:
    """The same: there is one."""
    return names(version, registry, (0,))


def lost_fields(
    writer: Version,  # noqa: ARG001
    reader: Version,  # noqa: ARG001
    name: str,  # noqa: ARG001
    registry: Registry,  # noqa: ARG001
    older: tuple[Version, ...] = (),  # noqa: ARG001
) -> set[str]:
    """None: a document that has more than the columns stays bytes."""
    return set()


def decoder(
    writer: Version,  # noqa: ARG001  documents say themselves what they hold
    reader: Version,
    name: str,  # noqa: ARG001
    registry: Registry,
    wire: WireFormat = WireFormat.CONFLUENT,  # noqa: ARG001
    older: tuple[Version, ...] = (),
) -> "DocumentDecoder":
    """What decodes documents."""
    return _decoder(tuple(_texts(each, registry) for each in (reader, *older)))


_Texts = tuple[str, tuple[tuple[str, str], ...]]


def _texts(version: Version, registry: Registry) -> _Texts:
    needed = registry.referenced(version)
    return version.text, tuple((each.name, one.text) for each, one in needed)


@lru_cache(maxsize=64)
def _decoder(versions: tuple[_Texts, ...]) -> "DocumentDecoder":
    documents = [
        _Document(_loaded(text), {name: _loaded(each) for name, each in references})
        for text, references in versions
    ]
    arrow_type, take = _Mapping().map(documents)
    return DocumentDecoder(arrow_type, take)


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"no JSON: {error}") from None


class DocumentDecoder:
    """JSON texts as columns."""

    too_large = _TOO_LARGE

    def __init__(self, arrow_type: pa.DataType, take: Take) -> None:
        self.arrow_type = arrow_type
        self.take = take

    def decode(self, payloads: pa.Array, max_bytes: int) -> tuple[pa.Array, Faults]:
        """A column, and which rows are no such documents."""
        faults = np.zeros(len(payloads), np.uint8)
        rows: list[Any] = []
        for at, payload in enumerate(payloads.to_pylist()):
            max_bytes -= len(payload)
            if max_bytes < 0:
                faults[at:] = _TOO_LARGE
                rows += [None] * (len(payloads) - at)
                break
            try:
                text = payload.decode()
                document = json.loads(text, parse_constant=_refuse)
                rows.append(text if self.take is _as_text else self.take(document))
            except (ValueError, RecursionError, OverflowError):
                faults[at] = _BROKEN
                rows.append(None)
        return pa.array(rows, self.arrow_type), faults

    def say(self, fault: int) -> str:  # noqa: ARG002
        """There is one other fault."""
        return "no such document"


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


class _Document(NamedTuple):
    """A schema, and what names in it mean."""

    root: Any
    others: dict[str, Any]


class _SchemaPart(NamedTuple):
    """A part of a schema, and the document that it is in."""

    schema: Any
    document: _Document


class _Mapping:
    """Schemas while their columns are found; what is too much or goes in circles is text."""

    def __init__(self) -> None:
        self.count = 0

    def map(self, documents: Sequence[_Document]) -> tuple[pa.DataType, Take]:
        """The columns of the first, and what objects of the others have beside them."""
        return self._map([_SchemaPart(each.root, each) for each in documents], 0, ())

    def _map(
        self, places: Sequence[_SchemaPart], depth: int, around: tuple[int, ...]
    ) -> tuple[pa.DataType, Take]:
        self.count += 1
        first, *older = map(_follow, places)
        if first is None or self.count > _MOST_TYPES or depth > _MOST_DEPTH:
            return pa.string(), _as_text
        if id(first.schema) in around:
            return pa.string(), _as_text
        around = (*around, id(first.schema))
        kind = _kind(first.schema)
        if kind in _PLAIN:
            return _PLAIN[kind]
        alike = [first, *(each for each in older if each and _kind(each.schema) == kind)]
        if kind == "optional":
            return self._map([_chosen(each) for each in alike], depth + 1, around)
        if kind == "array":
            items = [_SchemaPart(each.schema["items"], each.document) for each in alike]
            item, take = self._map(items, depth + 1, around)
            return pa.list_(item), _take_list(take)
        if kind == "object":
            return self._map_object(alike, depth, around)
        return pa.string(), _as_text

    def _map_object(
        self, alike: Sequence[_SchemaPart], depth: int, around: tuple[int, ...]
    ) -> tuple[pa.DataType, Take]:
        named: dict[str, list[_SchemaPart]] = {}
        lower: set[str] = set()
        for each in alike:
            for name, schema in each.schema["properties"].items():
                if name in named or name.lower() not in lower:
                    named.setdefault(name, []).append(_SchemaPart(schema, each.document))
                    lower.add(name.lower())
        fields, takes = [], {}
        for name, places in named.items():
            kind, take = self._map(places, depth + 1, around)
            fields.append(pa.field(name, kind))
            takes[name] = take
            if self.count > _MOST_TYPES:
                return pa.string(), _as_text
        return pa.struct(fields), _take_object(takes)


def _follow(place: _SchemaPart) -> _SchemaPart | None:
    """The schema that references lead to."""
    schema, document = place
    for _ in range(_MOST_REFS):
        if not isinstance(schema, dict):
            return None
        target = schema.get("$ref")
        if target is None:
            return _SchemaPart(schema, document)
        if not isinstance(target, str):
            return None
        other, _, pointer = target.partition("#")
        if other:
            if other not in document.others:
                return None
            document = _Document(document.others[other], document.others)
        schema = _at(document.root, pointer)
    return None


def _chosen(place: _SchemaPart) -> _SchemaPart:
    """The one choice that is not null."""
    (chosen,) = (each for each in _choices(place.schema) if not _is_null(each))
    return _SchemaPart(chosen, place.document)


def _at(root: Any, pointer: str) -> Any:
    for part in pointer.split("/")[1:]:
        name = unquote(part).replace("~1", "/").replace("~0", "~")
        root = root.get(name) if isinstance(root, dict) else None
    return root


def _choices(schema: dict[str, Any]) -> list[Any]:
    for name in ("oneOf", "anyOf"):
        found = schema.get(name)
        if isinstance(found, list):
            return found
    return []


def _is_null(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "null"


def _kind(schema: dict[str, Any]) -> str:
    """What a schema says in a word; nothing for what has no columns."""
    choices = _choices(schema)
    if choices:
        others = [each for each in choices if not _is_null(each)]
        return "optional" if len(others) == 1 and "properties" not in schema else ""
    if any(name in schema for name in ("allOf", "not", "if", "patternProperties")):
        return ""
    kind = schema.get("type")
    if isinstance(kind, list):
        named = [each for each in kind if each != "null"]
        kind = named[0] if len(named) == 1 else None
    if kind == "object":
        properties = schema.get("properties")
        lower = [str(name).lower() for name in properties] if isinstance(properties, dict) else []
        are_columns = len(set(lower)) == len(lower) and all(map(_is_utf8, lower))
        return "object" if lower and are_columns else ""
    if kind == "array":
        return "array" if isinstance(schema.get("items"), dict) else ""
    return kind if isinstance(kind, str) and kind in _PLAIN else ""


def _as_text(value: Any) -> Any:
    """Not what JSON has no number for: 1e999 is infinite."""
    if value is None:
        return None
    return _take_string(
        json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    )


def _take_string(value: Any) -> Any:
    _require(value, isinstance(value, str | None))
    return _require(value, value is None or _is_utf8(value))


def _is_utf8(text: str) -> bool:
    """Half of a surrogate pair is none, and JSON can escape one."""
    return text.isascii() or not any("\ud800" <= one <= "\udfff" for one in text)


def _take_boolean(value: Any) -> Any:
    return _require(value, isinstance(value, bool | None))


def _take_integer(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    fits = type(value) is int and -(2**63) <= value < 2**63
    return _require(value, value is None or fits)


def _take_number(value: Any) -> Any:
    if value is None:
        return None
    fits = type(value) is float or (type(value) is int and int(float(value)) == value)
    return float(_require(value, fits and math.isfinite(value)))


def _take_list(take: Take) -> Take:
    def run(value: Any) -> Any:
        _require(value, isinstance(value, list | None))
        return None if value is None else [take(each) for each in value]

    return run


def _take_object(takes: dict[str, Take]) -> Take:
    def run(value: Any) -> Any:
        _require(value, isinstance(value, dict | None))
        if value is None:
            return None
        _require(value, value.keys() <= takes.keys())
        return {name: take(value.get(name)) for name, take in takes.items()}

    return run


def _require(value: Any, fits: bool) -> Any:
    if not fits:
        raise ValueError("not as the schema says")
    return value


_PLAIN: Final[dict[str, tuple[pa.DataType, Take]]] = {
    "string": (pa.string(), _take_string),
    "boolean": (pa.bool_(), _take_boolean),
    "integer": (pa.int64(), _take_integer),
    "number": (pa.float64(), _take_number),
}
