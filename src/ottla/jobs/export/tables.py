"""The files that the records of a slice go to: one, or one for each type or day of records."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ottla.connector import RAW
from ottla.jobs.export.lake.layout import days_of
from ottla.jobs.export.writers import WRITERS
from ottla.jobs.schemas.files import file_stem
from ottla.options.export import ExportOptions, PartitionBy
from ottla.publish.job import Job
from ottla.publish.journal import new_staged_name, staged_path
from ottla.schemas.decoding import OTHER
from ottla.storage.writing import open_output


class Table:
    """A staged file, and the offsets that it holds."""

    def __init__(self, staged: str, writer: Any, folders: tuple[str, ...]) -> None:
        self.staged = staged
        self.writer = writer
        self.folders = folders
        self.first = self.last = 0
        self.is_empty = True

    def write(self, rows: pa.RecordBatch, timestamps: pa.Array) -> None:
        extremes = pc.min_max(rows.column("offset"))
        low, high = extremes["min"].as_py(), extremes["max"].as_py()
        self.first = low if self.is_empty else min(self.first, low)
        self.last = high if self.is_empty else max(self.last, high)
        self.is_empty = False
        self.writer.write(rows, timestamps)


class Tables:
    """Opens files when there is a row for them."""

    def __init__(
        self, job: Job, options: ExportOptions, schema: pa.Schema, topic: str, types: Sequence[str]
    ) -> None:
        self.job = job
        self.options = options
        self.schema = schema
        self.topic = topic
        self.types = types
        self.opened: dict[str, Table] = {}
        self._stack = ExitStack()

    def write(self, rows: pa.RecordBatch, records: pa.RecordBatch) -> None:
        """Rows of the schema, with the records of the core that they were made of."""
        if not rows.num_rows:
            return
        timestamps = records.column("timestamp")
        if self.options.partition_by is PartitionBy.DAY:
            for day, chosen in days_of(timestamps):
                part = rows.filter(chosen)
                self._table(day, self.schema).write(part, timestamps.filter(chosen))
            return
        if not (self.options.each and self.types):
            self._table("", self.schema).write(rows, timestamps)
            return
        value, at = rows.column("value"), self.schema.get_field_index("value")
        left, written = pa.repeat(True, rows.num_rows), 0
        for place, name in enumerate(self.types):
            child = value if len(self.types) == 1 else pc.struct_field(value, [place])
            chosen = child.is_valid()
            left = pc.and_not(left, chosen)
            written += self._write_some(
                name, rows.set_column(at, "value", child), chosen, timestamps
            )
        # A datum may be null itself: its bytes tell it from a tombstone.
        rows = rows.set_column(at, "value", pa.nulls(rows.num_rows, pa.binary()))
        raw = self.schema.get_field_index(f"value{RAW}")
        rows = rows.set_column(raw, self.schema.field(raw), records.column("value"))
        written += self._write_some(OTHER, rows, left, timestamps)
        assert written == rows.num_rows

    def _write_some(
        self, name: str, rows: pa.RecordBatch, chosen: pa.Array, timestamps: pa.Array
    ) -> int:
        """Write the rows that are chosen; how many."""
        if not pc.any(chosen).as_py():
            return 0
        at = self.schema.get_field_index("value")
        schema = self.schema.set(at, pa.field("value", rows.column("value").type))
        part = pa.RecordBatch.from_arrays(rows.columns, schema=schema).filter(chosen)
        self._table(name, schema).write(part, timestamps.filter(chosen))
        return int(part.num_rows)

    def _table(self, name: str, schema: pa.Schema) -> Table:
        if name not in self.opened:
            form = self.options.format
            staged = new_staged_name(f"{self.topic}.{form}")
            path = staged_path(self.job, staged)
            stream = self._stack.enter_context(open_output(path, self.job.storage))
            writer = WRITERS[form](stream, self.options, schema)
            self._stack.callback(writer.close)
            folders = (name if form.is_table else f"type={file_stem(name)}",) if name else ()
            self.opened[name] = Table(staged, writer, folders)
        return self.opened[name]

    def close(self) -> None:
        """Finish all files."""
        self._stack.close()
