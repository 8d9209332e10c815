"""Check a log directory: what keeps a broker from starting with it, beside its partitions."""

import posixpath
from collections.abc import Iterator

from ottla.errors import CorruptLogError, Rule, Violation
from ottla.format.names import META_PROPERTIES
from ottla.log.files.identity import read_meta_properties
from ottla.log.files.partition import LogDirectory
from ottla.log.files.small_files import read_small
from ottla.storage.object_store import DEFAULT_OPTIONS, StorageOptions


def check_directory(
    directory: LogDirectory, options: StorageOptions = DEFAULT_OPTIONS
) -> Iterator[Violation]:
    """Folders that are no partition, and a meta.properties that a broker cannot read."""
    for folder in directory.strangers:
        detail = f"'{posixpath.basename(folder)}' is no partition: a broker refuses to start"
        yield Violation(Rule.DIRECTORY_NAME, detail, folder, 0)
    entry = directory.files.get(META_PROPERTIES)
    if entry is None:
        return
    try:
        read_meta_properties(read_small(entry, options), entry.path)
    except CorruptLogError as error:
        yield error.violation
