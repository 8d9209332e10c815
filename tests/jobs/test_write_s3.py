"""The sink's files on an object store, where nothing can be changed in place or locked."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.plain import records_of
from jobs.test_write import Rows, expected, some_rows, stage
from log.s3 import BUCKET, Server, s3_server
from ottla.jobs.write.commit import begin_writing, commit_rows, save_job
from ottla.options.write import WriteOptions, parse_write_options
from ottla.publish.journal import open_journals

OUT = f"s3://{BUCKET}/out"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with s3_server() as running:
        yield running


def save(options: WriteOptions, tasks: list[Rows]) -> None:
    writing = begin_writing(options)
    job = save_job(writing.options)
    commit_rows(job, writing, stage(job, writing, tasks))


def test_rows_are_appended_on_an_object_store(server: Server, tmp_path: Path) -> None:
    given = {"path": OUT, "endpoint": server.endpoint, "region": "us-east-1", "codec": "zstd"}
    options = parse_write_options(given)
    first, second = some_rows(1, 60), some_rows(2, 80)
    save(options, [first[:30], first[30:]])
    save(options, [second[:50], second[50:]])
    assert open_journals(OUT, options.storage) == []
    client = server.client()
    for entry in client.list_objects_v2(Bucket=BUCKET, Prefix="out/")["Contents"]:
        target = tmp_path / entry["Key"]
        target.parent.mkdir(parents=True, exist_ok=True)
        client.download_file(BUCKET, entry["Key"], str(target))
    for partition in range(2):
        found = records_of(tmp_path / "out" / f"t-{partition}")
        assert found == expected(first + second, partition)
