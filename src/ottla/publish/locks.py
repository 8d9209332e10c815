"""Who writes to OUT, who works on a job, who decides: locks that the kernel frees at death.

    OUT.ottla/writer     one job at a time, from before it is planned until it is published
    OUT.ottla/JOB/lock   the processes that work on the job
    OUT.ottla/lock       whoever settles journals, commits or publishes, for as long as that takes

They are taken in this order. An object store has none.
"""

import errno
import fcntl
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from ottla.errors import PublishError
from ottla.publish.checked import check_ours
from ottla.publish.job import Job, journal_folder
from ottla.storage.paths import is_remote, local_path
from ottla.storage.writing import make_folders

PUBLISHED: Final = "published.json"
LOCK: Final = "lock"
_WRITER: Final = "writer"

_held: dict[str, int] = {}  # descriptors of the locks that `hold` took, by path
_claims = threading.local()  # the folders whose `writer` this thread holds


@contextmanager
def claim_output(out: str) -> Iterator[None]:
    """Be the one job that writes to OUT, or fail at once; a claim inside another is the same."""
    folder = local_path(journal_folder(out))
    claimed = _claims.__dict__.setdefault("folders", set())
    if is_remote(out) or folder in claimed:
        yield
        return
    made = _missing(folder)
    try:
        descriptor = _lock([folder], fcntl.LOCK_EX | fcntl.LOCK_NB, _WRITER)
        if descriptor is None:
            raise busy(out)
    except (OSError, PublishError):
        _remove_empty(made)
        raise
    claimed.add(folder)
    try:
        yield
    finally:
        claimed.remove(folder)
        with suppress(FileNotFoundError):  # somebody took the folder away
            # Who opened the file meanwhile finds that it has no name, and opens another.
            os.unlink(os.path.join(folder, _WRITER))
        os.close(descriptor)
        _remove_empty(made or [folder])


def _remove_empty(folders: Iterable[str]) -> None:
    """Remove folders, the innermost first, but those that hold something: a journal, or OUT."""
    for folder in folders:
        with suppress(OSError):
            os.rmdir(folder)


def _missing(folder: str) -> list[str]:
    """A folder and those it is to lie in, as far as they are not there; the innermost first."""
    missing = []
    while not os.path.lexists(folder):
        missing.append(folder)
        folder = os.path.dirname(folder) or "."
    return missing


def refuse_claimed(out: str) -> None:
    """Fail if a job writes to OUT: it must find there at its end what it found when it began."""
    if is_remote(out):
        return
    folder = local_path(journal_folder(out))
    try:
        descriptor = os.open(
            os.path.join(folder, _WRITER), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
        )
    except FileNotFoundError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        raise busy(out) from None
    finally:
        os.close(descriptor)


def busy(out: str) -> PublishError:
    """What to raise where somebody else writes."""
    return PublishError(
        f"another process is writing to {out}: wait until it has ended, or choose another OUT"
    )


@contextmanager
def locked(job: Job) -> Iterator[bool]:
    """Hold the job's lock; False when another process has it. The kernel frees it when we die."""
    if is_remote(job.out):
        yield True
        return
    descriptor = _lock([journal_folder(job.out), job.folder], fcntl.LOCK_EX | fcntl.LOCK_NB)
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
        descriptor = _lock([journal_folder(job.out), job.folder], fcntl.LOCK_SH)
        assert descriptor is not None
        _held[_lock_path(job)] = descriptor


def _let_go_of_settled() -> None:
    for path, descriptor in list(_held.items()):
        published = os.path.exists(os.path.join(os.path.dirname(path), PUBLISHED))
        if published or not os.fstat(descriptor).st_nlink:
            os.close(_held.pop(path))


@contextmanager
def lock_output(out: str) -> Iterator[None]:
    """Let one process at a time decide what is added to OUT; an object store has no locks."""
    if is_remote(out):
        yield
        return
    descriptor = _lock([journal_folder(out)], fcntl.LOCK_EX)
    assert descriptor is not None
    try:
        yield
    finally:
        os.close(descriptor)


def _lock_path(job: Job) -> str:
    return local_path(job.path(LOCK))


def _lock(folders: Sequence[str], operation: int, name: str = LOCK) -> int | None:
    """Lock the last of some folders, each of which lies in the one before and is ours."""
    while True:
        descriptor = _open_lock(folders, name)
        if descriptor is None:
            continue
        try:
            fcntl.flock(descriptor, operation)
        except BlockingIOError:
            os.close(descriptor)
            return None
        # Whoever discarded the folder meanwhile took the file that we locked with it.
        if os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)


def _open_lock(folders: Sequence[str], name: str) -> int | None:
    """The lock in the last folder; None if that was discarded while we came."""
    path = os.path.join(local_path(folders[-1]), name)
    for folder in map(local_path, folders):
        make_folders(folder)
        try:
            check_ours(folder)
        except FileNotFoundError:
            return None
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            check_ours(path)
        raise
