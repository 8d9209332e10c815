"""Ottla: the logs of Apache Kafka, without Kafka.

Open a log directory, a copy of one, a partition or a segment, on a disk or in an object store, and
read it as a table:

    import ottla

    log = ottla.open("kafka-logs")
    log                                  # what is there
    scan = log.scan("orders", start="2025-10-09T08:00Z", isolation="read_committed")
    scan.head(5)
    scan.to_arrow(); scan.to_pandas(); scan.to_polars(); scan.to_duckdb("orders"); scan.to_spark()
    log.verify(); log.transactions(); log.groups(); log.batches("orders"); log.violations()
    log.salvage("repaired"); log.convert("smaller", codec="zstd"); log.export("parquet")

Below that are segments, one file at a time (`read_segment`, `read_batches`, `write_segment`), and
beside it Spark (`read_log`, `write_log`, and `ottla.spark`). `decode` makes a typed column of bytes
by a schema. `docs/python.md` has it by example.

The folders, from the bytes up; each imports only from those above it in this list:

- `errors`, `strangers`, `notices`, `extras`   rules, violations; what is said; what is optional
- `format`, `region`   what the bytes are: layouts, attributes, names; bytes that know their file
- `kernels`            pure functions on arrays (Numba)
- `codec`              compressed bytes to bytes, and back
- `batch`              the record format: bytes to `Batches` and records, and back
- `arrow`, `rules`, `internal`   Arrow tables; what Kafka demands; records of internal topics
- `storage`, `publish` files and objects; how output appears, whole or not at all
- `log`                one partition: its files, reading, writing, checks, salvage
- `options`, `catalog` Spark's options; which logs, from where to where
- `connector`          records as Kafka's Spark connector shows them
- `jobs`, `dump`       work over many logs; what is printed of them
- `spark`              the same on Spark
- `api`, `tables`      what Python programs call: segments; logs as tables
- `html`, `cli`        the page of a report; the command `ottla`
"""

import importlib
from typing import TYPE_CHECKING

from ottla import version

if TYPE_CHECKING:
    from ottla.api import read_batches, read_log, read_segment, write_log, write_segment
    from ottla.batch.new_batch import NewBatch
    from ottla.errors import (
        CorruptLogError,
        DataLossError,
        OptionError,
        PublishError,
        Rule,
        Severity,
        Violation,
    )
    from ottla.format.attributes import Codec, TimestampType
    from ottla.log.read.mode import Isolation, Mode
    from ottla.options.export import FileFormat, ValueAs
    from ottla.tables.decode import decode
    from ottla.tables.log import KafkaLog as Log
    from ottla.tables.log import open  # noqa: A004
    from ottla.tables.scan import Scan

__version__ = version.VERSION
__all__ = [
    "Codec",
    "CorruptLogError",
    "DataLossError",
    "FileFormat",
    "Isolation",
    "Log",
    "Mode",
    "NewBatch",
    "OptionError",
    "PublishError",
    "Rule",
    "Scan",
    "Severity",
    "TimestampType",
    "ValueAs",
    "Violation",
    "__version__",
    "decode",
    "open",
    "read_batches",
    "read_log",
    "read_segment",
    "write_log",
    "write_segment",
]

# Where each name is; imported on first use, so that `import ottla` costs nothing.
_HOMES = {
    "Codec": "ottla.format.attributes",
    "CorruptLogError": "ottla.errors",
    "DataLossError": "ottla.errors",
    "FileFormat": "ottla.options.export",
    "Isolation": "ottla.log.read.mode",
    "Mode": "ottla.log.read.mode",
    "NewBatch": "ottla.batch.new_batch",
    "OptionError": "ottla.errors",
    "PublishError": "ottla.errors",
    "Rule": "ottla.errors",
    "Scan": "ottla.tables.scan",
    "Severity": "ottla.errors",
    "TimestampType": "ottla.format.attributes",
    "ValueAs": "ottla.options.export",
    "Violation": "ottla.errors",
    "decode": "ottla.tables.decode",
    "open": "ottla.tables.log",
    "read_batches": "ottla.api",
    "read_log": "ottla.api",
    "read_segment": "ottla.api",
    "write_log": "ottla.api",
    "write_segment": "ottla.api",
}


def __getattr__(name: str) -> object:
    if name == "Log":
        return importlib.import_module("ottla.tables.log").KafkaLog
    if name not in _HOMES:
        raise AttributeError(f"module 'ottla' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
