"""A segment that is named by itself: a file, or the log of a remote segment."""

import os
from typing import NamedTuple

from ottla.errors import CorruptLogError, OptionError
from ottla.format.names import Kind, TopicPartition, parse_directory_name
from ottla.log.files.partition import find_partitions
from ottla.log.read.index_entries import FindEntry, entries_beside, entries_of
from ottla.log.tiered.names import is_remote_log
from ottla.storage.files import File, open_file
from ottla.storage.paths import Path, is_remote, local_path


class OneSegment(NamedTuple):
    """An open segment, whose it is, and what its index knows."""

    file: File
    name: TopicPartition
    find_next: FindEntry


def open_segment(path: Path) -> OneSegment:
    """Open a segment; what a remote one is, the objects beside it say."""
    if not is_remote_log(os.fspath(path)):
        file = open_file(path)
        return OneSegment(file, _partition_of(file), entries_beside(file))
    found = find_partitions([path])
    for partition in found:
        for segment in partition.segments:
            file = open_file(segment.log)
            index = segment.side_files.get(Kind.OFFSET_INDEX)
            return OneSegment(file, partition.name, entries_of(file, index, segment.base_offset))
        if partition.findings:
            raise CorruptLogError(partition.findings[0])
    raise OptionError(f"{path}: nothing beside it says what it is of remote storage")


def _partition_of(file: File) -> TopicPartition:
    path = file.path if is_remote(file.path) else os.path.abspath(local_path(file.path))
    return parse_directory_name(os.path.basename(os.path.dirname(path)))[0]
