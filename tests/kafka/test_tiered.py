"""The remote segments of a broker (LocalTieredStorage) are its log, to us and to another broker.

Most of the topic is remote, under two leader epochs. What a consumer gets is what the Spark source
reads from the remote tree and the log directory together; of the tree alone a restore makes a log
that a fresh broker serves.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
import pytest
from broker import Broker, new_broker
from clients import Rdkafka, create_topic
from consumers import Received, consume_rdkafka
from tally import compared
from test_clone import OTTLA, broker_of, clone, free_ports
from test_mount_extent import RECORDS, RESTART, TIERED, local_start, wait_until
from test_mount_jobs import mount

from choosing import choose
from jobs.test_extent import JOBS
from ottla.errors import Severity
from ottla.log.files.partition import find_partitions
from tiered.whole import found_in

TOPIC = "remote"
SETTINGS = {
    "remote_storage_enable": "true",
    "local_retention_bytes": "1",
    "segment_bytes": "1048576",
    "retention_ms": "-1",
}


class Left(NamedTuple):
    """What a stopped broker left, and what consumers got of it before."""

    local: Path
    tree: Path
    received: list[Received]


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Left:
    folder = tmp_path_factory.mktemp("tiered")
    (folder / "remote").mkdir()
    broker = new_broker(folder, **TIERED, **{"rsm.config.dir": str(folder / "remote")})
    broker.start()
    create_topic(broker.bootstrap, TOPIC, **SETTINGS)
    Rdkafka(broker.bootstrap).send(TOPIC, RECORDS[:RESTART])
    broker.stop()
    broker.start()
    Rdkafka(broker.bootstrap).send(TOPIC, RECORDS[RESTART:])
    wait_until(lambda: local_start(broker, TOPIC) > RESTART)
    received = consume_rdkafka(broker.bootstrap, TOPIC, "read_uncommitted")
    broker.stop()
    return Left(broker.log_dir, folder / "remote", received)


def rows_of(records: list[Received]) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(each.offset, each.key, each.value) for each in records]


def test_the_tree_and_the_log_directory_are_the_log(left: Left, tmp_path: Path) -> None:
    assert [each.key for each in left.received] == [sent.key for sent in RECORDS]
    script, out = Path(__file__).parent / "read_remote.py", tmp_path / "rows"
    paths = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(script), str(out), str(left.tree), str(left.local)],
        env=os.environ | {"PYTHONPATH": paths, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    table = pq.read_table(out).sort_by("offset")
    found = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    assert found == rows_of(left.received)
    compared["records"] += len(found)


def test_verify_has_nothing_against_the_two(left: Left) -> None:
    rows = found_in(left.tree, left.local)
    assert [row for row in rows if row["severity"] != Severity.NOTE] == []


def test_topics_shows_what_is_remote(left: Left) -> None:
    """As the broker's own metadata of remote storage has it."""
    (partition,) = find_partitions([left.tree])
    ends = [segment.base_offset for segment in partition.segments[1:]]
    command = [OTTLA, "topics", left.local, "--topic", TOPIC, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (row,) = map(json.loads, done.stdout.splitlines())
    first, last = row["partitions"][0]["remoteRange"]
    assert (first, row["configs"]["remote.storage.enable"]) == (0, "true")
    assert ends[-1] <= last < len(left.received)


def test_a_clone_of_the_tree_and_the_log_directory_has_all(left: Left, tmp_path: Path) -> None:
    port = free_ports(2)
    printed = clone([left.tree, left.local], tmp_path / "out", "--port", str(port))
    assert "only what these paths hold comes along" in " ".join(printed.split())
    made = broker_of(tmp_path / "out", 1, port)
    made.start()
    try:
        served = consume_rdkafka(made.bootstrap, TOPIC, "read_uncommitted")
    finally:
        made.stop()
    assert rows_of(served) == rows_of(left.received)
    compared["clones"] += 1


def test_a_fresh_broker_serves_what_was_restored_from_the_tree(left: Left, tmp_path: Path) -> None:
    (partition,) = find_partitions([left.tree])
    assert len(partition.segments) >= 3
    out = tmp_path / "out"
    JOBS["restore"](choose(left.tree), str(out))
    names = {path.name for path in (out / f"{TOPIC}-0").iterdir()}
    assert {"leader-epoch-checkpoint", "partition.metadata"} <= names
    broker: Broker = new_broker(tmp_path)
    broker.start()
    try:
        create_topic(broker.bootstrap, TOPIC, retention_ms="-1")
        broker.stop()
        mount(out / f"{TOPIC}-0", broker.log_dir / f"{TOPIC}-0")
        broker.start()
        served = consume_rdkafka(broker.bootstrap, TOPIC, "read_uncommitted")
    finally:
        broker.stop()
    assert len(served) > RESTART
    assert f"{len(served):020d}.snapshot" in names
    assert rows_of(served) == rows_of(left.received[: len(served)])
    compared["mounts"] += 1
