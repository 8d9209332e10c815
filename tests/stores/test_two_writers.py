"""Two writers to one OUT in an object store, which has no locks: each meets the other anywhere."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import boto3
import pytest

from builders import Row, batch
from choosing import choose
from ottla.batch.convert import Conversion
from ottla.engine.local import LocalEngine
from ottla.errors import OptionError, PublishError
from ottla.format.attributes import Codec
from ottla.jobs.finish import finish_journals, give_up_journal
from ottla.jobs.rewrite.convert import plan_convert
from ottla.jobs.run import run_output_job
from ottla.publish.checked import StagedFile
from ottla.publish.job import Job
from ottla.publish.journal import (
    commit,
    committed_journals,
    is_committed,
    is_published,
    new_staged_name,
    open_journals,
    publish,
    run_job,
    settle,
    staged_path,
    waiting_journals,
)
from ottla.storage import files, listing, object_store, retries, writing
from ottla.storage.conditional_put import put_if_absent
from ottla.storage.files import read_bytes
from ottla.storage.listing import exists, list_files
from ottla.storage.object_store import StorageOptions
from ottla.storage.writing import write_file
from stores.conftest import Stores
from stores.servers import Store

BASE = "s3://moto-logs/two-writers"
FIRST = {"t-0/0.log": b"first", "t-1/0.log": b""}
SECOND = {"t-0/0.log": b"other"}  # in a place of the first, and of the same size


class KilledError(BaseException):
    """What ends a writer as a kill does: it asks the store for nothing any more."""


FAILURES = (OptionError, PublishError, OSError, KilledError)


@pytest.fixture(scope="module")
def store(stores: Stores) -> Iterator[Store]:
    with pytest.MonkeyPatch.context() as patch:
        # Each session reads boto3's descriptions of services anew, which takes most of the time.
        patch.setattr(boto3.session, "Session", cache(boto3.session.Session))
        yield stores["moto"]


@pytest.fixture
def options(store: Store) -> StorageOptions:
    return store.options


def stage(job: Job, files: dict[str, bytes]) -> list[StagedFile]:
    found = []
    for target, data in files.items():
        name = new_staged_name(target)
        write_file(staged_path(job, name), data, job.storage)
        found.append(StagedFile(name, target, len(data)))
    return found


def content(out: str, options: StorageOptions) -> dict[str, bytes]:
    if not exists(out, options):
        return {}
    skip = len(out) + 1
    return {entry.path[skip:]: read_bytes(entry, options) for entry in list_files(out, options)}


@contextmanager
def interrupted(at: int, other: Callable[[], None]) -> Iterator[list[int]]:
    """Before a request of the block another does its work; it may also kill who asked."""
    numbers = count()
    met: list[int] = []
    killed: list[KilledError] = []
    turn = threading.Lock()

    def before() -> None:
        with turn:
            is_turn = not met and next(numbers) == at
            met.extend([at] * is_turn)
        try:
            if is_turn:
                other()
        except KilledError as error:
            killed.append(error)
        if killed:
            raise killed[0]

    def asking(ask: Callable[..., Any]) -> Callable[..., Any]:
        def asked(*arguments: Any, **named: Any) -> Any:
            before()
            return ask(*arguments, **named)

        return asked

    with pytest.MonkeyPatch.context() as patch:
        for module in (listing, writing, files, object_store):
            patch.setattr(module, "send", asking(retries.send))
        patch.setattr(writing, "put_if_absent", asking(put_if_absent))
        yield met


def kill() -> None:
    raise KilledError


def attempt(work: Callable[[], None]) -> bool:
    """Whether it was done."""
    try:
        work()
    except FAILURES:
        return False
    return True


def run(job: Job, files: list[StagedFile]) -> None:
    commit(job, files, [])
    publish(job)


def moments(step: int = 1) -> Iterator[tuple[int, str]]:
    """Requests that may be the one; the test says when there are no more."""
    for at in range(0, 200, step):
        yield at, BASE
    raise AssertionError("too many requests")


def check_settled(out: str, options: StorageOptions, *done: tuple[Job, dict[str, bytes]]) -> None:
    """What was done is in OUT and nothing else is, and nothing waits."""
    assert open_journals(out, options) == []
    expected: dict[str, bytes] = {}
    for job, written in done:
        assert is_published(job)
        expected |= written
    assert content(out, options) == expected


def test_another_settles_at_any_moment_of_a_commit(options: StorageOptions) -> None:
    outcomes = set()
    for at, bucket in moments():
        out = f"{bucket}/settles-{at}"
        job = Job(out, "first", options)
        staged = stage(job, FIRST)

        def settles(out: str = out) -> None:
            settle(out, options, running="second")

        with interrupted(at, settles) as met:
            done = attempt(lambda job=job, files=staged: run(job, files))  # type: ignore[misc]
        finish_journals(out, options)
        check_settled(out, options, *([(job, FIRST)] if done else []))
        outcomes.add(done)
        if not met:
            break
    assert outcomes == {True, False}
    assert at > 20


def test_another_publishes_at_any_moment_of_a_commit(options: StorageOptions) -> None:
    """One of the two is done and the other one fails, also where both mean the same place."""
    outcomes = set()
    for at, bucket in moments():
        out = f"{bucket}/publishes-{at}"
        first, second = Job(out, "first", options), Job(out, "second", options)
        staged = stage(first, FIRST)
        others: list[bool] = []

        def publishes(second: Job = second, others: list[bool] = others) -> None:
            def work() -> None:
                with run_job(second.out, second.name, options) as job:
                    run(job, stage(job, SECOND))

            others.append(attempt(work))

        with interrupted(at, publishes) as met:
            done = attempt(lambda job=first, files=staged: run(job, files))  # type: ignore[misc]
        if not met:
            break
        assert sorted([done, *others]) == [False, True]
        finish_journals(out, options)
        check_settled(out, options, (first, FIRST) if done else (second, SECOND))
        outcomes.add(done)
    assert outcomes == {True, False}


def test_the_first_commits_at_any_moment_of_another_that_settles(options: StorageOptions) -> None:
    outcomes = set()
    for at, bucket in moments():
        out = f"{bucket}/commits-{at}"
        job = Job(out, "first", options)
        staged = stage(job, FIRST)
        done: list[bool] = []

        def commits(
            job: Job = job, files: list[StagedFile] = staged, done: list[bool] = done
        ) -> None:
            done.append(attempt(lambda: run(job, files)))

        with interrupted(at, commits) as met:
            settle(out, options, running="second")
        if not met:
            break
        finish_journals(out, options)
        check_settled(out, options, *([(job, FIRST)] if done == [True] else []))
        outcomes.update(done)
    assert outcomes == {True, False}


@pytest.mark.parametrize("who", ["who commits", "who settles"])
def test_one_of_two_is_killed_at_any_moment(options: StorageOptions, who: str) -> None:
    """The other one, or whoever comes next, finds all of the output or nothing."""
    outcomes = set()
    for at, bucket in moments():
        out = f"{bucket}/killed-{who[4:]}-{at}".replace(" ", "-")
        job = Job(out, "first", options)
        staged = stage(job, FIRST)
        with interrupted(at, kill) as met:
            if who == "who commits":
                attempt(lambda job=job, files=staged: run(job, files))  # type: ignore[misc]
            else:
                attempt(lambda out=out: settle(out, options, running="second"))  # type: ignore[misc]
        if who == "who commits":
            settle(out, options, running="second")
            done = is_published(job)
        else:
            # What is left is no commit to anybody.
            assert waiting_journals(out, options) == committed_journals(out, options) == []
            assert not is_committed(job)
            done = attempt(lambda job=job, files=staged: run(job, files))  # type: ignore[misc]
            finish_journals(out, options)
        check_settled(out, options, *([(job, FIRST)] if done else []))
        outcomes.add(done)
        if not met:
            break
    assert outcomes == {True, False}


def test_a_job_begins_anew_after_it_was_half_discarded(options: StorageOptions) -> None:
    for at, bucket in moments():
        out = f"{bucket}/anew-{at}"
        stage(Job(out, "first", options), {"t-9/0.log": b"of the run before"})
        with interrupted(at, kill) as met:
            attempt(lambda out=out: settle(out, options))  # type: ignore[misc]
        if not met:
            break
        with run_job(out, "first", options) as job:
            run(job, stage(job, FIRST))
        check_settled(out, options, (job, FIRST))


def test_what_another_published_is_not_replaced_by_what_has_its_size(
    options: StorageOptions,
) -> None:
    """Both have committed, as an older version let them."""
    out = f"{BASE}/both"
    first, second = Job(out, "first", options), Job(out, "second", options)
    for job, given in ((first, FIRST), (second, SECOND)):
        commit(job, stage(job, given), [])
    publish(first)
    with pytest.raises(PublishError, match=r"t-0/0.log is in the way"):
        publish(second)
    assert content(out, options) == FIRST
    assert open_journals(out, options) == ["second"]


def test_of_two_conversions_that_end_at_once_one_is_done(
    options: StorageOptions, tmp_path: Path
) -> None:
    """Both have begun when nothing was staged, and mean the same places."""
    logs = tmp_path / "logs" / "t-0"
    logs.mkdir(parents=True)
    (logs / f"{0:020d}.log").write_bytes(batch([Row(number, number) for number in range(9)]))
    outcomes = set()
    for at, bucket in moments(step=5):
        out = f"{bucket}/conversions-{at}"

        def convert(codec: Codec, out: str = out) -> None:
            chosen = choose(str(logs.parent), storage=options)
            plan = plan_convert(chosen, out, Conversion(magic=2, codec=codec), {})
            run_output_job(LocalEngine(quiet=True), plan)

        others: list[bool] = []

        def second(others: list[bool] = others, convert: Callable[..., None] = convert) -> None:
            others.append(attempt(lambda: convert(Codec.GZIP)))

        with interrupted(at, second) as met:
            done = attempt(lambda convert=convert: convert(Codec.ZSTD))  # type: ignore[misc]
        if not met:
            break
        assert sorted([done, *others]) == [False, True]
        outcomes.add(done)
        finish_journals(out, options)
        assert open_journals(out, options) == []
    assert outcomes == {True, False}


def test_a_journal_is_given_up_while_its_process_commits(options: StorageOptions) -> None:
    for at, bucket in moments():
        out = f"{bucket}/given-up-{at}"
        job = Job(out, "first", options)
        staged = stage(job, FIRST)
        done: list[bool] = []

        def commits(
            job: Job = job, files: list[StagedFile] = staged, done: list[bool] = done
        ) -> None:
            done.append(attempt(lambda: run(job, files)))

        with interrupted(at, commits) as met:
            attempt(lambda out=out: give_up_journal(out, "first", options) and None)  # type: ignore[misc,func-returns-value]
        if not met:
            break
        assert content(out, options) == (FIRST if done == [True] else {})


def test_a_commit_of_an_older_version_counts(options: StorageOptions) -> None:
    """It names no claim."""
    out = f"{BASE}/older"
    job = Job(out, "j", options)
    (file,) = stage(job, {"t-0/0.log": b"log"})
    text = '{"version": 1, "files": [{"staged": "%s", "target": "t-0/0.log", "size": 3}]}'
    write_file(job.path("commit.json"), (text % file.staged).encode(), options)
    assert waiting_journals(out, options) == ["j"]
    settle(out, options)
    check_settled(out, options, (job, {"t-0/0.log": b"log"}))
