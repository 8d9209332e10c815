"""Which schema each key or value names, and where its payload lies: the wire formats.

A column is split at once, with NumPy. What has no such front names no schema.
"""

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ottla.format.arrays import Bools
from ottla.schemas.plans import Wire
from ottla.schemas.registry import Registry

Ints = npt.NDArray[np.int64]
Faults = npt.NDArray[np.uint8]


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
    wire: Wire
    is_zipped: bool = False
    indexes: bytes = b""  # of a message of Protobuf, where a header has them

    def __str__(self) -> str:
        return "no schema named" if self.naming is Naming.NONE else f"{self.naming} {self.value}"


OTHERS: Final = "of many others"
_MOST_STRANGE: Final = 100  # ids in one column that no schema has: each is work of its own
BARE: Final = Writer(Naming.NONE, "", Wire.NONE)


class Named(NamedTuple):
    """Rows of a column that name one schema; payloads lie behind `front` bytes."""

    writer: Writer
    rows: Ints
    front: int


class Part(NamedTuple):
    """Payloads of one message type, and which rows of several they are."""

    rows: Ints
    payloads: pa.Array
    indexes: tuple[int, ...] = (0,)


class Fronts(NamedTuple):
    """A column of bytes as arrays."""

    data: npt.NDArray[np.uint8]
    bounds: Ints
    present: Bools

    @property
    def sizes(self) -> Ints:
        return np.diff(self.bounds)


def open_column(values: pa.Array) -> Fronts:
    """The bytes of a binary column, and where each value lies."""
    _, bounds, data = values.buffers()
    count = len(values)
    kind = np.int64 if pa.types.is_large_binary(values.type) else np.int32
    ends = (
        np.zeros(1, kind)
        if not count
        else np.frombuffer(bounds, kind)[values.offset :][: count + 1]
    )
    raw = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    if ends[0]:
        raw, ends = raw[ends[0] :], ends - ends[0]
    present = values.is_valid().to_numpy(zero_copy_only=False)
    return Fronts(raw, ends.astype(np.int64), present)


def take_payloads(values: pa.Array, named: Named) -> pa.Array:
    """The payloads of some rows, without what is in front of them."""
    return without_front(values.take(pa.array(named.rows)), named.front)


def without_front(values: pa.Array, front: int) -> pa.Array:
    """Values without their first bytes, of which each has as many."""
    if not front or not len(values):
        return values
    fronts = open_column(values)
    kept = np.ones(int(fronts.bounds[-1]), np.bool_)
    for at in range(front):
        kept[fronts.bounds[:-1] + at] = False
    data = fronts.data[: kept.size][kept]
    bounds = fronts.bounds - front * np.arange(fronts.bounds.size)
    wide = pa.large_binary() if bounds[-1] > 2**31 - 1 else pa.binary()
    ends = bounds.astype(np.int64 if pa.types.is_large_binary(wide) else np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(wide, len(values), buffers)


def split_column(
    values: pa.Array, headers: pa.Array | None, side: str, wire: Wire, registry: Registry | None
) -> Iterator[Named]:
    """The values that are not null, by the schema that they name.

    Without a registry every front counts for what it looks like.
    """
    fronts = open_column(values)
    waiting = fronts.present.copy()
    if wire in (Wire.AUTO, Wire.CONFLUENT) and headers is not None:
        yield from _by_headers(headers, f"__{side}_schema_id", waiting)
    if wire is Wire.NONE:
        yield Named(BARE, np.flatnonzero(waiting), 0)
        return
    for form in (wire,) if wire is not Wire.AUTO else _TRIED:
        yield from _FORMS[form](fronts, waiting, registry)
    left = np.flatnonzero(waiting)
    if left.size:
        yield Named(BARE._replace(wire=Wire.AUTO), left, 0)


def _candidates(fronts: Fronts, waiting: Bools, first: bytes, size: int) -> Ints:
    """Rows that begin with some bytes and have room for `size`."""
    rows = np.flatnonzero(waiting & (fronts.sizes >= size))
    for at, byte in enumerate(first):
        rows = rows[fronts.data[fronts.bounds[rows] + at] == byte]
    return rows


def _numbers(fronts: Fronts, rows: Ints, at: int, kind: str) -> npt.NDArray[np.generic]:
    width = np.dtype(kind).itemsize
    spots = fronts.bounds[rows][:, None] + at + np.arange(width)
    return np.ascontiguousarray(fronts.data[spots]).view(kind).ravel()


def _groups(numbers: npt.NDArray[np.generic]) -> Iterator[tuple[object, Ints]]:
    """Each number and where it stands, in order of their first row."""
    found, inverse = np.unique(numbers, return_inverse=True)
    order = np.argsort(inverse, kind="stable")
    ends = np.cumsum(np.bincount(inverse, minlength=found.size))
    for number, stop, start in zip(found.tolist(), ends, [0, *ends[:-1]], strict=True):
        yield number, order[start:stop]


Form = Callable[[Fronts, Bools, Registry | None], Iterator[Named]]


def _ids(wire: Wire, kind: str, size: int) -> Form:
    def find(fronts: Fronts, waiting: Bools, registry: Registry | None) -> Iterator[Named]:
        rows = _candidates(fronts, waiting, b"\0", size)
        if not rows.size:
            return
        numbers = _numbers(fronts, rows, 1, kind)
        waiting[rows] = False
        strange, seen = np.zeros(rows.size, np.bool_), 0
        for number, places in _groups(numbers):
            if registry is not None and registry.find_id(int(str(number))) is None:
                seen += 1
                if seen > _MOST_STRANGE:
                    strange[places] = True
                    continue
            writer = Writer(Naming.ID, int(str(number)), wire)
            yield Named(writer, rows[places], size)
        if strange.any():
            yield Named(Writer(Naming.ID, OTHERS, wire), rows[strange], size)

    return find


def _glue(fronts: Fronts, waiting: Bools, registry: Registry | None) -> Iterator[Named]:  # noqa: ARG001
    for packing in (0, 5):
        rows = _candidates(fronts, waiting, bytes([3, packing]), 18)
        if not rows.size:
            continue
        for digest, places in _groups(_numbers(fronts, rows, 2, "V16").astype("S16")):
            chosen = rows[places]
            waiting[chosen] = False
            guid = _uuid(bytes(digest).ljust(16, b"\0"))  # type: ignore[call-overload]
            writer = Writer(Naming.GUID, guid, Wire.GLUE, is_zipped=packing == 5)
            yield Named(writer, chosen, 18)


def _single_objects(fronts: Fronts, waiting: Bools, registry: Registry | None) -> Iterator[Named]:  # noqa: ARG001
    rows = _candidates(fronts, waiting, b"\xc3\x01", 10)
    if not rows.size:
        return
    for number, places in _groups(_numbers(fronts, rows, 2, "<u8")):
        chosen = rows[places]
        waiting[chosen] = False
        writer = Writer(Naming.FINGERPRINT, int(str(number)), Wire.SINGLE_OBJECT)
        yield Named(writer, chosen, 10)


def _uuid(data: bytes) -> str:
    text = data.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def _by_headers(headers: pa.Array, name: str, waiting: Bools) -> Iterator[Named]:
    """Values whose schema is in a header, the last of its name; they have no front then."""
    bounds = headers.offsets.to_numpy()
    pairs = headers.values
    named = pc.fill_null(pc.equal(pairs.field("key"), name), False)
    marked = np.flatnonzero(named.to_numpy(zero_copy_only=False))
    rows = np.searchsorted(bounds, marked, side="right") - 1
    inside = (marked >= bounds[0]) & (marked < bounds[-1])
    last = dict(zip(rows[inside].tolist(), marked[inside].tolist(), strict=True))
    if not last:
        return
    found: dict[Writer, list[int]] = {}
    texts = pairs.field("value").take(pa.array(list(last.values()))).to_pylist()
    for row, text in zip(last, texts, strict=True):
        writer = _header_writer(text)
        if writer is not None and waiting[row]:
            found.setdefault(writer, []).append(row)
            waiting[row] = False
    for writer, chosen in found.items():
        yield Named(writer, np.array(chosen, np.int64), 0)


def _header_writer(text: bytes | None) -> Writer | None:
    """A GUID after 1, or an id after 0; message indexes of Protobuf may follow."""
    if text is not None and text[:1] == b"\x01" and len(text) >= 17:
        return Writer(Naming.GUID, _uuid(text[1:17]), Wire.CONFLUENT, indexes=text[17:] or b"\0")
    if text is not None and text[:1] == b"\0" and len(text) >= 5:
        number = int.from_bytes(text[1:5], "big", signed=True)
        return Writer(Naming.ID, number, Wire.CONFLUENT, indexes=text[5:] or b"\0")
    return None


_FORMS: Final[dict[Wire, Form]] = {
    Wire.CONFLUENT: _ids(Wire.CONFLUENT, ">i4", 5),
    Wire.APICURIO: _ids(Wire.APICURIO, ">i4", 5),
    Wire.APICURIO2: _ids(Wire.APICURIO2, ">i8", 9),
    Wire.GLUE: _glue,
    Wire.SINGLE_OBJECT: _single_objects,
}
_TRIED: Final = (Wire.CONFLUENT, Wire.GLUE, Wire.SINGLE_OBJECT)
