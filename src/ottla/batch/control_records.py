"""Single records of a chunk, for the few that Python has to read: control records above all."""

import numpy as np
import numpy.typing as npt

from ottla.kernels.tables import RecordBuffers
from ottla.region import Bytes


def read_key_value(buffers: RecordBuffers, record: int) -> tuple[bytes | None, bytes | None]:
    """Key and value of a record of a chunk."""
    key = _read(buffers.key_bytes, buffers.key_bounds, buffers.key_valid, record)
    return key, _read(buffers.value_bytes, buffers.value_bounds, buffers.value_valid, record)


def _read(data: Bytes, bounds: npt.NDArray[np.int32], valid: Bytes, record: int) -> bytes | None:
    if not valid[record >> 3] >> (record & 7) & 1:
        return None
    return data[bounds[record] : bounds[record + 1]].tobytes()
