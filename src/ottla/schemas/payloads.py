"""Which schema each key or value names, and its payload: columns in groups of one schema.

Kernels split what stands in front of payloads (`wire`); headers are few, and read here.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final, NamedTuple
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ottla.format.arrays import Bools, Bytes, Int64s
from ottla.schemas import wire as frames
from ottla.schemas.registry import Registry, Version
from ottla.schemas.wires import WireFormat

Faults = npt.NDArray[np.uint8]
OTHERS: Final = "of many others"
_JSON: Final = b"JSON"
_MOST_STRANGE: Final = 100  # names in one column that no schema has: each is work of its own


class Naming(StrEnum):
    """What is given of a schema."""

    ID = "id"
    GUID = "guid"
    FINGERPRINT = "fingerprint"
    NONE = "none"


class Writer(NamedTuple):
    """The schema that payloads were written with, as they name it, and how."""

    naming: Naming
    value: int | str
    wire: WireFormat
    is_zipped: bool = False
    is_json: bool = False  # Avro's JSON instead of its bytes, which a header of Apicurio says

    def __str__(self) -> str:
        return "no schema named" if self.naming is Naming.NONE else f"{self.naming} {self.value}"


BARE: Final = Writer(Naming.NONE, "", WireFormat.NONE)


def find_named(writer: Writer, registry: Registry) -> Version | None:
    """The schema that a registry has under a name."""
    if writer.value == OTHERS:
        return None
    if writer.naming is Naming.GUID:
        return registry.find_guid(str(writer.value))
    number = int(writer.value)
    is_id = writer.naming is Naming.ID
    return registry.find_id(number) if is_id else registry.find_fingerprint(number)


class Named(NamedTuple):
    """Rows of a column that name one schema; without a frame a payload is all of a value."""

    writer: Writer
    rows: Int64s
    frame: frames.WireColumns | None = None
    indexes: pa.Array | None = None  # of messages of Protobuf, where headers have them

    def payloads(self, values: pa.Array) -> pa.Array:
        """The payloads of these rows of a column."""
        if self.frame is not None:
            return self.frame.payloads(self.rows)
        return values.take(pa.array(self.rows))


class MessagePart(NamedTuple):
    """Payloads of one message type, and which rows of several they are."""

    rows: Int64s
    payloads: pa.Array
    indexes: tuple[int, ...] = (0,)


def split_whole(
    payloads: pa.Array,
    named: Named,  # noqa: ARG001
    values: pa.Array,  # noqa: ARG001
    version: Version,  # noqa: ARG001
    registry: Registry,  # noqa: ARG001
) -> Iterator[MessagePart]:
    """Payloads of a language whose schemas have one type each."""
    yield MessagePart(np.arange(len(payloads)), payloads)


def split_column(
    values: pa.Array, headers: pa.Array | None, side: str, wire: WireFormat, registry: Registry
) -> Iterator[Named]:
    """The values that are not null, by the schema that they name."""
    waiting = values.is_valid().to_numpy(zero_copy_only=False).copy()
    if wire in (WireFormat.AUTO, WireFormat.CONFLUENT) and headers is not None:
        yield from _by_confluent_headers(headers, side, waiting, registry)
    if wire in (WireFormat.AUTO, WireFormat.APICURIO) and headers is not None:
        yield from _by_apicurio_headers(headers, side, waiting, registry)
    if wire is WireFormat.NONE:
        yield Named(BARE, np.flatnonzero(waiting))
        return
    for form in (wire,) if wire is not WireFormat.AUTO else _TRIED:
        if waiting.any():
            yield from _framed(values, form, waiting, registry)
    left = np.flatnonzero(waiting)
    if left.size:
        yield Named(BARE._replace(wire=WireFormat.AUTO), left)


_FRAMES: Final = {
    WireFormat.CONFLUENT: frames.Wire.CONFLUENT,
    WireFormat.APICURIO: frames.Wire.CONFLUENT,
    WireFormat.APICURIO2: frames.Wire.APICURIO_2,
    WireFormat.GLUE: frames.Wire.GLUE,
    WireFormat.SINGLE_OBJECT: frames.Wire.SINGLE_OBJECT,
}
_TRIED: Final = (WireFormat.CONFLUENT, WireFormat.GLUE, WireFormat.SINGLE_OBJECT)
_NOT_FRAMED: Final = (int(frames.WireKind.ABSENT), int(frames.WireKind.UNFRAMED))


def _framed(
    values: pa.Array, form: WireFormat, waiting: Bools, registry: Registry
) -> Iterator[Named]:
    found = frames.split(values, _FRAMES[form])
    rows = np.flatnonzero(waiting & ~np.isin(found.kinds, _NOT_FRAMED))
    waiting[rows] = False
    strange = _Strange(registry)
    for places in _groups(found.kinds[rows], found.ids[rows], found.low[rows], form):
        chosen = rows[places]
        writer = _writer(found, int(chosen[0]), form)
        if not strange.takes(writer, chosen):
            yield Named(writer, chosen, found)
    yield from strange.rest(found)


class _Strange:
    """Names that no schema has: from some number on they are one."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.count = 0
        self.taken: dict[Writer, list[Int64s]] = {}

    def takes(self, writer: Writer, rows: Int64s) -> bool:
        if find_named(writer, self.registry) is not None:
            return False
        self.count += 1
        if self.count <= _MOST_STRANGE:
            return False
        self.taken.setdefault(writer._replace(value=OTHERS), []).append(rows)
        return True

    def rest(self, frame: frames.WireColumns | None = None) -> Iterator[Named]:
        for writer, rows in self.taken.items():
            yield Named(writer, np.concatenate(rows), frame)


def _groups(kinds: Bytes, ids: Int64s, low: Int64s, form: WireFormat) -> Iterator[Int64s]:
    """Places with the same kind and id, in order of their first one."""
    if not kinds.size:
        return
    keys = (kinds, ids, low) if form is WireFormat.GLUE else (kinds, ids)
    if all((key == key[0]).all() for key in keys):
        yield np.arange(kinds.size)
        return
    order = np.lexsort(keys)
    changes = np.zeros(order.size, np.bool_)
    for key in keys:
        changes[1:] |= np.diff(key[order]) != 0
    starts = np.flatnonzero(changes)
    yield from np.split(order, starts)


def _writer(found: frames.WireColumns, row: int, form: WireFormat) -> Writer:
    if form is WireFormat.GLUE:
        is_zipped = found.kinds[row] == frames.WireKind.GLUE_ZLIB
        return Writer(Naming.GUID, str(found.uuid(row)), form, is_zipped=bool(is_zipped))
    naming = Naming.FINGERPRINT if form is WireFormat.SINGLE_OBJECT else Naming.ID
    return Writer(naming, int(found.ids[row]), form)


def _by_confluent_headers(
    headers: pa.Array, side: str, waiting: Bools, registry: Registry
) -> Iterator[Named]:
    """Values whose schema is in a header: a GUID after 1, or an id after 0.

    Message indexes of Protobuf may follow.
    """
    found: dict[Writer, list[int]] = {}
    indexes: dict[int, bytes] = {}
    for row, text in _last_headers(headers, f"__{side}_schema_id", waiting).items():
        if text[:1] == b"\x01" and len(text) >= 17:
            guid = str(UUID(bytes=text[1:17]))
            writer = Writer(Naming.GUID, guid, WireFormat.CONFLUENT)
            indexes[row] = text[17:] or b"\0"
        elif text[:1] == b"\0" and len(text) >= 5:
            number = int.from_bytes(text[1:5], "big", signed=True)
            writer = Writer(Naming.ID, number, WireFormat.CONFLUENT)
            indexes[row] = text[5:] or b"\0"
        else:
            continue
        found.setdefault(writer, []).append(row)
    for named in _named_by_headers(found, waiting, registry):
        several = [indexes[row] for row in named.rows.tolist()]
        yield named._replace(indexes=pa.array(several, pa.binary()))


def _by_apicurio_headers(
    headers: pa.Array, side: str, waiting: Bools, registry: Registry
) -> Iterator[Named]:
    """Values with an id of eight bytes in a header: that of the content counts first."""
    found: dict[Writer, list[int]] = {}
    front = f"apicurio.{side}."
    ids = _last_headers(headers, f"{front}globalId", waiting)
    ids |= _last_headers(headers, f"{front}contentId", waiting)
    encodings = _last_headers(headers, f"{front}encoding", waiting) if ids else {}
    for row, text in ids.items():
        if len(text) == 8:
            number, is_json = int.from_bytes(text, "big", signed=True), encodings.get(row) == _JSON
            writer = Writer(Naming.ID, number, WireFormat.APICURIO, is_json=is_json)
            found.setdefault(writer, []).append(row)
    yield from _named_by_headers(found, waiting, registry)


def _last_headers(headers: pa.Array, name: str, waiting: Bools) -> dict[int, bytes]:
    """The last header of a name, of rows that wait and have one."""
    bounds = headers.offsets.to_numpy()
    pairs = headers.values
    named = pc.fill_null(pc.equal(pairs.field("key"), name), False)
    marked = np.flatnonzero(named.to_numpy(zero_copy_only=False))
    marked = marked[(marked >= bounds[0]) & (marked < bounds[-1])]
    rows = np.searchsorted(bounds, marked, side="right") - 1
    last = dict(zip(rows.tolist(), marked.tolist(), strict=True))
    texts = pairs.field("value").take(pa.array(list(last.values()), pa.int64())).to_pylist()
    found = zip(last, texts, strict=True)
    return {row: text for row, text in found if text is not None and waiting[row]}


def _named_by_headers(
    found: dict[Writer, list[int]], waiting: Bools, registry: Registry
) -> Iterator[Named]:
    strange = _Strange(registry)
    for writer, chosen in found.items():
        several = np.array(chosen, np.int64)
        waiting[several] = False
        if not strange.takes(writer, several):
            yield Named(writer, several)
    yield from strange.rest()
