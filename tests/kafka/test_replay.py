"""Replaying the batches of a partition gives the broker's producer snapshots and aborts."""

from pathlib import Path

import pytest

from replay import differences

TAKEN = ("running", "stopped", "legacy")


@pytest.mark.parametrize("taken", TAKEN)
def test_a_replay_ends_with_the_producers_and_aborts_of_the_broker(
    logs: dict[str, Path], legacy_log: Path, taken: str
) -> None:
    log_dir = (logs | {"legacy": legacy_log})[taken]
    partitions = sorted(log_dir.glob("*-*/"))
    assert len(partitions) >= 10
    for partition in partitions:
        # A cleaned segment keeps the entry of a transaction whose records it lost, and loses the
        # markers that snapshots of before have counted.
        if not partition.name.startswith(("compacted-", "cleaned-")):
            assert differences(partition) == []
