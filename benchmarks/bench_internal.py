"""Internal topics: a million offset commits against a plain decode of the same segment, and other
records by the second.
"""

import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.corpus import SEGMENTS, Plan
from benchmarks.rounds import best_rates, timed
from benchmarks.table import ratio
from ottla.api import read_segment, write_segment
from ottla.catalog.catalog import list_catalog
from ottla.internal import CONSUMER_OFFSETS, decode_record
from ottla.internal.views import VIEWS
from ottla.jobs.read.internal_topics import find_internal_topic, read_current, read_partition

HEADING = ("what", "Ottla /s", "against", "ratio", "target")

COMMITS = 1_000_000
KEYS = 3_000
BATCH_BYTES = 1_000  # a commit of a dozen partitions
COMMITS_TO_DECODE = 1 / 5  # at most five plain decodes
RECORDS_TARGET = 100_000

# One record of each, as a small cluster writes them; bytes as in tests/internal/by_hand.txt.
RECORDS = {
    "TransactionLogValue v1": (
        "__transaction_state",
        "0000 0002 7478",
        "0001 00000000000003e8 0002 0000ea60 01 02 0d 7472616e73616374696f6e73 02 00000000 00"
        "0000019b70ed6683 0000019b70ed6682 02 00 08 00000000000003e7 02 02 0002",
    ),
    "GroupMetadataValue v3": (
        CONSUMER_OFFSETS,
        "0002 0001 67",
        "0003 0008 636f6e73756d6572 00000007 0005 72616e6765 0001 6d 0000019b70ed6683 00000001"
        "0001 6d ffff 0001 63 0001 68 000493e0 00002710 00000011 0001 00000001 0001 74 ffffffff"
        "00000000 00000015 0001 00000001 0001 74 00000001 00000002 00000000",
    ),
    "PartitionRecord v2": (
        "__cluster_metadata",
        None,
        "01 03 02 00000002" + "0a" * 16 + "04 00000001 00000002 00000003 04 00000001 00000002"
        "00000003 01 01 00000001 00000004 00000007 04" + "0b" * 48 + "00",
    ),
    "PartitionChangeRecord v2": (
        "__cluster_metadata",
        None,
        "01 05 02 00000002" + "0a" * 16 + "02 00 09 03 00000001 00000002 01 04 00000001",
    ),
    "ConfigRecord v0": (
        "__cluster_metadata",
        None,
        "01 04 00 02 07 6f7264657273 0d 726574656e74696f6e2e6d73 06 3630303030 00",
    ),
}


def rows(plan: Plan) -> Iterator[tuple[str, ...]]:
    """Commits first, then the others."""
    view = VIEWS["group_offsets"]
    topic = find_internal_topic(list_catalog([str(_commits())]), CONSUMER_OFFSETS)
    (partition,) = topic.partitions
    segment = partition.segments[0].log.path
    best = best_rates(
        {
            "plain decode": timed(lambda: sum(map(len, read_segment(segment)))),
            "commits, current": timed(lambda: COMMITS * bool(read_current(topic, view).rows)),
            "commits, history": timed(
                lambda: sum(map(len, view.history(read_partition(partition))))
            ),
        },
        plan.rounds,
    )
    plain = best.pop("plain decode")
    for name, rate in best.items():
        figures = ratio(rate, plain, COMMITS_TO_DECODE)
        yield (name, f"{rate:,.0f}", f"plain decode {plain:,.0f}", *figures)
    others = best_rates({name: timed(_decode(*RECORDS[name])) for name in RECORDS}, plan.rounds)
    for name, rate in others.items():
        yield (name, f"{rate:,.0f}", "", *ratio(rate, RECORDS_TARGET, 1.0))


def _decode(topic: str, key: str | None, value: str) -> Callable[[], int]:
    key_bytes = None if key is None else bytes.fromhex(key)
    value_bytes = bytes.fromhex(value)
    assert decode_record(topic, key_bytes, value_bytes).error is None

    def work() -> int:
        for _ in range(20_000):
            decode_record(topic, key_bytes, value_bytes)
        return 20_000

    return work


def _commits() -> Path:
    """A segment of commits of fifty groups, written the first time it is asked for."""
    folder = SEGMENTS / "commits" / f"{CONSUMER_OFFSETS}-0"
    path = folder / "00000000000000000000.log"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_segment([_commit_batch()], path, batch_bytes=BATCH_BYTES)
    return folder.parent


def _commit_batch() -> pa.RecordBatch:
    keys = [_commit_key(f"group-{n % 50}", f"topic-{n % 20}", n % 300) for n in range(KEYS)]
    values = [struct.pack(">hqihq", 3, n, 5, 0, 1_700_000_000_000 + n) for n in range(COMMITS)]
    return pa.record_batch(
        {
            "key": pa.array([keys[n % KEYS] for n in range(COMMITS)], pa.binary()),
            "value": pa.array(values, pa.binary()),
            "offset": np.arange(COMMITS),
            "timestamp": np.arange(COMMITS) + 1_700_000_000_000,
        }
    )


def _commit_key(group: str, topic: str, partition: int) -> bytes:
    names = b"".join(struct.pack(">h", len(name)) + name.encode() for name in (group, topic))
    return b"\x00\x01" + names + struct.pack(">i", partition)
