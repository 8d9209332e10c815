"""Indexes rebuilt from the logs of real brokers are, byte for byte, what the brokers wrote."""

from pathlib import Path

import pytest

from golden import BROKERS, GOLDEN
from log.walked import walked
from ottla.format.names import Kind
from ottla.log.files.offset_index import write_offset_index
from ottla.log.files.partition import Segment, find_partitions
from ottla.log.files.time_index import write_time_index
from ottla.log.write.index_builder import build_indexes
from ottla.storage.files import open_file, read_bytes

SEGMENTS = [
    pytest.param(segment, id=str(Path(segment.log.path).relative_to(GOLDEN)))
    for broker in BROKERS
    for partition in find_partitions([GOLDEN / broker])
    for segment in partition.segments
]


@pytest.mark.parametrize("segment", SEGMENTS)
def test_a_rebuilt_index_is_the_broker_s(segment: Segment) -> None:
    interval = 512 if "small-batches" in segment.log.path else 4096  # tests/kafka/workloads.py
    with open_file(segment.log) as file:
        batches = walked(file)
    offsets, times = build_indexes(batches, segment.base_offset, index_interval_bytes=interval)
    stored = {kind: read_bytes(entry) for kind, entry in segment.side_files.items()}
    assert write_offset_index(offsets) == stored[Kind.OFFSET_INDEX]
    assert write_time_index(times) == stored[Kind.TIME_INDEX]
