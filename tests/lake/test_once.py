"""Each record is in a table once, whatever happened to the table, which says what it has."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.utils.config import Config

import ottla
from builders import Row, batch
from choosing import choose
from jobs.topics import write_topic
from lake.readers import FORMATS, load_iceberg, orphans, read_table, records_of, written
from lake.remote import REGION, open_remote, read_remote, s3_environment
from log.generated import write_partition
from log.s3 import BUCKET, Server, s3_server
from ottla.engine.local import LocalEngine
from ottla.errors import OptionError, PublishError
from ottla.jobs.export.plan import plan_export
from ottla.jobs.output import OutputJob
from ottla.jobs.run import run_output_job
from ottla.options.export import ExportOptions, FileFormat
from ottla.publish.journal import open_journals
from ottla.storage.object_store import StorageOptions
from schemas.registries import framed, record, registered, write_registry, write_values

every_format = pytest.mark.parametrize("form", FORMATS)
# How the libraries say that somebody else was faster, or that nothing was heard.
REFUSALS = r"conflict|no answer|[Tt]ransaction|Requirement failed"
COMMITS: dict[str, tuple[Any, str]] = {
    "delta": (DeltaTable, "create_write_transaction"),
    "iceberg": (SqlCatalog, "commit_table"),
}
FIRST_ID, OTHER_ID = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"


def write_log(folder: Path, count: int, *, start: int = 0, topic_id: str | None = None) -> None:
    """A partition whose values tell their offsets and the id of the topic."""
    shutil.rmtree(folder / "logs/orders-0", ignore_errors=True)
    value = (topic_id or "none").encode()
    rows = [Row(at, 1000 + at, b"k", value) for at in range(start, count)]
    path = write_partition(folder / "logs", "orders-0", start, b"".join(batch([r]) for r in rows))
    if topic_id:
        (path.parent / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")


def add_segment(folder: Path, start: int, count: int) -> None:
    """More of it; the files that are there stay, and may still be read."""
    rows = [Row(at, 1000 + at, b"k", b"none") for at in range(start, count)]
    write_partition(folder / "logs", "orders-0", start, b"".join(batch([r]) for r in rows))


def export(folder: Path, form: str, **more: Any) -> None:
    ottla.open(folder / "logs").export(folder / "t", format=form, **more)


def offsets(folder: Path, form: str) -> list[int]:
    return [row[2] for row in records_of(read_table(folder / "t", form))]


def expire(path: Path, form: str) -> None:
    """Make a table forget all but its head."""
    if form == "iceberg":
        table = load_iceberg(path)
        keep = table.current_snapshot().snapshot_id
        old = [one.snapshot_id for one in table.snapshots() if one.snapshot_id != keep]
        table.maintenance.expire_snapshots().by_ids(old).commit()
        assert len(load_iceberg(path).snapshots()) == 1
        return
    table = DeltaTable(path)
    table.alter.set_table_properties({"delta.logRetentionDuration": "interval 0 days"})
    table.create_checkpoint()
    for file in (path / "_delta_log").glob("*.json"):
        os.utime(file, (0, 0))
    DeltaTable(path).cleanup_metadata()
    assert len(list((path / "_delta_log").glob("*.json"))) <= 1


def rewrite(path: Path, form: str) -> None:
    """A commit of somebody else, which tells nothing of offsets."""
    if form == "iceberg":
        table = load_iceberg(path)
        table.overwrite(table.scan().to_arrow())
    else:
        DeltaTable(path).optimize.compact()


@every_format
def test_a_table_whose_history_expired_goes_on(tmp_path: Path, form: str) -> None:
    for count in (10, 20):
        write_log(tmp_path, count)
        export(tmp_path, form)
    rewrite(tmp_path / "t", form)
    expire(tmp_path / "t", form)
    write_log(tmp_path, 30)
    for _ in range(2):
        export(tmp_path, form)
    assert offsets(tmp_path, form) == [*range(30)]


def test_who_rolls_iceberg_back_takes_the_state_back(tmp_path: Path) -> None:
    write_log(tmp_path, 10)
    export(tmp_path, "iceberg")
    snapshot = load_iceberg(tmp_path / "t").current_snapshot().snapshot_id
    write_log(tmp_path, 20)
    export(tmp_path, "iceberg")
    load_iceberg(tmp_path / "t").manage_snapshots().rollback_to_snapshot(snapshot).commit()
    assert offsets(tmp_path, "iceberg") == [*range(10)]
    for _ in range(2):
        export(tmp_path, "iceberg")
        assert offsets(tmp_path, "iceberg") == [*range(20)]


@every_format
def test_the_head_of_a_log_may_be_deleted(tmp_path: Path, form: str) -> None:
    write_log(tmp_path, 10, topic_id=FIRST_ID)
    export(tmp_path, form)
    write_log(tmp_path, 20, start=15, topic_id=FIRST_ID)
    export(tmp_path, form)
    assert offsets(tmp_path, form) == [*range(10), *range(15, 20)]


@every_format
@pytest.mark.parametrize("count", [5, 10, 15])
def test_a_topic_that_was_made_anew_is_refused_unless_told(
    tmp_path: Path, form: str, count: int
) -> None:
    write_log(tmp_path, 10, topic_id=FIRST_ID)
    export(tmp_path, form)
    write_log(tmp_path, count, topic_id=OTHER_ID)
    with pytest.raises(OptionError, match=f"{OTHER_ID}, was {FIRST_ID}.*recreated"):
        export(tmp_path, form)
    assert offsets(tmp_path, form) == [*range(10)]
    for _ in range(2):
        export(tmp_path, form, recreated=True)
        assert offsets(tmp_path, form) == sorted([*range(10), *range(count)])
    write_log(tmp_path, count + 5, topic_id=OTHER_ID)
    export(tmp_path, form)
    assert offsets(tmp_path, form) == sorted([*range(10), *range(count + 5)])


@every_format
def test_a_log_without_an_id_must_not_end_before_what_was_exported(
    tmp_path: Path, form: str
) -> None:
    write_log(tmp_path, 10)
    export(tmp_path, form)
    write_log(tmp_path, 5)
    with pytest.raises(OptionError, match="ends at offset 5"):
        export(tmp_path, form)
    export(tmp_path, form, recreated=True)
    assert offsets(tmp_path, form) == sorted([*range(10), *range(5)])


def test_the_state_can_be_read_by_all(tmp_path: Path) -> None:
    write_log(tmp_path, 10, topic_id=FIRST_ID)
    export(tmp_path, "delta")
    assert DeltaTable(tmp_path / "t").transaction_version(f"ottla/{FIRST_ID}/0") == 10
    shutil.rmtree(tmp_path / "t")
    export(tmp_path, "iceberg")
    table = load_iceberg(tmp_path / "t")
    summary = table.current_snapshot().summary.additional_properties
    for told in (table.properties, summary):
        assert told["ottla.offsets"] == '{"orders":{"0":10}}'
        assert told["ottla.topic-ids"] == f'{{"orders": "{FIRST_ID}"}}'


BROKEN = {
    "no JSON": "{",
    "a list": "[]",
    "no number": '{"orders":{"0":"x"}}',
    "a text": '{"o":"x"}',
}


@pytest.mark.parametrize("told", BROKEN.values(), ids=BROKEN)
def test_a_state_that_somebody_broke_is_refused(tmp_path: Path, told: str) -> None:
    write_log(tmp_path, 10)
    export(tmp_path, "iceberg")
    rewrite(tmp_path / "t", "iceberg")
    with load_iceberg(tmp_path / "t").transaction() as transaction:
        transaction.set_properties({"ottla.offsets": told})
    expire(tmp_path / "t", "iceberg")
    with pytest.raises(PublishError, match=r"ottla\.offsets .* is not as ottla writes it"):
        export(tmp_path, "iceberg")


@every_format
@pytest.mark.parametrize("grown", [False, True], ids=["the same job", "a log that grew"])
def test_of_two_exports_from_one_state_the_second_adds_nothing(
    tmp_path: Path, form: str, grown: bool
) -> None:
    write_log(tmp_path, 10)
    options = ExportOptions(format=FileFormat(form))
    plans = [plan_export(choose(tmp_path / "logs"), str(tmp_path / "t"), options)]
    if grown:
        add_segment(tmp_path, 10, 15)
    plans.append(plan_export(choose(tmp_path / "logs"), str(tmp_path / "t"), options))
    run_output_job(LocalEngine(), plans[0])
    if grown:
        with pytest.raises(PublishError, match="another export added"):
            run_output_job(LocalEngine(), plans[1])
    else:  # the files that it would add are in the table
        run_output_job(LocalEngine(), plans[1])
    assert offsets(tmp_path, form) == [*range(10)]
    if not grown:
        add_segment(tmp_path, 10, 15)
    export(tmp_path, form)
    assert offsets(tmp_path, form) == [*range(15)]
    assert orphans(tmp_path / "t", form) == set()


def lose_answer(monkeypatch: pytest.MonkeyPatch, form: str, *, applied: bool) -> None:
    """Let the next commit fail, after it was done or before."""
    owner, name = COMMITS[form]
    commit = getattr(owner, name)
    error: Exception = OSError("no answer")
    if form == "iceberg":
        error = CommitStateUnknownException() if applied else CommitFailedException("conflict")

    def lost(self: Any, *given: Any, **named: Any) -> None:
        if form == "delta" or self.table_exists(("ottla", "records")):
            if applied:
                commit(self, *given, **named)
            monkeypatch.undo()
            raise error
        return commit(self, *given, **named)

    monkeypatch.setattr(owner, name, lost)


@every_format
def test_a_commit_whose_answer_is_lost_counts(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_log(tmp_path, 10)
    lose_answer(monkeypatch, form, applied=True)
    export(tmp_path, form)
    export(tmp_path, form)
    assert offsets(tmp_path, form) == [*range(10)]


@every_format
@pytest.mark.parametrize("grown", [False, True], ids=["the same job", "a log that grew"])
def test_a_commit_that_fails_is_done_by_the_next_run(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch, grown: bool
) -> None:
    write_log(tmp_path, 10)
    lose_answer(monkeypatch, form, applied=False)
    with pytest.raises(PublishError, match=REFUSALS):
        export(tmp_path, form)
    assert orphans(tmp_path / "t", form) != set()
    if grown:
        write_log(tmp_path, 20)
    export(tmp_path, form)
    assert offsets(tmp_path, form) == [*range(20 if grown else 10)]
    assert orphans(tmp_path / "t", form) == set()
    assert open_journals(str(tmp_path / "t")) == []


def test_the_library_is_not_left_to_append_again(tmp_path: Path) -> None:
    """Somebody set the retries of pyiceberg back, which would add files to another head."""
    write_log(tmp_path, 10)
    export(tmp_path, "iceberg")
    with load_iceberg(tmp_path / "t").transaction() as transaction:
        transaction.set_properties({"commit.retry.num-retries": "4"})
    write_log(tmp_path, 20)
    export(tmp_path, "iceberg")
    assert load_iceberg(tmp_path / "t").properties["commit.retry.num-retries"] == "0"
    assert offsets(tmp_path, "iceberg") == [*range(20)]


@every_format
def test_files_that_an_older_state_has_are_left_alone(tmp_path: Path, form: str) -> None:
    """A journal that was not closed names files which only the history of the table has."""
    write_log(tmp_path, 10)
    export(tmp_path, form)
    (marked,) = (tmp_path / "t.ottla").glob("*/registered")
    marked.unlink()
    before = set((tmp_path / "t").rglob("*-*.parquet"))
    rewrite(tmp_path / "t", form)
    write_log(tmp_path, 20)
    export(tmp_path, form)
    assert before <= set((tmp_path / "t").rglob("*-*.parquet"))
    assert offsets(tmp_path, form) == [*range(20)]
    assert len(list((tmp_path / "t.ottla").iterdir())) <= 2


def test_columns_come_and_none_goes(tmp_path: Path) -> None:
    first = record("Order", ("id", "int"))
    second = record("Order", ("id", "int"), ("note", "string", "-"))
    third = record("Order", ("note", "string", "-"))
    versions = [
        registered("orders-value", at + 1, at + 1, one) for at, one in enumerate([first, second])
    ]
    values = [framed(1, first, {"id": 1}), framed(2, second, {"id": 2, "note": "b"})]
    for form in FORMATS:
        folder = tmp_path / form
        for count in (1, 2):
            write_registry(folder / "logs", versions[:count])
            write_values(folder / "logs", "orders", values[:count])
            for _ in range(2):
                export(folder, form, topic="orders", value_as="avro")
        rows = sorted(read_table(folder / "t", form).to_pylist(), key=lambda row: row["offset"])
        assert [row["value"]["id"] for row in rows] == [1, 2]
        assert rows[1]["value"]["note"] == "b"
        if form == "delta":
            assert DeltaTable(folder / "t").version() == 3  # created, added, a column, added
        write_registry(folder / "logs", [registered("orders-value", 3, 3, third)])
        write_values(folder / "logs", "orders", [*values, framed(3, third, {"note": "c"})])
        with pytest.raises(OptionError, match="has other columns"):
            export(folder, form, topic="orders", value_as="avro")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with s3_server() as running:
        for name, value in s3_environment(running, tmp_path).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())  # it was read long ago
        yield running


class Remote:
    """A table on the server."""

    def __init__(self, form: str, server: Server, folder: Path) -> None:
        self.where, flags = open_remote(form, folder)
        self.more = {"catalog": flags[-1]} if flags else {}
        self.options = ExportOptions(format=FileFormat(form), **self.more)
        self.storage = StorageOptions(server.endpoint, REGION)
        self.form, self.server, self.folder = form, server, folder

    def export(self, **more: Any) -> None:
        logs = self.folder / "logs"
        log = ottla.open(logs, endpoint=self.storage.endpoint, region=self.storage.region)
        log.export(self.where, "orders", format=self.form, **self.more, **more)

    def plan(self) -> OutputJob:
        return plan_export(
            choose(self.folder / "logs", storage=self.storage), self.where, self.options
        )

    def records(self) -> list[Any]:
        return records_of(read_remote(self.form, self.server, self.folder))

    def offsets(self) -> list[int]:
        return [row[2] for row in self.records()]


@every_format
def test_an_object_store_as_warehouse(tmp_path: Path, server: Server, form: str) -> None:
    topic = write_topic(tmp_path / "logs", "orders", partitions=2)
    remote = Remote(form, server, tmp_path)
    for end in (100, None, None):
        remote.export(end=end)
    assert remote.records() == written(topic)
    listed = server.client().list_objects_v2(Bucket=BUCKET, Prefix=tmp_path.name)["Contents"]
    assert not [each["Key"] for each in listed if "/staging/" in each["Key"]]


@every_format
def test_two_exports_at_once_to_an_object_store(tmp_path: Path, server: Server, form: str) -> None:
    """Nobody can lock it: what the second commits from is not any more so."""
    write_log(tmp_path, 10)
    remote = Remote(form, server, tmp_path)
    first = remote.plan()
    add_segment(tmp_path, 10, 15)
    second = remote.plan()
    run_output_job(LocalEngine(), first)
    with pytest.raises(PublishError, match="another export added"):
        run_output_job(LocalEngine(), second)
    remote.export()
    assert remote.offsets() == [*range(15)]


@every_format
def test_an_export_that_comes_between_the_look_and_the_commit(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """The library finds it: by a put on the condition that there is none, or by its catalog."""
    write_log(tmp_path, 5)
    remote = Remote(form, server, tmp_path)
    remote.export()
    write_log(tmp_path, 10)
    owner, name = COMMITS[form]
    commit = getattr(owner, name)

    def let_another_pass(self: Any, *given: Any, **named: Any) -> Any:
        monkeypatch.setattr(owner, name, commit)
        add_segment(tmp_path, 10, 12)
        remote.export()
        return commit(self, *given, **named)

    monkeypatch.setattr(owner, name, let_another_pass)
    with pytest.raises(PublishError, match=REFUSALS):
        remote.export()
    assert remote.offsets() == [*range(12)]
    remote.export()
    assert remote.offsets() == [*range(12)]
