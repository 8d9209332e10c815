"""Which schemas topics use, from when to when, and how many of their records are not decoded.

Some windows of each partition are looked at, from its first records to its last.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

import pyarrow as pa

from ottla.catalog.catalog import Catalog
from ottla.catalog.logs import Log
from ottla.catalog.slices import Slice
from ottla.errors import OptionError, Row
from ottla.jobs.engine import Engine, JobStep
from ottla.jobs.read.records import read_slice
from ottla.jobs.schemas.load import holds_registry
from ottla.jobs.schemas.resolve import Asked, resolve_topics
from ottla.jobs.schemas.usage import SIDES, sample_log
from ottla.options.export import ValueAs
from ottla.options.read import SliceAccess
from ottla.schemas.decoding import PayloadDecoder, PayloadPlan, decode_pieces, find_writer
from ottla.schemas.payloads import split_column
from ottla.schemas.plans import PayloadPlans
from ottla.schemas.wires import WireFormat
from ottla.storage.object_store import StorageOptions

_COLUMNS: Final = ("key", "value", "headers", "timestamp")
_SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("of", pa.string()),
        ("schema", pa.string()),
        ("subject", pa.string()),
        ("version", pa.int64()),
        ("schemaType", pa.string()),
        ("records", pa.int64()),
        ("firstTimestamp", pa.int64()),
        ("lastTimestamp", pa.int64()),
        ("reasons", pa.map_(pa.string(), pa.int64())),
    ]
)


@dataclass(frozen=True, slots=True)
class _SampledSlice:
    """A slice of which a window is read, and how its keys and values are decoded."""

    part: Slice
    plans: PayloadPlans
    storage: StorageOptions


@dataclass(slots=True)
class _SchemaUse:
    """The records of a topic that name one schema."""

    records: int = 0
    first: int | None = None
    last: int | None = None
    reasons: Counter[str] = field(default_factory=Counter)

    def see(self, count: int, times: Iterable[int | None]) -> None:
        self.records += count
        known = [time for time in (self.first, self.last, *times) if time is not None]
        self.first, self.last = min(known, default=None), max(known, default=None)


def schema_rows(engine: Engine, catalog: Catalog, logs: Sequence[Log]) -> list[Row]:
    """A row for each schema that keys or values of a topic name; none without a registry."""
    if not holds_registry(catalog):
        return []
    asked = Asked(ValueAs.REGISTRY, ValueAs.REGISTRY, WireFormat.AUTO)
    try:
        plans = resolve_topics(catalog, logs, asked, None)
    except OptionError:  # none of these topics has schemas
        return []
    parts = [
        _SampledSlice(part, plans[str(log.name.topic)], catalog.storage)
        for log in logs
        if any(plans[str(log.name.topic)].of(side) for side in SIDES)
        for part in sample_log(log, catalog.storage)
    ]
    step = JobStep("schemas", parts, [each.part.size for each in parts], _look, _SCHEMA)
    return list(_add_up(engine.run(step)))


def _look(sampled: _SampledSlice) -> Iterator[pa.RecordBatch]:
    """What the first window of a slice holds; batches that are broken are left out."""
    rows: list[Row] = []
    access = SliceAccess(sampled.storage, fail_on_data_loss=False)
    for reading in islice(read_slice(sampled.part, _COLUMNS, access), 1):
        records = reading.to_arrow(_COLUMNS)
        if records is not None and records.num_rows:
            for side in SIDES:
                plan = sampled.plans.of(side)
                rows += _uses(records, plan) if plan is not None else []
    yield pa.RecordBatch.from_pylist(rows, _SCHEMA)


def _uses(records: pa.RecordBatch, plan: PayloadPlan) -> Iterator[Row]:
    column, headers = records.column(plan.side), records.column("headers")
    times = records.column("timestamp").to_numpy(zero_copy_only=False)
    decoder = PayloadDecoder(plan)
    for _ in decode_pieces(records.select([plan.side, "headers"]), {plan.side: decoder}):
        continue  # it counts
    for named in split_column(column, headers, plan.side, plan.wire, plan.registry):
        found = find_writer(plan.registry, named.writer, plan.topic, plan.side)
        name, its = str(named.writer), times[named.rows]
        known = its[its >= 0]
        yield {
            "topic": plan.topic,
            "of": plan.side,
            "schema": name,
            "subject": None if found is None else found.subject,
            "version": None if found is None else found.version,
            "schemaType": None if found is None else str(found.type),
            "records": int(named.rows.size),
            "firstTimestamp": int(known.min()) if known.size else None,
            "lastTimestamp": int(known.max()) if known.size else None,
            # A schema may be named in two ways: its failures are told once.
            "reasons": _take_reasons(decoder.failed, name),
        }


def _take_reasons(failed: Counter[str], name: str) -> list[tuple[str, int]]:
    its = [each for each in failed if each.endswith(f": {name}")]
    return [(each.removesuffix(f": {name}"), failed.pop(each)) for each in its]


def _in_order(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """By topic, subject and version; what no schema explains comes last."""
    topic, of, schema, subject, version, _ = key
    return topic, of, subject is None, subject or "", version or 0, schema


_SAME: Final = ("topic", "of", "schema", "subject", "version", "schemaType")


def _add_up(rows: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    uses: dict[tuple[Any, ...], _SchemaUse] = {}
    for row in rows:
        use = uses.setdefault(tuple(row[name] for name in _SAME), _SchemaUse())
        use.see(row["records"], (row["firstTimestamp"], row["lastTimestamp"]))
        use.reasons.update(dict(row["reasons"]))
    for key in sorted(uses, key=_in_order):
        use = uses[key]
        yield {
            "type": "schema",
            **dict(zip(_SAME, key, strict=True)),
            "records": use.records,
            "undecodable": sum(use.reasons.values()),
            "reasons": dict(use.reasons),
            "firstTimestamp": use.first,
            "lastTimestamp": use.last,
        }
