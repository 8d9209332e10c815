"""From a store, planning asks for little, and tasks for each chunk once."""

import json
import logging
import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from builders import Row, batch
from log.s3 import BUCKET, Server, s3_server
from ottla.catalog.slices import Task, plan_tasks
from ottla.options.read import ReadOptions
from ottla.storage.kept import chunks
from tiered.encoder import KEYS, Mode, Upload, offset_index, stored_chunks, write_upload
from tiered.whole import options_of, read_tasks

GUIDE = Path(__file__).parents[2] / "docs" / "tiered.md"
CHUNK = 4 << 20  # the plugin's default
SPLIT = "16m"
FOLDER = "tiered-s3"  # servers of one process share their buckets
EACH, RECORD = 8, 8 << 10  # records of a batch and bytes of a record
COUNT = 1024  # batches of a segment: 64 MiB


class Bucket(NamedTuple):
    """A server with a segment of 64 MiB, and where its stored chunks begin and end."""

    server: Server
    key: str
    borders: list[int]


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    root = tmp_path_factory.mktemp("tiered-s3")
    path = write_upload(root, segment(), Mode(CHUNK, compress=True, key_id="key1"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        patch.setenv("AWS_REGION", "us-east-1")
        with s3_server() as server:
            for file in (one for one in root.rglob("*") if one.is_file()):
                key = f"{FOLDER}/{file.relative_to(root)}"
                server.client().put_object(Bucket=BUCKET, Key=key, Body=file.read_bytes())
            yield Bucket(server, f"/{BUCKET}/{FOLDER}/{path.relative_to(root)}", borders_of(path))


@cache
def segment() -> Upload:
    """Values that no codec makes smaller: as many batches as a chunk holds differ."""
    chance = random.Random(1)
    differing = [
        batch([Row(at, 0, None, chance.randbytes(RECORD)) for at in range(EACH)])
        for _ in range(CHUNK // (EACH * RECORD))
    ]
    # The CRC of a batch does not cover its first offset.
    batches = [
        (at * EACH).to_bytes(8, "big") + differing[at % len(differing)][8:] for at in range(COUNT)
    ]
    indexes = {"offset": offset_index(0, batches)}
    return Upload(0, b"".join(batches), 0, COUNT * EACH - 1, {0: 0}, [(0, 0)], indexes)


def borders_of(log: Path) -> list[int]:
    """By the frames that an encoder makes of the same bytes; seals do not change sizes."""
    told = json.loads(log.with_suffix(".rsm-manifest").read_text())
    sizes = map(len, stored_chunks(segment().log, Mode(CHUNK, compress=True, key_id="key1")))
    borders = [0]
    for size in sizes:
        borders.append(borders[-1] + size)
    assert borders[-1] == log.stat().st_size > 0.99 * told["chunkIndex"]["originalFileSize"]
    return borders


@pytest.fixture
def options(bucket: Bucket) -> ReadOptions:
    place = {"endpoint": bucket.server.endpoint, "splitBytes": SPLIT}
    return options_of(f"s3://{BUCKET}/{FOLDER}", **place)


@pytest.fixture
def tasks(bucket: Bucket, options: ReadOptions) -> list[Task]:
    bucket.server.reads.clear()
    return [*plan_tasks(options)]


def test_planning_asks_for_at_most_a_hundredth(bucket: Bucket, tasks: list[Task]) -> None:
    assert len(tasks) >= 4
    asked = sum(last - first + 1 for _, first, last in bucket.server.reads)
    assert asked <= bucket.borders[-1] // 100


def test_tasks_begin_where_chunks_do(tasks: list[Task]) -> None:
    starts = [part.start for task in tasks for part in task]
    assert all(start % CHUNK < 2 * EACH * RECORD for start in starts)


def test_no_task_fetches_a_chunk_twice_and_two_at_most_fetch_one(
    bucket: Bucket, tasks: list[Task], options: ReadOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_all: Counter[int] = Counter()
    rows = 0
    for task in tasks:
        monkeypatch.setattr(chunks, "_held", chunks._HeldChunks(64 << 20))  # another process
        bucket.server.reads.clear()
        rows += read_tasks([task], options).num_rows
        fetched: Counter[int] = Counter()
        for key, first, last in bucket.server.reads:
            if key == bucket.key:
                # One request for each chunk, of the whole of it.
                fetched[bucket.borders.index(first)] += 1
                assert last + 1 in bucket.borders
        assert max(fetched.values()) == 1
        by_all.update(fetched)
    assert rows == COUNT * EACH
    assert sorted(by_all) == list(range(len(bucket.borders) - 1))
    assert max(by_all.values()) <= 2
    assert sum(count == 2 for count in by_all.values()) <= len(tasks) - 1


def test_the_guide_restores_with_keys(bucket: Bucket, tmp_path: Path) -> None:
    """The commands of docs/tiered.md, with folders of this test."""
    (block,) = re.findall(r"^```sh\n(.*?)^```$", GUIDE.read_text(), re.M | re.S)
    places = {
        "/etc/ottla/keys": KEYS,
        "s3://bucket/tiered": f"s3://{BUCKET}/{FOLDER}",
        "/data/restored": tmp_path / "restored",
    }
    for named, ours in places.items():
        assert block.count(named) == 1
        block = block.replace(named, str(ours))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    known = {"PATH": path, "AWS_ENDPOINT_URL": bucket.server.endpoint}
    subprocess.run(["bash", "-eu", "-c", block], env=os.environ | known, check=True, cwd=tmp_path)
    (log,) = (tmp_path / "restored").glob("*/*.log")
    assert log.read_bytes() == segment().log
