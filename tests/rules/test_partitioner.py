"""Records go to the partitions that Kafka's producer would choose."""

import numpy as np

from ottla.batch.rows import NewRecord, pack_rows
from ottla.rules.producers.partitioner import Partitioner

# The cases of Kafka's UtilsTest.testMurmur2.
KNOWN = [
    (b"21", -973932308),
    (b"foobar", -790332482),
    (b"a-little-bit-long-string", -985981536),
    (b"a-little-bit-longer-string", -1486304829),
    (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    (b"abc", 479470107),
]
# Keys of 0 to 12 bytes: Utils.murmur2 and BuiltInPartitioner.partitionForKey(key, 7) of
# kafka-clients 4.3.1.
BY_KAFKA = [
    ("", 275646681, 2),
    ("fb", -1945629538, 3),
    ("fb8c", 1984153517, 3),
    ("fb67d3", 979605885, 6),
    ("fb4289d0", -1377270943, 3),
    ("fb1d3f6183", -837972674, 2),
    ("fbf8f5f2efec", -1101573363, 0),
    ("fbd3ab835b330b", -1993469629, 5),
    ("fbae6114c77a2de0", -1068846687, 3),
    ("fb8917a533c14fdd6b", -288271665, 6),
    ("fb64cd369f0871da43ac", -228996505, 6),
    ("fb3f83c70b4f93d71b5fa3", 552718065, 4),
    ("fb1a39587796b5d4f3123150", -2056468746, 6),
]
BATCH_BYTES = 1000
INT32_MAX = 2**31 - 1


def choose(
    partitioner: Partitioner, keys: list[bytes | None], counts: list[int], **columns: list[int]
) -> list[int]:
    """Rows of 100 bytes, all of topic 0 and without a partition unless columns say otherwise."""
    records = pack_rows([NewRecord(at, 0, key, bytes(100)) for at, key in enumerate(keys)])
    topics = np.array(columns.get("topics", [0] * len(keys)), dtype=np.int64)
    given = np.array(columns.get("given", [-1] * len(keys)), dtype=np.int64)
    return partitioner.choose(records, topics, np.array(counts, dtype=np.int64), given).tolist()


def test_keys_hash_as_in_kafkas_own_tests() -> None:
    """A topic with as many partitions as there can be shows the hash but for its sign."""
    known = KNOWN + [(bytes.fromhex(key), hashed) for key, hashed, _ in BY_KAFKA]
    chosen = choose(Partitioner(1, BATCH_BYTES), [key for key, _ in known], [INT32_MAX])
    assert chosen == [hashed & INT32_MAX for _, hashed in known]


def test_rows_with_keys_go_where_kafka_sends_them() -> None:
    keys: list[bytes | None] = [bytes.fromhex(key) for key, _, _ in BY_KAFKA]
    expected = [partition for _, _, partition in BY_KAFKA]
    assert choose(Partitioner(1, BATCH_BYTES), keys, [7]) == expected


def test_a_given_partition_wins_over_the_key() -> None:
    assert choose(Partitioner(1, BATCH_BYTES), [b"21", None], [10], given=[9, 4]) == [9, 4]


def test_rows_without_a_key_stick_to_a_partition_for_a_batch() -> None:
    chosen = choose(Partitioner(1, BATCH_BYTES), [None] * 8000, [4])
    changes = np.flatnonzero(np.diff(chosen)) + 1
    # A row counts for 126 bytes: 100 of value, its lengths, and 21 for the rest.
    assert set(changes % 8) == {0}
    assert np.bincount(chosen, minlength=4).min() > 8000 / 4 * 0.8


def test_rows_go_on_with_the_partition_of_the_call_before() -> None:
    whole = choose(Partitioner(5, BATCH_BYTES), [None] * 100, [4])
    again = Partitioner(5, BATCH_BYTES)
    parts = [choose(again, [None] * count, [4]) for count in (3, 17, 80)]
    assert [*parts[0], *parts[1], *parts[2]] == whole


def test_every_topic_has_its_own_partition_to_stick_to() -> None:
    partitioner = Partitioner(3, BATCH_BYTES)
    first = choose(partitioner, [None] * 5, [4])
    both = choose(partitioner, [None] * 6, [4, 1], topics=[0, 1] * 3)
    assert both == [first[0], 0] * 3
