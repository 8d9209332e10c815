"""Which schemas the records of topics name: from a few windows of each log, or from all."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import Final, NamedTuple

import pyarrow as pa

from ottla.batch.decode import DEFAULT_MAX_BATCH_BYTES
from ottla.catalog.logs import Log
from ottla.catalog.positions import find_log_end
from ottla.catalog.slices import Cutting, Slice, cut_log, find_slices
from ottla.jobs.engine import Engine, JobStep
from ottla.jobs.read.records import read_slice
from ottla.log.read.bounds import EVERYTHING, Bounds
from ottla.options.read import SliceAccess
from ottla.schemas.decoding import find_writer, language
from ottla.schemas.payloads import Naming, Writer, split_column
from ottla.schemas.registry import Registry, SchemaType
from ottla.schemas.unzip import unzip
from ottla.schemas.wires import WireFormat
from ottla.storage.object_store import StorageOptions

SIDES: Final = ("key", "value")
_COLUMNS: Final = ("key", "value", "headers")
_SAMPLED: Final = 4  # places in a partition, each of one window
_SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("side", pa.string()),
        ("naming", pa.string()),
        ("value", pa.string()),
        ("wire", pa.string()),
        ("indexes", pa.list_(pa.int64())),
        ("records", pa.int64()),
    ]
)


class Use(NamedTuple):
    """A schema, as payloads name it, and the message of it that they are (Protobuf)."""

    topic: str
    side: str
    writer: Writer
    indexes: tuple[int, ...] = (0,)


Usage = Counter[Use]


@dataclass(frozen=True, slots=True)
class CountUses:
    """What is asked of a slice; it travels to workers."""

    registry: Registry
    wire: WireFormat
    storage: StorageOptions

    def count(self, part: Slice, windows: int | None = None) -> Usage:
        """The uses in a slice, or in its first windows; batches that are broken have none."""
        usage: Usage = Counter()
        access = SliceAccess(self.storage, fail_on_data_loss=False)
        for reading in islice(read_slice(part, _COLUMNS, access), windows):
            records = reading.to_arrow(_COLUMNS)
            if records is not None and records.num_rows:
                self._add(usage, str(part.name.topic), records)
        return usage

    def _add(self, usage: Usage, topic: str, records: pa.RecordBatch) -> None:
        headers = records.column("headers")
        for side in SIDES:
            column = records.column(side)
            for named in split_column(column, headers, side, self.wire, self.registry):
                writer = named.writer._replace(is_zipped=False, is_json=False)
                version = find_writer(self.registry, writer, topic, side)
                if version is not None and version.type is SchemaType.PROTOBUF:
                    payloads = named.payloads(column)
                    if named.writer.is_zipped:
                        payloads = unzip(payloads, DEFAULT_MAX_BATCH_BYTES).payloads.fill_null(b"")
                    spoken = language(version.type)
                    for each in spoken.split(payloads, named, column, version, self.registry):
                        usage[Use(topic, side, writer, each.indexes)] += len(each.rows)
                else:
                    usage[Use(topic, side, writer)] += int(named.rows.size)

    def __call__(self, part: Slice) -> Iterator[pa.RecordBatch]:
        rows = [
            {
                "topic": use.topic,
                "side": use.side,
                "naming": str(use.writer.naming),
                "value": str(use.writer.value),
                "wire": str(use.writer.wire),
                "indexes": list(use.indexes),
                "records": count,
            }
            for use, count in self.count(part).items()
        ]
        yield pa.RecordBatch.from_pylist(rows, _SCHEMA)


def sample_usage(logs: Sequence[Log], asked: CountUses) -> Usage:
    """The uses in a few windows of each log, from its first records to its last."""
    usage: Usage = Counter()
    for log in logs:
        for part in sample_log(log, asked.storage):
            usage.update(asked.count(part, windows=1))
    return usage


def sample_log(log: Log, storage: StorageOptions) -> Iterator[Slice]:
    """What begins at some offsets, as far apart as can be; of each only one window is read."""
    first = log.earliest
    span = max(0, find_log_end(log.partition, storage) - 1 - first)
    places = sorted({first + span * at // (_SAMPLED - 1) for at in range(_SAMPLED)})
    for offset, following in zip_longest(places, places[1:]):
        found = next(find_slices(log, Bounds(offset, following), None, storage), None)
        if found is not None:
            yield found[1]


def count_usage(engine: Engine, logs: Iterable[Log], asked: CountUses, split_bytes: int) -> Usage:
    """The uses in all records, on an engine."""
    cutting = Cutting(split_bytes)
    parts = [part for log in logs for part in cut_log(log, EVERYTHING, cutting, asked.storage)]
    step = JobStep("schemas", parts, [part.size for part in parts], asked, _SCHEMA)
    usage: Usage = Counter()
    for row in engine.run(step):
        naming = Naming(row["naming"])
        is_number = naming in (Naming.ID, Naming.FINGERPRINT) and row["value"].lstrip("-").isdigit()
        value = int(row["value"]) if is_number else row["value"]
        writer = Writer(naming, value, WireFormat(row["wire"]))
        usage[Use(row["topic"], row["side"], writer, tuple(row["indexes"]))] += row["records"]
    return usage
