"""Who works on a job, and who decides what is added to OUT: locks that the kernel frees at death.

An object store has none.
"""

import errno
import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from ottla.publish.checked import check_ours
from ottla.publish.job import Job, journal_folder
from ottla.storage.files import is_remote, local_path, make_folders

PUBLISHED: Final = "published.json"
_LOCK: Final = "lock"

_held: dict[str, int] = {}  # descriptors of the locks that `hold` took, by path


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
    return local_path(job.path(_LOCK))


def _lock(folders: Sequence[str], operation: int) -> int | None:
    """Lock the last of some folders, each of which lies in the one before and is ours."""
    while True:
        descriptor = _open_lock(folders)
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


def _open_lock(folders: Sequence[str]) -> int | None:
    """The lock in the last folder; None if that was discarded while we came."""
    path = os.path.join(local_path(folders[-1]), _LOCK)
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
