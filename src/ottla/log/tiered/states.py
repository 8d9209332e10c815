"""What `__remote_log_metadata` says of remote segments: which of them were uploaded whole.

States are of KIP-405 (RemoteLogSegmentState). What the metadata knows counts if it was copied and
is not being deleted. That a copy begins is written before any of its objects, so that one that is
not known says that this copy of the topic is older, trimmed or damaged: its manifest, which is
written last, says that it is finished. States only move forward: a copy that is behind changes
nothing. One with batches that can not be read may lack the last state of any segment: by it nothing
is judged.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from ottla.errors import Rule, Severity, Violation
from ottla.format.names import Kind
from ottla.internal.records import REMOTE_LOG_METADATA, decode_record
from ottla.log.files.partition import Partition
from ottla.log.tiered.segments import RemoteLog, RemoteSegment
from ottla.storage.files import open_remaining
from ottla.storage.object_store import StorageOptions

_STARTED, _FINISHED, _DELETING, _DELETED = range(4)
_MEANINGS: Final = {
    _STARTED: "by the metadata of remote storage its upload did not finish",
    _DELETING: "by the metadata of remote storage it is being deleted",
    _DELETED: "by the metadata of remote storage it was deleted",
}
_SEGMENT: Final = "REMOTE_LOG_SEGMENT_METADATA_RECORD"
_UPDATE: Final = "REMOTE_LOG_SEGMENT_METADATA_UPDATE_RECORD"
States = dict[tuple[str, int], dict[str, int]]
Ranges = dict[tuple[str, int], tuple[int, int]]


def keep_finished(
    logs: Sequence[RemoteLog], metadata: Sequence[Partition], options: StorageOptions
) -> list[RemoteLog]:
    """The logs without segments that the metadata, where it is at hand, calls not finished."""
    if not logs or not metadata:
        return list(logs)
    states: States = {}
    doubted: dict[tuple[str, int], Violation] = {}
    for partition in metadata:
        told: States = {}
        broken: list[Violation] = []
        for row in _read(partition, options, broken):
            _apply(row, told)
        if broken:
            doubted |= dict.fromkeys(told, broken[0])
            continue
        for home, known in told.items():
            _take_later(known, states.setdefault(home, {}))
    return [_keep(log, states, doubted) for log in logs]


def find_ranges(metadata: Sequence[Partition], options: StorageOptions) -> Ranges:
    """The first and the last offset of what was uploaded whole, by topic id and partition."""
    states: States = {}
    spans: dict[str, tuple[int, int]] = {}
    for partition in metadata:
        for kind, data in _read(partition, options):
            _apply((kind, data), states)
            identity, start, end = map(data.get, ("remoteLogSegmentId", "startOffset", "endOffset"))
            if isinstance(identity, dict) and isinstance(start, int) and isinstance(end, int):
                spans[str(identity.get("id"))] = start, end
    found: Ranges = {}
    for home, known in states.items():
        ends = [
            spans[segment_id]
            for segment_id, state in known.items()
            if state == _FINISHED and segment_id in spans
        ]
        if ends:
            found[home] = min(start for start, _ in ends), max(end for _, end in ends)
    return found


def _keep(
    log: RemoteLog,
    states: Mapping[tuple[str, int], Mapping[str, int]],
    doubted: Mapping[tuple[str, int], Violation],
) -> RemoteLog:
    home = log.home.topic_id, log.home.name.partition
    known = states.get(home)
    if known is None:
        notes = [_not_judged(doubted[home])] if home in doubted else []
        return replace(log, findings=(*log.findings, *notes))
    finished, findings = [], []
    for each in log.segments:
        state = known.get(each.segment_id)
        if state in (None, _FINISHED):
            finished.append(each)
        if state is None:
            findings.append(_not_known(each))
        elif state != _FINISHED:
            findings.append(_not_finished(each, state))
    there = {each.segment_id for each in log.segments}
    findings += [
        _not_there(log, segment_id)
        for segment_id, state in known.items()
        if state == _FINISHED and segment_id not in there
    ]
    return replace(log, segments=tuple(finished), findings=(*log.findings, *findings))


def _not_judged(broken: Violation) -> Violation:
    detail = (
        "a copy of the metadata of remote storage has batches that cannot be read: its states do"
        " not count, and whatever has a manifest is read"
    )
    return Violation(
        *(Rule.REMOTE_STATE_KNOWN, detail, broken.file, broken.position), found=str(broken.rule)
    )


def _not_known(segment: RemoteSegment) -> Violation:
    detail = (
        "the metadata of remote storage does not know it: this copy of the metadata is older, or"
        " trimmed; the segment is read, since it is there whole"
    )
    return _of_segment(Rule.REMOTE_STATE_KNOWN, detail, segment)


def _not_finished(segment: RemoteSegment, state: int) -> Violation:
    detail = f"{_MEANINGS[state]}; it is not read"
    return _of_segment(Rule.REMOTE_OBJECT_FINISHED, detail, segment)


def _of_segment(rule: Rule, detail: str, segment: RemoteSegment) -> Violation:
    return Violation(
        *(rule, detail, segment.log.path, 0),
        size=segment.log.size,
        offset=segment.start,
        last_offset=segment.end,
    )


def _not_there(log: RemoteLog, segment_id: str) -> Violation:
    detail = "the metadata of remote storage has this segment, and no object of it is here"
    return Violation(Rule.REMOTE_OBJECT_COMPLETE, detail, log.path, 0, found=segment_id)


def _apply(row: tuple[str, dict[str, object]], states: States) -> None:
    kind, data = row
    if kind not in (_SEGMENT, _UPDATE):
        return
    identity = data.get("remoteLogSegmentId")
    if not isinstance(identity, dict):
        return
    home = identity.get("topicIdPartition")
    state = data.get("remoteLogSegmentState")
    if isinstance(home, dict) and isinstance(state, int):
        key = str(home.get("id")), int(home.get("partition", -1))
        _take_later({str(identity.get("id")): state}, states.setdefault(key, {}))


def _take_later(told: Mapping[str, int], known: dict[str, int]) -> None:
    for segment_id, state in told.items():
        known[segment_id] = max(state, known.get(segment_id, state))


def _read(
    partition: Partition, options: StorageOptions, broken: list[Violation] | None = None
) -> Iterator[tuple[str, dict[str, object]]]:
    """The records of a partition in order; what is broken says nothing, and is put into a list."""
    from ottla.arrow.to_arrow import wanted_flags  # with kernels: help does not wait
    from ottla.log.read.index_entries import entries_of
    from ottla.log.read.records import RecordRequest, read_records
    from ottla.log.read.windows import read_windows

    columns = ("value",)
    for segment in partition.segments:
        with open_remaining(segment.log, options) as file:
            index = segment.side_files.get(Kind.OFFSET_INDEX)
            find_next = entries_of(file, index, segment.base_offset, options)
            request = RecordRequest(wanted_flags(columns))
            for reading in read_records(read_windows(file, find_next=find_next), request):
                if broken is not None:
                    broken += (
                        each for each in reading.violations if each.rule.severity is Severity.ERROR
                    )
                records = reading.to_arrow(columns)
                for value in () if records is None else records.column("value").to_pylist():
                    decoded = decode_record(REMOTE_LOG_METADATA, None, value)
                    if decoded.error is None and decoded.value and "data" in decoded.value:
                        data = decoded.value["data"]
                        assert isinstance(data, dict)
                        yield str(decoded.value["type"]), data
