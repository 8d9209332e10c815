"""A part of logs as a table that is read when it is asked for, again each time.

A scan is an Arrow stream (`__arrow_c_stream__`): DuckDB, Polars, pandas, PyArrow and others take it
as it is. Its schema costs nothing, and of its rows only a few wait in memory.
"""

import difflib
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn

import pyarrow as pa

from ottla.arrow.permissive import CORRUPT
from ottla.arrow.schema import VIOLATION_SCHEMA
from ottla.catalog.catalog import Catalog
from ottla.catalog.slices import Slice, choose_logs, plan_slices
from ottla.connector import (
    BATCH_COLUMNS,
    BATCHES_COLUMNS,
    HEADERS_COLUMN,
    record_columns,
)
from ottla.errors import OptionError
from ottla.extras import missing_extra
from ottla.format.layout import TRANSACTION_INDEX_ENTRY
from ottla.format.names import Kind
from ottla.jobs.read.ordered import SLICE_BYTES, count_threads, read_in_order
from ottla.jobs.read.rows import plain_schema, read_rows, to_plain, without_room
from ottla.log.read.mode import Isolation, Mode
from ottla.options.read import ReadOptions, View
from ottla.storage.paths import is_remote
from ottla.tables.polars_source import import_polars, lazy_frame
from ottla.tables.result import to_pandas
from ottla.tables.show import html_table
from ottla.tables.words import naming_arguments
from ottla.where.parse import parse_where
from ottla.where.tree import AllOf, ArrowFilter, Predicate

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl

    from ottla.spark.log import Frame, Session

_WHOLE: Final = 1 << 62  # of bytes: segments are not cut


class Scan:
    """Rows of logs: an Arrow stream that begins anew whenever it is read.

    `log.scan(...)` makes one. Nothing is read before rows are asked for. Rows come partition by
    partition, in the order of offsets.
    """

    def __init__(
        self, catalog: Catalog, options: ReadOptions, columns: Sequence[str] | None = None
    ) -> None:
        self._catalog = catalog
        self._options = options
        self._schema = scan_schema(options, columns)

    @property
    def schema(self) -> pa.Schema:
        """The columns, as the connector of Spark has them."""
        return self._schema

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self._batches()

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as a stream of record batches, of which few are in memory at a time.

        >>> sum(batch.num_rows for batch in scan.to_reader())
        3
        """
        return pa.RecordBatchReader.from_batches(self._schema, self._batches())

    def to_arrow(self) -> pa.Table:
        """All rows in memory.

        >>> scan.to_arrow()["value"].to_pylist()
        [b'tea', b'ink', None]
        """
        return pa.Table.from_batches(list(self._batches()), self._schema)

    def to_pandas(self) -> "pd.DataFrame":
        """All rows as a pandas DataFrame."""
        return to_pandas(self.to_arrow())

    def to_polars(self) -> "pl.DataFrame":
        """All rows as a Polars DataFrame; JSON is text there."""
        polars: Any = import_polars()
        schema = plain_schema(self._schema)
        # Not as a stream: what goes wrong in one comes out as an error of Polars.
        rows = [to_plain(batch, schema) for batch in self._batches()]
        frame: pl.DataFrame = polars.DataFrame(pa.Table.from_batches(rows, schema))
        return frame

    def lazy(self) -> "pl.LazyFrame":
        """The rows as a Polars LazyFrame: only what its query needs is read.

        Columns and limits are left to the reader, and bounds on offset, timestamp and partition
        keep it from reading what they rule out.
        """
        return lazy_frame(self)

    def to_duckdb(
        self, name: str, connection: "duckdb.DuckDBPyConnection | None" = None
    ) -> "duckdb.DuckDBPyRelation":
        """A view of that name in DuckDB, which reads the log whenever it is queried.

        Without a connection it is made in that of `duckdb.sql`.
        """
        try:
            import duckdb
        except ImportError:
            raise missing_extra("duckdb", "to_duckdb needs DuckDB") from None
        chosen = duckdb.default_connection() if connection is None else connection
        chosen.register(name, self)
        return chosen.table(name)

    def to_spark(self, spark: "Session | None" = None) -> "Frame":
        """The rows as a Spark DataFrame, which Spark's workers read.

        Without a session it is the one that runs, or a new one (`ottla.spark.session`).
        """
        with naming_arguments():
            from ottla.spark.scan import load_scan

            return load_scan(self._catalog, self._options, self._schema.names, spark)

    def count(self) -> int:
        """How many rows there are; no key, value or header is copied.

        >>> scan.count()
        3
        """
        cheapest = "offset" if self._options.view is View.RECORDS else self._schema.names[0]
        return sum(batch.num_rows for batch in self.select([cheapest]))

    def select(self, columns: Sequence[str]) -> "Scan":
        """The same rows with other columns; what is not named is not decoded.

        >>> scan.select(["key"]).to_arrow().to_pydict()
        {'key': [b'ada', b'bob', b'ada']}
        """
        return Scan(self._catalog, self._options, columns)

    def head(self, count: int = 5) -> pa.Table:
        """The first rows; what lies behind them is not read.

        >>> scan.head(2)["offset"].to_pylist()
        [0, 1]
        """
        if count < 0:
            raise OptionError(f"head({count}): a number of rows is 0 or more")
        kept: list[pa.RecordBatch] = []
        with closing(self._read(replace(self._options, split_bytes=_WHOLE), None)) as batches:
            while count > 0 and (batch := next(batches, None)) is not None:
                kept.append(without_room(batch.slice(0, count)))
                count -= kept[-1].num_rows
        return pa.Table.from_batches(kept, self._schema)

    def _batches(self) -> Generator[pa.RecordBatch]:
        # A slice of a remote segment costs several requests before its first byte comes.
        is_local = not any(map(is_remote, self._catalog.paths))
        options = replace(self._options, split_bytes=SLICE_BYTES if is_local else _WHOLE)
        return self._read(options, count_threads())

    def _read(self, options: ReadOptions, threads: int | None) -> Generator[pa.RecordBatch]:
        """Rows with the columns of the schema, on so many threads, or in this one."""
        read = partial(read_rows, options=options, target=self._schema)
        with naming_arguments():
            slices = plan_slices(self._catalog, options)
            rows = (
                _one_by_one(slices, read)
                if threads is None
                else read_in_order(slices, read, threads)
            )
            with closing(rows):
                yield from rows

    def narrowed(self, text: str) -> "Scan":
        """The same without records that a text rules out, as far as that can be added to `where`.

        What is wrong with a log need not lie where its offsets say.
        """
        before = self._options.where
        if not text or self._options.view is not View.RECORDS or isinstance(before, ArrowFilter):
            return self
        added = parse_where(text)
        if before is not None:
            both = AllOf((before.root, added.root))
            added = Predicate(f"({before}) and ({text})", both)
        return Scan(self._catalog, replace(self._options, where=added), self._schema.names)

    def __repr__(self) -> str:
        return f"<ottla.Scan of {self._told()}>\n{_describe(self._schema)}"

    def _repr_html_(self) -> str:
        rows = [[field.name, str(field.type)] for field in self._schema]
        return html_table(f"Scan of {self._told()}", ["column", "type"], rows)

    def _told(self) -> str:
        options, choice = self._options, self._options.choice
        what = ", ".join(choice.topics + choice.globs) or "all topics"
        if choice.partitions:
            what += f", partition {', '.join(map(str, choice.partitions))}"
        if options.view is not View.RECORDS:
            return f"the {options.view} of {what}"
        told = f"{what}, {options.isolation}"
        if options.isolation is Isolation.READ_UNCOMMITTED and (aborted := self.count_aborted()):
            told += f", with the records of {aborted} aborted transactions"
        return told

    def count_aborted(self) -> int:
        """How many transactions were aborted, by the transaction indexes beside the logs."""
        logs = choose_logs(self._catalog, self._options)
        segments = (segment for log in logs for segment in log.partition.segments)
        found = (segment.side_files.get(Kind.TRANSACTION_INDEX) for segment in segments)
        return sum(entry.size // TRANSACTION_INDEX_ENTRY.itemsize for entry in found if entry)


def _one_by_one(slices: Iterator[Slice], read: Any) -> Generator[pa.RecordBatch]:
    for part in slices:
        yield from read(part)


def _describe(schema: pa.Schema) -> str:
    width = max(len(field.name) for field in schema)
    return "\n".join(f"  {field.name:{width}}  {field.type}" for field in schema)


def scan_schema(options: ReadOptions, columns: Sequence[str] | None) -> pa.Schema:
    """The columns of a scan, in the order in which they are named."""
    usual, known = _known_columns(options)
    if isinstance(columns, str) or (columns is not None and not columns):
        raise OptionError(f"columns={columns!r}: name one column or more, as a list")
    names = usual if columns is None else columns
    fields = [known[name] if name in known else _no_column(name, [*known]) for name in names]
    if options.mode is Mode.PERMISSIVE and options.view is View.RECORDS and CORRUPT not in names:
        fields.append(known[CORRUPT])
    return pa.schema(fields)


def _known_columns(options: ReadOptions) -> tuple[Sequence[str], dict[str, pa.Field]]:
    """Those that are given unasked, and all that there are."""
    if options.view is View.BATCHES:
        return BATCHES_COLUMNS.names, {field.name: field for field in BATCHES_COLUMNS}
    if options.view is View.VIOLATIONS:
        return VIOLATION_SCHEMA.names, {field.name: field for field in VIOLATION_SCHEMA}
    fields = [*record_columns(options.key_as, options.value_as, options.payloads), HEADERS_COLUMN]
    if options.raw:
        fields = [
            each.with_type(pa.int64()) if each.name == "timestamp" else each for each in fields
        ]
    others = [*BATCH_COLUMNS]
    others += [pa.field(CORRUPT, pa.string())] if options.mode is Mode.PERMISSIVE else []
    return [field.name for field in fields], {field.name: field for field in (*fields, *others)}


def _no_column(name: str, known: Sequence[str]) -> NoReturn:
    close = difflib.get_close_matches(name, known, n=1)
    meant = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
    raise OptionError(f"no column {name}; {meant}")
