"""What a predicate lets a reader skip: logs, segments and batches that surely hold no such record.

Of a batch its header tells offsets from and to, the newest time, and whatever its records share.
Each condition is asked whether it may be true and whether it may be false of any record within
that; what nothing is known of may be both. Where a header can not be trusted only offsets count,
as they do for the bounds of a read.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.batch.attributes import codec_ids, is_transactional, timestamp_types
from ottla.format.arrays import Bools, Int64s
from ottla.format.attributes import Codec
from ottla.format.layout import BATCH_OVERHEAD
from ottla.format.names import TopicPartition
from ottla.format.sentinels import INT64_MAX, NO_TIMESTAMP
from ottla.kernels.tables import Batches, take_batches
from ottla.log.read.bounds import EVERYTHING, Bounds
from ottla.log.read.windows import Window
from ottla.where.evaluate import FilePlace, answer_column, to_mask
from ottla.where.tree import (
    AllOf,
    AnyOf,
    ColumnNamed,
    Condition,
    HeaderNamed,
    Node,
    Not,
    Operator,
    Predicate,
    Where,
    conditions_of,
)

_INT64_MIN: Final = -(2**63)


class Possible(NamedTuple):
    """Whether something may be true, and may be false, of a record of each row."""

    true: Bools
    false: Bools


class _Range(NamedTuple):
    """The least and the greatest value of each row, both included."""

    low: Int64s
    high: Int64s


class _Known(NamedTuple):
    """What is known of rows: values that all records of a row share, and ranges of others.

    Where a row is not `sound` its header may be wrong in all but the offsets.
    """

    sound: Bools
    shared: Mapping[str, pa.Array]
    ranges: Mapping[str, _Range]


def skip_batches(windows: Iterable[Window], where: Where | None) -> Iterator[Window]:
    """The windows without batches that surely hold no record that is wanted."""
    for window in windows:
        if isinstance(where, Predicate):
            wanted = may_match(where, window.batches)
            yield window._replace(batches=take_batches(window.batches, wanted))
        else:
            yield window


def may_match(predicate: Predicate, batches: Batches) -> Bools:
    """Which batches may hold records that are wanted."""
    asked = {condition.subject.name for condition in conditions_of(predicate.root)}
    if asked.isdisjoint(_TOLD):
        return np.ones(batches.position.size, dtype=np.bool_)
    v2 = batches.magic >= 2
    sound = (batches.crc == batches.computed_crc) & (~v2 | (batches.size >= BATCH_OVERHEAD))
    sound &= codec_ids(batches) <= max(Codec)
    lowest = np.full(sound.size, _INT64_MIN)
    plain = v2 | (codec_ids(batches) == 0)
    # A wrapper's own time is its newest message's only if the producer of that age was right.
    tells = plain & (batches.magic >= 1) & (batches.max_timestamp != NO_TIMESTAMP)
    newest = np.where(tells, batches.max_timestamp, INT64_MAX)
    append_time = tells & v2 & (timestamp_types(batches) == 1)
    ranges = {
        "offset": _Range(np.where(plain, batches.base_offset, lowest), batches.last_offset),
        "timestamp": _Range(np.where(append_time, newest, lowest), newest),
    }
    shared = {name: pa.array(get(batches)) for name, get in _SHARED.items() if name in asked}
    return _possible(predicate.root, _Known(sound, shared, ranges)).true


# What records have from the header of their batch (arrow/to_arrow.py), a wrapper's included.
_SHARED: Final[dict[str, Any]] = {
    "timestampType": timestamp_types,
    "position": lambda batches: batches.position,
    "magic": lambda batches: batches.magic,
    "codec": lambda batches: np.minimum(codec_ids(batches), max(Codec)),
    "partitionLeaderEpoch": lambda batches: batches.partition_leader_epoch,
    "producerId": lambda batches: batches.producer_id,
    "producerEpoch": lambda batches: batches.producer_epoch,
    "isTransactional": is_transactional,
}
_TOLD: Final = frozenset({"offset", "timestamp", *_SHARED})  # what a header tells of its records


def may_hold_newest(predicate: Predicate, newest: int) -> bool:
    """Whether records may be wanted none of which has a later timestamp."""
    ranges = {"timestamp": _Range(np.array([_INT64_MIN]), np.array([newest]))}
    known = _Known(np.ones(1, dtype=np.bool_), {}, ranges)
    return bool(_possible(predicate.root, known).true[0])


def asks_timestamp(where: Where | None) -> bool:
    """Whether times decide."""
    return isinstance(where, Predicate) and any(
        condition.subject == ColumnNamed("timestamp") for condition in conditions_of(where.root)
    )


def narrow(where: Where | None, name: TopicPartition, bounds: Bounds) -> Bounds | None:
    """Bounds of a log without offsets that are surely not wanted; None if nothing is left."""
    if not isinstance(where, Predicate):
        return bounds
    found = _find_bounds(where, name)
    if found is None:
        return None
    start, stop = bounds.start, bounds.stop
    if found.start is not None:
        start = found.start if start is None else max(start, found.start)
    if found.stop is not None:
        stop = found.stop if stop is None else min(stop, found.stop)
    return None if start is not None and stop is not None and start >= stop else Bounds(start, stop)


def _find_bounds(predicate: Predicate, name: TopicPartition) -> Bounds | None:
    """The first and last offset that may be wanted of a log.

    Between two numbers that offsets are compared with, all offsets are alike.
    """
    conditions = [
        condition
        for condition in conditions_of(predicate.root)
        if condition.subject == ColumnNamed("offset")
    ]
    numbers = sorted({int(value) for condition in conditions for value in condition.values})
    low, high = [_INT64_MIN], []
    for number in numbers:
        high += [number - 1, number]
        low += [number, number + 1]
    high.append(INT64_MAX)
    spans = [(least, most) for least, most in zip(low, high, strict=True) if least <= most]
    least, most = (np.array(side, dtype=np.int64) for side in zip(*spans, strict=True))
    place = FilePlace(name, "")
    shared = {each: _repeated(place.column(each), least.size) for each in ("topic", "partition")}
    known = _Known(np.ones(least.size, dtype=np.bool_), shared, {"offset": _Range(least, most)})
    rows = np.flatnonzero(_possible(predicate.root, known).true)
    if not rows.size:
        return None
    if rows.size == least.size:
        return EVERYTHING
    start, stop = int(least[rows[0]]), int(most[rows[-1]])
    return Bounds(None if start == _INT64_MIN else start, None if stop == INT64_MAX else stop + 1)


def _repeated(one: pa.Array, count: int) -> pa.Array:
    return one.take(pa.array(np.zeros(count, dtype=np.int64)))


def _possible(node: Node, known: _Known) -> Possible:
    match node:
        case Not(part):
            true, false = _possible(part, known)
            return Possible(false, true)
        case AllOf(parts):
            each = [_possible(part, known) for part in parts]
            return Possible(_every([one.true for one in each]), _some([one.false for one in each]))
        case AnyOf(parts):
            each = [_possible(part, known) for part in parts]
            return Possible(_some([one.true for one in each]), _every([one.false for one in each]))
        case Condition():
            return _possible_condition(node, known)


def _every(flags: list[Bools]) -> Bools:
    return reduce(np.logical_and, flags)


def _some(flags: list[Bools]) -> Bools:
    return reduce(np.logical_or, flags)


def _possible_condition(condition: Condition, known: _Known) -> Possible:
    name = "" if isinstance(condition.subject, HeaderNamed) else condition.subject.name
    always = np.ones(known.sound.size, dtype=np.bool_)
    if name in known.ranges:
        found = _possible_in(condition, known.ranges[name])
    elif name in known.shared:
        answer = answer_column(condition, known.shared[name])
        found = Possible(to_mask(answer), to_mask(pc.invert(answer)))
    else:
        return Possible(always, always)
    if name == "offset":
        return found
    return Possible(found.true | ~known.sound, found.false | ~known.sound)


def _possible_in(condition: Condition, within: _Range) -> Possible:
    """A condition on numbers that are never null."""
    low, high = within
    values = [int(value) for value in condition.values]
    never = np.zeros(low.size, dtype=np.bool_)
    match condition.operator:
        case Operator.LESS:
            found = Possible(low < values[0], high >= values[0])
        case Operator.LESS_EQUAL:
            found = Possible(low <= values[0], high > values[0])
        case Operator.GREATER:
            found = Possible(high > values[0], low <= values[0])
        case Operator.GREATER_EQUAL:
            found = Possible(high >= values[0], low < values[0])
        case Operator.BETWEEN:
            least, most = values
            inside = (low <= most) & (high >= least) & (least <= most)
            found = Possible(inside, (low < least) | (high > most))
        case Operator.IS_NULL:
            found = Possible(never, ~never)
        case _:  # =, <> and in
            inside = _some([never, *((low <= value) & (value <= high) for value in values)])
            outside = (low != high) | ~np.isin(low, np.array(values, dtype=np.int64))
            found = Possible(inside, outside)
            if condition.operator is Operator.NOT_EQUAL:
                found = Possible(outside, inside)
    return Possible(found.false, found.true) if condition.is_negated else found
