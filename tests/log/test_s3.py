"""Log directories in a bucket, read and written through a real S3 protocol on loopback."""

import json
import logging
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from builders import Row, batch
from cli.command import run
from log.generated import random_log
from log.s3 import BUCKET, Server, s3_server
from ottla.errors import PublishError, Severity
from ottla.jobs.finish import finish_journals
from ottla.log.check.summary import combine, summarize
from ottla.log.files.partition import find_partitions
from ottla.log.read.windows import read_windows
from ottla.log.salvage.write import write_salvage
from ottla.publish.account import read_account
from ottla.publish.checked import StagedFile
from ottla.publish.job import Job
from ottla.publish.journal import (
    commit,
    finished_partitions,
    is_published,
    new_staged_name,
    open_journals,
    publish,
    run_job,
    settle,
    staged_path,
)
from ottla.storage import listing, retries
from ottla.storage.files import File, _Remote, open_file, read_bytes
from ottla.storage.listing import list_files
from ottla.storage.object_store import StorageOptions
from ottla.storage.writing import create_file, move_files, open_whole, write_file
from whole_log import check_partition, plan_salvage

PARTITIONS, SEGMENTS = 20, 12


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        patch.setenv("AWS_REGION", "us-east-1")
        with s3_server() as running:
            yield running


@pytest.fixture(scope="module")
def options(server: Server) -> StorageOptions:
    return StorageOptions(endpoint=server.endpoint)


@pytest.fixture(scope="module")
def uploaded(server: Server) -> int:
    """Pinterest's layout: several hundred plain segments under a prefix; how many bytes."""
    client = server.client()
    bases = [number * 1000 for number in range(SEGMENTS)]
    logs = [b"".join(random_log(base, count=15, base=base, gaps=False)) for base in bases]
    for partition in range(PARTITIONS):
        folder = f"up/ab12/cluster/orders.eu-{partition}"
        for base, data in zip(bases, logs, strict=True):
            client.put_object(Bucket=BUCKET, Key=f"{folder}/{base:020d}.log", Body=data)
            client.put_object(Bucket=BUCKET, Key=f"{folder}/{base:020d}.index", Body=b"")
    return PARTITIONS * sum(map(len, logs))


def asked_for(server: Server) -> tuple[int, int]:
    """Bytes that were asked for, and bytes that were asked for again."""
    by_key = defaultdict(list)
    for key, first, last in server.reads:
        by_key[key].append((first, last + 1))
    total = again = 0
    for spans in by_key.values():
        reached = 0
        for first, stop in sorted(spans):
            total += stop - first
            again += max(0, min(stop, reached) - first)
            reached = max(reached, stop)
    return total, again


def test_planning_reads_no_payload(server: Server, options: StorageOptions, uploaded: int) -> None:
    server.reads.clear()
    partitions = find_partitions([f"s3a://{BUCKET}/up"], options)
    assert len(partitions) == PARTITIONS
    assert {str(partition.name) for partition in partitions} == {
        f"orders.eu-{number}" for number in range(PARTITIONS)
    }
    logs = [segment.log for partition in partitions for segment in partition.segments]
    assert sum(log.size for log in logs) == uploaded
    assert len(logs) == PARTITIONS * SEGMENTS
    assert asked_for(server)[0] <= uploaded // 100


def test_reading_asks_for_every_byte_once(
    server: Server, options: StorageOptions, uploaded: int
) -> None:
    partitions = find_partitions([f"s3://{BUCKET}/up"], options)
    server.reads.clear()
    read = 0
    for partition in partitions:
        for segment in partition.segments:
            with open_file(segment.log, options) as file:
                read += sum(int(window.batches.size.sum()) for window in read_windows(file))
    assert read == uploaded
    assert asked_for(server) == (uploaded, 0)


def test_a_listing_asks_for_no_byte_twice(server: Server, options: StorageOptions) -> None:
    large = b"".join(
        batch([Row(n, n, None, np.random.default_rng(n).bytes(300_000))]) for n in range(9)
    )
    write_file(f"s3://{BUCKET}/big/t-0/{0:020d}.log", large, options)
    (partition,) = find_partitions([f"s3://{BUCKET}/big"], options)
    server.reads.clear()
    whole = combine([summary for _, summary in summarize(partition, options)])
    assert (whole.last_offset, whole.problems) == (8, [])
    total, again = asked_for(server)
    assert again == 0
    assert total <= len(large)


def test_a_partition_in_a_bucket_is_checked_and_salvaged(
    server: Server, options: StorageOptions
) -> None:
    parts = [batch([Row(n, n)]) for n in range(50)]
    parts[20] = parts[20][:-1] + b"\xff"
    source = f"s3://{BUCKET}/damaged/t-0/{0:020d}.log"
    write_file(source, b"".join(parts), options)
    (partition,) = find_partitions([f"s3://{BUCKET}/damaged"], options)
    rules = [violation.rule for violation in check_partition(partition, options)]
    assert rules == ["crc-matches", "offset-gap"]
    out = f"s3://{BUCKET}/salvaged"
    with run_job(out, "j", options) as job:
        finished = write_salvage(partition, plan_salvage(partition, options), job, options, None)
        commit(job, finished.files, [finished.account])
        publish(job)
    (clean,) = find_partitions([out], options)
    found = list(check_partition(clean, options))
    assert [one for one in found if one.rule.severity is not Severity.NOTE] == []
    written = read_bytes(clean.segments[0].log, options)
    assert written == b"".join(parts[:20] + parts[21:])
    assert open_journals(out, options) == []


def test_an_object_that_vanishes_is_named(server: Server, options: StorageOptions) -> None:
    uri = f"s3://{BUCKET}/gone/t-0/{0:020d}.log"
    write_file(uri, b"x" * 100, options)
    (entry,) = list_files(f"s3://{BUCKET}/gone", options)
    server.client().delete_object(Bucket=BUCKET, Key=f"gone/t-0/{0:020d}.log")
    with (
        pytest.raises(FileNotFoundError, match="vanished between listing and reading"),
        open_file(entry, options) as file,
    ):
        file.read_into(np.empty(100, dtype=np.uint8), 0, 100)


class Replaced:
    """A file system on which the first file closes itself, and the next one is another."""

    def __init__(self) -> None:
        self.opened = 0

    def open_input_file(self, key: str) -> pa.NativeFile:
        self.opened += 1
        file = pa.BufferReader(b"x" * 100 if self.opened == 1 else b"y" * 200)
        return Closed(file) if self.opened == 1 else file


class Closed:
    """Knows its size, and can not be read."""

    def __init__(self, file: pa.NativeFile) -> None:
        self.size, self.close = file.size, file.close

    def read_at(self, size: int, position: int) -> bytes:
        raise ValueError("operation on closed file")


def test_an_object_that_was_replaced_before_it_was_opened_again_is_found(
    options: StorageOptions,
) -> None:
    uri = f"s3://{BUCKET}/replaced/t-0/{0:020d}.log"
    write_file(uri, b"y" * 200, options)
    source = _Remote(Replaced(), "key", uri, options)
    with (
        pytest.raises(OSError, match=f"^{uri} was replaced"),
        File(uri, source.size, source) as file,
    ):
        file.read_into(np.empty(100, dtype=np.uint8), 0, 100)


def test_a_prefix_that_vanishes_while_others_are_listed_is_no_error(
    server: Server, options: StorageOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, keys = server.client(), [f"vanishing/t-{number}/0.log" for number in range(3)]
    for key in keys:
        client.put_object(Bucket=BUCKET, Key=key, Body=b"x")
    list_below = listing._list_below

    def list_late(uri: str, prefix: str, *rest: Any, **named: Any) -> list[listing.Folder]:
        if prefix.endswith("t-1"):
            client.delete_object(Bucket=BUCKET, Key=keys[1])
        return list_below(uri, prefix, *rest, **named)

    monkeypatch.setattr(listing, "_list_below", list_late)
    folders, _ = listing.list_folders(f"s3://{BUCKET}/vanishing", options)
    assert [folder.path for folder in folders] == [
        f"s3://{BUCKET}/vanishing/t-{number}" for number in (0, 2)
    ]


def test_nothing_under_a_prefix_is_an_error(options: StorageOptions) -> None:
    with pytest.raises(FileNotFoundError, match="no such object or prefix"):
        list_files(f"s3://{BUCKET}/nothing", options)


def test_of_two_commits_to_a_bucket_the_first_counts(options: StorageOptions) -> None:
    uri = f"s3://{BUCKET}/once/commit.json"
    assert create_file(uri, b"first", options)
    assert not create_file(uri, b"second", options)
    assert read_bytes(uri, options) == b"first"


def test_a_commit_without_credentials_is_sent_unsigned(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    public = {"Effect": "Allow", "Principal": "*", "Action": "s3:*", "Resource": "*"}
    client = server.client()
    client.create_bucket(Bucket="public")
    client.put_bucket_policy(Bucket="public", Policy=json.dumps({"Statement": [public]}))
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    anonymous = StorageOptions(endpoint=server.endpoint, anonymous=True)
    uri = "s3://public/jobs/commit.json"
    assert create_file(uri, b"first", anonymous)
    assert not create_file(uri, b"second", anonymous)


@pytest.mark.parametrize("committed", [True, False])
def test_an_open_journal_in_a_bucket_is_settled(options: StorageOptions, committed: bool) -> None:
    out = f"s3://{BUCKET}/journal-{committed}"
    with run_job(out, "j", options) as job:
        staged = new_staged_name("0.log")
        write_file(staged_path(job, staged), b"log", options)
        if committed:
            commit(job, [StagedFile(staged, "t-0/0.log", 3)], [])
    settle(out, options)
    assert open_journals(out, options) == []
    assert is_published(job) == committed
    if committed:
        assert read_bytes(f"{out}/t-0/0.log", options) == b"log"


def test_a_commit_lists_what_is_there_as_a_whole(server: Server, options: StorageOptions) -> None:
    """However many partitions OUT has: a stream commits again and again."""
    listed = []
    for out, count in ((f"s3://{BUCKET}/few", 2), (f"s3://{BUCKET}/many", 40)):
        for partition in range(count):
            write_file(f"{out}/t-{partition}/0.log", b"log", options)
        with run_job(out, "j", options) as job:
            files = []
            for partition in range(count):
                staged = new_staged_name("1.log")
                write_file(staged_path(job, staged), b"log", options)
                files.append(StagedFile(staged, f"t-{partition}/1.log", 3))
            server.listed.clear()
            commit(job, files, [])
            publish(job)
            listed.append(len(server.listed))
        assert len(list_files(out, options)) == 2 * count
    assert listed[1] == listed[0] < 20


def test_a_read_tells_of_a_commit_in_a_bucket_and_leaves_it(
    server: Server,
    options: StorageOptions,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.endpoint)
    client = server.client()
    client.create_bucket(Bucket=f"{BUCKET}.ottla")  # anybody may own it
    client.put_object(Bucket=f"{BUCKET}.ottla", Key="job/commit.json", Body=b"{}")
    client.put_object(Bucket=BUCKET, Key="alone/orders-0/00000000000000000000.log", Body=b"")
    out = f"s3://{BUCKET}/alone"
    for path in (out, f"s3://{BUCKET}"):
        run("ls", path)
        assert "waiting" not in capsys.readouterr().err
    write_file(f"{out}.ottla/j/commit.json", b"{}", options)
    run("ls", f"{out}/orders-0")
    assert f"a commit is waiting in {out}.ottla/j" in capsys.readouterr().err
    assert read_bytes(f"{out}.ottla/j/commit.json", options) == b"{}"
    journal = client.get_object(Bucket=f"{BUCKET}.ottla", Key="job/commit.json")
    assert journal["Body"].read() == b"{}"


PLANTED = {
    "target-above": {"target": "../victim/0.log"},
    "target-of-another-bucket": {"target": "s3://other/t-0/0.log"},
    "target-of-no-job": {"target": "t-0/index.html"},
    "staged-above": {"staged": "../../../victim/0.log"},
    "another-size": {"size": 4},
}


@pytest.mark.parametrize("fields", PLANTED.values(), ids=PLANTED)
def test_a_commit_in_a_bucket_that_no_job_wrote_is_not_published(
    options: StorageOptions, fields: dict[str, object], request: pytest.FixtureRequest
) -> None:
    folder = f"s3://{BUCKET}/{request.node.callspec.id}"
    write_file(f"{folder}/victim/0.log", b"old", options)
    job = Job(f"{folder}/out", "planted", options)
    write_file(staged_path(job, "f"), b"new", options)
    file = {"staged": "f", "target": "t-0/0.log", "size": 3} | fields
    content = json.dumps({"version": 1, "files": [file], "account": []}).encode()
    write_file(job.path("commit.json"), content, options)
    before = [(entry.path, entry.size) for entry in list_files(folder, options)]
    with pytest.raises(PublishError):
        settle(job.out, options)
    (row,) = finish_journals(job.out, options)
    assert row["action"] == "refused"
    assert [(entry.path, entry.size) for entry in list_files(folder, options)] == before


def test_an_account_of_a_stranger_in_a_bucket_is_refused(options: StorageOptions) -> None:
    job = Job(f"s3://{BUCKET}/stranger/out", "j", options)
    for content in ({}, {"account": 1}, {"account": [{}]}, {"account": [{"topic": []}]}):
        write_file(job.path("account.json"), json.dumps(content).encode(), options)
        with pytest.raises(PublishError, match="holds no account"):
            read_account(job)
    for text in (b"[]", b"{}", b'{"files": [], "account": 3}', b'{"files": 1, "account": {}}'):
        write_file(job.path("finished", "t-0.json"), text, options)
        with pytest.raises(PublishError, match=r"t-0\.json"):
            finished_partitions(job)


def test_a_whole_bucket_is_not_written_to(options: StorageOptions) -> None:
    with (
        pytest.raises(PublishError, match="name a folder in it"),
        run_job(f"s3://{BUCKET}", "job", options),
    ):
        pass


@pytest.fixture
def lost_copies(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A store that says that it copied."""
    monkeypatch.setattr(retries, "_FIRST_WAIT", 0.001)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.endpoint)
    server.loses_copies = True
    yield
    server.loses_copies = False


@pytest.mark.usefixtures("lost_copies")
def test_what_was_not_copied_is_not_deleted(options: StorageOptions) -> None:
    source, target = f"s3://{BUCKET}/lost/from.log", f"s3://{BUCKET}/lost/to.log"
    write_file(source, b"log", options)
    with pytest.raises(retries.StoreError, match="0 of 3 bytes were copied"):
        move_files([(source, target)], options)
    assert read_bytes(source, options) == b"log"
    write_file(target, b"lo", options)
    with pytest.raises(retries.StoreError, match="2 of 3 bytes were copied"):
        move_files([(source, target)], options)
    assert read_bytes(source, options) == b"log"


@pytest.mark.usefixtures("lost_copies")
def test_a_file_that_does_not_get_its_name_leaves_nothing(options: StorageOptions) -> None:
    write_file(f"s3://{BUCKET}/pages/other", b"", options)
    page = f"s3://{BUCKET}/pages/page.html"
    with pytest.raises(retries.StoreError, match="0 of 5 bytes"), open_whole(page) as stream:
        stream.write(b"whole")
    assert [entry.path for entry in list_files(f"s3://{BUCKET}/pages", options)] == [
        f"s3://{BUCKET}/pages/other"
    ]


def test_files_are_published_to_a_bucket_beside_each_other(
    server: Server, options: StorageOptions
) -> None:
    """A store answers each request after a while, however many others wait for theirs."""
    count = 40
    with run_job(f"s3://{BUCKET}/beside", "j", options) as job:
        files = []
        for partition in range(count):
            staged = new_staged_name("0.log")
            write_file(staged_path(job, staged), b"log %d" % partition, options)
            files.append(StagedFile(staged, f"t-{partition}/0.log", 5 + (partition > 9)))
        commit(job, files, [])
        server.copies.clear()
        publish(job)
    assert max(server.copies) > 4
    assert sum(server.copies.values()) == count + 1  # and the journal
    written = {entry.path: read_bytes(entry, options) for entry in list_files(job.out, options)}
    assert written == {f"{job.out}/{file.target}": b"log %d" % n for n, file in enumerate(files)}
