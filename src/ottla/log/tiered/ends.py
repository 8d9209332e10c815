"""Where remote segments end: what a manifest says of it hides others if it is wrong.

Kafka writes the offset before the base of the next segment (RemoteLogManager.copyLogSegment). That
is believed where the next one begins right there. Elsewhere the bytes are asked, as a broker does.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from ottla.errors import Rule, Violation
from ottla.format.names import Kind
from ottla.format.sentinels import INT32_MAX
from ottla.log.tiered.segments import RemoteLog, RemoteSegment
from ottla.storage.object_store import StorageOptions

_AT_ONCE: Final = 4  # each may hold a chunk
# A look at the end of the last segment may cost as much, or a share of the log's bytes.
_LOOK_BYTES: Final = 1 << 20
_LOOK_SHARE: Final = 200


def check_ends(log: RemoteLog, borders: Iterable[int], options: StorageOptions) -> RemoteLog:
    """The log with ends that are right; `borders` are where segments of a local one begin."""
    known = sorted({*borders, *(each.start for each in log.segments)})
    budget = max(_LOOK_BYTES, sum(each.log.size for each in log.segments) // _LOOK_SHARE)
    numbers = [
        number
        for number, each in enumerate(log.segments)
        if each.is_whole and each.log.kept is not None and _is_doubtful(each, known, budget)
    ]
    if not numbers:
        return log
    segments, findings = list(log.segments), list(log.findings)
    with ThreadPoolExecutor(_AT_ONCE, "ottla-ends") as pool:
        ends = list(pool.map(lambda at: _read_end(segments[at], options), numbers))
    for number, end in zip(numbers, ends, strict=True):
        segment = segments[number]
        if end is None:
            segments[number] = replace(segment, is_whole=False)
            findings.append(_broken_end(segment))
        elif end != segment.end:
            segments[number] = replace(segment, end=end)
            # Compaction takes batches from the end of a segment; the next one begins where it did.
            if end > segment.end or segment.end + 1 not in known:
                findings.append(_other_end(segment, end))
    return replace(log, segments=tuple(segments), findings=tuple(findings))


def _is_doubtful(segment: RemoteSegment, known: Sequence[int], budget: int) -> bool:
    """Whether the bytes must be asked; of the last segment they are where that costs little."""
    if segment.end - segment.start > INT32_MAX:  # a segment rolls before (LogSegment.shouldRoll)
        return True
    at = bisect_right(known, segment.start)
    if at < len(known):
        return segment.end + 1 != known[at]
    assert segment.log.kept is not None
    index = segment.sides.get(Kind.OFFSET_INDEX)
    is_led = index is not None and index.size > 0
    return min(segment.log.size, segment.log.kept.chunk_bytes if is_led else INT32_MAX) <= budget


def _read_end(segment: RemoteSegment, options: StorageOptions) -> int | None:
    """The last offset by the bytes; None where they do not end with a batch."""
    from ottla.log.read.next_offset import read_whole_end  # with kernels: help does not wait

    index = segment.sides.get(Kind.OFFSET_INDEX)
    try:
        following = read_whole_end(segment.log, index, segment.start, options)
    except FileNotFoundError:
        return segment.end  # who reads it will say so
    return None if following is None else following - 1


def _broken_end(segment: RemoteSegment) -> Violation:
    detail = (
        "the segment does not end with a whole batch: where another segment has the same offsets,"
        " that one is read"
    )
    return Violation(
        *(Rule.REMOTE_SEGMENT_END, detail, segment.log.path, 0),
        size=segment.log.size,
        offset=segment.start,
        last_offset=segment.end,
    )


def _other_end(segment: RemoteSegment, end: int) -> Violation:
    detail = "the manifest gives the segment another end than its batches have: these count"
    return Violation(
        *(Rule.REMOTE_SEGMENT_END, detail, segment.log.path, 0),
        size=segment.log.size,
        offset=segment.start,
        last_offset=end,
        found=str(segment.end),
        expected=str(end),
    )
