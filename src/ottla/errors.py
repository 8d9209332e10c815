"""What can be wrong: `Rule`, `Violation`, and the exceptions. Every rule is named here once.

Messages name no flags and no options: where one is needed, a `Term` stands for it.

`docs/rules.md` says for each rule which Kafka class it mirrors; the code that checks it lives
with the table it checks.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any, Self


class Severity(StrEnum):
    """An error is data that a broker refuses or loses; a note is normal but worth saying."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Stage(StrEnum):
    """How far reading got when the rule broke; the first six are the corpus's words."""

    FRAMING = "framing"
    HEADER = "header"
    CRC = "crc"
    RECORDS = "records"
    RECORD = "record"
    CONTROL = "control"
    LOG = "log"
    INDEX = "index"
    FILE = "file"
    APPEND = "append"


class Rule(str, Enum):
    """A claim about bytes that a violation says is broken."""

    stage: Stage
    severity: Severity

    def __new__(cls, name: str, stage: Stage, severity: Severity = Severity.ERROR) -> Self:
        member = str.__new__(cls, name)
        member._value_ = name
        member.stage = stage
        member.severity = severity
        return member

    def __str__(self) -> str:
        return str(self.value)

    # Cutting batches out of a file.
    BATCH_SIZE_MINIMUM = "batch-size-minimum", Stage.FRAMING
    BATCH_SIZE_RANGE = "batch-size-range", Stage.FRAMING
    MAGIC_KNOWN = "magic-known", Stage.FRAMING
    ZERO_TAIL = "zero-tail", Stage.FRAMING, Severity.NOTE
    # The fixed part of a batch.
    BATCH_HEADER_COMPLETE = "batch-header-complete", Stage.HEADER
    CRC_MATCHES = "crc-matches", Stage.CRC
    # The records of a batch: the batch is rejected whole.
    CODEC_KNOWN = "codec-known", Stage.RECORDS
    CODEC_ALLOWED = "codec-allowed", Stage.RECORDS
    DECOMPRESSES = "decompresses", Stage.RECORDS
    BATCH_BYTES_LIMIT = "batch-bytes-limit", Stage.RECORDS
    RECORD_COUNT = "record-count", Stage.RECORDS
    RECORD_COMPLETE = "record-complete", Stage.RECORDS
    RECORD_VARINT = "record-varint", Stage.RECORDS
    RECORD_SIZE = "record-size", Stage.RECORDS
    RECORD_FIELD_SIZE = "record-field-size", Stage.RECORDS
    HEADER_COUNT = "header-count", Stage.RECORDS
    HEADER_KEY_NOT_NULL = "header-key-not-null", Stage.RECORDS
    RECORDS_REMAIN = "records-remain", Stage.RECORDS
    WRAPPER_VALUE = "wrapper-value", Stage.RECORDS
    WRAPPER_NOT_EMPTY = "wrapper-not-empty", Stage.RECORDS
    WRAPPER_OFFSET = "wrapper-offset", Stage.RECORDS
    INNER_FRAMING = "inner-framing", Stage.RECORDS
    INNER_NOT_COMPRESSED = "inner-not-compressed", Stage.RECORDS
    # One record only.
    MESSAGE_FIELDS = "message-fields", Stage.RECORD
    INNER_CRC_MATCHES = "inner-crc-matches", Stage.RECORD
    CONTROL_RECORD = "control-record", Stage.CONTROL
    # The batches of a partition, one after another (ottla.log.check.partition).
    LOG_TAIL = "log-tail", Stage.LOG, Severity.WARNING
    OFFSETS_RISE = "offsets-rise", Stage.LOG
    OFFSET_IN_SEGMENT = "offset-in-segment", Stage.LOG
    OFFSET_GAP = "offset-gap", Stage.LOG, Severity.NOTE
    COUNT_FITS_OFFSETS = "count-fits-offsets", Stage.LOG
    LOG_END = "log-end", Stage.LOG
    MAX_TIMESTAMP = "max-timestamp", Stage.LOG, Severity.WARNING
    LEADER_EPOCHS_RISE = "leader-epochs-rise", Stage.LOG, Severity.WARNING
    PRODUCER_EPOCHS_RISE = "producer-epochs-rise", Stage.LOG, Severity.WARNING
    SEQUENCE_GAP = "sequence-gap", Stage.LOG, Severity.WARNING
    SEQUENCE_REPEAT = "sequence-repeat", Stage.LOG, Severity.WARNING
    # What salvage leaves out (ottla.log.salvage.plan).
    BYTES_ARE_BATCHES = "bytes-are-batches", Stage.FRAMING
    BATCH_IN_ORDER = "batch-in-order", Stage.LOG
    # What a broker refuses because of what it knows of the producer (rules/producers/producer.py).
    PRODUCER_EPOCH_FENCED = "producer-epoch-fenced", Stage.APPEND
    SEQUENCE_IN_ORDER = "sequence-in-order", Stage.APPEND
    COORDINATOR_EPOCH_FENCED = "coordinator-epoch-fenced", Stage.APPEND
    TRANSACTION_STATE = "transaction-state", Stage.APPEND
    # What a broker refuses whoever wrote it (ottla.rules.append.accept, Kafka's LogValidator).
    APPEND_BATCHES = "append-batches", Stage.APPEND
    APPEND_MAGIC = "append-magic", Stage.APPEND
    APPEND_LEADER_EPOCH = "append-leader-epoch", Stage.APPEND
    APPEND_BASE_OFFSET = "append-base-offset", Stage.APPEND
    APPEND_OFFSETS_RISE = "append-offsets-rise", Stage.APPEND
    APPEND_OFFSET = "append-offset", Stage.APPEND
    APPEND_BATCH_SIZE = "append-batch-size", Stage.APPEND
    APPEND_SET_SIZE = "append-set-size", Stage.APPEND
    APPEND_RECORD_COUNT = "append-record-count", Stage.APPEND
    APPEND_CONTROL = "append-control", Stage.APPEND
    APPEND_SEQUENCE = "append-sequence", Stage.APPEND
    APPEND_FORMAT = "append-format", Stage.APPEND
    APPEND_CODEC = "append-codec", Stage.APPEND
    APPEND_RECORD_MAGIC = "append-record-magic", Stage.APPEND
    APPEND_KEY = "append-key", Stage.APPEND
    APPEND_TIMESTAMP = "append-timestamp", Stage.APPEND
    APPEND_TIMESTAMP_TYPE = "append-timestamp-type", Stage.APPEND
    # What a batch can not be built from (ottla.batch.encode, Kafka's MemoryRecordsBuilder).
    RECORD_OFFSETS_RISE = "record-offsets-rise", Stage.APPEND
    RECORD_TIMESTAMP = "record-timestamp", Stage.APPEND
    RECORD_HEADERS = "record-headers", Stage.APPEND
    OFFSET_DELTA_RANGE = "offset-delta-range", Stage.APPEND
    NEW_BATCH_SIZE = "new-batch-size", Stage.APPEND
    # Indexes.
    INDEX_SIZE = "index-size", Stage.INDEX
    INDEX_OFFSET_RANGE = "index-offset-range", Stage.INDEX
    INDEX_ORDER = "index-order", Stage.INDEX
    INDEX_TAIL = "index-tail", Stage.INDEX
    INDEX_POSITION = "index-position", Stage.INDEX
    INDEX_SKIPS = "index-skips", Stage.INDEX
    INDEX_OFFSET = "index-offset", Stage.INDEX, Severity.WARNING
    TIME_INDEX_ORDER = "time-index-order", Stage.INDEX
    TIME_INDEX_OFFSET = "time-index-offset", Stage.INDEX
    TIME_INDEX_TIMESTAMP = "time-index-timestamp", Stage.INDEX
    TRANSACTION_INDEX_VERSION = "transaction-index-version", Stage.INDEX
    TRANSACTION_INDEX_ORDER = "transaction-index-order", Stage.INDEX
    TRANSACTION_INDEX_LOG = "transaction-index-log", Stage.INDEX
    # Other files beside the log.
    SIDE_FILE_SIZE = "side-file-size", Stage.FILE
    SIDE_FILE_HAS_LOG = "side-file-has-log", Stage.FILE, Severity.WARNING
    FILE_NAME = "file-name", Stage.FILE
    SWAP_FINISHED = "swap-finished", Stage.FILE, Severity.WARNING
    SNAPSHOT_READABLE = "snapshot-readable", Stage.FILE
    SNAPSHOT_LOG = "snapshot-log", Stage.FILE, Severity.WARNING
    CHECKPOINT_READABLE = "checkpoint-readable", Stage.FILE
    LEADER_EPOCH_CHECKPOINT_ORDER = "leader-epoch-checkpoint-order", Stage.FILE
    LEADER_EPOCH_CHECKPOINT_LOG = "leader-epoch-checkpoint-log", Stage.FILE, Severity.WARNING
    PARTITION_METADATA_READABLE = "partition-metadata-readable", Stage.FILE
    META_PROPERTIES_READABLE = "meta-properties-readable", Stage.FILE
    DIRECTORY_NAME = "directory-name", Stage.FILE
    # What remote storage keeps of a log (ottla.log.tiered, ottla.storage.kept).
    REMOTE_CHUNK_OPENS = "remote-chunk-opens", Stage.FRAMING
    REMOTE_MANIFEST_READABLE = "remote-manifest-readable", Stage.FILE
    REMOTE_OBJECT_COMPLETE = "remote-object-complete", Stage.FILE
    REMOTE_OBJECT_FINISHED = "remote-object-finished", Stage.FILE, Severity.WARNING
    REMOTE_SEGMENT_END = "remote-segment-end", Stage.FILE
    REMOTE_STATE_KNOWN = "remote-state-known", Stage.FILE, Severity.NOTE
    REMOTE_LINEAGE = "remote-lineage", Stage.FILE, Severity.WARNING
    REMOTE_OVERLAP = "remote-overlap", Stage.FILE, Severity.NOTE
    REMOTE_GAP = "remote-gap", Stage.LOG
    # Reading a planned part of a log (ottla.log.read.windows).
    SLICE_COMPLETE = "slice-complete", Stage.FILE
    # What the connector's columns have no room for (ottla.connector).
    TIMESTAMP_RANGE = "timestamp-range", Stage.RECORD


Row = dict[str, Any]  # a line of a report, by the names of its columns


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule: the payload of an exception and a row of every report."""

    rule: Rule
    detail: str
    file: str
    position: int
    size: int | None = None
    offset: int | None = None
    last_offset: int | None = None
    found: str | None = None
    expected: str | None = None
    topic: str | None = None
    partition: int | None = None

    def __str__(self) -> str:
        where = f"{self.file} @ {self.position}"
        if self.offset is not None:
            where += f", offset {self.offset}"
        text = f"{where}: {self.rule}: {self.detail}"
        if self.found is not None:
            text += f" (found {self.found}"
            text += f", expected {self.expected})" if self.expected is not None else ")"
        return text

    def as_row(self) -> Row:
        """The columns of the violation schema (docs/rules.md), in its order."""
        return {
            "rule": str(self.rule),
            "severity": str(self.rule.severity),
            "stage": str(self.rule.stage),
            "topic": None if self.topic is None else _utf8(self.topic),
            "partition": self.partition,
            "file": _utf8(self.file),
            "position": self.position,
            "size": self.size,
            "offset": self.offset,
            "lastOffset": self.last_offset,
            "found": None if self.found is None else _utf8(self.found),
            "expected": None if self.expected is None else _utf8(self.expected),
            "detail": _utf8(self.detail),
        }


def _utf8(text: str) -> str:
    """Text with names or contents of files in it, for columns: Arrow has no strings but UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


class CorruptLogError(Exception):
    """Valid data was asked for and a rule was broken."""

    def __init__(self, violation: Violation) -> None:
        super().__init__(violation)  # in args, so that the error pickles
        self.violation = violation


def require_sound(violations: Iterable[Violation]) -> None:
    """Raise the first error; a warning or a note costs nobody a record."""
    for violation in violations:
        if violation.rule.severity is Severity.ERROR:
            raise CorruptLogError(violation)


class Term(Enum):
    """A setting or a command that a message is about, in words that no front end has for it.

    A flag, an option of Spark or an argument: only `ottla.cli` and `ottla.spark` know the name.
    """

    TOPICS = "the topics"
    PARTITIONS = "the partitions"
    START = "the start"
    STOP = "the end"
    DROP_UNKEYED = "dropping them"
    RENAME = "renaming"
    TOPIC_IDS = "topic id"
    FAIL_ON_DATA_LOSS = "failing on data loss"
    NO_MATCH = "the strategy"
    TOPIC = "the topic setting"
    PARTITION_COUNT = "the number of partitions"
    LEADER_EPOCH = "leader epoch"
    KEEP_OFFSETS = "kept offsets"
    SALVAGE = "salvage"
    FINISH = "the help of the command that finishes journals"
    RESTORE = "restoring"
    ENGINE = "the engine"
    MASTER = "a Spark master"
    MEMORY = "memory"
    FOLLOW_LINKS = "following links"
    DUMP = "the command that dumps files"
    SCHEMAS = "the command that shows schemas"
    CATALOG = "the catalog"
    RECREATED = "saying so"


class WordedError(Exception):
    """An error whose message has parts that each front end calls by other names."""

    def __init__(self, *parts: str | Term) -> None:
        super().__init__(*parts)  # in args, so that the error pickles
        self.parts = parts

    def __str__(self) -> str:
        return "".join(part.value if isinstance(part, Term) else part for part in self.parts)

    def worded(self, names: Mapping[Term, str]) -> Self:
        """The same error in the words of a front end."""
        return type(self)(
            "".join(
                names.get(part, part.value) if isinstance(part, Term) else part
                for part in self.parts
            )
        )


class OptionError(WordedError, ValueError):
    """The caller asked for something that makes no sense; the message says what would."""


class SchemaError(WordedError, ValueError):
    """A schema makes no sense, or two of them do not go together; the message says why."""


class DataLossError(WordedError):
    """Records that were asked for are gone, and the caller said that this is an error."""


class UnsupportedError(Exception):
    """Known to Kafka, and deliberately not done here."""


class PublishError(WordedError):
    """Staged output could not be published, or a destination is in the way."""
