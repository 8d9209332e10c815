"""Find intact batches among damaged bytes, and the chain of them that holds the most.

A batch is found by a fixed part that makes sense and a CRC that matches, at any byte. Whole batches
can also lie inside a record's value. Three signs tell them from batches of the log: a broken batch
whose size leads to the next one holds them (the fence), or they fill a value whose length stands
before them; and what is left must still fit the chain.
"""

from ottla.format.arrays import Bytes, Int64s
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
from ottla.format.sentinels import NO_TIMESTAMP
from ottla.kernels._jit import inlined, kernel
from ottla.kernels.bytes.crc import crc32, crc32c_inlined
from ottla.kernels.bytes.ints import read_i8, read_i16, read_i32, read_i64, read_u32
from ottla.kernels.records.scan import frame_at, view_legacy, view_v2
from ottla.kernels.status import END, MORE, OK, TABLE_FULL
from ottla.kernels.tables import Batches

# Where the search is: slots of an array. Positions are absolute.
AT = 0
TRUSTED = 1  # a batch ended here, or the file begins: whatever frame is here is meant
FENCE = 2  # where the broken batch ends that we are inside of, or -1
EMBEDDED_UNTIL = 3  # where the value ends that we are inside of, or -1
NEEDED = 4  # bytes from AT that must be held to go on
STATE_SIZE = 5

# What a found batch is.
INTACT = 0
EMBEDDED = 1

HISTORY = 8  # bytes before AT that must be held, where the file has them
_KNOWN_LEGACY_ATTRIBUTES = CODEC_MASK | LOG_APPEND_TIME
_KNOWN_ATTRIBUTES = _KNOWN_LEGACY_ATTRIBUTES | TRANSACTIONAL | CONTROL | DELETE_HORIZON
_LZ4 = int(Codec.LZ4)
_ZSTD = int(Codec.ZSTD)
_RECORD_MINIMUM = 7
_KEY_AT_V0 = MESSAGE_V0.itemsize
_KEY_AT_V1 = MESSAGE_V1.itemsize
_WIDEST_VARINT = 5


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
    key_at = at + (_KEY_AT_V0 if magic == 0 else _KEY_AT_V1)
    if key_at + VALUE_LENGTH_SIZE > at + size:
        return False
    if magic == 1 and read_i64(data, at + MESSAGE_TIMESTAMP_POSITION) < NO_TIMESTAMP:
        return False
    key_length = int(read_i32(data, key_at - KEY_LENGTH_SIZE))
    value_at = key_at + max(key_length, 0) + VALUE_LENGTH_SIZE
    if key_length < -1 or value_at > at + size:
        return False
    if value_at > held:
        return True  # looked at again when the bytes are there
    value_length = int(read_i32(data, value_at - VALUE_LENGTH_SIZE))
    return value_length >= -1 and value_at + max(value_length, 0) == at + size


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
    if read_i8(data, at + MAGIC_POSITION) < 2 and at + size > held:
        return -(at + size)  # the length of a message's value lies behind its key
    return size


@inlined
def leads_to(data: Bytes, at: int, target: int, held: int, end: int, max_batch_bytes: int) -> int:
    """1 if frames that make sense, one after another, end exactly at `target`, else 0.

    Negative as `sensible_size` is.
    """
    while at < target:
        size = sensible_size(data, at, held, end, max_batch_bytes)
        if size <= 0:
            return size
        at += size
    return 1 if at == target else 0


@inlined
def value_end(data: Bytes, at: int, held: int, end: int, max_batch_bytes: int) -> int:
    """Where the value ends that begins at `at` and holds nothing but batches, or 0.

    Before a value stands its length: a varint in magic 2, four bytes before. After it stands more
    of the record; where a batch follows instead, the bytes before were no length. Negative as
    `sensible_size` is.
    """
    length = 0
    for width in range(1, _WIDEST_VARINT + 1):
        if width > at or (width > 1 and data[at - width] < 0x80) or data[at - 1] >= 0x80:
            break
        length = (length << 7) | int(data[at - width] & 0x7F)
        if length & 1 == 0:
            stop = _end_of_batches(data, at, length >> 1, held, end, max_batch_bytes)
            if stop != 0:
                return stop
    if at >= 4:
        return _end_of_batches(data, at, int(read_i32(data, at - 4)), held, end, max_batch_bytes)
    return 0


@inlined
def _end_of_batches(
    data: Bytes, at: int, length: int, held: int, end: int, max_batch_bytes: int
) -> int:
    """Where `length` bytes end if they are batches and none follows, else 0, or negative."""
    stop = at + length
    if length <= 0 or length > max_batch_bytes or stop >= end:
        return 0
    led = leads_to(data, at, stop, held, end, max_batch_bytes)
    if led <= 0:
        return led
    following = sensible_size(data, stop, held, end, max_batch_bytes)
    return stop if following == 0 else min(following, 0)


@inlined
def _put_row(data: Bytes, at: int, size: int, origin: int, row: int, batches: Batches) -> None:
    batches.position[row] = origin + at
    batches.size[row] = size
    batches.base_offset[row] = read_i64(data, at)
    batches.magic[row] = read_i8(data, at + MAGIC_POSITION)
    if batches.magic[row] == 2:
        view_v2(data, at, size, row, batches)
    else:
        view_legacy(data, at, row, batches)
    batches.computed_crc[row] = batches.crc[row]


@kernel
def find_batches(
    data: Bytes,
    held: int,
    origin: int,
    end: int,
    max_batch_bytes: int,
    state: Int64s,
    batches: Batches,
    kinds: Int64s,
) -> tuple[int, int]:
    """Fill rows with batches whose CRC matches; return (rows, status).

    data[:held] are the file's bytes from `origin` on; `end` is the file's size. END: the file was
    searched. MORE: state[NEEDED] bytes must be held from state[AT] on. TABLE_FULL: call again.
    """
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
        if likely and crc_matches(data, at, size):
            kind = _place_batch(data, at, size, held, origin, end, max_batch_bytes, state)
            if kind < 0:
                state[NEEDED] = -kind - at
                return row, MORE
            _put_row(data, at, size, origin, row, batches)
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
                state[FENCE] = state[AT] + size
        elif likely and state[TRUSTED] == 1:
            state[FENCE] = end
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
    state: Int64s,
) -> int:
    """Whether an intact batch is of the log or of a record's value; move the trust along.

    Negative as `sensible_size` is, and then nothing has moved.
    """
    last = end - origin
    if state[AT] < state[EMBEDDED_UNTIL]:
        state[TRUSTED] = 0
        return EMBEDDED
    if state[TRUSTED] == 0:
        if state[FENCE] >= 0:
            led = leads_to(data, at, state[FENCE] - origin, held, last, max_batch_bytes)
            if led <= 0:
                return EMBEDDED if led == 0 else led
        else:
            stop = value_end(data, at, held, last, max_batch_bytes)
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
def best_chain(
    ranks: Int64s, below: Int64s, weights: Int64s, before: Int64s, tree: Int64s
) -> tuple[int, int]:
    """Find the chain of rising offsets with the greatest weight: (its weight, its last item).

    `ranks` orders the items by last offset, from 1; `below` is how many ranks lie under each item's
    first offset. `before` is filled with the item that each follows in its best chain, or -1.
    `tree` is one of maxima over ranks (weight and item), zero at first, which finds that item.
    """
    count = ranks.size
    best = 0
    best_item = -1
    for item in range(count):
        total = 0
        before[item] = -1
        at = below[item]
        while at > 0:
            if tree[at, 0] > total:
                total = tree[at, 0]
                before[item] = tree[at, 1]
            at -= at & -at
        total += weights[item]
        if total > best:
            best = total
            best_item = item
        at = ranks[item]
        while at <= count:
            if total > tree[at, 0]:
                tree[at, 0] = total
                tree[at, 1] = item
            at += at & -at
    return best, best_item
