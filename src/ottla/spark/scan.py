"""A scan of `ottla.open` as a query of the source `kafka-log`."""

import json
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from ottla.arrow.permissive import CORRUPT
from ottla.catalog.catalog import Catalog
from ottla.catalog.limits import resolve_limits
from ottla.catalog.logs import Log
from ottla.catalog.positions import find_log_end
from ottla.catalog.slices import choose_logs
from ottla.errors import OptionError
from ottla.format.names import UNNAMED
from ottla.options.choice import EVERY_PARTITION
from ottla.options.offsets import Edge, LimitPair, offsets_by_topic
from ottla.options.read import ReadOptions, View
from ottla.spark import register, session
from ottla.spark.schema import choose_columns
from ottla.where.tree import ArrowFilter


def load_scan(
    catalog: Catalog,
    options: ReadOptions,
    columns: Sequence[str],
    spark: SparkSession | None,
) -> DataFrame:
    """The rows that the options choose, with these columns."""
    chosen = session() if spark is None else spark
    register(chosen)
    texts = _texts(catalog, options)
    names = [name for name in columns if name != CORRUPT]
    names += [CORRUPT] if CORRUPT in columns else []
    reader = chosen.read.format("kafka-log").options(**texts)
    return reader.schema(choose_columns(names, options)).load([*catalog.paths])


def _texts(catalog: Catalog, options: ReadOptions) -> dict[str, str]:
    if options.raw:
        raise OptionError("Spark's timestamps are times: leave out raw=True")
    if isinstance(options.where, ArrowFilter):
        raise OptionError("Spark takes a text for where, not an expression of PyArrow")
    texts = {"mode": str(options.mode), "view": str(options.view)}
    if options.view is View.RECORDS:
        texts |= {"keyAs": str(options.key_as), "valueAs": str(options.value_as)}
        texts["wire"] = str(options.wire)
        texts |= {} if options.schemas is None else {"schemas": options.schemas}
        texts["kafka.isolation.level"] = str(options.isolation)
    if options.where is not None:
        texts["where"] = str(options.where)
    storage = options.storage
    for name in ("endpoint", "region", "profile"):
        if getattr(storage, name) is not None:
            texts[name] = getattr(storage, name)
    texts |= {"anonymous": "true"} if storage.anonymous else {}
    texts |= {"followLinks": "true"} if storage.follow_links else {}
    return texts | _ranges(catalog, options)


def _ranges(catalog: Catalog, options: ReadOptions) -> dict[str, str]:
    """Partitions and limits, as the connector has them: an offset for each partition."""
    has_limits = options.starting is not None or options.ending is not None
    if options.choice == EVERY_PARTITION and not has_limits:
        return {}
    logs = choose_logs(catalog, options)
    if any(log.name == UNNAMED for log in logs):
        raise OptionError(
            "Spark takes limits by topic and partition, and the folder of a file names none:"
            " put it into a folder such as orders-0, or leave out start and end"
        )
    assigned: dict[str, list[int]] = {}
    for log in logs:
        assigned.setdefault(str(log.name.topic), []).append(int(log.name.partition or 0))
    texts = {"assign": json.dumps(assigned)}
    if has_limits and options.view is View.RECORDS:
        pairs = {log.name: _limits(log, options) for log in logs}
        starts = {name: pair[0] for name, pair in pairs.items()}
        ends = {name: pair[1] for name, pair in pairs.items()}
        texts["startingOffsets"] = json.dumps(offsets_by_topic(starts))
        texts["endingOffsets"] = json.dumps(offsets_by_topic(ends))
    return texts


def _limits(log: Log, options: ReadOptions) -> tuple[int, int]:
    """Where to begin and to end, inside of what the log has: the connector refuses the rest."""
    bounds = resolve_limits(log, LimitPair(options.starting, options.ending), options.storage)
    last = find_log_end(log.partition, options.storage)
    start = min(max(log.earliest, bounds.start or 0), last)
    if bounds.stop is None:
        return start, Edge.LATEST.value
    return start, max(start, min(bounds.stop, last))
