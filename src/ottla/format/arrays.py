"""Names for the arrays that carry bytes and columns, and the room that follows bytes."""

from typing import Final

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

# Readable bytes after every source that a kernel copies from, writable ones after every target.
PADDING: Final = 64
