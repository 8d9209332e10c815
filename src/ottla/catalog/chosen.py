"""What a command is about: which logs of a catalog, and which of their offsets."""

from dataclasses import dataclass
from typing import Any

from ottla.catalog.catalog import Catalog
from ottla.catalog.limits import resolve_limits
from ottla.catalog.logs import Log, live_logs, refuse_replicas
from ottla.catalog.missing import listed, no_logs, require_topics
from ottla.errors import OptionError, Term
from ottla.format.names import UNNAMED
from ottla.log.files.partition import LogDirectory, Partition
from ottla.log.read.bounds import Bounds
from ottla.options.choice import EVERY_PARTITION, Choice
from ottla.options.offsets import NO_LIMITS, LimitPair
from ottla.storage.object_store import StorageOptions


@dataclass(frozen=True, slots=True)
class ChosenLogs:
    """What is asked for of a catalog; at least one partition, and no topic that is not there."""

    catalog: Catalog
    choice: Choice = EVERY_PARTITION
    limits: LimitPair = NO_LIMITS

    def __post_init__(self) -> None:
        found, paths = self.catalog.partitions, self.paths
        if not found:
            raise no_logs(paths, self.storage)
        names = {partition.name for partition in found} - {UNNAMED}
        topics = {name.topic for name in names}
        require_topics(self.choice, topics, paths)
        if not self.partitions:
            raise OptionError(
                f"no such partition in {', '.join(paths)}; there are {listed(set(map(str, names)))}"
            )

    @property
    def paths(self) -> tuple[str, ...]:
        return self.catalog.paths

    @property
    def storage(self) -> StorageOptions:
        return self.catalog.storage

    @property
    def partitions(self) -> list[Partition]:
        """The partitions that are asked for, in any state."""
        return [each for directory in self.catalog.directories for each in self.of(directory)]

    def of(self, directory: LogDirectory) -> list[Partition]:
        """Those of one log directory."""
        return [each for each in directory.partitions if self.choice.chooses(each.name)]

    def logs(self) -> list[Log]:
        """The live logs that are asked for, each of one directory that names its partition."""
        return self._named(live_logs(self.catalog))

    def user_logs(self) -> list[Log]:
        """The same without internal topics, but for those that are named outright."""
        logs = live_logs(self.catalog)
        return self._named([log for log in logs if self.choice.chooses_for_users(log.name)])

    def _named(self, logs: list[Log]) -> list[Log]:
        found = [log for log in logs if log.name != UNNAMED and self.choice.chooses(log.name)]
        if not found:
            names = {each.title for each in self.partitions if each.name != UNNAMED}
            if names:
                raise OptionError(
                    f"{listed(names)}: internal topics are taken when they are named with ",
                    *(Term.TOPICS, "; directories that a broker deletes or moves never are"),
                )
            raise OptionError(
                f"{', '.join(self.paths)}: no directory here is named topic-partition, so that"
                " nothing tells whose records these are; name the partition's folder or its log"
                " directory, or put the files into a folder such as orders-0"
            )
        refuse_replicas(found)
        return found

    def bounds_of(self, log: Log) -> Bounds:
        """The offsets of a log that are asked for."""
        return resolve_limits(log, self.limits, self.storage)

    def described(self) -> dict[str, Any]:
        """What is asked for as plain values in a fixed order: the names of jobs depend on it."""
        choice, limits = self.choice, self.limits
        return {
            "paths": self.paths,
            "topics": choice.topics + choice.globs,
            "partitions": choice.partitions,
            "pattern": choice.pattern,
            "assigned": None if choice.assigned is None else sorted(choice.assigned),
            "from": None if limits.start is None else str(limits.start),
            "to": None if limits.stop is None else str(limits.stop),
            "storage": self.storage,
        }
