"""Memory for chunks and new batches, from Arrow's pool."""

import numpy as np
import pyarrow as pa

from ottla.region import Bytes


def allocate_from_pool(size: int) -> Bytes:
    """Uninitialised bytes; the pool reuses them, where large NumPy arrays fault in every page."""
    return np.frombuffer(pa.allocate_buffer(size), dtype=np.uint8)
