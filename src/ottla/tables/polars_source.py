"""A scan as a source of Polars: what a query does not need is not read."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from ottla.extras import missing_extra
from ottla.jobs.read.rows import plain_schema, to_plain

if TYPE_CHECKING:
    import polars as pl

    from ottla.tables.scan import Scan

# What Polars calls comparisons. A bound may let more through: Polars has the last word.
_OPERATORS: Final = {"Eq": "=", "Gt": ">=", "GtEq": ">=", "Lt": "<=", "LtEq": "<="}
_NUMBERS: Final = ("offset", "partition")
_US: Final = 1000  # microseconds in a millisecond


def import_polars() -> Any:
    """Polars, if it is here."""
    try:
        import polars
    except ImportError:
        raise missing_extra("polars", "this needs Polars") from None
    return polars


def lazy_frame(scan: "Scan") -> "pl.LazyFrame":
    """A frame that reads the scan when it is collected."""
    polars = import_polars()
    from polars.io.plugins import register_io_source

    def read(
        with_columns: list[str] | None,
        predicate: "pl.Expr | None",
        n_rows: int | None,
        batch_size: int | None,  # noqa: ARG001  batches are as they were decoded
    ) -> "Iterator[pl.DataFrame]":
        asked = scan.schema.names if with_columns is None else with_columns
        needed = [*asked, *([] if predicate is None else predicate.meta.root_names())]
        narrow = scan.select(list(dict.fromkeys(needed)))
        # Polars wants the first rows, and of these what the predicate lets through.
        if predicate is not None and n_rows is None:
            narrow = narrow.narrowed(_bounds_of(predicate))
        plain = plain_schema(narrow.schema)
        frames = _first((polars.DataFrame(to_plain(batch, plain)) for batch in narrow), n_rows)
        for frame in frames:
            yield (frame if predicate is None else frame.filter(predicate)).select(asked)

    schema = polars.DataFrame(plain_schema(scan.schema).empty_table()).schema
    return register_io_source(read, schema=schema, is_pure=False)


def _first(frames: Iterator[Any], count: int | None) -> Iterator[Any]:
    left = count
    while left is None or left > 0:
        frame = next(frames, None)
        if frame is None:
            return
        yield frame if left is None else frame.head(left)
        left = None if left is None else left - frame.height


def _bounds_of(predicate: "pl.Expr") -> str:
    """What a predicate surely says of offsets, partitions and times, for `where`; or nothing.

    Polars promises no form of what it serializes: what is not known is not used.
    """
    try:
        tree = json.loads(predicate.meta.serialize(format="json"))
    except (ValueError, TypeError, AttributeError):
        return ""
    return " and ".join(_bounds(tree))


def _bounds(tree: Any) -> Iterator[str]:
    match tree:
        case {"BinaryExpr": {"left": left, "op": "And", "right": right}}:
            yield from _bounds(left)
            yield from _bounds(right)
        case {
            "BinaryExpr": {
                "left": {"Column": str(name)},
                "op": str(operator),
                "right": {"Literal": literal},
            }
        } if operator in _OPERATORS:
            text = _literal(name, operator, literal)
            if text is not None:
                yield f"{name} {_OPERATORS[operator]} {text}"


def _literal(name: str, operator: str, literal: Any) -> str | None:
    match literal:
        case (
            {"Dyn": {"Int": int(number)}}
            | {"Scalar": {"Int64": int(number)}}
            | {"Scalar": {"Int32": int(number)}}
        ):
            return str(number) if name in _NUMBERS and number >= 0 else None
        case {"Scalar": {"Datetime": [int(time), "Microseconds", *_]}} if name == "timestamp":
            # Kafka's times are whole milliseconds: round to the side that lets more through.
            if operator == "Eq":
                return str(time // _US) if time % _US == 0 else None
            return str(-(-time // _US) if operator.startswith("Lt") else time // _US)
    return None
