"""What is asked of an export."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ottla.log.read.mode import Isolation, Mode
from ottla.schemas.wires import WireFormat
from ottla.where.tree import Predicate

ROW_GROUP_BYTES: Final = 64 << 20


class FileFormat(StrEnum):
    """What is written."""

    PARQUET = "parquet"
    JSONL = "jsonl"
    ICEBERG = "iceberg"
    DELTA = "delta"

    @property
    def is_table(self) -> bool:
        """Whether files belong to a table that says itself which of them it has."""
        return self in (self.ICEBERG, self.DELTA)


class TableColumns(StrEnum):
    """The columns of a table: flat, as Spark's connector has them, or with a struct `kafka`."""

    SPARK = "spark"
    KAFKA = "kafka"


class PartitionBy(StrEnum):
    """What the files of a table are apart by, beside the topic."""

    PARTITION = "partition"
    DAY = "day(timestamp)"


class ValueAs(StrEnum):
    """How values are given. Those that are not such are null, and `valueRaw` has their bytes."""

    BINARY = "binary"
    UTF8 = "utf8"
    JSON = "json"
    # By a schema, which payloads name or which belongs to the topic.
    AVRO = "avro"
    PROTOBUF = "protobuf"
    JSONSCHEMA = "jsonschema"
    REGISTRY = "registry"

    @property
    def needs_schemas(self) -> bool:
        """Whether only schemas say what columns there are."""
        return self in (self.AVRO, self.PROTOBUF, self.JSONSCHEMA, self.REGISTRY)


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """How to export; `mode` is about broken batches, `isolation` about transactions.

    Only records that are as `where` says. `each` type of records has a table of its own. The last
    four are about tables: `catalog` is one of Iceberg's, and `recreated` says that topics may have
    been made anew.
    """

    format: FileFormat = FileFormat.PARQUET
    value_as: ValueAs = ValueAs.BINARY
    key_as: ValueAs = ValueAs.BINARY
    schemas: str | None = None
    wire: WireFormat = WireFormat.AUTO
    each: bool = False
    mode: Mode = Mode.FAILFAST
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    batch_columns: bool = False
    split_bytes: int = 64 << 20
    row_group_bytes: int = ROW_GROUP_BYTES
    level: int = 1
    where: Predicate | None = None
    columns: TableColumns = TableColumns.SPARK
    partition_by: PartitionBy = PartitionBy.PARTITION
    catalog: str | None = None
    recreated: bool = False
