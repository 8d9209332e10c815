"""Every option of reading, once: its name, form and default, and what it may not go with.

Names, defaults and refusals are those of Spark's Kafka connector (KafkaSourceProvider), so that a
job written for it keeps its options. Spark hands over lower-case names and text values.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from ottla.batch.decode import DEFAULT_MAX_BATCH_BYTES
from ottla.errors import OptionError
from ottla.format.names import TopicPartition
from ottla.log.read.mode import Isolation, Mode
from ottla.options.choice import (
    EVERY_PARTITION,
    Choice,
    parse_assign,
    parse_pattern,
    parse_subscribe,
)
from ottla.options.export import ValueAs
from ottla.options.fields import STORAGE_FIELDS, Fields, Names, check_names, parse_fields
from ottla.options.offsets import (
    Edge,
    Limit,
    Offsets,
    Timestamp,
    Timestamps,
    parse_limit,
    parse_offsets,
)
from ottla.options.texts import (
    parse_boolean,
    parse_bytes,
    parse_integer,
    parse_milliseconds,
    parse_positive,
)
from ottla.schemas.plans import NO_PLANS, PayloadPlans
from ottla.schemas.wires import WireFormat
from ottla.storage.object_store import DEFAULT_OPTIONS, StorageOptions
from ottla.where.tree import Where

DEFAULT_SPLIT_BYTES: Final = 64 << 20
DEFAULT_TRIGGER_DELAY_MS: Final = 15 * 60 * 1000


class View(StrEnum):
    """What a row is."""

    RECORDS = "records"
    BATCHES = "batches"
    VIOLATIONS = "violations"
    # What the records of an internal topic add up to (ottla.internal.views.VIEWS).
    GROUP_OFFSETS = "group_offsets"
    GROUPS = "groups"
    TRANSACTIONAL_IDS = "transactional_ids"
    TOPICS = "topics"
    CONFIGS = "configs"
    METADATA = "metadata"


class UpTo(StrEnum):
    """Where a log ends: at its last whole batch, or where its replicas agree."""

    LOG_END = "logEnd"
    HIGH_WATERMARK = "highWatermark"


class NoMatch(StrEnum):
    """What a starting timestamp past every record means."""

    ERROR = "error"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class SliceAccess:
    """What a reader of slices must know beside them; `fail_on_data_loss` if files are gone.

    Records that are not as `where` says are never given.
    """

    storage: StorageOptions = DEFAULT_OPTIONS
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    fail_on_data_loss: bool = True
    where: Where | None = None


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read logs; `starting` is None until batch or stream gives it its default.

    `raw` records keep Kafka's own timestamps, so that none is left out for its time. A limit that
    a log does not have is an error where `strict`, as in the connector; commands pass over it.
    `payloads` is what `schemas` and `wire` come to when the topic is known.
    """

    paths: tuple[str, ...]
    choice: Choice = EVERY_PARTITION
    starting: Limit | None = None
    ending: Limit | None = None
    starting_no_match: NoMatch = NoMatch.ERROR
    fail_on_data_loss: bool = True
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    include_headers: bool = False
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    view: View = View.RECORDS
    history: bool = False
    mode: Mode = Mode.FAILFAST
    include_batch_columns: bool = False
    split_bytes: int = DEFAULT_SPLIT_BYTES
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    up_to: UpTo = UpTo.LOG_END
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = DEFAULT_TRIGGER_DELAY_MS
    max_bytes_per_trigger: int | None = None
    where: Where | None = None
    storage: StorageOptions = DEFAULT_OPTIONS
    ignored: tuple[str, ...] = ()
    key_as: ValueAs = ValueAs.BINARY
    value_as: ValueAs = ValueAs.BINARY
    schemas: str | None = None
    wire: WireFormat = WireFormat.AUTO
    payloads: PayloadPlans = NO_PLANS
    raw: bool = False
    strict: bool = True

    @property
    def access(self) -> SliceAccess:
        """What tasks need of the options."""
        return SliceAccess(self.storage, self.max_batch_bytes, self.fail_on_data_loss, self.where)


def _one_of(choices: type[StrEnum]) -> Callable[[str], StrEnum]:
    def parse(text: str) -> StrEnum:
        for member in choices:
            if member.value.lower() == text.strip().lower():
                return member
        raise OptionError(" or ".join(choices))

    return parse


def _paths(text: str) -> tuple[str, ...]:
    paths = json.loads(text)  # Spark itself writes this option, for load([a, b])
    if not isinstance(paths, list) or not paths:
        raise OptionError("a JSON array of paths")
    return tuple(map(str, paths))


_FIELDS: Final[Fields] = {
    "path": ("paths", lambda text: (text,)),
    "paths": ("paths", _paths),
    "subscribe": ("choice", parse_subscribe),
    "subscribePattern": ("choice", parse_pattern),
    "assign": ("choice", parse_assign),
    "startingOffsets": ("starting", parse_limit),
    "startingOffsetsByTimestamp": ("starting", lambda text: Timestamps(parse_offsets(text))),
    "startingTimestamp": ("starting", lambda text: Timestamp(parse_integer(text))),
    "startingOffsetsByTimestampStrategy": ("starting_no_match", _one_of(NoMatch)),
    "endingOffsets": ("ending", parse_limit),
    "endingOffsetsByTimestamp": ("ending", lambda text: Timestamps(parse_offsets(text))),
    "endingTimestamp": ("ending", lambda text: Timestamp(parse_integer(text))),
    "failOnDataLoss": ("fail_on_data_loss", parse_boolean),
    "minPartitions": ("min_partitions", parse_positive),
    "maxRecordsPerPartition": ("max_records_per_partition", parse_positive),
    "includeHeaders": ("include_headers", parse_boolean),
    "kafka.isolation.level": ("isolation", _one_of(Isolation)),
    "view": ("view", _one_of(View)),
    "history": ("history", parse_boolean),
    "mode": ("mode", _one_of(Mode)),
    "includeBatchColumns": ("include_batch_columns", parse_boolean),
    "keyAs": ("key_as", _one_of(ValueAs)),
    "valueAs": ("value_as", _one_of(ValueAs)),
    "schemas": ("schemas", str),
    "wire": ("wire", _one_of(WireFormat)),
    "splitBytes": ("split_bytes", parse_bytes),
    "maxBatchBytes": ("max_batch_bytes", parse_bytes),
    "upTo": ("up_to", _one_of(UpTo)),
    "maxOffsetsPerTrigger": ("max_offsets_per_trigger", parse_positive),
    "minOffsetsPerTrigger": ("min_offsets_per_trigger", parse_positive),
    "maxTriggerDelay": ("max_trigger_delay_ms", parse_milliseconds),
    "maxBytesPerTrigger": ("max_bytes_per_trigger", parse_bytes),
    "where": ("where", str),
}
# They tell the connector how to talk to a broker.
_BROKER_ONLY: Final = (
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "partition.metadata.cache.ttl.ms",
)
# The connector refuses these too: it decides on them itself.
_REFUSED: Final = (
    "kafka.auto.offset.reset",
    "kafka.key.deserializer",
    "kafka.value.deserializer",
    "kafka.enable.auto.commit",
    "kafka.interceptor.classes",
)
_SUBSCRIPTIONS: Final = ("subscribe", "subscribePattern", "assign")
# The first that is given counts, as in KafkaSourceProvider.getKafkaOffsetRangeLimit.
_STARTING: Final = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
_ENDING: Final = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
# Views of internal topics read whole topics of their own; only these options have a meaning there.
_INTERNAL_VIEWS: Final = tuple(
    view for view in View if view not in (View.RECORDS, View.BATCHES, View.VIOLATIONS)
)
_INTERNAL: Final = ("path", "paths", "view", "history", "mode", "maxBatchBytes")


def parse_read_options(given: Mapping[str, str]) -> ReadOptions:
    """Read options whose names Spark has lower-cased; whatever is wrong is an OptionError."""
    texts = {name.lower(): text for name, text in given.items()}
    ignored = check_names(texts, Names(_FIELDS, _BROKER_ONLY, _REFUSED))
    _only_one(texts, _SUBSCRIPTIONS)
    for names in (_STARTING, _ENDING):
        first = next((name for name in names if name.lower() in texts), None)
        for name in names:
            if name != first:
                texts.pop(name.lower(), None)
    found = parse_fields(texts, _FIELDS)
    if "paths" not in found:
        raise OptionError("no path: .load(path) names a log directory or a partition directory")
    _check_view(texts, found.get("view", View.RECORDS))
    if "where" in found:
        from ottla.where.parse import parse_where  # with Arrow's functions, which few ask for

        found["where"] = parse_where(found["where"])
    storage = StorageOptions(**parse_fields(texts, STORAGE_FIELDS))
    return _checked(ReadOptions(**found, storage=storage, ignored=ignored))


def _only_one(texts: Mapping[str, str], names: tuple[str, ...]) -> None:
    chosen = [name for name in names if name.lower() in texts]
    if len(chosen) > 1:
        both = " and ".join(chosen)
        raise OptionError(f"only one of {', '.join(names)} can be given, not {both}")


def _check_view(texts: Mapping[str, str], view: View) -> None:
    """Refuse options that the view would not heed."""
    if view not in _INTERNAL_VIEWS:
        if "history" in texts:
            names = " or ".join(_INTERNAL_VIEWS)
            raise OptionError(f"history goes with view={names}, not view={view}")
        if view is View.BATCHES and "where" in texts:
            raise OptionError("where chooses records; view=batches has none")
        return
    unheeded = [name for name in _FIELDS if name.lower() in texts and name not in _INTERNAL]
    if unheeded:
        raise OptionError(
            f"{', '.join(unheeded)} has no meaning with view={view}, "
            "which reads all of an internal topic"
        )


def _checked(options: ReadOptions) -> ReadOptions:
    least, most = options.min_offsets_per_trigger, options.max_offsets_per_trigger
    if least is not None and most is not None and least > most:
        raise OptionError(f"minOffsetsPerTrigger ({least}) is above maxOffsetsPerTrigger ({most})")
    return options


def for_batch(options: ReadOptions) -> ReadOptions:
    """Give a batch query its defaults and refuse what it can not mean (validateBatchOptions)."""
    starting = Edge.EARLIEST if options.starting is None else options.starting
    ending = Edge.LATEST if options.ending is None else options.ending
    if starting is Edge.LATEST or _has(starting, Edge.LATEST):
        raise OptionError("startingOffsets cannot be latest (-1) in a batch query")
    if ending is Edge.EARLIEST or _has(ending, Edge.EARLIEST):
        raise OptionError("endingOffsets cannot be earliest (-2) in a batch query")
    _check_pair(starting, ending)
    return replace(options, starting=starting, ending=ending)


def for_stream(options: ReadOptions) -> ReadOptions:
    """Give a stream its defaults and refuse what it can not mean (validateStreamOptions)."""
    if isinstance(options.ending, Edge | Offsets | Timestamps):
        raise OptionError("endingOffsets and endingOffsetsByTimestamp have no meaning in a stream")
    if options.view is not View.RECORDS:
        raise OptionError(f"view={options.view} cannot be streamed; read it as a batch")
    starting = Edge.LATEST if options.starting is None else options.starting
    return replace(options, starting=starting, ending=None)


def _has(limit: Limit, edge: Edge) -> bool:
    return isinstance(limit, Offsets) and edge.value in limit.by_partition.values()


def _check_pair(starting: Limit, ending: Limit) -> None:
    """Two JSON limits of a kind name the same partitions, and no start lies after its end."""
    if isinstance(starting, Offsets) and isinstance(ending, Offsets):
        _check_maps(starting.by_partition, ending.by_partition)
    if isinstance(starting, Timestamps) and isinstance(ending, Timestamps):
        _check_maps(starting.by_partition, ending.by_partition)


def _check_maps(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> None:
    if start.keys() != end.keys():
        odd = ", ".join(sorted(map(str, start.keys() ^ end.keys())))
        raise OptionError(f"starting and ending offsets name different partitions: {odd}")
    for name, first in start.items():
        if 0 <= end[name] < first:
            raise OptionError(f"{name} would start at {first}, after its end at {end[name]}")
