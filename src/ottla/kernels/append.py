"""What LogValidator looks for in records, and what it writes into a batch that stays in place."""

from ottla.format.attributes import LOG_APPEND_TIME
from ottla.format.layout import LOG_OVERHEAD, MAGIC_POSITION, MESSAGE_MINIMUM
from ottla.format.sentinels import NO_OFFSET, NO_TIMESTAMP
from ottla.kernels._jit import Bytes, kernel
from ottla.kernels.ints import read_i32, wrapping_subtract
from ottla.kernels.tables import Batches, Int64s, Payloads
from ottla.kernels.writing import write_i32, write_i64

# What is wrong with a record, the first that applies; 0 is nothing.
OTHER_MAGIC = 1
NO_KEY = 2
FAR_FROM_NOW = 3
CLAIMED_TIME = 4


@kernel
def mark_other_magic(arena: Bytes, batches: Batches, payloads: Payloads, verdicts: Bytes) -> None:
    """Mark messages of the first wrapper whose magic is not its own."""
    if batches.position.size == 0 or batches.magic[0] > 1 or payloads.in_arena[0] == 0:
        return
    at = payloads.start[0]
    for index in range(verdicts.size):
        if at + LOG_OVERHEAD + MESSAGE_MINIMUM > payloads.stop[0]:
            return
        if arena[at + MAGIC_POSITION] != batches.magic[0]:
            verdicts[index] = OTHER_MAGIC
        at += LOG_OVERHEAD + max(read_i32(arena, at + 8), MESSAGE_MINIMUM)


@kernel
def judge_records(
    magics: Int64s,
    attributes: Int64s,
    rows: Int64s,
    timestamps: Int64s,
    key_valid: Bytes,
    needs_keys: bool,
    is_create_topic: bool,
    limits: tuple[int, int, int],
    verdicts: Bytes,
) -> int:
    """Fill `verdicts` (LogValidator.validateRecord), and return how many records are refused.

    rows[b] records are of batch b. `limits` are now and how far before and after it a timestamp may
    be, as Java's longs.
    """
    now, before, after = limits
    refused = 0
    record = 0
    for row in range(rows.size):
        claims_time = magics[row] > 0 and attributes[row] & LOG_APPEND_TIME != 0
        for at in range(record, record + rows[row]):
            timestamp = timestamps[at]
            if verdicts[at] == 0 and needs_keys and not key_valid[at >> 3] >> (at & 7) & 1:
                verdicts[at] = NO_KEY
            elif verdicts[at] == 0 and is_create_topic and timestamp != NO_TIMESTAMP:
                age = wrapping_subtract(now, timestamp)
                if age > before or wrapping_subtract(timestamp, now) > after:
                    verdicts[at] = FAR_FROM_NOW
            elif verdicts[at] == 0 and claims_time:
                verdicts[at] = CLAIMED_TIME
            refused += verdicts[at] != 0
        record += rows[row]
    return refused


@kernel
def assign_offsets(
    data: Bytes, batches: Batches, rows: Int64s, next_offset: int, leader_epoch: int
) -> None:
    """Offsets and leader epoch into batches that stay as they are; the table is kept true.

    RecordBatch.setLastOffset: magic 2 stores its first offset. Old formats have no leader epoch.
    """
    last = next_offset - 1
    for row in range(rows.size):
        at = batches.position[row]
        last += rows[row]
        stored = last - batches.last_offset_delta[row]
        write_i64(data, at, stored)
        if batches.base_offset[row] != NO_OFFSET:
            batches.base_offset[row] = stored
        batches.last_offset[row] = last
        if batches.magic[row] == 2:
            write_i32(data, at + 12, leader_epoch)
            batches.partition_leader_epoch[row] = leader_epoch


@kernel
def find_newest(rows: Int64s, timestamps: Int64s, newest: Int64s) -> None:
    """The largest timestamp of each batch, at least -1."""
    record = 0
    for row in range(rows.size):
        newest[row] = NO_TIMESTAMP
        for at in range(record, record + rows[row]):
            newest[row] = max(newest[row], timestamps[at])
        record += rows[row]
