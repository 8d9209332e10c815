"""Every option of writing, once: its name, form and default, and what it may not go with."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.batch.convert import DEFAULT_BATCH_BYTES
from ottla.batch.new_batch import CURRENT_MAGIC, NewBatch
from ottla.errors import OptionError
from ottla.format.attributes import CODEC_NAMES, Codec, TimestampType
from ottla.format.names import is_topic_name
from ottla.format.sentinels import INT32_MAX
from ottla.log.files.identity import is_uuid
from ottla.log.write.index_builder import SegmentConfig
from ottla.options.fields import STORAGE_FIELDS, Fields, Names, check_names, parse_fields
from ottla.options.texts import parse_boolean, parse_bytes, parse_integer
from ottla.storage.object_store import DEFAULT_OPTIONS, StorageOptions

DEFAULT_SEGMENT_BYTES: Final = SegmentConfig().segment_bytes
_CODECS: Final = {name: Codec(code) for code, name in CODEC_NAMES.items()}
# Roll by size alone: records of a batch query have times in no order, which in a broker would make
# a segment of almost every batch.
_NEVER_MS: Final = 2**62


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How to write rows as logs. `partition_count` is for topics that `partition_counts` lacks.

    `write_id` names a save, so that a second one of that name writes nothing.
    """

    path: str
    topic: str | None = None
    partition_count: int | None = None
    partition_counts: Mapping[str, int] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    leader_epoch: int | None = None
    keep_offsets: bool = False
    magic: int = CURRENT_MAGIC
    codec: int = Codec.NONE
    level: int | None = None
    batch_bytes: int = DEFAULT_BATCH_BYTES
    segment_bytes: int = DEFAULT_SEGMENT_BYTES
    write_id: str | None = None
    storage: StorageOptions = DEFAULT_OPTIONS
    ignored: tuple[str, ...] = ()

    @property
    def new_batch(self) -> NewBatch:
        """What every batch is like; its leader epoch is stamped when its offsets are known."""
        kind = TimestampType.CREATE_TIME if self.magic else TimestampType.NO_TIMESTAMP_TYPE
        return NewBatch(magic=self.magic, codec=self.codec, level=self.level, timestamp_type=kind)

    @property
    def config(self) -> SegmentConfig:
        """When to roll."""
        return SegmentConfig(segment_bytes=self.segment_bytes, segment_ms=_NEVER_MS)


def _topic(text: str) -> str:
    if not is_topic_name(text.strip()):
        raise OptionError("the name of a topic")
    return text.strip()


def _counts(text: str) -> tuple[int | None, Mapping[str, int]]:
    if text.strip().isdecimal():
        return _count(int(text)), {}
    given = _json(text, 'a number of partitions, or JSON such as {"orders": 3}')
    return None, {_topic(topic): _count(count) for topic, count in given.items()}


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= INT32_MAX:
        raise OptionError("a positive number of partitions")
    return value


def _topic_ids(text: str) -> Mapping[str, str]:
    expected = "JSON of topics and their ids, each 22 characters of Kafka's base64"
    given = _json(text, expected)
    if not all(isinstance(value, str) and is_uuid(value) for value in given.values()):
        raise OptionError(expected)
    return {_topic(topic): value for topic, value in given.items()}


def _json(text: str, expected: str) -> dict[str, Any]:
    try:
        given = json.loads(text)
    except ValueError as error:
        raise OptionError(expected) from error
    if not isinstance(given, dict):
        raise OptionError(expected)
    return given


def _leader_epoch(text: str) -> int:
    epoch = parse_integer(text)
    if not 0 <= epoch <= INT32_MAX:
        raise OptionError("a leader epoch of 0 or more")
    return epoch


def _magic(text: str) -> int:
    if text.strip() not in ("0", "1", "2"):
        raise OptionError("0, 1 or 2")
    return int(text)


def _codec(text: str) -> Codec:
    if text.strip().lower() not in _CODECS:
        raise OptionError(" or ".join(_CODECS))
    return _CODECS[text.strip().lower()]


def _batch_bytes(text: str) -> int:
    return min(parse_bytes(text), INT32_MAX)


def _write_id(text: str) -> str:
    if not text:
        raise OptionError("writeId is empty: all saves would be one")
    return text


_FIELDS: Final[Fields] = {
    "path": ("path", str),
    "topic": ("topic", _topic),
    "numPartitions": ("counts", _counts),
    "topicIds": ("topic_ids", _topic_ids),
    "leaderEpoch": ("leader_epoch", _leader_epoch),
    "keepOffsets": ("keep_offsets", parse_boolean),
    "codec": ("codec", _codec),
    "level": ("level", parse_integer),
    "magic": ("magic", _magic),
    "batchBytes": ("batch_bytes", _batch_bytes),
    "segmentBytes": ("segment_bytes", parse_bytes),
    "writeId": ("write_id", _write_id),
}
# Spark hands its own options of a stream over too.
_IGNORED: Final = ("checkpointLocation", "queryName", "outputMode")
# The connector refuses these too: it decides on them itself.
_REFUSED: Final = ("kafka.key.serializer", "kafka.value.serializer")


def parse_write_options(given: Mapping[str, str]) -> WriteOptions:
    """Write options whose names Spark has lower-cased; whatever is wrong is an OptionError."""
    texts = {name.lower(): text for name, text in given.items()}
    ignored = check_names(texts, Names(_FIELDS, _IGNORED, _REFUSED))
    found = parse_fields(texts, _FIELDS)
    if "path" not in found:
        raise OptionError("no path: .save(path) or .start(path) names a log directory")
    count, counts = found.pop("counts", (None, {}))
    storage = StorageOptions(**parse_fields(texts, STORAGE_FIELDS))
    options = WriteOptions(
        **found,
        partition_count=count,
        partition_counts=counts,
        storage=storage,
        ignored=tuple(name for name in ignored if name not in _IGNORED),
    )
    return _checked(options)


def _checked(options: WriteOptions) -> WriteOptions:
    if options.magic == 0 and options.codec != Codec.NONE:
        # Inside such a message offsets are absolute, and known only when all tasks are done.
        raise OptionError("magic 0 is written without a codec; `ottla convert` compresses it")
    if options.magic < CURRENT_MAGIC and options.leader_epoch is not None:
        raise OptionError(f"leaderEpoch: magic {options.magic} has none")
    _ = options.new_batch  # refuses codecs and levels that Kafka refuses
    return options
