"""What the files of a partition are: its segments, in order, and what lies beside them.

A listing keeps folders packed. They are parsed when somebody asks, and what was asked for last
stays parsed: of a million segments there is never more than that in memory.
"""

import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla.format.names import FileName, FileState, Kind, parse_file_name
from ottla.log.files.swaps import Named, Settled, settle, tell_swaps
from ottla.storage.listing import Entry, Folder
from ottla.storage.object_store import StorageOptions

_MOST_FILES: Final = 100_000  # that stay parsed: about 50 MB
_UNSETTLED: Final = tuple(state for state in FileState if state is not FileState.LIVE)


@dataclass(frozen=True, slots=True)
class Segment:
    """A log file and what lies beside it; NO_OFFSET is the base of a file that no offset names."""

    base_offset: int
    log: Entry
    side_files: Mapping[Kind, Entry]

    def beside(self, kind: Kind) -> str:
        """The path that a side file has, whether there is one or not."""
        folder, slash, name = self.log.path.rpartition("/")
        return f"{folder}{slash}{name.partition('.')[0]}{kind}"


class PartitionFiles(NamedTuple):
    """The files of a partition. `named` are all that an offset names, in any state.

    `settled` are those that are the log, and segments are of them.
    """

    segments: tuple[Segment, ...]
    named: tuple[Named, ...]
    settled: Settled
    others: Mapping[str, Entry]


class _Parsed:
    """The folders that were parsed last; all of them, while they have few files."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.held = 0
        self.contents: dict[Folder, PartitionFiles] = {}

    def keep(self, folder: Folder, contents: PartitionFiles) -> None:
        """Keep one more, and let the oldest go."""
        with self.lock:
            if folder in self.contents:
                return
            self.contents[folder] = contents
            self.held += len(folder)
            while self.held > _MOST_FILES and len(self.contents) > 1:
                oldest = next(iter(self.contents))
                self.held -= len(oldest)
                del self.contents[oldest]


_PARSED: Final = _Parsed()


def contents_of(folder: Folder) -> PartitionFiles:
    """What the files of a folder are that `is_settled`."""
    found = _PARSED.contents.get(folder)
    if found is None:
        named, others = _parse(folder)
        found = PartitionFiles(find_segments(named), named, Settled(named), others)
        _PARSED.keep(folder, found)
    return found


def is_settled(folder: Folder) -> bool:
    """Whether no name says that a broker was about to do something with a file."""
    return not any(name.endswith(_UNSETTLED) for name in folder.file_names())


def settle_contents(folder: Folder, options: StorageOptions) -> PartitionFiles:
    """The same of any folder: a swap that was under way is settled by what is in its files."""
    named, others = _parse(folder)
    settled = settle(named, options)
    tell_swaps(settled)
    return PartitionFiles(find_segments(settled.live), named, settled, others)


def _parse(folder: Folder) -> tuple[tuple[Named, ...], dict[str, Entry]]:
    """The files that an offset names, in order, and the others."""
    named, others = [], {}
    for name, entry in zip(folder.file_names(), folder.entries(), strict=True):
        parsed = parse_file_name(name)
        if parsed:
            named.append((parsed, entry))
        else:
            others[name] = entry
    named.sort(key=_order)
    return tuple(named), others


def _order(named: Named) -> tuple[int, Kind, FileState]:
    name: FileName = named[0]
    return name.offset, name.kind, name.state


def find_segments(live: Iterable[Named]) -> tuple[Segment, ...]:
    """The segments that files make."""
    logs: dict[int, Entry] = {}
    sides: dict[int, dict[Kind, Entry]] = defaultdict(dict)
    for name, entry in live:
        if name.kind is Kind.METADATA_SNAPSHOT:
            continue
        if name.kind is Kind.LOG:
            logs[name.offset] = entry
        else:
            sides[name.offset][name.kind] = entry
    return tuple(Segment(base, log, sides[base]) for base, log in sorted(logs.items()))
