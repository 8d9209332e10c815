"""Plans to instructions: what both passes of `kernels/avro` run for each datum."""

from dataclasses import dataclass

import numpy as np

from ottla.errors import SchemaError
from ottla.format.arrays import PADDING, Bytes, Int64s
from ottla.kernels.avro import layout as op
from ottla.region import read_only
from ottla.schemas.avro_columns import NONE, AvroColumn, Columns, Slot
from ottla.schemas.avro_default import encode_default
from ottla.schemas.avro_resolve import Resolved, Resolver
from ottla.schemas.avro_schema import AvroSchema, AvroType

MAX_CODE = 200_000  # instructions
MAX_CONSTANTS = 16_000_000

_INT = (-(2**31), 2**31 - 1)
_LONG = (-(2**63), 2**63 - 1)
_MILLIS = (-(2**63) // 1000 + 1, 2**63 // 1000 - 1)
_DAY = 86_400_000
# What a reader's type takes of a number: the second pass's operation, the least and the largest.
_NUMBERS = {
    "date": (op.INT32, *_INT),
    "time-millis": (op.INT32, 0, _DAY - 1),
    "time-micros": (op.INT64, 0, _DAY * 1000 - 1),
    "timestamp-millis": (op.MILLIS, *_MILLIS),
    "local-timestamp-millis": (op.MILLIS, *_MILLIS),
    "int": (op.INT32, *_INT),
    "long": (op.INT64, *_LONG),
    "float": (op.INT_TO_FLOAT32, *_LONG),
    "double": (op.INT_TO_FLOAT64, *_LONG),
}


@dataclass(frozen=True, slots=True)
class Code:
    """A compiled pair of schemas, as arrays."""

    code: Int64s
    table: Int64s
    constants: Bytes
    patches: tuple[tuple[int, int], ...]  # places in the code, and the slot whose memory they name
    streams: tuple[tuple[int, int], ...]  # and the counter whose bytes they name
    costs: Int64s  # bytes that a row of each counter takes; 0 for bytes themselves
    slots: tuple[Slot, ...]
    levels: int  # how deep lists lie in lists
    counters: int
    top: AvroColumn
    kept: tuple[tuple[Resolved, bool], ...]  # plans of what is kept as Avro; whether of a default


class Compiler:
    """Emits the instructions of one pair."""

    def __init__(self, writer: AvroSchema, reader: AvroSchema) -> None:
        self._writer = writer.types
        self._reader = reader.types
        self._columns = Columns(reader)
        self._plans = Resolver(writer, reader)
        self._own = Resolver(reader, reader)  # for defaults
        self._in_default = False
        self._rows: list[list[int]] = []
        self._table: list[int] = []
        self._constants = bytearray()
        self._symbols: dict[str, int] = {}
        self._patches: list[tuple[int, int]] = []
        self._streams: list[tuple[int, int]] = []
        self._skips: dict[tuple[bool, Resolved | int], int] = {}  # routines by what they skip
        self._waiting: list[
            tuple[int, tuple[bool, Resolved | int]]
        ] = []  # calls of routines that are not there yet
        self._empty = {True: _Empty(reader.types), False: _Empty(writer.types)}
        self._kept: list[tuple[Resolved, bool]] = []
        self._deepest = 0
        self._costs = self._row_costs()
        self._root = self._plans.resolve(writer.root, reader.root)

    def compile(self) -> Code:
        """All of it."""
        self._emit(self._root, self._columns.top, 0)
        self._add(op.END)
        self._finish_routines()
        for row in self._rows:
            if row[op.NEXT] == NONE:
                row[op.NEXT] = 0
        constants = np.zeros(len(self._constants) + PADDING, dtype=np.uint8)
        constants[: len(self._constants)] = np.frombuffer(bytes(self._constants), dtype=np.uint8)
        return Code(
            np.array(self._rows, dtype=np.int64).reshape(-1),
            np.array([*self._table, 0], dtype=np.int64),
            read_only(constants),
            tuple(self._patches),
            tuple(self._streams),
            self._costs,
            tuple(self._columns.slots),
            self._deepest,
            self._columns.counters,
            self._columns.top,
            tuple(self._kept),
        )

    def _row_costs(self) -> Int64s:
        costs = np.zeros(self._columns.counters, dtype=np.int64)
        for slot in self._columns.slots:
            costs[slot.level] += slot.width
        for level in self._columns.levels:
            costs[level] = max(costs[level], 1)
        return costs

    @property
    def _here(self) -> int:
        return len(self._rows) * op.STRIDE

    def _add(self, check: int, fill: int | None = None, **slots: int) -> int:
        """Append an instruction; the number of its row."""
        if len(self._rows) >= MAX_CODE:
            raise SchemaError(f"The Avro schemas make more than {MAX_CODE:,} instructions.")
        row = [0] * op.STRIDE
        row[op.CHECK] = check
        row[op.FILL] = check if fill is None else fill
        row[op.NEXT] = (len(self._rows) + 1) * op.STRIDE
        for name, value in slots.items():
            row[getattr(op, name)] = value
        self._rows.append(row)
        return len(self._rows) - 1

    def _for(
        self, column: AvroColumn, null: int, check: int, fill: int | None = None, **slots: int
    ) -> int:
        """An instruction that writes a column; `null` is the branch of a union that is null."""
        row = self._add(check, fill, **slots)
        self._mark(row, column, null)
        if column.value != NONE:
            self._patches.append((row * op.STRIDE + op.VALUE, column.value))
        if column.kind in ("bytes", "text"):
            self._streams.append((row * op.STRIDE + op.BYTES, column.counter))
        if column.counter != NONE:
            self._rows[row][op.COUNTER] = column.counter
        return row

    def _mark(self, row: int, column: AvroColumn, null: int) -> None:
        if null != NONE:
            self._rows[row][op.MODE] = op.NULLABLE
            self._rows[row][op.NULL] = null
        elif column.valid != NONE:
            self._rows[row][op.MODE] = op.SET
        if column.valid != NONE:
            self._patches.append((row * op.STRIDE + op.VALID, column.valid))

    def _types(self) -> tuple[AvroType, ...]:
        """What plans call the writer: in defaults, that is the reader."""
        return self._reader if self._in_default else self._writer

    def _emit(self, plan: Resolved, column: AvroColumn, depth: int, null: int = NONE) -> None:
        """Write what a plan reads; a union of null and another comes before it if `null` is set."""
        if plan.kind == "union":
            self._union(plan, column, depth)
        elif plan.kind == "into":
            self._into(plan, column, depth, null)
        elif column.kind == "null":
            return
        elif plan.kind == "record":
            self._record(plan, column, depth, null)
        elif plan.kind in ("array", "map"):
            self._list(plan, column, depth, null)
        else:
            self._leaf(plan, column, null)

    def _union(self, plan: Resolved, column: AvroColumn, depth: int) -> None:
        nulls = [self._is_null(branch) for branch in plan.branches]
        if len(nulls) == 2 and sum(nulls) == 1 and column.valid != NONE:
            other = plan.branches[1 - nulls.index(True)]
            # Only what begins with an instruction of its own can take the union into it.
            if other is not None and not column.choices:
                self._emit(other, column, depth, nulls.index(True))
                return
        first = len(self._table)
        self._table += [-1] * len(plan.branches)
        self._add(op.UNION, LOW=first, HIGH=len(plan.branches))
        jumps = []
        for index, branch in enumerate(plan.branches):
            if branch is not None:
                self._table[first + index] = self._here
                self._emit(branch, column, depth)
                jumps.append(self._add(op.JUMP))
        for jump in jumps:
            self._rows[jump][op.NEXT] = self._here

    def _is_null(self, plan: Resolved | None) -> bool:
        """Whether a branch is null on both sides."""
        return plan is not None and self._types()[plan.writer].kind == "null"

    def _into(self, plan: Resolved, column: AvroColumn, depth: int, null: int) -> None:
        assert plan.item is not None
        if not column.choices:
            if self._reader[plan.item.reader].kind != "null":
                self._emit(plan.item, column, depth, null)
            return
        child = column.choices[plan.choice]
        if child == NONE:
            return
        if column.valid != NONE:
            self._for(column, NONE, op.NOTHING)
        self._emit(plan.item, column.children[child], depth)

    def _record(self, plan: Resolved, column: AvroColumn, depth: int, null: int) -> None:
        fields = self._reader[plan.reader].fields
        if column.kind == "text":
            row = self._for(column, null, op.KEEP, HIGH=len(self._kept))
            self._call(row, plan)
            self._kept.append((plan, self._in_default))
            return
        begin = self._for(column, null, op.NOTHING) if column.valid != NONE else NONE
        given = self._types()[plan.writer]
        for (inner, index), one in zip(plan.parts, given.fields, strict=True):
            if inner is None:
                if not self._empty[self._in_default].has(one.type):
                    self._call(self._add(op.SKIP), one.type)
            else:
                self._emit(inner, column.children[index], depth)
        if not fields:
            place = len(self._constants)
            self._constants += b"{}"
            row = self._add(op.CONSTANT, LOW=place, HIGH=2, COUNTER=column.counter)
            self._patches.append((row * op.STRIDE + op.VALUE, column.value))
            self._streams.append((row * op.STRIDE + op.BYTES, column.counter))
        for index in plan.missing:
            self._default(fields[index].type, fields[index].default, column.children[index], depth)
        if begin != NONE:
            self._rows[begin][op.NEXT] = self._here

    def _default(self, number: int, value: object, column: AvroColumn, depth: int) -> None:
        place = len(self._constants)
        self._constants += encode_default(self._reader, number, value)
        if len(self._constants) > MAX_CONSTANTS:
            raise SchemaError("The defaults in the Avro schema are too large.")
        self._add(op.DEFAULT, LOW=place, HIGH=len(self._constants))
        self._in_default = True
        self._emit(self._own.resolve(number, number), column, depth)
        self._in_default = False
        self._add(op.DEFAULT_END)

    def _list(self, plan: Resolved, column: AvroColumn, depth: int, null: int) -> None:
        assert plan.item is not None
        self._deepest = max(self._deepest, depth + 1)
        begin = self._for(column, null, op.NOTHING) if column.valid != NONE else NONE
        has_bytes = plan.kind == "map" or not self._empty[self._in_default].has(plan.item.writer)
        row = self._add(
            op.LIST,
            LOW=int(has_bytes),
            COUNTER=column.counter,
            COST=int(self._costs[column.counter]),
        )
        self._patches.append((row * op.STRIDE + op.VALUE, column.value))
        if plan.kind == "map":
            self._for(column.children[0], NONE, op.TEXT)
        self._emit(plan.item, column.children[-1], depth + 1)
        self._add(op.NEXT_ITEM)
        self._rows[row][op.NEXT] = self._here
        if begin != NONE:
            self._rows[begin][op.NEXT] = self._here

    def _leaf(self, plan: Resolved, column: AvroColumn, null: int) -> None:
        given, wanted = self._types()[plan.writer], self._reader[plan.reader]
        if given.kind in ("int", "long"):
            fill, low, high = _NUMBERS.get(wanted.logical, _NUMBERS[wanted.kind])
            if given.kind == "int":
                low, high = max(low, _INT[0]), min(high, _INT[1])
            self._for(column, null, op.VARINT, fill, LOW=low, HIGH=high)
        elif given.kind == "boolean":
            self._for(column, null, op.BOOLEAN)
        elif given.kind == "float":
            fill = op.FLOAT32 if wanted.kind == "float" else op.FLOAT32_TO_64
            self._for(column, null, op.SIZED, fill, LOW=4)
        elif given.kind == "double":
            self._for(column, null, op.SIZED, op.FLOAT64, LOW=8)
        elif wanted.logical == "decimal":
            fixed = given.kind == "fixed"
            check = op.DECIMAL_FIXED if fixed else op.DECIMAL
            limits = self._limits(wanted.precision, column.width)
            self._for(column, null, check, LOW=given.size, HIGH=column.width, BYTES=limits)
        elif given.kind == "enum":
            first = self._symbol_table(plan, wanted)
            self._for(column, null, op.SYMBOL, LOW=first, HIGH=len(given.symbols))
        elif given.kind != "fixed":  # bytes or string
            self._for(column, null, op.TEXT if wanted.kind == "string" else op.BINARY)
        elif wanted.logical == "uuid":
            self._for(column, null, op.HEX)
        elif wanted.size:
            self._for(column, null, op.SIZED, op.FIXED, LOW=wanted.size)
        else:
            self._mark(self._add(op.NOTHING), column, null)

    def _limits(self, precision: int, width: int) -> int:
        """Where the constants have the largest and the least decimal of a precision."""
        place = len(self._constants)
        largest = 10**precision - 1
        self._constants += largest.to_bytes(width, "big")
        self._constants += (-largest).to_bytes(width, "big", signed=True)
        return place

    def _symbol_table(self, plan: Resolved, wanted: AvroType) -> int:
        """Place and size of the text of each of the writer's symbols; -1 for what has none."""
        first = len(self._table)
        for index in plan.symbols:
            if index < 0:
                self._table += [-1, 0]
                continue
            text = wanted.symbols[index]
            if text not in self._symbols:
                self._symbols[text] = len(self._constants)
                self._constants += text.encode()
            self._table += [self._symbols[text], len(text.encode())]
        if len(self._table) > MAX_CODE * op.STRIDE:
            raise SchemaError("The enums and unions in the Avro schemas are too large.")
        return first

    def _call(self, row: int, what: Resolved | int) -> None:
        """Have an instruction run the routine for a plan, or for a type that is not wanted."""
        self._waiting.append((row, (self._in_default, what)))

    def _finish_routines(self) -> None:
        while self._waiting:
            row, key = self._waiting.pop()
            if key not in self._skips:
                self._skips[key] = self._here
                self._in_default, what = key
                if isinstance(what, Resolved):
                    self._plan_routine(what)
                else:
                    self._type_routine(what)
                self._add(op.RETURN)
            self._rows[row][op.LOW] = self._skips[key]

    def _plan_routine(self, plan: Resolved) -> None:
        """What a plan would read, checked; a record inside is a routine of its own."""
        if plan.kind != "record":
            self._checked(plan)
            return
        for (inner, _), one in zip(plan.parts, self._types()[plan.writer].fields, strict=True):
            if inner is None:
                self._step_over(one.type)
            else:
                self._checked(inner)

    def _checked(self, plan: Resolved) -> None:
        given, wanted = self._types()[plan.writer], self._reader[plan.reader]
        if plan.failed:
            self._add(op.FAIL)
        elif plan.kind == "into":
            assert plan.item is not None
            self._checked(plan.item)
        elif plan.kind == "union":
            self._routine_union(list(plan.branches))
        elif plan.kind == "record":
            if not self._empty[self._in_default].has(plan.writer):
                self._call(self._add(op.CALL), plan)
        elif plan.kind in ("array", "map"):
            assert plan.item is not None
            self._routine_list(plan.kind, plan.item, plan.item.writer)
        elif plan.kind == "enum":
            first = self._symbol_table(plan, wanted)
            self._add(op.SYMBOL, LOW=first, HIGH=len(given.symbols))
        elif given.kind in ("bytes", "string"):
            self._add(op.TEXT if wanted.kind == "string" else op.BINARY)
        else:
            self._step_over(plan.writer)

    def _type_routine(self, number: int) -> None:
        one = self._types()[number]
        if one.kind == "record":
            for part in one.fields:
                self._step_over(part.type)
        else:
            self._step_over(number)

    def _step_over(self, number: int) -> None:
        one = self._types()[number]
        if self._empty[self._in_default].has(number):
            return
        if one.kind == "record":
            self._call(self._add(op.CALL), number)
        elif one.kind == "union":
            self._routine_union(list(one.branches))
        elif one.kind in ("array", "map"):
            self._routine_list(one.kind, None, one.items)
        elif one.kind == "boolean":
            self._add(op.BOOLEAN)
        elif one.kind in ("int", "long", "enum"):
            low, high = _LONG if one.kind == "long" else _INT
            if one.kind == "enum":
                low, high = 0, len(one.symbols) - 1
            self._add(op.VARINT, LOW=low, HIGH=high)
        elif one.kind in ("bytes", "string"):
            self._add(op.BINARY)
        else:
            self._add(op.SIZED, LOW={"float": 4, "double": 8}.get(one.kind, one.size))

    def _routine_union(self, branches: list[Resolved | None] | list[int]) -> None:
        first = len(self._table)
        self._table += [-1] * len(branches)
        self._add(op.UNION, LOW=first, HIGH=len(branches))
        jumps = []
        for index, branch in enumerate(branches):
            if branch is None:
                continue
            self._table[first + index] = self._here
            if isinstance(branch, Resolved):
                self._checked(branch)
            else:
                self._step_over(branch)
            jumps.append(self._add(op.JUMP))
        for jump in jumps:
            self._rows[jump][op.NEXT] = self._here

    def _routine_list(self, kind: str, plan: Resolved | None, items: int) -> None:
        has_bytes = kind == "map" or not self._empty[self._in_default].has(items)
        row = self._add(op.LIST, COST=int(has_bytes))
        if has_bytes:
            if kind == "map":
                self._add(op.BINARY if plan is None else op.TEXT)
            if plan is None:
                self._step_over(items)
            else:
                self._checked(plan)
            self._add(op.NEXT_ITEM)
        self._rows[row][op.NEXT] = self._here


class _Empty:
    """Which types have no bytes, whatever their value."""

    def __init__(self, types: tuple[AvroType, ...]) -> None:
        self._types = types
        self._known: dict[int, bool] = {}

    def has(self, number: int) -> bool:
        """A record that contains itself has bytes, or no value at all."""
        if number not in self._known:
            one = self._types[number]
            self._known[number] = False
            self._known[number] = (
                one.kind == "null"
                or (one.kind == "fixed" and one.size == 0)
                or (one.kind == "record" and all(self.has(part.type) for part in one.fields))
            )
        return self._known[number]
