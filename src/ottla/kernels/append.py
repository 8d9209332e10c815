"""What LogValidator looks for inside a wrapper that decoding does not tell."""

import numpy as np
import numpy.typing as npt

from ottla.format.layout import LOG_OVERHEAD, MAGIC_POSITION, MESSAGE_MINIMUM
from ottla.kernels._jit import Bytes, kernel
from ottla.kernels.ints import read_i32
from ottla.kernels.tables import Batches, Payloads


@kernel
def mark_other_magic(
    arena: Bytes, batches: Batches, payloads: Payloads, differs: npt.NDArray[np.bool_]
) -> None:
    """Mark messages of the first wrapper whose magic is not its own."""
    if batches.position.size == 0 or batches.magic[0] > 1 or payloads.in_arena[0] == 0:
        return
    at = payloads.start[0]
    for index in range(differs.size):
        if at + LOG_OVERHEAD + MESSAGE_MINIMUM > payloads.stop[0]:
            return
        differs[index] = arena[at + MAGIC_POSITION] != batches.magic[0]
        at += LOG_OVERHEAD + max(read_i32(arena, at + 8), MESSAGE_MINIMUM)
