"""Columns that Parquet, Spark, DuckDB and Polars all hold, made of those that schemas give."""

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.format.arrays import Bools

EMPTY: Final = "_empty"  # the field of a record that has none: Parquet holds no struct of nothing
_MICROSECONDS: Final = {"s": 1_000_000, "ms": 1000, "us": 1}


def fit_type(kind: pa.DataType) -> pa.DataType:
    """The type that tables have for one of Arrow.

    >>> fit_type(pa.struct([])), fit_type(pa.timestamp("ms", "UTC")), fit_type(pa.null())
    (StructType(struct<_empty: bool>), TimestampType(timestamp[us, tz=UTC]), DataType(string))
    """
    if pa.types.is_struct(kind):
        fields = [field.with_type(fit_type(field.type)) for field in kind]
        names = [field.name for field in fields]
        assert len(set(names)) == len(names)
        return pa.struct([field.with_nullable(True) for field in fields] or [(EMPTY, pa.bool_())])
    if pa.types.is_map(kind):
        return pa.map_(fit_type(kind.key_type), fit_type(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(pa.field("element", fit_type(kind.value_type)))
    if pa.types.is_dictionary(kind):
        return fit_type(kind.value_type)
    return _fit_plain(kind)


def _fit_plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_time(kind) or pa.types.is_duration(kind):
        return pa.int64()  # microseconds: Spark has no such type before 4.1
    if pa.types.is_null(kind) or pa.types.is_large_string(kind) or pa.types.is_decimal256(kind):
        return pa.string()
    if pa.types.is_fixed_size_binary(kind) or pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_unsigned_integer(kind):
        return pa.int64() if kind.bit_width < 64 else pa.decimal128(20, 0)
    if isinstance(kind, pa.BaseExtensionType):
        return fit_type(kind.storage_type)
    return kind


def extends(kind: pa.DataType, other: pa.DataType) -> bool:
    """Whether a type has all that another has, at every depth, as it is there.

    >>> few = pa.struct([("a", pa.int64())])
    >>> more = pa.struct([("b", pa.bool_()), ("a", pa.int64())])
    >>> extends(more, few), extends(pa.list_(more), pa.list_(few)), extends(few, more)
    (True, True, False)
    """
    if pa.types.is_struct(kind) and pa.types.is_struct(other):
        own = {field.name: field.type for field in kind}
        return all(each.name in own and extends(own[each.name], each.type) for each in other)
    if pa.types.is_list(kind) and pa.types.is_list(other):
        return extends(kind.value_type, other.value_type)
    if pa.types.is_map(kind) and pa.types.is_map(other):
        return extends(kind.key_type, other.key_type) and extends(kind.item_type, other.item_type)
    return bool(kind.equals(other))


def fit(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column in the type that `fit_type` gives; ArrowInvalid if a time has no room there."""
    if column.type.equals(kind):
        return column
    if isinstance(column, pa.ExtensionArray):
        return fit(column.storage, kind)
    if pa.types.is_dictionary(column.type):
        return fit(column.dictionary_decode(), kind)
    if pa.types.is_struct(kind):
        return _fit_struct(column, kind)
    if pa.types.is_map(kind):
        column = _whole(column)
        keys, items = fit(column.keys, kind.key_type), fit(column.items, kind.item_type)
        return pa.MapArray.from_arrays(column.offsets, keys, items, type=kind, mask=_mask(column))
    if pa.types.is_list(kind):
        column = _whole(column)
        items = fit(column.values, kind.value_type)
        offsets = column.offsets.cast(pa.int32())
        return pa.ListArray.from_arrays(offsets, items, type=kind, mask=_mask(column))
    if pa.types.is_timestamp(kind):
        return _fit_times(column, kind)
    if pa.types.is_time(column.type):
        return column.cast(pa.time64("us"), safe=False).cast(pa.int64())
    if pa.types.is_duration(column.type):
        return column.cast(pa.duration("us"), safe=False).cast(pa.int64())
    return column.cast(kind)


def _fit_struct(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if not column.type.num_fields:
        fields = [pa.nulls(len(column), pa.bool_())]
    else:
        column = _whole(column)
        fields = [fit(each, kind.field(at).type) for at, each in enumerate(_children(column))]
    return pa.StructArray.from_arrays(fields, fields=list(kind), mask=_mask(column))


def _children(column: pa.Array) -> list[pa.Array]:
    return [column.field(at) for at in range(column.type.num_fields)]


def _whole(column: pa.Array) -> pa.Array:
    """Without an offset into its buffers, which children do not have."""
    return pa.concat_arrays([column.slice(0, 0), column]) if column.offset else column


def _mask(column: pa.Array) -> pa.Array | None:
    return column.is_null() if column.null_count else None


def _fit_times(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Microseconds; finer times are cut. One that does not fit is an error, never another one."""
    if column.type.unit == "ns":
        return column.cast(kind, safe=False)
    numbers, factor = column.cast(pa.int64()), _MICROSECONDS[column.type.unit]
    most = (2**63 - 1) // factor
    near = pc.and_(pc.less_equal(numbers, most), pc.greater_equal(numbers, -most))
    if pc.all(near).as_py() is False:
        raise pa.ArrowInvalid("a time does not fit into microseconds")
    return pc.multiply(numbers, factor).cast(kind)


def bisect(
    column: pa.Array, convert: Callable[[pa.Array], pa.Array], kind: pa.DataType
) -> tuple[pa.Array, Bools]:
    """What a conversion gives, and which rows it does not take: null there.

    It tells only that some row is bad, so halves are tried; few rows are.
    """
    bad = np.zeros(len(column), np.bool_)
    made: list[pa.Array] = []
    waiting = [(0, len(column))]
    while waiting:
        start, stop = waiting.pop()
        try:
            made.append(convert(column.slice(start, stop - start)))
        except (ValueError, OverflowError):  # Arrow's errors are of the first kind
            if stop - start == 1:
                bad[start] = True
                made.append(pa.nulls(1, kind))
            else:
                middle = (start + stop) // 2
                waiting += [(middle, stop), (start, middle)]
    return pa.concat_arrays(made) if made else pa.nulls(0, kind), bad
