"""Staging, commit and publishing of new files: OUT is always the old or the new state.

A broker refuses to start when a log directory holds a folder that is not a partition. So OUT holds
partition directories and nothing else; all that a job needs lies in the sibling `OUT.ottla/JOB/`:

    lock              held by the processes that work on the job, on a local disk
    staging/          files under names that no other attempt uses
    finished/K.json   partition K is staged: its files and its account
    quarantine/       what a job left out
    commit.json       every file and its place in OUT; to write it is the commit point
    published.json    the same file, renamed when all are in place: the journal is closed

A journal without `published.json` is open. Publishing is idempotent: whoever meets an open journal
finishes it if it was committed and discards it if not.
"""

import fcntl
import hashlib
import json
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ottla.errors import PublishError
from ottla.object_store import DEFAULT_OPTIONS, StorageOptions
from ottla.storage import (
    Entry,
    create_file,
    delete_file,
    delete_tree,
    exists,
    is_remote,
    join,
    list_files,
    local_path,
    move_files,
    read_bytes,
    write_file,
)

_COMMIT: Final = "commit.json"
_PUBLISHED: Final = "published.json"
_STAGING: Final = "staging"
_FINISHED: Final = "finished"
_LOCK: Final = "lock"

_held: dict[str, int] = {}  # descriptors of the locks that `hold` took, by path


class StagedFile(NamedTuple):
    """A file under `staging` and the place below OUT that it is for.

    Appending never touches what is there, so a target that exists is an error, except where
    `replaces` says that the file is a new version (a leader epoch checkpoint that grew).
    """

    staged: str
    target: str
    size: int
    replaces: bool = False


class FinishedPartition(NamedTuple):
    """What one partition staged, and its row of the job's account."""

    files: list[StagedFile]
    account: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Job:
    """Where a job stages and what it publishes to; travels to tasks."""

    out: str
    name: str
    storage: StorageOptions = DEFAULT_OPTIONS

    @property
    def folder(self) -> str:
        return join(journal_folder(self.out), self.name)

    def path(self, *names: str) -> str:
        """A path in the job's folder."""
        return join(self.folder, *names)


def journal_folder(out: str) -> str:
    """The sibling of OUT that holds all that is not a partition.

    >>> journal_folder("/data/restored/")
    '/data/restored.ottla'
    """
    if not has_siblings(out):
        raise PublishError(f"{out} can not be written to as a whole: name a folder in it")
    return f"{out.rstrip('/')}.ottla"


def has_siblings(out: str) -> bool:
    """Whether there is room beside OUT; what has the name of a bucket and more is another's.

    >>> has_siblings("s3://backup"), has_siblings("s3://backup/logs"), has_siblings("/")
    (False, True, False)
    """
    path = out.rstrip("/")
    return "/" in path.partition("://")[2] if is_remote(out) else path != ""


def job_name(inputs: Iterable[Entry], options: Mapping[str, object]) -> str:
    """A hash of the input as it is now and of the options: the same job has the same name."""
    snapshot = sorted((entry.path, entry.size, entry.modified_ns) for entry in inputs)
    text = json.dumps([snapshot, sorted(options.items())], default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


@contextmanager
def run_job(out: str, name: str, storage: StorageOptions = DEFAULT_OPTIONS) -> Iterator[Job]:
    """Settle what other jobs left, then begin this one or go on where it was killed.

    On a local disk the job is locked while the block runs, so that nobody takes it for a dead one.
    """
    job = Job(out, name, storage)
    with _locked(job) as mine:
        if not mine:
            raise PublishError(f"another process is running this job: {job.folder}")
        settle(out, storage, running=name)
        if exists(job.path(_PUBLISHED), storage):
            _forget_if_taken_away(job)
        elif exists(job.path(_COMMIT), storage):
            publish(job)
        yield job


@contextmanager
def scratch_job(out: str, storage: StorageOptions = DEFAULT_OPTIONS) -> Iterator[Job]:
    """A job that publishes nothing: what it stages goes with it, and other jobs are left alone."""
    job = Job(out, f"scratch-{uuid.uuid4().hex}", storage)
    with _locked(job):
        try:
            yield job
        finally:
            discard(job)
    if not is_remote(out):
        with suppress(OSError):  # other jobs are in there
            os.rmdir(local_path(journal_folder(out)))


def _forget_if_taken_away(job: Job) -> None:
    """Let a job run again when what it published is no longer there."""
    files = _files(json.loads(read_bytes(job.path(_PUBLISHED), job.storage)))
    there = _published_sizes(job, files)
    if any(file.target not in there for file in files):
        delete_file(job.path(_PUBLISHED), job.storage)


def is_published(job: Job) -> bool:
    """Whether the job was done before, and what it wrote is still there."""
    return exists(job.path(_PUBLISHED), job.storage)


def is_committed(job: Job) -> bool:
    """Whether it is decided what the job publishes; it may have done so."""
    return is_published(job) or exists(job.path(_COMMIT), job.storage)


def new_staged_name(target: str) -> str:
    """A name under `staging` for one attempt at a file."""
    return f"{uuid.uuid4().hex}-{os.path.basename(target)}"


def staged_path(job: Job, staged: str) -> str:
    """Where a task writes a staged file."""
    return job.path(_STAGING, staged)


def mark_finished(job: Job, partition: str, finished: FinishedPartition) -> None:
    """Say that a partition is staged whole, so that a second run need not do it again."""
    content = {"files": [file._asdict() for file in finished.files], "account": finished.account}
    write_file(job.path(_FINISHED, f"{partition}.json"), _encode(content), job.storage)


def finished_partitions(job: Job) -> dict[str, FinishedPartition]:
    """The partitions that an earlier run of this job staged, whole."""
    if not exists(job.path(_FINISHED), job.storage):
        return {}
    found = {}
    for entry in list_files(job.path(_FINISHED), job.storage):
        partition, extension = os.path.splitext(os.path.basename(entry.path))
        if extension == ".json":
            content = json.loads(read_bytes(entry, job.storage))
            found[partition] = FinishedPartition(_files(content), content["account"])
    return found


def commit(job: Job, files: Sequence[StagedFile], account: Sequence[Mapping[str, Any]]) -> None:
    """Decide what the job publishes, once; whoever comes later follows the first."""
    _check_commit(job, files)
    content = {"files": [file._asdict() for file in files], "account": list(account)}
    create_file(job.path(_COMMIT), _encode(content), job.storage)


def _check_commit(job: Job, files: Sequence[StagedFile]) -> None:
    targets = [file.target for file in files]
    if len(set(targets)) != len(targets):
        raise PublishError(f"two staged files for one place in {job.out}")
    staged = _sizes(job.path(_STAGING), job.storage)
    there = _published_sizes(job, files)
    for file in files:
        if staged.get(file.staged) != file.size:
            found = staged.get(file.staged, "nothing")
            raise PublishError(f"{file.staged} has {file.size} bytes when staged, now {found}")
        if file.target in there and not file.replaces:
            raise PublishError(f"{join(job.out, file.target)} is in the way")


def _published_sizes(job: Job, files: Iterable[StagedFile]) -> dict[str, int]:
    """The sizes of the targets that are there; what else is in OUT costs nothing on a disk."""
    if is_remote(job.out):  # a listing has a thousand sizes for the price of one
        return _sizes(job.out, job.storage)
    paths = {file.target: local_path(join(job.out, file.target)) for file in files}
    return {name: os.path.getsize(path) for name, path in paths.items() if os.path.exists(path)}


def _sizes(folder: str, storage: StorageOptions) -> dict[str, int]:
    """The sizes of files by their name below `folder`."""
    if not exists(folder, storage):
        return {}
    skip = len(_listed(folder).rstrip("/")) + 1
    return {entry.path[skip:]: entry.size for entry in list_files(folder, storage)}


def _listed(folder: str) -> str:
    """A folder as the paths of its files begin: a file URI is listed as a path."""
    return folder if is_remote(folder) else local_path(folder)


def publish(job: Job) -> None:
    """Bring OUT to the state that was committed; repeated as often as it takes."""
    files = _files(json.loads(read_bytes(job.path(_COMMIT), job.storage)))
    staged = _sizes(job.path(_STAGING), job.storage)
    there = _published_sizes(job, files)
    for file in files:
        if file.staged not in staged and there.get(file.target) != file.size:
            raise PublishError(f"{file.target} is neither staged nor published in {job.out}")
    move_files(
        [
            (staged_path(job, file.staged), join(job.out, file.target))
            for file in files
            if file.staged in staged
        ],
        job.storage,
    )
    delete_tree(job.path(_STAGING), job.storage)
    delete_tree(job.path(_FINISHED), job.storage)
    move_files([(job.path(_COMMIT), job.path(_PUBLISHED))], job.storage)


def discard(job: Job) -> None:
    """Forget a job that was not committed."""
    if exists(job.path(_COMMIT), job.storage):
        raise PublishError(f"{job.folder} was committed: publish it")
    delete_tree(job.folder, job.storage)


def settle(out: str, storage: StorageOptions = DEFAULT_OPTIONS, *, running: str = "") -> None:
    """Finish every open journal that was committed and discard the others, but for `running`.

    A local job whose process lives is left alone. An object store has no locks: there, one job at a
    time may write to OUT, and a second makes the first fail when it commits.
    """
    for name in open_journals(out, storage):
        job = Job(out, name, storage)
        if name == running:
            continue
        with _locked(job) as mine:
            if not mine:
                continue
            if exists(job.path(_COMMIT), storage):
                publish(job)
            else:
                delete_tree(job.folder, storage)


def publish_committed(
    out: str, storage: StorageOptions = DEFAULT_OPTIONS, *, guarded: tuple[str, ...] = ()
) -> None:
    """Finish every open journal that was committed; the others may still be gone on with.

    Whoever holds the lock of OUT says which jobs publish only under it: how their names begin.
    """
    for name in open_journals(out, storage):
        job = Job(out, name, storage)
        if exists(job.path(_COMMIT), storage):
            with nullcontext(True) if name.startswith(guarded) else _locked(job) as mine:
                if mine:
                    publish(job)


def open_journals(out: str, storage: StorageOptions = DEFAULT_OPTIONS) -> list[str]:
    """The jobs that are not settled; OUT may be mounted when there is none."""
    journals = _journals(out, storage).items()
    return sorted(name for name, inside in journals if _PUBLISHED not in inside)


def committed_journals(out: str, storage: StorageOptions = DEFAULT_OPTIONS) -> list[str]:
    """The jobs that are published, or will be."""
    journals = _journals(out, storage).items()
    return sorted(name for name, inside in journals if inside & {_PUBLISHED, _COMMIT})


def _journals(out: str, storage: StorageOptions) -> dict[str, set[str]]:
    """The files of each job, by its name."""
    names: dict[str, set[str]] = {}
    for path in _sizes(journal_folder(out), storage):
        name, separator, inside = path.partition("/")
        if separator:
            names.setdefault(name, set()).add(inside)
    return names


@contextmanager
def _locked(job: Job) -> Iterator[bool]:
    """Hold the job's lock; False when another process has it. The kernel frees it when we die."""
    if is_remote(job.out):
        yield True
        return
    descriptor = _lock(_lock_path(job), fcntl.LOCK_EX | fcntl.LOCK_NB)
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            os.close(descriptor)


def hold(job: Job) -> None:
    """Say that this process works on the job, as others may, until it is published or discarded.

    For work whose driver is no process of ours: nobody discards the job as long as it runs.
    """
    _let_go_of_settled()
    if not is_remote(job.out) and _lock_path(job) not in _held:
        descriptor = _lock(_lock_path(job), fcntl.LOCK_SH)
        assert descriptor is not None
        _held[_lock_path(job)] = descriptor


def _let_go_of_settled() -> None:
    for path, descriptor in list(_held.items()):
        published = os.path.exists(os.path.join(os.path.dirname(path), _PUBLISHED))
        if published or not os.fstat(descriptor).st_nlink:
            os.close(_held.pop(path))


@contextmanager
def lock_output(out: str) -> Iterator[None]:
    """Let one process at a time decide what is added to OUT; an object store has no locks."""
    if is_remote(out):
        yield
        return
    descriptor = _lock(local_path(join(journal_folder(out), _LOCK)), fcntl.LOCK_EX)
    assert descriptor is not None
    try:
        yield
    finally:
        os.close(descriptor)


def _lock_path(job: Job) -> str:
    return local_path(job.path(_LOCK))


def _lock(path: str, operation: int) -> int | None:
    while True:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except FileNotFoundError:
            continue  # its folder was discarded since the line above
        try:
            fcntl.flock(descriptor, operation)
        except BlockingIOError:
            os.close(descriptor)
            return None
        # Whoever discarded the folder meanwhile took the file that we locked with it.
        if os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)


def _encode(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, indent=1).encode()


def _files(content: Mapping[str, Any]) -> list[StagedFile]:
    return [StagedFile(**file) for file in content["files"]]
