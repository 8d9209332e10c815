"""The files of an export: row groups of Parquet, or lines of JSON."""

from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from ottla.jobs.export.json_lines import json_lines
from ottla.jobs.read.rows import without_room
from ottla.options.export import ExportOptions, FileFormat

# Keys and values are seldom worth the try; of a batch most columns are one value for many rows.
_DICTIONARY: Final = ("timestampType", "file", "codec", "magic", "producerId", "producerEpoch")


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
            use_dictionary=[name for name in _DICTIONARY if name in self.schema.names],
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
}
