"""A tree on records: which of them it is true of, column by column, with SQL's rules for null."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.arrow.to_arrow import records_to_arrow
from ottla.batch.decode import Chunk
from ottla.format.arrays import Bools
from ottla.format.attributes import CODEC_NAMES
from ottla.format.names import TopicPartition
from ottla.kernels.records.select import mark_bytes
from ottla.where.tree import (
    OF_FILE,
    AllOf,
    AnyOf,
    ColumnNamed,
    Condition,
    HeaderNamed,
    Node,
    Not,
    Operator,
    Predicate,
    Type,
)

_ARROW_TYPES: Final = {
    Type.NUMBER: pa.int64(),
    Type.TIME: pa.int64(),
    Type.BYTES: pa.binary(),
    Type.TEXT: pa.binary(),
    Type.FLAG: pa.bool_(),
}
_COMPARE: Final[dict[Operator, Callable[..., pa.Array]]] = {
    Operator.EQUAL: pc.equal,
    Operator.NOT_EQUAL: pc.not_equal,
    Operator.LESS: pc.less,
    Operator.LESS_EQUAL: pc.less_equal,
    Operator.GREATER: pc.greater,
    Operator.GREATER_EQUAL: pc.greater_equal,
}


@dataclass(frozen=True, slots=True)
class FilePlace:
    """Where records come from: columns that are the same for all of a file."""

    name: TopicPartition
    file: str

    def column(self, name: str) -> pa.Array:
        """The value of one of them, as an array of one."""
        if name == "partition":
            return pa.array([self.name.partition], pa.int64())
        text = self.name.topic if name == "topic" else self.file
        encoded = None if text is None else text.encode("utf-8", "surrogateescape")
        return pa.array([encoded], pa.binary())


def match_records(predicate: Predicate, chunk: Chunk, place: FilePlace) -> Bools:
    """Which records of a chunk are wanted; the chunk has the columns of the predicate."""
    return _is_true(predicate.root, _ChunkColumns(chunk), place)


class _ChunkColumns(dict[str, pa.Array]):
    """Columns of a chunk, each made when a condition first asks for it."""

    def __init__(self, chunk: Chunk) -> None:
        super().__init__()
        self.chunk = chunk

    def __missing__(self, name: str) -> pa.Array:
        column = self[name] = records_to_arrow(self.chunk, [name]).column(0)
        return column


def _is_true(node: Node, columns: _ChunkColumns, place: FilePlace) -> Bools:
    """Where it is true; a part that cannot be told counts as false."""
    match node:
        case AllOf(parts):
            return reduce(np.logical_and, (_is_true(part, columns, place) for part in parts))
        case AnyOf(parts):
            return reduce(np.logical_or, (_is_true(part, columns, place) for part in parts))
        case Condition(ColumnNamed("key" | "value" as name), Operator.EQUAL, (bytes(wanted),)) if (
            not node.is_negated
        ):
            return _same_bytes(columns.chunk, name, wanted)
        case _:
            return to_mask(_evaluate(node, columns, place, columns.chunk.count))


def _same_bytes(chunk: Chunk, name: str, wanted: bytes) -> Bools:
    """Which keys or values are these bytes; a kernel tells it sooner than Arrow."""
    of = chunk.buffers
    keys, values = (
        (of.key_bounds, of.key_bytes, of.key_valid),
        (of.value_bounds, of.value_bytes, of.value_valid),
    )
    same = np.zeros(chunk.count, dtype=np.bool_)
    mark_bytes(*(keys if name == "key" else values), np.frombuffer(wanted, np.uint8), same)
    return same


def _evaluate(
    node: Node, columns: Mapping[str, pa.Array], place: FilePlace, count: int
) -> pa.Array:
    match node:
        case Not(part):
            return pc.invert(_evaluate(part, columns, place, count))
        case AllOf(parts):
            return reduce(pc.and_kleene, (_evaluate(part, columns, place, count) for part in parts))
        case AnyOf(parts):
            return reduce(pc.or_kleene, (_evaluate(part, columns, place, count) for part in parts))
        case Condition(HeaderNamed(name)):
            return _answer_headers(node, columns["rawHeaders"], name)
        case Condition(ColumnNamed(name)) if name in OF_FILE:
            return pa.repeat(answer_values(node, place.column(name))[0], count)
        case Condition(ColumnNamed("headers")):
            is_null = pc.equal(pc.list_value_length(columns["rawHeaders"]), 0)
            return pc.invert(is_null) if node.is_negated else is_null
        case Condition(ColumnNamed(name)):
            return answer_column(node, columns[name])


@cache
def _codec_names() -> pa.Array:
    """Made when it is asked for: to make an array has Arrow import pandas, if there is one."""
    return pa.array([CODEC_NAMES[code].encode() for code in sorted(CODEC_NAMES)])


def answer_column(condition: Condition, column: pa.Array) -> pa.Array:
    """A condition on a column of the core, or of batches."""
    if condition.subject == ColumnNamed("codec"):
        return answer_values(condition, _codec_names()).take(column)
    return answer_values(condition, column)


def answer_values(condition: Condition, values: pa.Array) -> pa.Array:
    """A condition on an array: true, false, or null where it can not be told."""
    operator = condition.operator
    if operator in _COMPARE:
        found = _COMPARE[operator](values, _scalar(condition, condition.values[0]))
    elif operator is Operator.IS_NULL:
        found = pc.is_null(values)
    elif operator is Operator.BETWEEN:
        low, high = (_scalar(condition, value) for value in condition.values)
        found = pc.and_kleene(pc.greater_equal(values, low), pc.less_equal(values, high))
    elif operator is Operator.LIKE:
        found = pc.match_substring_regex(values, condition.values[0])
    else:
        wanted = pa.array(condition.values, _ARROW_TYPES[condition.subject.type])
        known = pc.is_in(values.cast(wanted.type), wanted)
        found = pc.if_else(pc.is_valid(values), known, pa.scalar(None, pa.bool_()))
    return pc.invert(found) if condition.is_negated else found


def _scalar(condition: Condition, value: Any) -> pa.Scalar:
    return pa.scalar(value, _ARROW_TYPES[condition.subject.type])


def _answer_headers(condition: Condition, headers: pa.Array, name: bytes) -> pa.Array:
    """Whether the condition is true of any header of the name; none is as one that is null."""
    names, values = headers.values.flatten()
    named = pc.equal(names, pa.scalar(name, pa.binary())).to_numpy(zero_copy_only=False)
    owners = np.repeat(np.arange(len(headers)), np.diff(headers.offsets.to_numpy()))[named]
    found = answer_values(condition, values.filter(pa.array(named)))
    of_null = answer_values(condition, pa.nulls(1, pa.binary()))[0].as_py()
    has_none = np.ones(len(headers), dtype=np.bool_)
    has_none[owners] = False
    is_true, is_unknown = has_none & (of_null is True), has_none & (of_null is None)
    is_true[owners[to_mask(found)]] = True
    is_unknown[owners[to_mask(found.is_null())]] = True
    return pa.array(is_true, mask=is_unknown & ~is_true)


def to_mask(flags: pa.Array) -> Bools:
    """Where it is true; not where it can not be told."""
    found: Bools = flags.fill_null(False).to_numpy(zero_copy_only=False)
    return found
