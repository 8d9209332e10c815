"""How many records batches hold: old formats do not say it in their headers."""

import numpy as np

from ottla.batch.attributes import codec_ids
from ottla.batch.decode import DEFAULT_MAX_BATCH_BYTES, Decoder
from ottla.batch.memory import allocate_from_pool
from ottla.format.attributes import Codec
from ottla.format.magic import CURRENT_MAGIC
from ottla.kernels.tables import Batches, Wanted, take_batches
from ottla.region import Region


def count_records(
    region: Region, batches: Batches, max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
) -> int:
    """The records of some batches, control records too; a wrapper that can not be opened has none.

    Magic 2 states it, and a message by itself is one. Only wrappers are opened for it.
    """
    legacy = batches.magic < CURRENT_MAGIC
    wrappers = legacy & (codec_ids(batches) != Codec.NONE)
    stated = int(np.maximum(batches.count, 0).sum()) + int((legacy & ~wrappers).sum())
    if not wrappers.any():
        return stated
    decoder = Decoder(
        Wanted.OFFSETS,
        check_crcs=False,
        max_batch_bytes=max_batch_bytes,
        allocate=allocate_from_pool,
    )
    for chunk, _ in decoder.decode(region, take_batches(batches, wrappers)):
        stated += 0 if chunk is None else chunk.count
    rest = decoder.flush()
    return stated + (0 if rest is None else rest.count)
