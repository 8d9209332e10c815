"""Find intact batches among damaged bytes, and the chain of them that holds the most.

A batch is found by a fixed part that makes sense and a CRC that matches, at any byte. Whole batches
can also lie inside a record's value. Three signs tell them from batches of the log: a broken batch
whose size leads to the next one holds them (the fence), or they fill a value whose length stands
before them; and what is left must still fit the chain.

The work is linear in the bytes, whatever they are; state[SUMMED] and state[WALKED] count it.
- CRCs: a byte is summed directly once, by the first span that reaches it, and once more for each
  CRC when registers are noted for all other spans (`crc_spans`).
- Walks to a fence: frames that do not lead to it are remembered, and met again only once. A fence
  inside another is a place on a walk that leads to the outer one, so what does not lead to the
  outer one does not lead to the inner one either, and nothing need be forgotten. What does lead to
  a fence is trusted from there on, so that no later walk comes by the same frames.
- Walks along a value: a walk goes on where it stopped for want of bytes. A place from which none
  leads to an end is trusted as far as frames go, so the next such walk begins behind it.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ottla.format.arrays import Bools, Bytes, Int32s, Int64s, Words
from ottla.format.attributes import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    Codec,
)
from ottla.format.layout import (
    ATTRIBUTES_POSITION,
    BASE_SEQUENCE_POSITION,
    BATCH_OVERHEAD,
    COUNT_POSITION,
    CRC_COVERS,
    CRC_POSITION,
    FRAME_SIZE,
    KEY_LENGTH_SIZE,
    LAST_OFFSET_DELTA_POSITION,
    LENGTH_POSITION,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MAX_TIMESTAMP_POSITION,
    MESSAGE_ATTRIBUTES_POSITION,
    MESSAGE_CRC_COVERS,
    MESSAGE_CRC_POSITION,
    MESSAGE_MINIMUM,
    MESSAGE_TIMESTAMP_POSITION,
    MESSAGE_V0,
    MESSAGE_V1,
    PRODUCER_EPOCH_POSITION,
    PRODUCER_ID_POSITION,
    VALUE_LENGTH_SIZE,
)
from ottla.format.sentinels import NO_OFFSET, NO_TIMESTAMP
from ottla.kernels._jit import called, i64, inlined, kernel
from ottla.kernels.bytes.crc import crc32, crc32c_inlined
from ottla.kernels.bytes.crc_spans import CRC32, CRC32C, STEP, Noted, note_registers, span_crc
from ottla.kernels.bytes.ints import read_i8, read_i16, read_i32, read_i64, read_u32
from ottla.kernels.records.scan import fill_row, frame_at
from ottla.kernels.status import END, MORE, OK, TABLE_FULL
from ottla.kernels.tables import Batches

# Where the search is: slots of an array. Positions are absolute.
AT = 0
TRUSTED = 1  # a batch ended here, or the file begins: whatever frame is here is meant
FENCE = 2  # where the broken batch ends that we are inside of, or -1
EMBEDDED_UNTIL = 3  # where the value ends that we are inside of, or -1
NEEDED = 4  # bytes from AT that must be held to go on
OUTER = 5  # where the outermost fence is or was; none reaches over it
SUMMED_TO = 6  # where the spans end that were summed directly
SUMMED = 7  # bytes that were summed
WALKED = 8  # frames that walks looked at
WALK_FROM = 9  # where the last walk along a value began
WALK_TO = 10  # and the frame that it reached
TRIED = 11  # the widest length before it that was none
STATE_SIZE = 12

# What a found batch is.
INTACT = 0
EMBEDDED = 1

HISTORY = STEP  # bytes before AT that must be held, where the file has them
_KNOWN_LEGACY_ATTRIBUTES = CODEC_MASK | LOG_APPEND_TIME
_KNOWN_ATTRIBUTES = _KNOWN_LEGACY_ATTRIBUTES | TRANSACTIONAL | CONTROL | DELETE_HORIZON
_LZ4 = int(Codec.LZ4)
_ZSTD = int(Codec.ZSTD)
_RECORD_MINIMUM = 7
_KEY_AT_V0 = MESSAGE_V0.itemsize
_KEY_AT_V1 = MESSAGE_V1.itemsize
_WIDEST_VARINT = 5
_SHORT = 2 * STEP  # bytes that are summed sooner than looked up


class SearchState(NamedTuple):
    """Where a search is, and what it remembers of bytes before it.

    `dead` has a bit for each position, in a ring: frames from there do not lead to the fence.
    """

    state: Int64s
    noted: Noted
    dead: Words


def begin_search(max_batch_bytes: int) -> SearchState:
    """At the front of a file, which is trusted; no batch has more than `max_batch_bytes`."""
    state = np.zeros(STATE_SIZE, dtype=np.int64)
    state[TRUSTED] = 1
    state[FENCE] = state[EMBEDDED_UNTIL] = state[OUTER] = state[WALK_FROM] = -1
    dead = np.zeros(max_batch_bytes // 64 + 2, dtype=np.uint64)
    return SearchState(state, note_registers(max_batch_bytes), dead)


class Intact(NamedTuple):
    """What is remembered of an intact batch between two readings: one row each, few bytes."""

    position: Int64s
    size: Int32s
    base_offset: Int64s
    last_offset: Int64s
    magic: npt.NDArray[np.uint8]
    verdict: npt.NDArray[np.uint8]


@inlined
def makes_sense(data: Bytes, at: int, size: int, held: int) -> bool:
    """Whether a fixed part could have been written by Kafka."""
    if read_i64(data, at) < 0:
        return False
    if read_i8(data, at + MAGIC_POSITION) == 2:
        return size >= BATCH_OVERHEAD and _v2_makes_sense(data, at, size)
    return _legacy_makes_sense(data, at, size, held)


@inlined
def _v2_makes_sense(data: Bytes, at: int, size: int) -> bool:
    attributes = int(read_i16(data, at + ATTRIBUTES_POSITION))
    count = int(read_i32(data, at + COUNT_POSITION))
    if attributes < 0 or attributes > _KNOWN_ATTRIBUTES or attributes & CODEC_MASK > _ZSTD:
        return False
    if count < 0 or count > int(read_i32(data, at + LAST_OFFSET_DELTA_POSITION)) + 1:
        return False
    if attributes & CODEC_MASK == 0 and count * _RECORD_MINIMUM > size - BATCH_OVERHEAD:
        return False
    return (
        int(read_i64(data, at + MAX_TIMESTAMP_POSITION)) >= -1
        and int(read_i64(data, at + PRODUCER_ID_POSITION)) >= -1
        and int(read_i16(data, at + PRODUCER_EPOCH_POSITION)) >= -1
        and int(read_i32(data, at + BASE_SEQUENCE_POSITION)) >= -1
    )


@inlined
def _legacy_makes_sense(data: Bytes, at: int, size: int, held: int) -> bool:
    magic = int(read_i8(data, at + MAGIC_POSITION))
    attributes = data[at + MESSAGE_ATTRIBUTES_POSITION]
    if attributes > _KNOWN_LEGACY_ATTRIBUTES or attributes & CODEC_MASK > _LZ4:
        return False
    key_at = _key_at(data, at)
    if key_at + VALUE_LENGTH_SIZE > at + size:
        return False
    if magic == 1 and read_i64(data, at + MESSAGE_TIMESTAMP_POSITION) < NO_TIMESTAMP:
        return False
    value_at = _value_at(data, at)
    if int(read_i32(data, key_at - KEY_LENGTH_SIZE)) < -1 or value_at > at + size:
        return False
    if value_at > held:
        return True  # looked at again when the bytes are there
    value_length = int(read_i32(data, value_at - VALUE_LENGTH_SIZE))
    return value_length >= -1 and value_at + max(value_length, 0) == at + size


@inlined
def _key_at(data: Bytes, at: int) -> int:
    """Where the key of a message begins, behind its length."""
    return at + (_KEY_AT_V0 if read_i8(data, at + MAGIC_POSITION) == 0 else _KEY_AT_V1)


@inlined
def _value_at(data: Bytes, at: int) -> int:
    """Where the value of a message begins: behind its key and its own length."""
    key_at = _key_at(data, at)
    key_length = int(read_i32(data, key_at - KEY_LENGTH_SIZE))
    return key_at + max(key_length, 0) + VALUE_LENGTH_SIZE


@inlined
def crc_matches(data: Bytes, at: int, size: int) -> bool:
    """Whether the bytes of a batch are those that were sealed."""
    if read_i8(data, at + MAGIC_POSITION) < 2:
        stored = read_u32(data, at + MESSAGE_CRC_POSITION)
        return crc32(data, at + MESSAGE_CRC_COVERS, at + size) == stored
    if size < BATCH_OVERHEAD:
        return False
    stored = read_u32(data, at + CRC_POSITION)
    return crc32c_inlined(data, at + CRC_COVERS, at + size) == stored


@inlined
def _is_sealed(data: Bytes, at: int, size: int, origin: int, search: SearchState) -> bool:
    """As `crc_matches`, without summing the same bytes again and again."""
    state = search.state
    if size <= _SHORT or origin + at >= state[SUMMED_TO]:
        state[SUMMED_TO] = max(state[SUMMED_TO], origin + at + size)
        state[SUMMED] += size
        return crc_matches(data, at, size)
    if read_i8(data, at + MAGIC_POSITION) < 2:
        stored = read_u32(data, at + MESSAGE_CRC_POSITION)
        start = at + MESSAGE_CRC_COVERS
        crc, summed = span_crc(CRC32, data, origin, start, at + size, search.noted)
    elif size < BATCH_OVERHEAD:
        return False
    else:
        stored = read_u32(data, at + CRC_POSITION)
        start = at + CRC_COVERS
        crc, summed = span_crc(CRC32C, data, origin, start, at + size, search.noted)
    state[SUMMED] += summed
    return crc == stored


@called
def sensible_size(data: Bytes, at: int, held: int, end: int, max_batch_bytes: int) -> int:
    """The size of a frame that makes sense at `at`, else 0.

    Negative where too little is held to tell: the bytes must be held up to minus this.
    """
    left = end - at
    if left < LOG_OVERHEAD + MESSAGE_MINIMUM:
        return 0
    if at + min(BATCH_OVERHEAD, left) > held:
        return -(at + min(BATCH_OVERHEAD, left))
    size, status = frame_at(data, at, left)
    if status != OK or size > max_batch_bytes or not makes_sense(data, at, size, held):
        return 0
    if read_i8(data, at + MAGIC_POSITION) < 2 and _value_at(data, at) > held:
        return -_value_at(data, at)
    return size


@inlined
def _claimed_size(data: Bytes, at: int) -> int:
    return int(read_i32(data, at + LENGTH_POSITION)) + LOG_OVERHEAD


@inlined
def _size_before(
    data: Bytes, at: int, target: int, held: int, end: int, max_batch_bytes: int
) -> int:
    """As `sensible_size`; 0 also for a frame that reaches over `target`."""
    if at + FRAME_SIZE <= held and _claimed_size(data, at) > target - at:
        return 0
    return sensible_size(data, at, held, end, max_batch_bytes)


@inlined
def leads_to(
    data: Bytes,
    at: int,
    target: int,
    held: int,
    origin: int,
    end: int,
    max_batch_bytes: int,
    state: Int64s,
) -> int:
    """1 if frames that make sense, one after another, end exactly at `target`, else 0.

    Negative as `sensible_size` is. A walk that was here before is gone on with.
    """
    if state[WALK_FROM] != origin + at:
        state[TRIED] = 0
    if state[WALK_FROM] != origin + at or state[WALK_TO] > origin + target:
        state[WALK_FROM] = state[WALK_TO] = origin + at
    here = state[WALK_TO] - origin
    while here < target:
        state[WALKED] += 1
        size = _size_before(data, here, target, held, end, max_batch_bytes)
        if size <= 0:
            return size
        here += size
        state[WALK_TO] = origin + here
    return 1


@called
def _leads_to_fence(
    data: Bytes,
    at: int,
    held: int,
    origin: int,
    end: int,
    max_batch_bytes: int,
    search: SearchState,
) -> int:
    """As `leads_to` the fence; remembers what does not."""
    state = search.state
    fence = state[FENCE] - origin
    here = at
    while here < fence and not _is_dead(search.dead, origin + here):
        state[WALKED] += 1
        size = _size_before(data, here, fence, held, end, max_batch_bytes)
        if size < 0:
            return size
        if size == 0:
            break
        here += size
    if here == fence:
        return 1
    last = here
    here = at
    while here < last:
        _set_dead(search.dead, origin + here)
        here += _claimed_size(data, here)
    _set_dead(search.dead, origin + last)
    return 0


@inlined
def _is_dead(dead: Words, position: int) -> bool:
    word = dead[(position >> 6) % dead.size]
    return i64((word >> np.uint64(position & 63)) & np.uint64(1)) == 1


@inlined
def _set_dead(dead: Words, position: int) -> None:
    dead[(position >> 6) % dead.size] |= np.uint64(1) << np.uint64(position & 63)


@inlined
def _put_fence(search: SearchState, position: int) -> None:
    """Say where the broken batch ends that begins at AT."""
    state = search.state
    state[FENCE] = position
    if position > state[OUTER]:
        for word in range(state[AT] >> 6, (position >> 6) + 1):
            search.dead[word % search.dead.size] = 0
        state[OUTER] = position


@inlined
def value_end(
    data: Bytes, at: int, held: int, origin: int, end: int, max_batch_bytes: int, state: Int64s
) -> int:
    """Where the value ends that begins at `at` and holds nothing but batches, or 0.

    Before a value stands its length: a varint in magic 2, four bytes before. After it stands more
    of the record; where a batch follows instead, the bytes before were no length. Negative as
    `sensible_size` is.
    """
    tried = state[TRIED] if state[WALK_FROM] == origin + at else 0
    length = 0
    for width in range(1, _WIDEST_VARINT + 1):
        if width > at or (width > 1 and data[at - width] < 0x80) or data[at - 1] >= 0x80:
            break
        length = (length << 7) | int(data[at - width] & 0x7F)
        if length & 1 == 0 and width > tried:
            stop = _end_of_batches(data, at, length >> 1, held, origin, end, max_batch_bytes, state)
            if stop != 0:
                return stop
            state[TRIED] = width
    if at >= 4:
        length = int(read_i32(data, at - 4))
        return _end_of_batches(data, at, length, held, origin, end, max_batch_bytes, state)
    return 0


@called
def _end_of_batches(
    data: Bytes,
    at: int,
    length: int,
    held: int,
    origin: int,
    end: int,
    max_batch_bytes: int,
    state: Int64s,
) -> int:
    """Where `length` bytes end if they are batches and none follows, else 0, or negative."""
    stop = at + length
    if length <= 0 or length > max_batch_bytes or stop >= end:
        return 0
    led = leads_to(data, at, stop, held, origin, end, max_batch_bytes, state)
    if led <= 0:
        return led
    following = sensible_size(data, stop, held, end, max_batch_bytes)
    return stop if following == 0 else min(following, 0)


@kernel
def find_batches(
    data: Bytes,
    held: int,
    origin: int,
    end: int,
    max_batch_bytes: int,
    search: SearchState,
    batches: Batches,
    kinds: Int64s,
) -> tuple[int, int]:
    """Fill rows with batches whose CRC matches; return (rows, status).

    data[:held] are the file's bytes from `origin` on; `end` is the file's size. END: the file was
    searched. MORE: state[NEEDED] bytes must be held from state[AT] on. TABLE_FULL: call again.
    """
    state = search.state
    last = end - origin
    row = 0
    while row < batches.position.size:
        at = state[AT] - origin
        if last - at < FRAME_SIZE:
            return row, END
        if at + min(BATCH_OVERHEAD, last - at) > held:
            state[NEEDED] = BATCH_OVERHEAD
            return row, MORE
        if state[AT] >= state[FENCE] >= 0:
            state[FENCE] = -1
            state[TRUSTED] = 1
        size, status = frame_at(data, at, last - at)
        likely = status == OK and size <= max_batch_bytes
        if likely and state[TRUSTED] == 0:
            likely = makes_sense(data, at, size, held)
        if likely and at + size > held:
            state[NEEDED] = size
            return row, MORE
        if likely and _is_sealed(data, at, size, origin, search):
            kind = _place_batch(data, at, size, held, origin, end, max_batch_bytes, search)
            if kind < 0:
                state[NEEDED] = -kind - at
                return row, MORE
            fill_row(data, at, size, origin, batches, row)
            batches.computed_crc[row] = batches.crc[row]
            kinds[row] = kind
            row += 1
            state[AT] += size
            continue
        if likely and state[TRUSTED] == 1 and at + size < last:
            following = sensible_size(data, at + size, held, last, max_batch_bytes)
            if following < 0:
                state[NEEDED] = -following - at
                return row, MORE
            if following > 0:
                _put_fence(search, state[AT] + size)
        elif likely and state[TRUSTED] == 1:
            _put_fence(search, end)
        state[TRUSTED] = 0
        state[AT] += 1
    return row, TABLE_FULL


@inlined
def _place_batch(
    data: Bytes,
    at: int,
    size: int,
    held: int,
    origin: int,
    end: int,
    max_batch_bytes: int,
    search: SearchState,
) -> int:
    """Whether an intact batch is of the log or of a record's value; move the trust along.

    Negative as `sensible_size` is, and then nothing has moved.
    """
    state = search.state
    last = end - origin
    if state[AT] < state[EMBEDDED_UNTIL]:
        state[TRUSTED] = 0
        return EMBEDDED
    if state[TRUSTED] == 0:
        if state[FENCE] >= 0:
            led = _leads_to_fence(data, at, held, origin, last, max_batch_bytes, search)
            if led <= 0:
                return EMBEDDED if led == 0 else led
        else:
            stop = value_end(data, at, held, origin, last, max_batch_bytes, state)
            if stop < 0:
                return stop
            if stop > 0:
                state[EMBEDDED_UNTIL] = origin + stop
                return EMBEDDED
    state[TRUSTED] = 1
    if state[AT] + size == state[FENCE]:
        state[FENCE] = -1
    return INTACT


@kernel
def view_again(data: Bytes, held: int, origin: int, found: Intact, batches: Batches) -> int:
    """Fill a row for each batch that was found; return the first that is another by now, or -1.

    data[:held] are the file's bytes from `origin` on.
    """
    for row in range(found.position.size):
        at = found.position[row] - origin
        size, status = frame_at(data, at, held - at)
        if status != OK or size != found.size[row]:
            return row
        if read_i8(data, at + MAGIC_POSITION) != found.magic[row]:
            return row
        if not crc_matches(data, at, size):
            return row
        fill_row(data, at, size, origin, batches, row)
        batches.computed_crc[row] = batches.crc[row]
        if batches.last_offset[row] != found.last_offset[row]:
            return row
        is_known = found.magic[row] == 2 or batches.base_offset[row] != NO_OFFSET
        if is_known and batches.base_offset[row] != found.base_offset[row]:
            return row
        batches.base_offset[row] = found.base_offset[row]  # a wrapper's is not in its fixed part
    return -1


# What is known of the best chain so far: slots of an array.
WEIGHT = 0
LAST_ITEM = 1


@kernel
def extend_chains(
    ranks: Int32s,
    below: Int32s,
    weights: Int32s,
    start: int,
    before: Int32s,
    totals: Int64s | npt.NDArray[np.uint32],
    items: Int32s,
    best: Int64s,
) -> None:
    """Find for each item the heaviest chain of rising offsets that ends with it.

    The items are those from `start` on, of `totals.size - 1` in all. `ranks` orders them by last
    offset, from 1; `below` is how many ranks lie under each item's first offset. `before` is filled
    with the item that each follows, or -1. `totals` and `items` are a tree of maxima over ranks,
    zero at first, which finds that item.
    """
    count = totals.size - 1
    for row in range(ranks.size):
        total = 0
        follows = -1
        at = i64(below[row])
        while at > 0:
            if i64(totals[at]) > total:
                total = i64(totals[at])
                follows = i64(items[at])
            at -= at & -at
        before[row] = follows
        total += i64(weights[row])
        if total > best[WEIGHT]:
            best[WEIGHT] = total
            best[LAST_ITEM] = start + row
        at = i64(ranks[row])
        while at <= count:
            if total > i64(totals[at]):
                totals[at] = total
                items[at] = start + row
            at += at & -at


@kernel
def follow_back(before: Int32s, start: int, item: int, keep: Bools) -> int:
    """Keep the items from `start` on that lead to `item`; return the one that comes before them."""
    while item >= start:
        keep[item] = True
        item = i64(before[item - start])
    return item
