"""The files of a partition after every single step by which a broker replaces or deletes segments.

The order of steps is that of LocalLog.replaceSegments, splitOverflowedSegment and
deleteSegmentFiles, LogSegment.changeFileSuffixes and deleteIfExists; which log remains after each
is what their comments promise, and what LogLoader makes of it.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from builders import Row, batch

Files = Mapping[str, bytes]
Logs = Mapping[int, bytes]
FAR = 1 << 31  # what no index can say of an offset
KINDS = ("log", "index", "timeindex", "txnindex")  # in the order of LogSegment.changeFileSuffixes


class State(NamedTuple):
    """Files by name, and by base offset the logs that a broker which starts with them has."""

    title: str
    files: Files
    logs: Logs

    def write(self, folder: Path) -> Path:
        """A log directory with the partition."""
        partition = folder / "orders-0"
        partition.mkdir(parents=True)
        for name, data in self.files.items():
            (partition / name).write_bytes(data)
        (folder / ".kafka_cleanshutdown").touch()
        return folder


def log(*offsets: int) -> bytes:
    """A batch for each offset."""
    return b"".join(batch([Row(at, 1000 + at, b"k%d" % at, b"v%d" % at)]) for at in offsets)


def index(data: bytes, base: int) -> bytes:
    """One entry, for the last batch of a log that has more than one."""
    last = at = 0
    while at < len(data):
        last, at = at, at + 12 + struct.unpack_from(">i", data, at + 8)[0]
    if last == 0:
        return b""
    offset = struct.unpack_from(">q", data, last)[0]
    return struct.pack(">ii", min(offset - base, FAR - 1), last)


def segment(base: int, data: bytes, suffix: str = "", *, aborts: bool = False) -> dict[str, bytes]:
    """The files of a segment; one with aborted transactions has an index of them too."""
    contents = {"log": data, "index": index(data, base), "timeindex": b""}
    if aborts:
        contents["txnindex"] = struct.pack(">hqqqq", 0, 7, base, base + 1, base + 1)
    return {f"{base:020d}.{kind}{suffix}": content for kind, content in contents.items()}


def renamed(files: dict[str, bytes], base: int, old: str, new: str) -> Iterator[str]:
    """Rename the files of a segment one after another; the kind that was."""
    for kind in KINDS:
        name = f"{base:020d}.{kind}"
        if name + old in files:
            files[name + new] = files.pop(name + old)
            yield kind


def replace(old: Logs, new: Logs, rest: Logs, *, aborts: bool = False) -> Iterator[State]:
    """Replace the old segments by the new ones (LogCleaner, or a split), step by step."""
    files: dict[str, bytes] = {}
    for base, data in (old | rest).items():
        files |= segment(base, data, aborts=aborts)
    before, after = old | rest, new | rest
    yield State("nothing began", dict(files), before)
    for base, data in sorted(new.items()):
        for name, content in segment(base, data, ".cleaned", aborts=aborts).items():
            for size in sorted({0, len(content) // 2, len(content)}):
                files[name] = content[:size]
                yield State(f"{name} written to {size}", dict(files), before)
    for base in sorted(new, reverse=True):
        for kind in renamed(files, base, ".cleaned", ".swap"):
            complete = not any(name.endswith(".cleaned") for name in files)
            yield State(f"{base}.{kind} is .swap", dict(files), after if complete else before)
    for base in sorted(old):
        for kind in renamed(files, base, "", ".deleted"):
            yield State(f"{base}.{kind} is .deleted", dict(files), after)
    for base in sorted(new):
        for kind in renamed(files, base, ".swap", ""):
            yield State(f"{base}.{kind} is in place", dict(files), after)
    yield from remove(files, after)


def remove(files: dict[str, bytes], logs: Logs) -> Iterator[State]:
    """Delete what is marked, as a broker does a minute later."""
    for name in sorted(name for name in files if name.endswith(".deleted")):
        del files[name]
        yield State(f"{name} is gone", dict(files), logs)


def delete(old: Logs, rest: Logs) -> Iterator[State]:
    """Retention: segments go from the first on."""
    files: dict[str, bytes] = {}
    for base, data in (old | rest).items():
        files |= segment(base, data, aborts=True)
    logs = dict(old | rest)
    for base in sorted(old):
        logs.pop(base)
        for kind in renamed(files, base, "", ".deleted"):
            yield State(f"{base}.{kind} is .deleted", dict(files), dict(logs))
    yield from remove(files, logs)


TEN, MORE, REST = log(*range(10)), log(*range(10, 20)), log(*range(20, 30))

PROTOCOLS: dict[str, Iterable[State]] = {
    "clean": replace({0: TEN, 10: MORE}, {0: log(3, 17)}, {20: REST}),
    "clean-aborted": replace({0: TEN, 10: MORE}, {0: log(3, 17)}, {20: REST}, aborts=True),
    "clean-one": replace({10: MORE}, {10: log(12, 19)}, {0: TEN, 20: REST}),
    "split": replace(
        {0: log(0, 1, FAR + 5, FAR + 6, 2 * FAR + 9)},
        {0: log(0, 1), FAR + 5: log(FAR + 5, FAR + 6), 2 * FAR + 9: log(2 * FAR + 9)},
        {3 * FAR: log(3 * FAR)},
    ),
    "delete": delete({0: TEN, 10: MORE}, {20: REST}),
}
STATES = {
    f"{protocol}: {state.title}": state
    for protocol, states in PROTOCOLS.items()
    for state in states
}


def _logs(state: State) -> list[str]:
    return sorted(name for name in state.files if ".log" in name)


def _suffixes(state: State) -> frozenset[str]:
    return frozenset(name.partition(".log")[2] for name in _logs(state))


# Those that differ in where logs are: what lies beside a log does not change what it holds.
CRASHES = list({(title[:5], *_logs(state)): state for title, state in STATES.items()}.values())
# Of those with a swap one for each set of suffixes.
SWAPS = list(
    {
        (len(state.logs), _suffixes(state)): state
        for state in CRASHES
        if ".swap" in _suffixes(state)
    }.values()
)
