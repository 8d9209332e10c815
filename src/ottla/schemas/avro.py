"""Datums of Avro to Arrow: parse schemas, compile a pair of them, decode a column of datums.

Types: null, boolean, int, long, float, double, bytes, string and fixed are Arrow's; an enum is a
string, an array a list, a map a map, a record a struct. A union of null and one other type is that
type, and can be null; other unions are a struct with a field for each branch, of which one is
there. Timestamps are microseconds (nanoseconds if the schema says so), a UUID is its text. Records
that contain themselves are no table: they are JSON, and so is a record without fields. That JSON is
Avro's own, but that a value of a union stands there without the name of its branch.
"""

import itertools
import struct
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ottla.errors import SchemaError
from ottla.format.arrays import PADDING, Bytes, Int64s
from ottla.kernels.avro import layout
from ottla.kernels.avro.check import check
from ottla.kernels.avro.fill import ColumnMemory, fill
from ottla.schemas.avro_columns import NONE, AvroColumn
from ottla.schemas.avro_program import Code, Compiler
from ottla.schemas.avro_schema import AvroSchema, parse_avro
from ottla.schemas.avro_text import TextReader, TooLargeError
from ottla.schemas.spans import spans_of

__all__ = [
    "AvroFault",
    "AvroProgram",
    "AvroSchema",
    "SchemaError",
    "compile_avro",
    "decode_avro",
    "decode_spans",
    "parse_avro",
]

MAX_MEMORY = 2**31 - 2**16  # bounds of Arrow's strings and lists are 32 bits wide
_CALLS = 256  # numbers: two for each call of a type that contains itself, or list in it
_SAMPLED: Final = 256  # datums that tell of the others
_WORTH_IT: Final = 8  # times as many as these
_MORE: Final = 1.2
_SPARE: Final = 4096


class AvroFault(IntEnum):
    """What can be wrong with a datum."""

    TRUNCATED = layout.TRUNCATED
    TRAILING = layout.TRAILING
    BAD_LENGTH = layout.BAD_LENGTH
    BAD_COUNT = layout.BAD_COUNT
    BAD_BRANCH = layout.BAD_BRANCH
    BAD_ENUM = layout.BAD_ENUM
    BAD_UTF8 = layout.BAD_UTF8
    BAD_NUMBER = layout.BAD_NUMBER
    TOO_DEEP = layout.TOO_DEEP
    TOO_LARGE = layout.TOO_LARGE
    OUT_OF_RANGE = layout.OUT_OF_RANGE


@dataclass(frozen=True)
class AvroProgram:
    """A writer's schema compiled for a reader's; equal to another when the schemas are."""

    writer: AvroSchema
    reader: AvroSchema
    code: Code = field(compare=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return compile_avro, (self.writer, self.reader)

    @property
    def arrow_type(self) -> pa.DataType:
        """The type of one value."""
        return self.code.top.type

    @property
    def fields(self) -> list[pa.Field]:
        """The fields of a record, or none."""
        kind = self.arrow_type
        return [kind.field(at) for at in range(kind.num_fields)] if pa.types.is_struct(kind) else []

    @property
    def row_bytes(self) -> int:
        """Memory that every row takes, whatever its datum holds."""
        return int(self.code.costs[0])


@lru_cache(maxsize=32)
def compile_avro(writer: AvroSchema, reader: AvroSchema | None = None) -> AvroProgram:
    """Compile; SchemaError if data of the one can not be read as the other."""
    reader = writer if reader is None else reader
    try:
        return AvroProgram(writer, reader, Compiler(writer, reader).compile())
    except RecursionError:
        raise SchemaError("The types of the Avro schema hold each other too deep.") from None


def decode_avro(
    program: AvroProgram, payloads: pa.Array, max_bytes: int
) -> tuple[pa.Array, npt.NDArray[np.uint8]]:
    """Decode datums; what is broken is null, with its `AvroFault` in the second array.

    All columns together take at most `max_bytes`; datums that do not fit any more are TOO_LARGE.
    """
    return decode_spans(program, *spans_of(payloads), max_bytes)


def decode_spans(
    program: AvroProgram, data: Bytes, starts: Int64s, sizes: Int64s, max_bytes: int
) -> tuple[pa.Array, npt.NDArray[np.uint8]]:
    """The same for datums that lie in `data`, which has PADDING behind them; size -1 is null."""
    rows = starts.size
    faults = np.zeros(rows, dtype=np.uint8)
    budget = min(max_bytes, MAX_MEMORY)
    code = program.code
    if rows * program.row_bytes > budget:
        faults[sizes >= 0] = AvroFault.TOO_LARGE
        return pa.nulls(rows, program.arrow_type), faults
    counters = np.zeros(code.counters, dtype=np.int64)
    counters[0] = rows
    step = rows // _SAMPLED
    guessed = (
        _fill_at_once(program, data, starts, sizes, budget, step) if step > _WORTH_IT else None
    )
    if guessed is not None:
        return guessed.array(code.top, is_whole=not (sizes < 0).any()), faults
    cost = _check(code, data, starts, sizes, counters, faults, rows * program.row_bytes, budget)
    memory = _Filling(code, counters)
    _fill(code, memory, data, starts, sizes, counters, faults)
    if not code.kept:
        return memory.array(code.top), faults
    memory.texts = TextReader(program.writer, program.reader, budget - cost)
    array = memory.array(code.top)
    if not memory.too_large:
        return array, faults
    # Without the datums whose text is too large; what they took is free for others.
    sizes = sizes.copy()
    large = np.array(sorted(memory.too_large))
    sizes[large] = -1
    array, faults_now = decode_spans(program, data, starts, sizes, max_bytes)
    faults_now[large] = AvroFault.TOO_LARGE
    return array, faults_now


def _check(
    code: Code,
    data: Bytes,
    starts: Int64s,
    sizes: Int64s,
    counters: Int64s,
    faults: npt.NDArray[np.uint8],
    cost: int,
    budget: int,
) -> int:
    stack = np.zeros(3 * code.levels + 1, dtype=np.int64)
    calls = np.zeros(_CALLS, dtype=np.int64)
    saved = np.zeros_like(counters)
    given = (data, starts, sizes, code.code, code.table, code.constants)
    return check(*given, counters, saved, stack, calls, faults, cost, budget)


def _fill(
    code: Code,
    memory: "_Filling",
    data: Bytes,
    starts: Int64s,
    sizes: Int64s,
    room: Int64s,
    faults: npt.NDArray[np.uint8],
) -> bool:
    """Whether all datums were sound and had room; then the columns are as long as these are."""
    stack = np.zeros(3 * code.levels + 1, dtype=np.int64)
    calls = np.zeros(_CALLS, dtype=np.int64)
    counters = np.zeros_like(room)
    given = (data, starts, sizes, memory.code, code.table, code.constants)
    done = fill(*given, counters, room, stack, calls, faults, memory.columns)
    counters[0] = starts.size
    memory.counters = counters
    return done == starts.size


def _fill_at_once(
    program: AvroProgram, data: Bytes, starts: Int64s, sizes: Int64s, budget: int, step: int
) -> "_Filling | None":
    """All columns in one pass, in room that every so many datums let expect; None if it failed.

    Mostly nothing is broken and datums are alike: then the first pass would be for nothing.
    """
    code, rows = program.code, starts.size
    if code.kept:
        return None
    few, few_sizes = starts[::step].copy(), sizes[::step].copy()
    counters, faults = np.zeros(code.counters, dtype=np.int64), np.zeros(few.size, dtype=np.uint8)
    _check(code, data, few, few_sizes, counters, faults, 0, budget)
    room = (counters * (rows / few.size * _MORE)).astype(np.int64) + _SPARE
    room[0] = rows
    if faults.any() or _bytes_of(code, room) > budget:
        return None
    memory = _Filling(code, room)
    none = np.zeros(rows, dtype=np.uint8)
    return memory if _fill(code, memory, data, starts, sizes, room, none) else None


def _bytes_of(code: Code, counters: Int64s) -> int:
    columns = sum((int(counters[slot.level]) + slot.more) * slot.width for slot in code.slots)
    return columns + sum(int(counters[counter]) for counter in {each for _, each in code.streams})


class _Filling:
    """One piece of memory for all columns of a decode."""

    def __init__(self, code: Code, counters: Int64s) -> None:
        self._code = code
        self.counters = counters
        self.texts: TextReader | None = None
        self.too_large: set[int] = set()  # datums whose text is
        self.code = code.code.copy()
        self._places: list[int] = []
        self._byte_places: dict[int, int] = {}
        at = 0
        for number, slot in enumerate(code.slots):
            self._places.append(at)
            at += _aligned((int(counters[slot.level]) + slot.more) * slot.width, number)
        filled = at
        for _, counter in code.streams:
            if counter not in self._byte_places:
                self._byte_places[counter] = at
                at += _aligned(int(counters[counter]), len(self._byte_places))
        self._buffer = pa.allocate_buffer(at + PADDING)
        out = np.frombuffer(self._buffer, dtype=np.uint8)
        out[:filled] = 0  # what is null is not written
        self.columns = ColumnMemory(
            out,
            out.view(np.int32),
            out.view(np.int64),
            out.view(np.float32),
            out.view(np.float64),
        )
        for place, number in code.patches:
            self.code[place] = self._places[number] // code.slots[number].unit
        for place, counter in code.streams:
            self.code[place] = self._byte_places[counter]

    def array(self, column: AvroColumn, *, is_whole: bool = False) -> pa.Array:
        """A column as Arrow has it; it is whole if each of its rows was met."""
        rows = int(self.counters[column.level])
        if column.kind == "null":
            return pa.nulls(rows)
        valid = None
        if column.valid != NONE:
            there = self._view(column.valid, rows)
            valid = None if there.view(np.bool_).all() else _bits(there)
        is_whole = is_whole and valid is None
        if column.kind == "struct":
            children = [self.array(child, is_whole=is_whole) for child in column.children]
            return pa.Array.from_buffers(column.type, rows, [valid], children=children)
        if column.kind == "boolean":
            bits = _bits(self._view(column.value, rows))
            return pa.Array.from_buffers(column.type, rows, [valid, bits])
        if column.kind == "fixed":
            values = self._buffer.slice(self._places[column.value], rows * column.width)
            return pa.Array.from_buffers(column.type, rows, [valid, values])
        place = self._places[column.value]
        bounds = self._buffer.slice(place, 4 * (rows + 1))
        numbers = self.columns.int32[place // 4 : place // 4 + rows + 1]
        if not is_whole:  # what is null has written no bound
            np.maximum.accumulate(numbers, out=numbers)
        if column.kind == "array":
            children = [self.array(column.children[0], is_whole=True)]
            return pa.Array.from_buffers(column.type, rows, [valid, bounds], children=children)
        if column.kind == "map":
            key, item = (self.array(child, is_whole=True) for child in column.children)
            entry = pa.struct([column.type.key_field, column.type.item_field])
            entries = pa.Array.from_buffers(entry, len(key), [None], children=[key, item])
            return pa.Array.from_buffers(column.type, rows, [valid, bounds], children=[entries])
        if column.kind == "text":
            return self._text(column, numbers)
        size = int(self.counters[column.counter])
        # A column that nothing was read into has no bytes.
        data = self._buffer.slice(self._byte_places.get(column.counter, 0), size)
        return pa.Array.from_buffers(column.type, rows, [valid, bounds, data])

    def _text(self, column: AvroColumn, bounds: npt.NDArray[np.int32]) -> pa.Array:
        """What was kept, as JSON."""
        assert self.texts is not None
        place = self._byte_places.get(column.counter, 0)
        values: list[str | None] = []
        for start, stop in itertools.pairwise(bounds.tolist()):
            value = None
            if start < stop:
                kept = self.columns.bytes[place + start : place + stop].tobytes()
                number, datum = struct.unpack_from("<qq", kept)
                try:
                    plan, is_default = self._code.kept[number]
                    value = self.texts.text(plan, is_default, kept[layout.KEPT :])
                except (TooLargeError, RecursionError):
                    self.too_large.add(datum)
            values.append(value)
        return pa.array(values, pa.string())

    def _view(self, slot: int, rows: int) -> Bytes:
        return self.columns.bytes[self._places[slot] : self._places[slot] + rows]


def _bits(there: Bytes) -> pa.Buffer:
    return pa.py_buffer(np.packbits(there, bitorder="little"))


def _aligned(size: int, number: int) -> int:
    """Room for so many bytes and PADDING; not all columns at equal places of their pages."""
    return -(-size // 64) * 64 + PADDING + (number % 7) * 64
