"""Ottla: the logs of Apache Kafka, without Kafka.

The folders, from the bytes up; each imports only from those above it in this list:

- `errors`, `strangers`, `notices`   rules, violations; whom a file can be from; what is said
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
- `api`, `html`, `cli` what Python programs call; the page of a report; the command `ottla`
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.api import read_batches as read_batches
    from ottla.api import read_segment as read_segment
    from ottla.api import write_segment as write_segment
    from ottla.batch.new_batch import NewBatch as NewBatch
    from ottla.errors import CorruptLogError as CorruptLogError
    from ottla.errors import OptionError as OptionError
    from ottla.errors import Violation as Violation
    from ottla.spark.log import read_log as read_log
    from ottla.spark.log import write_log as write_log

# Imported on first use, so that `import ottla` costs nothing and needs no Spark.
_HOMES = {
    "CorruptLogError": "ottla.errors",
    "NewBatch": "ottla.batch.new_batch",
    "OptionError": "ottla.errors",
    "Violation": "ottla.errors",
    "read_batches": "ottla.api",
    "read_log": "ottla.spark.log",
    "read_segment": "ottla.api",
    "write_log": "ottla.spark.log",
    "write_segment": "ottla.api",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'ottla' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
