"""Many partitions and segments: what is done before a record is read, and after the last."""

import pickle
import sys
import threading
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path

import pytest
from benchmarks.bench_scale import (
    JOBS_LEAST,
    LEAST,
    MOST_BYTES,
    MOST_RATIO,
    compare_jobs,
    compare_listing,
)
from benchmarks.trees import make_tree, partition_name

from cli.here import run
from log.s3 import BUCKET, s3_server
from ottla.catalog.slices import pack_task, plan_tasks, unpack_task
from ottla.log.files import contents
from ottla.log.files.partition import find_partitions
from ottla.options.read import ReadOptions, for_batch, parse_read_options
from ottla.storage.listing import list_files, list_folders
from ottla.storage.object_store import StorageOptions

PARTITIONS, SEGMENTS = 350, 4
FILES = 4 * SEGMENTS + 2  # log, two indexes and a snapshot of each segment, epochs and topic id


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tree(tmp_path_factory.mktemp("scale") / "logs", PARTITIONS, SEGMENTS)


def read_options(path: object) -> ReadOptions:
    return for_batch(parse_read_options({"path": str(path)}))


def test_a_packed_folder_says_what_its_files_are(tree: Path) -> None:
    folders, there = list_folders(tree)
    assert sorted(there) == sorted(map(str, tree.iterdir()))
    for folder in folders[:3]:
        found = {path.name: path.stat() for path in Path(folder.path).iterdir()}
        assert {Path(entry.path).name for entry in folder.entries()} == found.keys()
        for entry in folder.entries():
            status = found[Path(entry.path).name]
            listed = (entry.size, entry.modified_ns, entry.inode)
            assert listed == (status.st_size, status.st_mtime_ns, status.st_ino)
    assert len(list_files(tree)) == PARTITIONS * FILES
    (again,) = pickle.loads(pickle.dumps(folders[:1]))
    assert again.entries() == folders[0].entries()


def test_a_packed_file_takes_a_tenth_of_an_entry(tree: Path) -> None:
    folders, _ = list_folders(tree)
    held = sum(sys.getsizeof(each.names) + sys.getsizeof(each.numbers) for each in folders)
    assert held / (PARTITIONS * FILES) < 80


def test_what_is_parsed_is_let_go(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "_MOST_FILES", 10 * FILES)
    partitions = find_partitions([tree])
    parsed = contents._PARSED
    for partition in partitions:
        assert len(partition.segments) == SEGMENTS
        assert parsed.held <= 10 * FILES
        assert parsed.held == sum(map(len, parsed.contents))
    assert partitions[0].segments == find_partitions([tree])[0].segments


def test_threads_may_parse_at_once(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "_MOST_FILES", 3 * FILES)
    partitions, wrong = find_partitions([tree]), []

    def ask() -> None:
        wrong.extend(each for each in partitions if len(each.segments) != SEGMENTS)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert contents._PARSED.held == sum(map(len, contents._PARSED.contents))


def test_small_segments_share_tasks_that_travel_light(tree: Path) -> None:
    tasks = [*plan_tasks(read_options(tree))]
    assert sum(map(len, tasks)) == PARTITIONS * SEGMENTS
    assert len(tasks) <= PARTITIONS * SEGMENTS / 64 + 1
    packed = [pack_task(task) for task in tasks]
    assert [unpack_task(each) for each in packed] == tasks
    assert sum(len(each.data) for each in packed) < 100 * PARTITIONS * SEGMENTS


def test_ls_prints_tables_as_they_fill(tree: Path) -> None:
    """Each with its titles, the last with the total: no row is lost or told twice."""
    ran = run("ls", tree, "--segments")
    lines = ran.out.splitlines()
    titles = [at for at, line in enumerate(lines) if line.startswith("PARTITION")]
    rows = PARTITIONS * (SEGMENTS + 1)
    assert titles == [0, 1001]
    assert len(lines) == rows + len(titles) + 1
    assert lines[-1].startswith(f"{PARTITIONS} partitions")
    names = [line.split()[0] for line in lines if line.startswith("topic-")]
    assert sorted(names) == sorted(partition_name(number) for number in range(PARTITIONS))
    assert len(run("ls", tree, "--segments", "--json").out.splitlines()) == rows


@pytest.fixture(scope="module")
def bucket() -> Iterator[StorageOptions]:
    with pytest.MonkeyPatch.context() as patch, s3_server() as server:
        patch.setenv("AWS_ACCESS_KEY_ID", "user")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "none")
        client = server.client()
        for key in (f"logs/t-{number}/{name}" for number in range(40) for name in NAMES):
            client.put_object(Bucket=BUCKET, Key=key, Body=b"")
        client.put_object(Bucket=BUCKET, Key="logs/meta.properties", Body=b"version=0\n")
        client.put_object(Bucket=BUCKET, Key="logs/deep/er/t-0/a", Body=b"a")
        yield StorageOptions(endpoint=server.endpoint, region="us-east-1")


NAMES = ("00000000000000000000.log", "00000000000000000000.index")


def test_prefixes_of_a_bucket_are_listed_beside_each_other(bucket: StorageOptions) -> None:
    path_of = attrgetter("path")
    folders, _ = list_folders(f"s3://{BUCKET}/logs", bucket)
    found = sorted((each for folder in folders for each in folder.entries()), key=path_of)
    assert found == list_files(f"s3://{BUCKET}/logs", bucket)
    keys = [f"t-{number}/{name}" for number in range(40) for name in NAMES]
    wanted = sorted([*keys, "meta.properties", "deep/er/t-0/a"])
    assert [*map(path_of, found)] == [f"s3://{BUCKET}/logs/{key}" for key in wanted]


@pytest.mark.soak
def test_a_million_segments_are_listed_and_planned_in_a_gigabyte() -> None:
    for what, (small, large) in compare_listing(LEAST):
        assert large.cpu <= MOST_RATIO * small.cpu, (what, small, large)
        assert large.peak <= MOST_BYTES, (what, large)


@pytest.mark.soak
def test_jobs_of_twenty_thousand_partitions_are_planned_and_committed() -> None:
    for what, (small, large) in compare_jobs(JOBS_LEAST):
        assert large.cpu <= MOST_RATIO * small.cpu, (what, small, large)
