"""Clones without a broker: what is made, what is told, what stays as it was."""

import json
import os
import pickle
import shutil
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from builders import Row, batch
from cli.here import run
from jobs.plain import records_of, tree
from log.generated import write_partition
from ottla.catalog.catalog import list_catalog
from ottla.engine.local import LocalEngine
from ottla.internal.image import Image
from ottla.internal.metadata import read_image
from ottla.internal.snapshot import SnapshotRecord, snapshot_name, write_snapshot
from ottla.jobs.clone import parts
from ottla.jobs.clone.backup import read_backup
from ottla.jobs.clone.plan import plan_clone
from ottla.jobs.clone.request import CloneRequest
from ottla.jobs.demo import make_logs
from ottla.jobs.read.internal_topics import read_partition
from ottla.jobs.replicas import standing_of
from ottla.jobs.run import run_output_job
from ottla.log.files import small_files
from ottla.log.files.partition import find_partitions
from ottla.options.choice import EVERY_PARTITION
from ottla.options.offsets import NO_LIMITS
from ottla.publish.job import job_name
from ottla.storage import copying
from ottla.storage.object_store import DEFAULT_OPTIONS

ORDERS_ID = "Zk3vQ1cJS0uW0Yq2yH8n4g"
SOUND = ("--exclude", "payments", "--engine", "local")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clone") / "kafka-logs"
    make_logs(str(folder))
    return folder


def clone(*words: object) -> list[dict[str, Any]]:
    ran = run("clone", *words, "--json")
    assert ran.status == 0, ran.err
    return [json.loads(line) for line in ran.out.splitlines()]


def notes(lines: list[dict[str, Any]]) -> str:
    return "\n".join(line["text"] for line in lines if line["type"] == "note")


def image_of(node: Path) -> Image:
    """The snapshot of a node, by the reader that other tests check against Kafka."""
    (partition,) = [
        each
        for each in find_partitions([str(node / "data")])
        if each.name.topic == "__cluster_metadata"
    ]
    image, errors = read_image(read_partition(partition))
    assert errors == []
    return image


def entries(image: Image, kind: str) -> list[dict[str, Any]]:
    return [entry.data for identity, entry in image.entries.items() if identity[0] == kind]


def properties(node: Path) -> dict[str, str]:
    lines = (node / "server.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


def test_a_clone_has_the_bytes_ids_and_configs_of_its_source(demo: Path, tmp_path: Path) -> None:
    before = tree(demo)
    lines = clone(demo, tmp_path / "out", *SOUND)
    data = tmp_path / "out" / "node-1" / "data"
    for name in ("orders-0", "orders-1", "orders-2", "users-0", "clicks-0", "__consumer_offsets-0"):
        logs = sorted((demo / name).glob("*.log"))
        assert [(data / name / log.name).read_bytes() for log in logs] == [
            log.read_bytes() for log in logs
        ]
        assert (data / name / "partition.metadata").read_bytes() == (
            demo / name / "partition.metadata"
        ).read_bytes()
    image = image_of(tmp_path / "out" / "node-1")
    topics = {each["name"]: each["topicId"] for each in entries(image, "TOPIC_RECORD")}
    assert topics["orders"] == ORDERS_ID
    assert "payments" not in topics
    configs = entries(image, "CONFIG_RECORD")
    assert {"retention.ms": "-1", "min.insync.replicas": "1"}.items() <= {
        each["name"]: each["value"] for each in configs if each["resourceName"] == "orders"
    }.items()
    meta = dict(
        line.split("=", 1) for line in (data / "meta.properties").read_text().splitlines()[2:]
    )
    assert "orders gets min.insync.replicas=1 instead of 2: " in notes(lines)
    (directory,) = {
        each for found in entries(image, "PARTITION_RECORD") for each in found["directories"]
    }
    assert (meta["node.id"], meta["directory.id"]) == ("1", directory)
    assert [line["start"] for line in lines if line["type"] == "commands"] == [
        [f"kafka-server-start.sh {tmp_path / 'out' / 'node-1' / 'server.properties'}"]
    ]
    assert tree(demo) == before


def test_a_new_leader_has_an_epoch_above_all_that_were(demo: Path, tmp_path: Path) -> None:
    clone(demo, tmp_path / "out", *SOUND)
    node = tmp_path / "out" / "node-1"
    for found in entries(image_of(node), "PARTITION_RECORD"):
        folder = node / "data" / f"{found['topicName']}-{found['partitionId']}"
        last = (folder / "leader-epoch-checkpoint").read_text().splitlines()[-1]
        assert found["leaderEpoch"] > int(last.split()[0])


def test_producer_ids_go_on_above_all_that_logs_know(demo: Path, tmp_path: Path) -> None:
    clone(demo, tmp_path / "out", *SOUND)
    (found,) = entries(image_of(tmp_path / "out" / "node-1"), "PRODUCER_IDS_RECORD")
    assert found["nextProducerId"] == 5000  # the demo's producers end at 4002; blocks are of 1000


def test_a_clone_is_its_users_alone_and_shares_no_file(demo: Path, tmp_path: Path) -> None:
    clone(demo, tmp_path / "out", *SOUND)
    out = tmp_path / "out"
    assert stat.S_IMODE(out.stat().st_mode) == 0o700
    files = [path for path in out.rglob("*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert {path.stat().st_nlink for path in files} == {1}


def test_three_nodes_have_what_they_are_assigned(demo: Path, tmp_path: Path) -> None:
    clone(demo, tmp_path / "out", *SOUND, "--node-ids", "4,5,6", "--replication", "2")
    nodes = {number: tmp_path / "out" / f"node-{number}" for number in (4, 5, 6)}
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "node-4",
        "node-5",
        "node-6",
    ]
    images = [image_of(node) for node in nodes.values()]
    assert images[0].entries == images[1].entries == images[2].entries
    led = set()
    for found in entries(images[0], "PARTITION_RECORD"):
        name = f"{found['topicName']}-{found['partitionId']}"
        assert len(found["replicas"]) == 2
        there = [number for number, node in nodes.items() if (node / "data" / name).exists()]
        assert sorted(found["replicas"]) == there
        first, second = (tree(nodes[number] / "data" / name) for number in there)
        assert first == second
        led.add(found["leader"])
    assert led == {4, 5, 6}
    ports = [properties(node)["listeners"] for node in nodes.values()]
    assert ports[1] == "PLAINTEXT://127.0.0.1:9094,CONTROLLER://127.0.0.1:9095"
    voters = "4@127.0.0.1:9093,5@127.0.0.1:9095,6@127.0.0.1:9097"
    assert {properties(node)["controller.quorum.voters"] for node in nodes.values()} == {voters}


def test_without_metadata_ids_come_from_partitions(demo: Path, tmp_path: Path) -> None:
    disks = shutil.copytree(demo, tmp_path / "disks")
    shutil.rmtree(disks / "__cluster_metadata-0")
    (disks / "users-0" / "partition.metadata").unlink()
    lines = clone(disks, tmp_path / "out", *SOUND)
    origins = {line["topic"]: line["origin"] for line in lines if line["type"] == "topic"}
    assert (origins["orders"], origins["users"]) == ("partition.metadata", "new")
    assert "no metadata of the cluster is here" in notes(lines)
    image = image_of(tmp_path / "out" / "node-1")
    features = {
        each["name"]: each["featureLevel"] for each in entries(image, "FEATURE_LEVEL_RECORD")
    }
    assert features == {"metadata.version": 25, "group.version": 1, "transaction.version": 2}


def test_a_renamed_topic_is_another_one_and_a_moment_cuts_it(demo: Path, tmp_path: Path) -> None:
    words = ["--topic", "orders", "--rename", "orders=orders-before", "--to", "@1760000100000"]
    lines = clone(demo, tmp_path / "out", *words, "--keep", "acls", "--engine", "local")
    (topic,) = [line for line in lines if line["type"] == "topic"]
    assert topic["topic"] == "orders-before"
    assert topic["topicId"] != ORDERS_ID
    data = tmp_path / "out" / "node-1" / "data"
    names = sorted(path.name for path in data.iterdir() if path.is_dir())
    assert names == ["__cluster_metadata-0", *(f"orders-before-{at}" for at in range(3))]
    kept = records_of(data / "orders-before-0")
    assert kept
    assert all(record[1] < 1760000100000 for record in kept)
    assert "__consumer_offsets stays behind" in notes(lines)
    assert "orders becomes orders-before: groups keep their offsets" in notes(lines)
    assert "StandardAuthorizer" in properties(tmp_path / "out" / "node-1")["authorizer.class.name"]


def replica(folder: Path, *batches: tuple[int, int], damaged: bool = False) -> None:
    """A partition t-0 whose batches are (offset, epoch)."""
    data = b"".join(batch([Row(at, 1000)], leader_epoch=epoch) for at, epoch in batches)
    if damaged:
        data = data[:-1] + bytes([data[-1] ^ 1])
    write_partition(folder, "t-0", 0, data)
    (folder / "t-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {ORDERS_ID}")


@pytest.mark.parametrize(
    ("others", "best", "told"),
    [
        pytest.param([[(0, 0)], [(0, 0), (1, 0)]], 1, "is behind: it lacks 1 records", id="behind"),
        pytest.param(
            [[(0, 0), (1, 0), (2, 0)], [(0, 0), (1, 3)]],
            1,
            "parts at offset 1, in epoch 0 where others have 3: 2 records of it stay behind",
            id="unclean",
        ),
    ],
)
def test_the_best_replica_is_taken_and_the_others_told(
    tmp_path: Path, others: list[list[tuple[int, int]]], best: int, told: str
) -> None:
    folders = [tmp_path / f"broker-{at}" for at in range(len(others))]
    for folder, batches in zip(folders, others, strict=True):
        replica(folder, *batches)
    lines = clone(*folders, tmp_path / "out", "--engine", "local")
    assert told in notes(lines)
    made = tmp_path / "out" / "node-1" / "data" / "t-0" / f"{0:020d}.log"
    assert made.read_bytes() == (folders[best] / "t-0" / made.name).read_bytes()


def test_of_equal_replicas_an_intact_one_is_taken(tmp_path: Path) -> None:
    batches = [(at, 0) for at in range(9)]
    replica(tmp_path / "a", *batches, (9, 0), damaged=False)
    middle = bytearray((tmp_path / "a" / "t-0" / f"{0:020d}.log").read_bytes())
    replica(tmp_path / "b", *batches, (9, 0))
    middle[len(middle) // 2] ^= 1  # not the end: that a broker would cut off
    (tmp_path / "a" / "t-0" / f"{0:020d}.log").write_bytes(middle)
    lines = clone(tmp_path / "a", tmp_path / "b", tmp_path / "out", "--engine", "local")
    assert f"{tmp_path}/a/t-0 is damaged: the batch at " in notes(lines)
    made = tmp_path / "out" / "node-1" / "data" / "t-0" / f"{0:020d}.log"
    assert made.read_bytes() == (tmp_path / "b" / "t-0" / made.name).read_bytes()


def test_what_a_broker_would_delete_or_miss_is_told(demo: Path, tmp_path: Path) -> None:
    disks = shutil.copytree(demo, tmp_path / "disks")
    shutil.move(disks / "orders-1", disks / "orders-1.0123456789abcdef0123456789abcdef-delete")
    (disks / "clicks-0" / "partition.metadata").write_text(
        "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    )
    lines = clone(disks, tmp_path / "out", *SOUND, "--dry-run")
    told = notes(lines)
    assert "orders has 3 partitions, and no directory of 1 is here: made empty" in told
    assert "-delete is marked as delete: it stays behind" in told
    assert "clicks-0 is of another topic clicks" in told
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "out.ottla").exists()
    clone(disks, tmp_path / "out", *SOUND)
    empty = tmp_path / "out" / "node-1" / "data" / "orders-1"
    assert (empty / f"{0:020d}.log").stat().st_size == 0
    assert ORDERS_ID in (empty / "partition.metadata").read_text()


def test_a_damaged_partition_is_refused_or_salvaged(demo: Path, tmp_path: Path) -> None:
    refused = run("clone", demo, tmp_path / "out", "--engine", "local")
    assert refused.status == 1
    assert "payments-0" in refused.err
    assert not (tmp_path / "out").exists()
    words = ["--salvage", "--engine", "local", "--nodes", "2", "--json"]
    ran = run("clone", demo, tmp_path / "out", *words)
    assert ran.status == 1
    assert "payments-0 is salvaged: " in ran.out
    alone = run("salvage", demo, tmp_path / "alone", "--topic", "payments", "--engine", "local")
    assert alone.status == 1
    expected = tree(tmp_path / "alone" / "payments-0")
    for node in ("node-1", "node-2"):
        assert tree(tmp_path / "out" / node / "data" / "payments-0") == expected
    cut = run("clone", demo, tmp_path / "cut", "--salvage", "--to", "5")
    assert (cut.status, "what is salvaged is not cut; leave --from and --to out" in cut.err) == (
        2,
        True,
    )


def test_two_ids_of_one_name_need_metadata_to_choose(tmp_path: Path) -> None:
    replica(tmp_path / "a", (0, 0))
    replica(tmp_path / "b", (0, 0))
    (tmp_path / "b" / "t-0" / "partition.metadata").write_text(
        "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    )
    ran = run("clone", tmp_path / "a", tmp_path / "b", tmp_path / "out")
    assert ran.status == 2
    assert "are of two topics named t" in ran.err


SECRETS = [
    SnapshotRecord(
        "USER_SCRAM_CREDENTIAL_RECORD",
        0,
        {
            "name": "alice",
            "mechanism": 1,
            "salt": "c2FsdA==",
            "storedKey": "a2V5",
            "serverKey": "a2V5",
            "iterations": 4096,
        },
    ),
    SnapshotRecord(
        "CONFIG_RECORD",
        0,
        {"resourceType": 4, "resourceName": "1", "name": "ssl.key.password", "value": "hunter2"},
    ),
    SnapshotRecord("DELEGATION_TOKEN_RECORD", 0, {"owner": "User:alice", "tokenId": "token"}),
    SnapshotRecord(
        "ACCESS_CONTROL_ENTRY_RECORD",
        0,
        {"id": ORDERS_ID, "resourceType": 2, "resourceName": "t", "principal": "User:alice"},
    ),
    SnapshotRecord(
        "CLIENT_QUOTA_RECORD",
        0,
        {
            "entity": [{"entityType": "user", "entityName": "alice"}],
            "key": "producer_byte_rate",
            "value": 1e6,
            "remove": False,
        },
    ),
]


@pytest.mark.parametrize(
    ("keep", "kept"),
    [
        pytest.param([], 0, id="default"),
        pytest.param(["--keep", "acls,quotas"], 2, id="rights"),
        pytest.param(["--keep", "scram,broker-configs,tokens,acls,quotas"], 5, id="all"),
    ],
)
def test_secrets_stay_behind_unless_they_are_named(
    tmp_path: Path, keep: list[str], kept: int
) -> None:
    replica(tmp_path / "disk", (0, 0))
    folder = tmp_path / "disk" / "__cluster_metadata-0"
    folder.mkdir()
    feature = {"name": "metadata.version", "featureLevel": 30}
    topic = {"name": "t", "topicId": ORDERS_ID}
    records = [
        SnapshotRecord("FEATURE_LEVEL_RECORD", 0, feature),
        SnapshotRecord("TOPIC_RECORD", 0, topic),
        *SECRETS,
    ]
    (folder / snapshot_name(99, 7)).write_bytes(write_snapshot(records, 7, 1000))
    lines = clone(tmp_path / "disk", tmp_path / "out", "--engine", "local", *keep)
    image = image_of(tmp_path / "out" / "node-1")
    found = [each for each in SECRETS if entries(image, each.type)]
    assert len([each for each in found if each.type != "CONFIG_RECORD"]) == max(
        0, kept - (kept == 5)
    )
    assert ("ssl.key.password" in str(image.entries)) == (kept == 5)
    assert ("1 record of scram stays behind" in notes(lines)) == (kept < 5)
    assert b"hunter2" not in (tmp_path / "out" / "node-1" / "server.properties").read_bytes()


def test_a_second_run_goes_on_with_the_same_ids(demo: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    request = CloneRequest(exclude=("payments",), node_ids=(1, 2))

    def plan() -> Any:
        return plan_clone(list_catalog([str(demo)]), EVERY_PARTITION, NO_LIMITS, out, request)

    first = plan()

    def fail(*_: object) -> Any:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        run_output_job(LocalEngine(quiet=True), replace(first.job, close=fail))
    assert not os.path.exists(out)
    staged = {path.name for path in Path(f"{out}.ottla").rglob("*.log")}
    second = plan()
    assert second.cluster == first.cluster
    run_output_job(LocalEngine(quiet=True), second.job)
    assert staged
    assert image_of(tmp_path / "out" / "node-1").entries
    again = run_output_job(LocalEngine(quiet=True), plan().job)
    assert sum(row["writtenRecords"] for row in again) > 48_000


def test_a_second_run_may_name_out_in_another_way(
    demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [*SOUND, "--rename", "users=people", "--json"]

    def fail(*_: object) -> Any:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patches:
        patches.chdir(tmp_path)
        patches.setattr(parts, "close_cluster", fail)
        assert run("clone", demo, "out", *words).status != 0
    begun = sum(each.name == "partition.metadata" for each in staged_targets(tmp_path))
    assert not (tmp_path / "out").exists()
    clone(demo, tmp_path / "out", *words[:-1])
    node = tmp_path / "out" / "node-1"
    ids = {each["name"]: each["topicId"] for each in entries(image_of(node), "TOPIC_RECORD")}
    assert begun
    for name, topic_id in ids.items():
        for each in (node / "data").glob(f"{name}-[0-9]*/partition.metadata"):
            assert topic_id in each.read_text()
    (meta,) = (node / "data").glob("meta.properties")
    placed = {
        one for each in entries(image_of(node), "PARTITION_RECORD") for one in each["directories"]
    }
    assert all(f"directory.id={one}" in meta.read_text() for one in placed)
    assert f"log.dirs={node / 'data'}" in (node / "server.properties").read_text()


def staged_targets(folder: Path) -> list[Path]:
    """What parts that are finished will be published as."""
    found = []
    for path in (folder / "out.ottla").rglob("*.json"):
        finished = json.loads(path.read_bytes())
        found += [Path(file["target"]) for file in finished.get("files", [])]
    return found


def test_what_stays_behind_does_not_travel_to_tasks(tmp_path: Path) -> None:
    replica(tmp_path / "disk", (0, 0))
    write_metadata(tmp_path / "disk", TOPIC_T, *SECRETS)
    out = str(tmp_path / "out")
    catalog = list_catalog([str(tmp_path / "disk")])
    plan = plan_clone(catalog, EVERY_PARTITION, NO_LIMITS, out, CloneRequest())
    travelled: list[bytes] = []

    def close(job: Any, part: Any) -> Any:
        travelled.append(pickle.dumps(part))
        return parts.close_part(job, part)

    run_output_job(LocalEngine(quiet=True), replace(plan.job, close=close))
    assert any(ORDERS_ID.encode() in each for each in travelled)
    for secret in (b"hunter2", b"storedKey", b"tokenId", b"alice"):
        assert not any(secret in each for each in travelled)


@pytest.mark.parametrize(
    ("version", "features"),
    [
        pytest.param("4.3", {"group.version": 1, "transaction.version": 2, "share.version": 1}),
        pytest.param("4.0", {"group.version": 1, "transaction.version": 2}),
        pytest.param("3.9", {}),
    ],
)
def test_an_older_metadata_version_has_no_later_features(
    tmp_path: Path, version: str, features: dict[str, int]
) -> None:
    replica(tmp_path / "disk", (0, 0))
    own = {"metadata.version": 30, "group.version": 1, "transaction.version": 2, "share.version": 1}
    records = [
        SnapshotRecord("FEATURE_LEVEL_RECORD", 0, {"name": name, "featureLevel": level})
        for name, level in own.items()
    ]
    write_metadata(tmp_path / "disk", *records, TOPIC_T)
    words = ["--engine", "local", "--metadata-version", version]
    lines = clone(tmp_path / "disk", tmp_path / "out", *words)
    image = image_of(tmp_path / "out" / "node-1")
    found = {each["name"]: each["featureLevel"] for each in entries(image, "FEATURE_LEVEL_RECORD")}
    assert found.pop("metadata.version") <= 30
    assert found == features
    assert ("share.version 1 of it stays behind" in notes(lines)) == (version != "4.3")


def test_records_that_an_older_metadata_version_does_not_know_are_refused(tmp_path: Path) -> None:
    replica(tmp_path / "disk", (0, 0))
    write_metadata(tmp_path / "disk", TOPIC_T, *SECRETS)
    words = ["--keep", "scram", "--metadata-version", "3.4"]
    ran = run("clone", tmp_path / "disk", tmp_path / "out", *words)
    assert ran.status == 2
    assert "metadata version 3.4-IV0 knows no scram" in ran.err


def test_what_only_remote_storage_has_is_told_and_counts(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    write_partition(disk, "t-0", 5, batch([Row(5)]))
    (disk / "t-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {ORDERS_ID}")
    (disk / "log-start-offset-checkpoint").write_text("0\n1\nt 0 2\n")
    ran = run("clone", disk, tmp_path / "out", "--engine", "local", "--json")
    assert ran.status == 1, ran.err
    told = notes([json.loads(line) for line in ran.out.splitlines()])
    assert f"{disk}/t-0 has offsets 2 to 4 in remote storage only: 3 offsets of them" in told
    kept = records_of(tmp_path / "out" / "node-1" / "data" / "t-0")
    assert [record[0] for record in kept] == [5]


@pytest.mark.parametrize("policy", ["compact,delete", " compact , delete "])
def test_policies_are_read_as_kafka_reads_lists(tmp_path: Path, policy: str) -> None:
    replica(tmp_path / "disk", (0, 0))
    write_metadata(tmp_path / "disk", TOPIC_T, config_of("t", "cleanup.policy", policy))
    told = notes(clone(tmp_path / "disk", tmp_path / "out", "--engine", "local", "--dry-run"))
    assert "retention.bytes=-1 for 1 topic, " in told
    assert "1 topic is compacted" in told


def test_transactional_ids_do_not_expire(demo: Path, tmp_path: Path) -> None:
    clone(demo, tmp_path / "out", *SOUND)
    found = properties(tmp_path / "out" / "node-1")
    most = str(2**31 - 1)
    assert found["transactional.id.expiration.ms"] == most
    assert found["transaction.remove.expired.transaction.cleanup.interval.ms"] == most


def test_a_log_without_epochs_has_none(tmp_path: Path) -> None:
    write_partition(tmp_path, "t-0", 0, batch([Row(0)], leader_epoch=-1))
    (partition,) = find_partitions([str(tmp_path)])
    assert standing_of(partition, DEFAULT_OPTIONS).epoch == -1


def test_an_out_with_anything_in_it_is_refused(demo: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("precious")
    ran = run("clone", demo, tmp_path / "out", *SOUND)
    assert ran.status == 2
    assert "mine is in the way" in ran.err
    assert tree(tmp_path / "out") == {"mine": b"precious"}


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--node-ids", "1,1"], "each is one number"),
        (["--node-ids", "1,x"], "numbers with commas"),
        (["--nodes", "2", "--node-ids", "1"], "--nodes says 2"),
        (["--replication", "2"], "2 replicas need as many nodes"),
        (["--cluster-id", "x"], "is no cluster id"),
        (["--metadata-version", "2.8"], "is no metadata version"),
        (["--keep", "everything"], "nothing is called 'everything'"),
        (["--host", "a b"], "is no name or address"),
        (["--host", "0.0.0.0"], "is no address that clients can be told"),
        (["--port", "65535"], "leaves no room"),
        (["--exclude", "paiments"], "no topic paiments"),
        (["--rename", "nobody=x"], "no such topic among what is cloned"),
        (["--rename", "orders=a/b"], "is no name for a topic"),
        (["--rename", "orders=users"], "two topics would get the same name"),
        (["--topic", "nobody"], "no topic nobody"),
    ],
)
def test_wrong_wishes_are_refused_before_any_work(
    demo: Path, tmp_path: Path, flags: list[str], said: str
) -> None:
    ran = run("clone", demo, tmp_path / "out", *flags)
    assert (ran.status, ran.out) == (2, "")
    assert said in ran.err
    assert not (tmp_path / "out").exists()


def write_metadata(disk: Path, *records: SnapshotRecord) -> None:
    folder = disk / "__cluster_metadata-0"
    folder.mkdir(exist_ok=True)
    feature = {"name": "metadata.version", "featureLevel": 25}
    every = [SnapshotRecord("FEATURE_LEVEL_RECORD", 0, feature), *records]
    (folder / snapshot_name(99, 7)).write_bytes(write_snapshot(every, 7, 1000))


def config_of(topic: str, name: str, value: str) -> SnapshotRecord:
    data = {"resourceType": 2, "resourceName": topic, "name": name, "value": value}
    return SnapshotRecord("CONFIG_RECORD", 0, data)


def partition_of(number: int, epoch: int) -> SnapshotRecord:
    nodes = {"replicas": [1], "isr": [1], "removingReplicas": [], "addingReplicas": []}
    epochs = {"leader": 1, "leaderEpoch": epoch, "partitionEpoch": 0}
    data = {"partitionId": number, "topicId": ORDERS_ID, **nodes, **epochs}
    return SnapshotRecord("PARTITION_RECORD", 0, data)


TOPIC_T = SnapshotRecord("TOPIC_RECORD", 0, {"name": "t", "topicId": ORDERS_ID})


def test_a_topic_that_is_named_as_if_it_were_internal_is_a_users(tmp_path: Path) -> None:
    name = "__KafkaCruiseControlMetrics"
    rows = [Row(at, 1000, b"same key") for at in range(5)]
    write_partition(tmp_path / "disk", f"{name}-0", 0, b"".join(batch([row]) for row in rows))
    write_metadata(
        tmp_path / "disk",
        SnapshotRecord("TOPIC_RECORD", 0, {"name": name, "topicId": ORDERS_ID}),
    )
    lines = clone(tmp_path / "disk", tmp_path / "out", "--engine", "local", "--to", "2")
    (topic,) = [line for line in lines if line["type"] == "topic"]
    assert topic["configs"] == {"retention.ms": "-1", "retention.bytes": "-1"}
    kept = records_of(tmp_path / "out" / "node-1" / "data" / f"{name}-0")
    assert [record[0] for record in kept] == [0, 1]


@pytest.mark.parametrize(
    ("batches", "records", "said"),
    [
        pytest.param([(0, 2**31 - 1)], [], "t-0 has leader epoch 2147483647", id="epoch"),
        pytest.param(
            [(0, 0)],
            [TOPIC_T, partition_of(0, 2**31 - 1)],
            "t-0 has leader epoch 2147483647",
            id="epoch-of-metadata",
        ),
        pytest.param(
            [(0, 0)],
            [TOPIC_T, config_of("t", "segment.bytes", "1" * 5000)],
            "t has segment.bytes=11111111111111111111... (5000 digits)",
            id="config",
        ),
        pytest.param(
            [(0, 0)],
            [TOPIC_T, partition_of(3_000_000, 1)],
            "t would have 3000001 partitions, and directories of 1 are here",
            id="partitions",
        ),
    ],
)
def test_numbers_that_no_cluster_has_are_refused_before_any_work(
    tmp_path: Path, batches: list[tuple[int, int]], records: list[SnapshotRecord], said: str
) -> None:
    replica(tmp_path / "disk", *batches)
    if records:
        write_metadata(tmp_path / "disk", *records)
    ran = run("clone", tmp_path / "disk", tmp_path / "out", "--engine", "local")
    assert (ran.status, ran.out) == (2, "")
    assert said in ran.err
    assert "leave the topic out" in " ".join(ran.err.split())
    assert not (tmp_path / "out.ottla").exists()


def test_the_number_of_a_directory_is_not_believed(tmp_path: Path) -> None:
    replica(tmp_path / "disk", (0, 0))
    write_partition(tmp_path / "disk", "t-3000000", 0, batch([Row(0)]))
    ran = run("clone", tmp_path / "disk", tmp_path / "out", "--dry-run")
    assert ran.status == 2
    assert "t would have 3000001 partitions" in ran.err


@pytest.mark.parametrize(
    ("first", "flags", "said"),
    [
        pytest.param(
            batch([Row(0)], leader_epoch=2**31 - 1) + batch([Row(1)]),
            ["--to", "1"],
            "t-0 has leader epoch 2147483647",
            id="epoch-before-the-cut",
        ),
        pytest.param(
            batch([Row(0)], producer=(2**63 - 1, 0, 0)),
            [],
            "t-0 has producer id 9223372036854775807",
            id="producer",
        ),
    ],
)
def test_what_only_all_batches_tell_is_refused_before_it_is_published(
    tmp_path: Path, first: bytes, flags: list[str], said: str
) -> None:
    write_partition(tmp_path / "disk", "t-0", 0, first)
    write_partition(tmp_path / "disk", "t-0", 2, batch([Row(2)]))
    ran = run("clone", tmp_path / "disk", tmp_path / "out", "--engine", "local", *flags)
    assert ran.status == 2, ran.err
    assert said in ran.err
    assert not (tmp_path / "out").exists()


def test_the_last_block_of_producer_ids_is_given_out(tmp_path: Path) -> None:
    highest = 2**63 - 1 - 1000
    write_partition(tmp_path / "disk", "t-0", 0, batch([Row(0)], producer=(highest, 0, 0)))
    clone(tmp_path / "disk", tmp_path / "out", "--engine", "local")
    (found,) = entries(image_of(tmp_path / "out" / "node-1"), "PRODUCER_IDS_RECORD")
    assert highest < found["nextProducerId"] < 2**63


def test_side_files_that_no_broker_wrote_are_not_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica(tmp_path / "a", (0, 0), (1, 0))
    replica(tmp_path / "b", (0, 0))
    (tmp_path / "a" / "t-0" / "partition.metadata").unlink()
    (tmp_path / "b" / "t-0" / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n9 1\n")
    (tmp_path / "b" / "meta.properties").write_text(
        f"version=1\nnode.id=1\ncluster.id={ORDERS_ID}\n"
    )
    request = CloneRequest()

    def backup() -> Any:
        catalog = list_catalog([str(tmp_path / "a"), str(tmp_path / "b")])
        return read_backup(catalog, EVERY_PARTITION, request)

    def seen(found: Any) -> tuple[object, ...]:
        (topic,) = found.topics
        return topic.logs[0].partition.path, topic.topic_id, found.cluster_id

    assert seen(backup()) == (str(tmp_path / "b" / "t-0"), ORDERS_ID, ORDERS_ID)
    monkeypatch.setattr(small_files, "LIMIT", 10)
    assert seen(backup()) == (str(tmp_path / "a" / "t-0"), None, None)


def test_other_metadata_makes_another_job(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    replica(disk, (0, 0))

    def name() -> str:
        place = str(tmp_path / "out")
        plan = plan_clone(
            list_catalog([str(disk)]), EVERY_PARTITION, NO_LIMITS, place, CloneRequest()
        )
        return job_name(plan.job.inputs, plan.job.options)

    names = [name()]
    for value in ("1111", "2222"):
        write_metadata(disk, TOPIC_T, config_of("t", "max.message.bytes", value))
        names.append(name())
    (disk / "meta.properties").write_text(f"version=1\nnode.id=1\ncluster.id={ORDERS_ID}\n")
    names.append(name())
    assert len(set(names)) == 4
    assert name() == names[-1]


def test_the_address_of_a_host_is_told_as_clients_take_it(tmp_path: Path) -> None:
    replica(tmp_path / "disk", (0, 0))
    lines = clone(tmp_path / "disk", tmp_path / "out", "--engine", "local", "--host", "::1")
    (commands,) = [line for line in lines if line["type"] == "commands"]
    assert "--bootstrap-server [::1]:9092 " in commands["check"]


def test_a_kernel_that_copies_nothing_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "source").write_bytes(b"precious")
    monkeypatch.setattr(copying, "_shares_blocks", lambda *_: False)
    monkeypatch.setattr(os, "copy_file_range", lambda *_: 0)
    copying.copy_file(tmp_path / "source", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"precious"
