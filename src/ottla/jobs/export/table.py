"""The columns of an exported file, and records of the core with them."""

import pyarrow as pa

from ottla.arrow.schema import HEADERS_TYPE
from ottla.connector import BATCH_COLUMNS, TIMESTAMP_TYPE, payload_columns
from ottla.format.names import UNNAMED, TopicPartition
from ottla.jobs.export.lake.layout import decoded_columns
from ottla.jobs.read.rows import Decoded, to_rows
from ottla.options.export import ExportOptions
from ottla.schemas.plans import NO_PLANS, PayloadPlans
from ottla.where.evaluate import FilePlace


def export_schema(options: ExportOptions, plans: PayloadPlans = NO_PLANS) -> pa.Schema:
    """The columns of a file; topic and partition are in its path, but where it is a table's."""
    if options.format.is_table:
        return decoded_columns(options, plans)
    return pa.schema(
        [
            *payload_columns("key", options.key_as, plans),
            *payload_columns("value", options.value_as, plans),
            pa.field("offset", pa.int64(), nullable=False),
            pa.field("timestamp", TIMESTAMP_TYPE, nullable=False),
            pa.field("timestampType", pa.int32(), nullable=False),
            pa.field("headers", HEADERS_TYPE),
            *(BATCH_COLUMNS if options.batch_columns else ()),
        ]
    )


def to_export(
    records: pa.RecordBatch,
    file: str,
    schema: pa.Schema,
    decoded: Decoded,
    name: TopicPartition = UNNAMED,
) -> pa.RecordBatch:
    """Records of the core, read from a file, with the columns of an export."""
    return to_rows(records, FilePlace(name, file), schema, decoded)
