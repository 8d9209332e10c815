"""The one loop that cuts a segment file into windows of whole batches, and goes on after damage.

A window is about WINDOW_BYTES of the file, or one larger batch; memory does not grow with the file.

Where no batch can be cut, reading goes on at the next batch that the offset index knows, if the
caller has one. Slices begin at such batches only, so every reader of a segment, in however many
slices, sees the same batches and the same violations. What must stay true: the place to go on is
always behind the damage, so that reading ends.
"""

from collections.abc import Iterator
from dataclasses import replace
from enum import Enum
from typing import Final, NamedTuple

import numpy as np

from ottla.batch.decode import DEFAULT_MAX_BATCH_BYTES
from ottla.batch.memory import allocate_from_pool
from ottla.errors import Rule, Violation, require_sound
from ottla.kernels import status
from ottla.kernels.records.scan import scan, scan_and_check
from ottla.kernels.tables import Batches, allocate_batches, take_batches
from ottla.log.read.buffer import WINDOW_BYTES, Buffer
from ottla.log.read.index_entries import FindEntry, know_nothing
from ottla.region import Region
from ottla.storage.files import File

_TABLE_ROWS: Final = 1 << 10  # to begin with; the next window gets twice what the last one held


class Ending(Enum):
    """What may stand where reading ends and is no damage there."""

    CUT = "cut"  # batches follow: nothing
    SEGMENT = "segment"  # zeros that were preallocated and never written
    LOG = "log"  # those, or half a batch: a broker cuts it off the last segment alone


class Window(NamedTuple):
    """Whole batches, and what stopped the cutting of more.

    `stop` is where the next batch begins. A `violation` is about the bytes there; reading goes on
    at `resync`, or ends when that is None.
    """

    region: Region
    batches: Batches
    stop: int
    violation: Violation | None = None
    resync: int | None = None


class _Stop(NamedTuple):
    """Where the scan stopped, its status, and the size that the bytes there state."""

    position: int
    outcome: int
    size: int


class _WindowLimits(NamedTuple):
    """What a reader allows and knows; `end` is how far it was asked to read."""

    end: int
    ending: Ending
    find_next: FindEntry
    max_batch_bytes: int


def read_windows(
    file: File,
    *,
    start: int = 0,
    end: int | None = None,
    ending: Ending = Ending.LOG,
    find_next: FindEntry = know_nothing,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    check_crcs: bool = True,
) -> Iterator[Window]:
    """Cut the file into windows; each must be used before the next is asked for."""
    asked = file.size if end is None else end
    limits = _WindowLimits(asked, ending, find_next, max_batch_bytes)
    asks_again = check_crcs and file.is_remote
    with Buffer(file, start, asked) as buffer:
        at, needed, least, capacity = start, WINDOW_BYTES, 1, _TABLE_ROWS
        while True:
            buffer.advance(at, needed, least)
            batches, stop = _scan(buffer, capacity, check_crcs)
            if asks_again and _is_suspect(buffer, batches, stop) and buffer.read_again():
                batches, stop = _scan(buffer, capacity, check_crcs)
            window = _without_overlong(_explain(buffer, batches, stop, limits), limits, check_crcs)
            window = _without_lost(window, buffer, limits)
            yield window
            if window.violation is not None:
                if window.resync is None or window.resync >= buffer.end:
                    return
                at, needed, least = window.resync, WINDOW_BYTES, 1
            elif stop.outcome == status.END and _is_last(buffer, stop):
                return
            else:
                at, needed = stop.position, max(WINDOW_BYTES, stop.size)
                held = buffer.position + buffer.size - at
                least = max(stop.size, held + 1) if stop.outcome == status.END else 1
            capacity = max(_TABLE_ROWS, 2 * batches.position.size)


def require_sound_windows(windows: Iterator[Window]) -> Iterator[Window]:
    """The same windows, for who needs all bytes: damage raises, after the batches before it."""
    for window in windows:
        yield window
        if window.violation is not None:
            require_sound([window.violation])


def _scan(buffer: Buffer, capacity: int, check_crcs: bool) -> tuple[Batches, _Stop]:
    table = allocate_batches(capacity, allocate_from_pool)
    cut = scan_and_check if check_crcs else scan
    rows, stopped, outcome, size = cut(buffer.data, 0, buffer.size, buffer.position, table)
    batches = take_batches(table, slice(0, rows))
    return batches, _Stop(buffer.position + stopped, outcome, size)


def _is_suspect(buffer: Buffer, batches: Batches, stop: _Stop) -> bool:
    """Whether anything is wrong with the bytes; perhaps only with the answer that brought them."""
    if stop.outcome == status.END:
        is_cut = _is_last(buffer, stop) and stop.position < buffer.end
    else:
        is_cut = stop.outcome != status.TABLE_FULL
    return is_cut or bool((batches.crc != batches.computed_crc).any())


def _is_last(buffer: Buffer, stop: _Stop) -> bool:
    """Whether no whole batch is left: all bytes are held, or the next batch needs more."""
    holds_all = buffer.position + buffer.size >= buffer.end
    return holds_all and (stop.size == 0 or stop.position + stop.size > buffer.end)


def _explain(buffer: Buffer, batches: Batches, stop: _Stop, limits: _WindowLimits) -> Window:
    """The window with what is wrong where the scan stopped, and where to go on."""
    window = Window(buffer.region(), batches, stop.position)
    if stop.outcome == status.END and _is_last(buffer, stop):
        return _explain_rest(window, buffer, limits)
    violation, after = _explain_stop(buffer, stop, limits)
    if violation is None or violation.rule is Rule.ZERO_TAIL:
        return window._replace(violation=violation)
    limit = _last_position(buffer, limits) if after is None else after
    following = limits.find_next(stop.position, limit)
    return window._replace(violation=violation, resync=after if following is None else following)


def _last_position(buffer: Buffer, limits: _WindowLimits) -> int:
    """How far the index is asked; behind a cut the file goes on."""
    return buffer.file.size if limits.ending is Ending.CUT else buffer.end


def _explain_rest(window: Window, buffer: Buffer, limits: _WindowLimits) -> Window:
    """Bytes at the end that are less than the batch that they begin, or that are gone by now."""
    path = buffer.file.path
    if buffer.end < limits.end and not buffer.file.is_stream:
        detail = f"the file shrank to {buffer.end} bytes while it was read"
        return window._replace(violation=Violation(Rule.SLICE_COMPLETE, detail, path, buffer.end))
    if window.stop >= buffer.end:
        return window
    following = limits.find_next(window.stop, _last_position(buffer, limits))
    if following is not None:
        overlong = _reaches_over(path, window.stop, following)
        return window._replace(violation=overlong, resync=following)
    lost = buffer.file.damage_within(window.stop, buffer.end)
    if lost is not None:  # of the length too, it may be
        return window._replace(violation=lost)
    if limits.ending is Ending.LOG:
        return window
    detail = "half a batch, and it is not the end of the log: the file was truncated or changed"
    return window._replace(violation=Violation(Rule.SLICE_COMPLETE, detail, path, window.stop))


def _explain_stop(
    buffer: Buffer, stop: _Stop, limits: _WindowLimits
) -> tuple[Violation | None, int | None]:
    """What is wrong with the bytes at which the scan stopped, and where they end if one knows."""
    region, at, size = buffer.region(), stop.position - buffer.position, stop.size
    end = stop.position + size
    lost = None if stop.outcome == status.END else buffer.file.damage_at(stop.position)
    if lost is not None:
        return replace(lost, position=stop.position, size=_left(lost, stop.position)), None
    if stop.outcome == status.SIZE_TOO_SMALL:
        return _explain_small(buffer, stop, limits.ending), None
    if stop.outcome == status.SIZE_TOO_LARGE:
        detail = "the length field is too large for any batch"
        return region.violation(Rule.BATCH_SIZE_RANGE, detail, at=at, found=str(size)), None
    if stop.outcome == status.MAGIC_UNKNOWN:
        rule, detail = Rule.MAGIC_KNOWN, "no such message format"
        known = {"found": str(buffer.data[at + 16].view(np.int8)), "expected": "0, 1 or 2"}
        after = end if end <= buffer.end else None
        return region.violation(rule, detail, at=at, size=size, **known), after
    if stop.outcome == status.END and size > limits.max_batch_bytes and end <= buffer.end:
        rule, detail = Rule.BATCH_BYTES_LIMIT, "the batch is larger than maxBatchBytes"
        expected = f"at most {limits.max_batch_bytes}"
        return region.violation(rule, detail, at=at, size=size, expected=expected), end
    return None, None


def _left(lost: Violation, position: int) -> int:
    return lost.position + (lost.size or 0) - position


def _explain_small(buffer: Buffer, stop: _Stop, ending: Ending) -> Violation:
    """A length below that of any batch; zeros to the end may be room that nobody has used yet."""
    region, at = buffer.region(), stop.position - buffer.position
    if stop.size == 0 and buffer.only_zeros_follow(stop.position):
        left = buffer.end - stop.position
        if ending is Ending.CUT:
            detail = "nothing but zeros to the end of the slice, and batches after it"
            return region.violation(Rule.BATCH_SIZE_MINIMUM, detail, at=at, size=left)
        detail = "nothing but zeros to the end of the file: preallocated, never written"
        return region.violation(Rule.ZERO_TAIL, detail, at=at, size=left)
    detail = "the length field is too small for any batch"
    return region.violation(
        Rule.BATCH_SIZE_MINIMUM, detail, at=at, found=str(stop.size), expected="at least 14"
    )


def _without_overlong(window: Window, limits: _WindowLimits, check_crcs: bool) -> Window:
    """The window up to a batch that reaches over one that the index knows: its length is wrong."""
    batches = window.batches
    if not check_crcs or limits.find_next is know_nothing:
        return window
    for row in np.flatnonzero(batches.crc != batches.computed_crc).tolist():
        position = int(batches.position[row])
        inside = limits.find_next(position, position + int(batches.size[row]))
        if inside is not None:
            whole = take_batches(batches, slice(0, row))
            overlong = _reaches_over(window.region.path, position, inside)
            return Window(window.region, whole, position, overlong, inside)
    return window


def _without_lost(window: Window, buffer: Buffer, limits: _WindowLimits) -> Window:
    """The window up to a batch of which some bytes could not be had: its CRC would not say why."""
    batches, file = window.batches, buffer.file
    if not batches.position.size or not file.damages:
        return window
    end = int(batches.position[-1] + batches.size[-1])
    lost = file.damage_within(int(batches.position[0]), end)
    if lost is None:
        return window
    row = int(np.searchsorted(batches.position + batches.size, lost.position, side="right"))
    position, after = int(batches.position[row]), int(batches.position[row] + batches.size[row])
    following = limits.find_next(position, _last_position(buffer, limits))
    if following is None and file.damage_at(after) is None:
        following = after
    return Window(
        window.region,
        take_batches(batches, slice(0, row)),
        position,
        replace(lost, position=position, size=_left(lost, position)),
        following,
    )


def _reaches_over(path: str, position: int, following: int) -> Violation:
    detail = "the length reaches past the place where, by the index, a later batch begins"
    return Violation(
        Rule.BATCH_SIZE_RANGE, detail, path, position, expected=f"at most {following - position}"
    )
