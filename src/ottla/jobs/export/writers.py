"""The files of an export: row groups of Parquet, or lines of JSON."""

from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from ottla.jobs.export.json_lines import json_lines
from ottla.jobs.export.lake.layout import STRUCT, layout_of
from ottla.jobs.read.rows import without_room
from ottla.options.export import ExportOptions, FileFormat

# Keys and values are seldom worth the try; of a batch most columns are one value for many rows.
_DICTIONARY: Final = (
    "topic",
    "partition",
    "timestampType",
    "file",
    "codec",
    "magic",
    "producerId",
    "producerEpoch",
)


def _dictionaries(schema: pa.Schema) -> list[str]:
    """The columns that are worth a dictionary; of the struct `kafka` all but what rises."""
    found = [name for name in _DICTIONARY if name in schema.names]
    if STRUCT in schema.names:
        inner = (field.name for field in schema.field(STRUCT).type)
        found += [f"{STRUCT}.{name}" for name in inner if name not in ("offset", "timestamp")]
    return found


class ParquetFile:
    """Row groups by size: records are held until there are enough."""

    def __init__(self, stream: Any, options: ExportOptions, schema: pa.Schema) -> None:
        self.options = options
        self.held: list[pa.RecordBatch] = []
        self.size = 0
        self.schema = schema
        self.writer = pq.ParquetWriter(
            stream,
            self.schema,
            compression="zstd",
            compression_level=options.level,
            use_dictionary=_dictionaries(schema),
            write_page_index=True,
        )

    def write(self, rows: pa.RecordBatch, timestamps: pa.Array) -> None:  # noqa: ARG002
        batch = without_room(rows)
        self.held.append(batch)
        self.size += batch.nbytes
        if self.size >= self.options.row_group_bytes:
            self._write_row_group()

    def _write_row_group(self) -> None:
        table = pa.Table.from_batches(self.held, self.schema)
        self.writer.write_table(table, row_group_size=max(1, table.num_rows))
        self.held, self.size = [], 0

    def close(self) -> None:
        if self.held:
            self._write_row_group()
        self.writer.close()


class TableFile(ParquetFile):
    """A file of a table: records in its layout."""

    def __init__(self, stream: Any, options: ExportOptions, schema: pa.Schema) -> None:
        self.layout = layout_of(options, schema)
        super().__init__(stream, options, self.layout.file)

    def write(self, rows: pa.RecordBatch, timestamps: pa.Array) -> None:
        super().write(self.layout.to_file(rows), timestamps)


class JsonLines:
    """One object for each record."""

    def __init__(self, stream: Any, options: ExportOptions, schema: pa.Schema) -> None:  # noqa: ARG002
        self.stream = stream

    def write(self, rows: pa.RecordBatch, timestamps: pa.Array) -> None:
        """Timestamps are Kafka's own, of these rows."""
        self.stream.write(json_lines(rows, timestamps))

    def close(self) -> None:
        return


WRITERS: Final[dict[FileFormat, Any]] = {
    FileFormat.PARQUET: ParquetFile,
    FileFormat.JSONL: JsonLines,
    FileFormat.ICEBERG: TableFile,
    FileFormat.DELTA: TableFile,
}
