"""Change sealed batches in place, as a broker does when it appends them.

Offsets and leader epoch lie outside the CRC. The batches lie in `data`, which has PADDING bytes
after them, at `position` minus `origin`, and their table is kept true.
"""

from ottla.errors import OptionError, UnsupportedError
from ottla.format.attributes import CODEC_MASK
from ottla.format.sentinels import INT32_MAX, NO_OFFSET, NO_PARTITION_LEADER_EPOCH
from ottla.kernels.records.stamping import shift_offsets, stamp_leader_epochs
from ottla.kernels.tables import Batches
from ottla.region import Bytes


def move_offsets(data: Bytes, batches: Batches, *, shift: int, origin: int = 0) -> None:
    """Add `shift` to the offsets of all batches; inside a batch they are relative, in most."""
    absolute = (batches.magic == 0) & (batches.attributes & CODEC_MASK != 0)
    if shift and absolute.any():
        raise UnsupportedError("inside a compressed message of magic 0 offsets are absolute")
    shift_offsets(data, origin, batches, shift)
    batches.base_offset[batches.base_offset != NO_OFFSET] += shift
    batches.last_offset[:] += shift


def set_leader_epoch(data: Bytes, batches: Batches, *, epoch: int, origin: int = 0) -> None:
    """Stamp the leader epoch on all batches, which must be of magic 2."""
    if not NO_PARTITION_LEADER_EPOCH <= epoch <= INT32_MAX:
        raise OptionError(f"partition leader epoch {epoch} does not fit 32 bits")
    if (batches.magic < 2).any():
        raise UnsupportedError("magic 0 and 1 have no partition leader epoch")
    stamp_leader_epochs(data, origin, batches, epoch)
    batches.partition_leader_epoch[:] = epoch
