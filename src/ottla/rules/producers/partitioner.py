"""Where records go that name no partition, as Kafka's producer decides (BuiltInPartitioner)."""

import numpy as np

from ottla.batch.rows import frozen
from ottla.kernels.producers import partitioning
from ottla.kernels.producers.partitioning import Sticky
from ottla.kernels.tables import Int64s, RecordBuffers


class Partitioner:
    """Chooses partitions for the records of one task, which may be of several topics.

    Records with a key go by its hash. Those without stick to one partition until it has got
    `batch_bytes`, then to another; the seed decides to which.
    """

    def __init__(self, seed: int, batch_bytes: int) -> None:
        self.seed = seed
        self.batch_bytes = batch_bytes
        self._sticky = _new_sticky(0)

    def choose(
        self, records: RecordBuffers, topics: Int64s, counts: Int64s, given: Int64s
    ) -> Int64s:
        """The partition of each row: the given one, or one of counts[topics[row]] where it is -1.

        Topics keep their numbers from call to call; new ones are added at the end.
        """
        missing = counts.size - self._sticky.partition.size
        self._sticky = Sticky(
            *map(np.concatenate, zip(self._sticky, _new_sticky(missing), strict=True))
        )
        chosen = given.copy()
        partitioning.choose_partitions(
            frozen(records), topics, counts, self.seed, self.batch_bytes, self._sticky, chosen
        )
        return chosen


def _new_sticky(count: int) -> Sticky:
    none = np.full(count, -1, dtype=np.int64)
    return Sticky(none, np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64))
