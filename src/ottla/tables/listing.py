"""Topics and partitions of opened logs: what `ottla ls` knows, asked for when it is needed."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from ottla.catalog.logs import Log
from ottla.dump.listing import list_partition, offsets_here
from ottla.dump.values import time_text
from ottla.errors import Row, Violation
from ottla.options.texts import format_bytes
from ottla.storage.object_store import StorageOptions


class PartitionView:
    """A partition: what its batch headers say. They are walked once, when something is asked."""

    def __init__(self, log: Log, storage: StorageOptions) -> None:
        self._log = log
        self._storage = storage

    @property
    def path(self) -> str:
        """Its directory."""
        return self._log.partition.path

    @property
    def bytes(self) -> int:
        """The size of its segments, without what lies beside them."""
        return sum(segment.log.size for segment in self._log.partition.segments)

    @cached_property
    def _row(self) -> Row:
        problems: list[Violation] = []
        found = list_partition(self._log.partition, self._log.log_start, self._storage, problems)
        return found[0] | {"violations": problems}

    @property
    def offsets(self) -> range:
        """The offsets from the first to the last that a reader gets; there may be gaps."""
        if self._row["lastOffset"] is None:
            return range(self._log.earliest, self._log.earliest)
        first, last = offsets_here(self._row)
        first = self._log.earliest if first is None else first
        return range(first, max(first, last + 1))

    @property
    def records(self) -> int | None:
        """How many there are, with control records; None where magic 0 or 1 does not say."""
        count: int | None = self._row["records"]
        return count

    @property
    def batches(self) -> int:
        """How many there are."""
        return int(self._row["batches"])

    @property
    def segments(self) -> int:
        """How many files hold them."""
        return len(self._log.partition.segments)

    @property
    def times(self) -> tuple[str | None, str | None]:
        """The first and the last of what batches say of their newest records, in UTC."""
        return time_text(self._row["firstTimestamp"]), time_text(self._row["lastTimestamp"])

    @property
    def codecs(self) -> list[str]:
        """The codecs of its batches."""
        return list(self._row["codecs"])

    @property
    def magics(self) -> list[int]:
        """The formats of its batches."""
        return list(self._row["magics"])

    @property
    def problems(self) -> list[Violation]:
        """What headers and file names alone show to be wrong; `log.verify()` looks at all."""
        return list(self._row["violations"])

    def __repr__(self) -> str:
        offsets = self.offsets
        return (
            f"<partition {self._log.partition.title}: offsets {offsets.start}..{offsets.stop - 1},"
            f" {format_bytes(self.bytes)}, {self.batches} batches>"
        )


@dataclass(frozen=True, slots=True)
class TopicView:
    """A topic and its partitions, by their numbers."""

    name: str
    partitions: Mapping[int, PartitionView]

    @property
    def bytes(self) -> int:
        """The size of all segments."""
        return sum(each.bytes for each in self.partitions.values())

    def __repr__(self) -> str:
        return (
            f"<topic {self.name}: partitions {', '.join(map(str, self.partitions))},"
            f" {format_bytes(self.bytes)}>"
        )
