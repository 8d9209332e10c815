"""The log directories of paths, listed once: whoever needs them is given what was found.

A directory may be live. Two listings of it are two truths: of one command, all that it does is
about one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ottla.log.files.partition import LogDirectory, Partition, read_log_directories
from ottla.storage.object_store import DEFAULT_OPTIONS, StorageOptions


@dataclass(frozen=True, slots=True)
class Catalog:
    """What the paths are, hold or lie in."""

    paths: tuple[str, ...]
    directories: tuple[LogDirectory, ...]
    storage: StorageOptions

    @property
    def partitions(self) -> list[Partition]:
        """The partitions of all directories, in any state."""
        return [each for directory in self.directories for each in directory.partitions]


def list_catalog(paths: Sequence[str], storage: StorageOptions = DEFAULT_OPTIONS) -> Catalog:
    """List the paths."""
    return Catalog(tuple(paths), tuple(read_log_directories(paths, storage)), storage)
