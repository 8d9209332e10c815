"""Violations as an operator reads them: where they are, what they mean, what to do about them."""

import posixpath
from collections.abc import Iterable, Sequence
from enum import StrEnum
from itertools import accumulate
from typing import Any, Final, NamedTuple

from ottla.errors import Row, Rule, Stage
from ottla.format.names import UNNAMED, parse_file_name
from ottla.log.files.partition import Partition

_MAX_PLACES: Final = 100


class Remedy(StrEnum):
    """What acts on a violation, or shows more of it."""

    SALVAGE = "salvage"
    RESTORE = "restore"
    VERIFY = "verify"
    DUMP = "dump"
    LIST = "ls"


class Advice(NamedTuple):
    """What a kind of violation means, and what helps against it."""

    kind: str
    meaning: str
    remedy: Remedy


_ADVICE: Final[dict[Stage, Advice]] = {
    Stage.FRAMING: Advice(
        "damage",
        "No batch can be cut here. Consumers stop, and a broker that recovers the log cuts it off.",
        Remedy.SALVAGE,
    ),
    Stage.HEADER: Advice(
        "damage",
        "A batch contradicts itself: no consumer gets past it.",
        Remedy.SALVAGE,
    ),
    Stage.CRC: Advice(
        "damage",
        "The bytes changed after they were written. Consumers stop here: the CRC is wrong.",
        Remedy.SALVAGE,
    ),
    Stage.RECORDS: Advice(
        "damage",
        "The records of a batch cannot be opened: no consumer gets past it.",
        Remedy.SALVAGE,
    ),
    Stage.RECORD: Advice("damage", "One record of an old batch is broken.", Remedy.SALVAGE),
    Stage.CONTROL: Advice(
        "damage",
        "A control record says nothing readable: its transaction may never end.",
        Remedy.SALVAGE,
    ),
    Stage.LOG: Advice(
        "order",
        "Batches do not follow one another as a broker writes them: lost, repeated or compacted.",
        Remedy.VERIFY,
    ),
    Stage.INDEX: Advice(
        "index",
        "An index does not lead to its log. A broker that trusts it reads from a wrong place.",
        Remedy.RESTORE,
    ),
    Stage.FILE: Advice(
        "file",
        "A file beside the log is broken, or does not belong to it.",
        Remedy.RESTORE,
    ),
    Stage.APPEND: Advice("order", "A broker would not have taken this batch.", Remedy.VERIFY),
}

# Where the stage says too little.
_ADVICE_OF_RULES: Final[dict[str, Advice]] = {
    Rule.ZERO_TAIL: Advice(
        "file",
        "The file was preallocated and never filled: harmless.",
        Remedy.LIST,
    ),
    Rule.LOG_TAIL: Advice(
        "damage",
        "The log ends inside of a batch, as after a crash: a broker cuts it off.",
        Remedy.SALVAGE,
    ),
    Rule.OFFSET_GAP: Advice(
        "gap",
        "Offsets are missing. Compaction leaves such gaps; elsewhere records are lost.",
        Remedy.DUMP,
    ),
    Rule.MAX_TIMESTAMP: Advice(
        "order",
        "A batch states another newest time than its records: lookups by time err.",
        Remedy.DUMP,
    ),
    Rule.REMOTE_MANIFEST_READABLE: Advice(
        "file",
        "Nothing says what the objects of a segment are: its records are not read. Look for"
        " another copy of the manifest, or an older version of it in the bucket.",
        Remedy.VERIFY,
    ),
    Rule.REMOTE_OBJECT_COMPLETE: Advice(
        "file",
        "An object of a segment is missing or cut. Look for another copy, or an older version of"
        " it in the bucket; else its records are lost.",
        Remedy.VERIFY,
    ),
    Rule.REMOTE_OBJECT_FINISHED: Advice(
        "file",
        "An upload that did not finish, or a deletion, by its manifest or by the metadata of remote"
        " storage: a broker does not read it either.",
        Remedy.LIST,
    ),
    Rule.REMOTE_SEGMENT_END: Advice(
        "file",
        "A manifest was changed, or is not of this log. All batches are read; of a topic that was"
        " compacted before it was uploaded, batches at the end of a segment may be gone.",
        Remedy.VERIFY,
    ),
    Rule.REMOTE_STATE_KNOWN: Advice(
        "file",
        "The copy of __remote_log_metadata is older than the bucket, trimmed or damaged. What has"
        " a manifest is read; name another copy of the topic to have states count.",
        Remedy.LIST,
    ),
    Rule.REMOTE_LINEAGE: Advice(
        "file",
        "A branch that an unclean election cut off: a broker does not read it either.",
        Remedy.LIST,
    ),
    Rule.REMOTE_OVERLAP: Advice(
        "file",
        "Other segments or the local log have the same offsets, and each is read once, from those:"
        " harmless as long as they are whole.",
        Remedy.LIST,
    ),
    Rule.REMOTE_GAP: Advice(
        "gap",
        "No object has these offsets. Look for them in a log directory or in another copy of the"
        " bucket, and name it too; else their records are lost.",
        Remedy.VERIFY,
    ),
}


def advice_on(rule: str, stage: str) -> Advice:
    """What helps against a violation."""
    return _ADVICE_OF_RULES.get(rule) or _ADVICE[Stage(stage)]


def place_of(partition: Partition, file: str, position: int) -> int:
    """Bytes from the beginning of the partition's first log; of a side file, where its log begins.

    What belongs to no segment is at 0.
    """
    ends = accumulate(segment.log.size for segment in partition.segments)
    parsed = parse_file_name(posixpath.basename(file))
    for segment, end in zip(partition.segments, ends, strict=True):
        start = end - segment.log.size
        if segment.log.path == file:
            return min(start + max(0, position), end)
        if parsed is not None and parsed.offset == segment.base_offset:
            return start
    return 0


def collect_findings(violations: Iterable[Row], partitions: Sequence[Partition]) -> list[Row]:
    """A row for each rule that is broken in a partition, with its first places."""
    homes = {tuple(each.name): each for each in partitions if each.name != UNNAMED}
    rows: dict[tuple[Any, ...], Row] = {}
    for found in violations:
        key = (found["topic"], found["partition"], found["rule"])
        if key not in rows:
            rows[key] = _finding(found)
        row = rows[key]
        row["count"] += 1
        row["bytes"] += found["size"] or 0
        home = homes.get(key[:2])
        if home is not None and len(row["places"]) < _MAX_PLACES:
            place = place_of(home, found["file"], found["position"])
            row["places"].append([place, found["size"] or 0])
    order = {"error": 0, "warning": 1, "note": 2}
    return sorted(rows.values(), key=lambda row: (order[row["severity"]], str(row["topic"])))


def _finding(found: Row) -> Row:
    advice = advice_on(found["rule"], found["stage"])
    return {
        "type": "finding",
        "topic": found["topic"],
        "partition": found["partition"],
        "rule": found["rule"],
        "severity": found["severity"],
        "kind": advice.kind,
        "count": 0,
        "bytes": 0,
        "file": found["file"],
        "position": found["position"],
        "offset": found["offset"],
        "detail": found["detail"],
        "found": found["found"],
        "meaning": advice.meaning,
        "remedy": advice.remedy,
        "places": [],
    }
