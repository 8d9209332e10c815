"""Which schema each key or value names, and its payload: columns in groups of one schema.

Kernels split what stands in front of payloads (`wire`); headers are few, and read here.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final, NamedTuple

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
    indexes: bytes = b""  # of a message of Protobuf, where a header has them

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


def split_column(
    values: pa.Array, headers: pa.Array | None, side: str, wire: WireFormat, registry: Registry
) -> Iterator[Named]:
    """The values that are not null, by the schema that they name."""
    waiting = values.is_valid().to_numpy(zero_copy_only=False).copy()
    if wire in (WireFormat.AUTO, WireFormat.CONFLUENT) and headers is not None:
        yield from _by_headers(headers, f"__{side}_schema_id", waiting, registry)
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
        name = writer._replace(value=OTHERS, indexes=b"\0" if writer.indexes else b"")
        self.taken.setdefault(name, []).append(rows)
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


def _by_headers(
    headers: pa.Array, name: str, waiting: Bools, registry: Registry
) -> Iterator[Named]:
    """Values whose schema is in a header, the last of its name; they have no front then."""
    bounds = headers.offsets.to_numpy()
    pairs = headers.values
    named = pc.fill_null(pc.equal(pairs.field("key"), name), False)
    marked = np.flatnonzero(named.to_numpy(zero_copy_only=False))
    marked = marked[(marked >= bounds[0]) & (marked < bounds[-1])]
    rows = np.searchsorted(bounds, marked, side="right") - 1
    last = dict(zip(rows.tolist(), marked.tolist(), strict=True))
    if not last:
        return
    found: dict[Writer, list[int]] = {}
    texts = pairs.field("value").take(pa.array(list(last.values()))).to_pylist()
    for row, text in zip(last, texts, strict=True):
        writer = _header_writer(text)
        if writer is not None and waiting[row]:
            found.setdefault(writer, []).append(row)
            waiting[row] = False
    strange = _Strange(registry)
    for writer, chosen in found.items():
        several = np.array(chosen, np.int64)
        if not strange.takes(writer, several):
            yield Named(writer, several)
    yield from strange.rest()


def _header_writer(text: bytes | None) -> Writer | None:
    """A GUID after 1, or an id after 0; message indexes of Protobuf may follow."""
    if text is not None and text[:1] == b"\x01" and len(text) >= 17:
        digits = text[1:17].hex()
        guid = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
        return Writer(Naming.GUID, guid, WireFormat.CONFLUENT, indexes=text[17:] or b"\0")
    if text is not None and text[:1] == b"\0" and len(text) >= 5:
        number = int.from_bytes(text[1:5], "big", signed=True)
        return Writer(Naming.ID, number, WireFormat.CONFLUENT, indexes=text[5:] or b"\0")
    return None
