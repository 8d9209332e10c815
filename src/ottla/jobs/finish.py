"""Journals that killed jobs left: finished, discarded or given up, under the lock of the output."""

import errno
import os
from contextlib import nullcontext, suppress

from ottla.errors import OptionError, PublishError, Row
from ottla.jobs.write.commit import SAVES
from ottla.publish.job import Job, journal_folder
from ottla.publish.journal import (
    committed_files,
    forget,
    is_committed,
    open_journals,
    publish,
    publish_committed,
    staged_sizes,
    waiting_journals,
    withdraw,
)
from ottla.publish.locks import lock_output, locked
from ottla.storage.listing import exists
from ottla.storage.object_store import DEFAULT_OPTIONS, StorageOptions
from ottla.storage.paths import is_remote


def finish_committed(out: str, storage: StorageOptions) -> None:
    """Publish what dead jobs committed to OUT; what others began may still be gone on with."""
    if waiting_journals(out, storage):
        with lock_output(out):
            publish_committed(out, storage, guarded=SAVES)


def finish_journals(out: str, storage: StorageOptions = DEFAULT_OPTIONS) -> list[Row]:
    """Publish what was committed and discard what was not, unless somebody works on it.

    A journal that is refused, or that the machine fails at, has the error as `why` in its row, and
    does not keep the others from being finished.
    """
    if not exists(out, storage) and not exists(journal_folder(out), storage):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), out)
    if not open_journals(out, storage):
        return []
    with lock_output(out):
        return [_finish(Job(out, name, storage)) for name in open_journals(out, storage)]


def _finish(job: Job) -> Row:
    try:
        # Workers may still hold a save whose driver is dead; see SAVES.
        guarded = is_committed(job) and job.name.startswith(SAVES)
        with nullcontext(True) if guarded else locked(job) as mine:
            if not mine:
                return _row(job, "held")
            if not is_committed(job):
                row = _row(job, "discarded", list(staged_sizes(job).values()))
                if withdraw(job):
                    return row
            row = _row(job, "published", [file.size for file in committed_files(job)])
            publish(job)
            return row
    except (PublishError, OSError) as error:
        return _row(job, "refused") | {"why": error}


def _row(job: Job, action: str, sizes: list[int] | None = None) -> Row:
    sizes = sizes or []
    return {
        "type": "journal",
        "job": job.name,
        "action": action,
        "files": len(sizes),
        "bytes": sum(sizes),
    }


def give_up_journal(
    out: str, name: str, storage: StorageOptions = DEFAULT_OPTIONS
) -> tuple[Row, list[Row]]:
    """Forget a journal though it may be committed; its row, and one for each file that is lost."""
    if name not in open_journals(out, storage):
        there = ", ".join(open_journals(out, storage)) or "none"
        raise OptionError(f"{name} is no open journal in {journal_folder(out)}; there is: {there}")
    job = Job(out, name, storage)
    with lock_output(out), locked(job) as mine:
        if not mine:
            raise PublishError(f"a process works on {job.folder}: let it end first")
        lost = _lost(job)
        _give_up(job)
    return _row(job, "given up", [row["bytes"] for row in lost]), lost


def _give_up(job: Job) -> None:
    if is_remote(job.out):  # its process may live and commit now
        with suppress(PublishError):  # what is no commit of ours
            if withdraw(job):
                return
    forget(job)


def _lost(job: Job) -> list[Row]:
    """What is staged, by its place in OUT where the commit can be read."""
    staged = staged_sizes(job)
    try:
        targets = {file.staged: file.target for file in committed_files(job)}
    except (PublishError, FileNotFoundError):
        targets = {name: name for name in staged}
    return [
        {"type": "lost", "job": job.name, "file": target, "bytes": staged[name]}
        for name, target in targets.items()
        if name in staged
    ]
