"""A job that writes: parts that are staged in parallel, and what each partition adds at the end."""

import logging
import os
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol

from ottla.catalog.chosen import ChosenLogs
from ottla.catalog.logs import Log
from ottla.errors import OptionError, PublishError, Row, Severity, Violation
from ottla.format.names import TopicPartition
from ottla.log.write.extent import stage_log_starts
from ottla.publish.account import account_row, combine_accounts, write_account
from ottla.publish.checked import FinishedPartition, StagedFile
from ottla.publish.job import Job
from ottla.publish.journal import commit, publish, require_publishable, settle_others, staged_path
from ottla.publish.locks import claim_output, lock_output
from ottla.storage.listing import Entry, exists, list_names
from ottla.storage.object_store import StorageOptions, parse_address
from ottla.storage.paths import is_remote, join, local_path, real_path
from ottla.storage.writing import make_folders

_LOGGER: Final = logging.getLogger(__name__)
_PRIVATE_FOLDER: Final = 0o700
_PRIVATE_FILE: Final = 0o600
_MAX_NOTES: Final = 5  # of a partition


class OutputPart(Protocol):
    """What one task stages; travels to it."""

    @property
    def size(self) -> int: ...


def nothing_to_close(_: Mapping[str, FinishedPartition]) -> Mapping[str, OutputPart]:
    """For jobs whose parts are all there is."""
    return {}


def nothing_to_remember(_: Mapping[str, FinishedPartition]) -> Sequence[Any]:
    """For jobs that need to know nothing of the ones before."""
    return ()


def nothing_to_register(_: Job) -> None:
    """For jobs whose files need nobody to know them."""


@dataclass(frozen=True, slots=True)
class OutputJob:
    """What to run. The files of `logs` and `options` name the job: the same ones resume it.

    Keys of `parts` and of what `closing` makes of them are names of files, and never the same. The
    accounts of both are added up by topic and partition. `log_starts` has every log that is
    written, with what the checkpoint of OUT shall say of it: None is nothing. What `remember` makes
    of finished parts is kept with the account. What is `private` is its user's alone, and has an
    OUT of its own. `register` is called when files are in place: a table has still to be told.
    """

    title: str
    out: str
    logs: Sequence[Log]
    options: Mapping[str, Any]
    storage: StorageOptions
    parts: Mapping[str, OutputPart]
    stage: Callable[[Job, Any], FinishedPartition]
    closing: Callable[[Mapping[str, FinishedPartition]], Mapping[str, OutputPart]]
    close: Callable[[Job, Any], FinishedPartition]
    log_starts: Mapping[TopicPartition, int | None]
    remember: Callable[[Mapping[str, FinishedPartition]], Sequence[Any]] = nothing_to_remember
    private: bool = False
    register: Callable[[Job], None] = nothing_to_register

    @property
    def inputs(self) -> Iterator[Entry]:
        """Every file of what is read."""
        return (entry for log in self.logs for entry in log.partition.entries)


def choose_inputs(chosen: ChosenLogs, out: str, *, with_internal: bool = True) -> list[Log]:
    """The logs of which a job writes something to OUT.

    To write into what is read, or around it, is refused, however the two are named.
    """
    require_apart(out, chosen.paths)
    logs = chosen.logs() if with_internal else chosen.user_logs()
    require_apart(out, [log.partition.path for log in logs])
    return logs


@contextmanager
def claim_apart(out: str, paths: Iterable[str]) -> Iterator[None]:
    """Have OUT for oneself, from before a job is planned until it is done; paths stay as they are.

    Fails at once if another process writes to OUT.
    """
    require_apart(out, paths)  # to claim it makes folders
    require_publishable(out)
    with claim_output(out):
        yield


def require_apart(out: str, paths: Iterable[str]) -> None:
    """Refuse an OUT that is one of the paths, in one of them or around one."""
    target = _real(out)
    for path in paths:
        source = _real(path)
        if _holds(source, target) or _holds(target, source):
            raise OptionError(
                f"{out} and {path} are the same place, or one is inside of the other: what is read"
                " must stay as it is; choose another OUT"
            )


def _real(path: str) -> str:
    """The one name of a place: without links, and with one name for each store."""
    if not is_remote(path):
        return real_path(path)
    address = parse_address(path)
    return posixpath.normpath(f"{address.store}:{address.account}/{address.bucket}/{address.key}")


def _holds(folder: str, path: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def require_room(job: Job, names: Iterable[TopicPartition]) -> None:
    """Refuse, before any work, to write a log where one is: two would become one."""
    there = set(list_names(job.out, job.storage))
    for name in sorted(names):
        directory = str(name)
        if directory in there and list_names(join(job.out, directory), job.storage):
            raise PublishError(f"{join(job.out, directory)} is in the way: choose another OUT")


def require_empty(job: Job) -> None:
    """Refuse an OUT that holds anything; where a job is to stage what nobody else may read."""
    there = list_names(job.out, job.storage) if exists(job.out, job.storage) else []
    if there:
        raise PublishError(f"{join(job.out, sorted(there)[0])} is in the way: choose another OUT")
    os.chmod(local_path(job.folder), _PRIVATE_FOLDER)


def _make_private(job: Job, files: Iterable[StagedFile]) -> None:
    """Take from others what was staged, and the OUT that it is for."""
    for file in files:
        os.chmod(local_path(staged_path(job, file.staged)), _PRIVATE_FILE)
    out = local_path(job.out)
    make_folders(out)
    os.chmod(out, _PRIVATE_FOLDER)


def has_errors(logs: Iterable[Log]) -> bool:
    """Whether listing found that something of a log is lost, or can not be read."""
    return any(
        found.rule.severity is Severity.ERROR for log in logs for found in log.partition.findings
    )


def found_in_listing(logs: Iterable[Log]) -> list[Row]:
    """Rows for the account of logs that are not whole: errors are counted, warnings are told."""
    rows = []
    for partition in {log.partition.path: log.partition for log in logs}.values():
        graver = [each for each in partition.findings if each.rule.severity is not Severity.NOTE]
        errors = [each for each in graver if each.rule.severity is Severity.ERROR]
        graver.sort(key=_urgency)
        notes = [f"{partition.title}: {_told(each)}" for each in graver[:_MAX_NOTES]]
        if len(graver) > len(notes):
            more = len(graver) - len(notes)
            notes.append(f"{partition.title}: {more} more such findings, which verify lists")
        if graver:
            row = account_row(*partition.name, violations=len(errors))
            rows.append(row | {"notes": notes})
    return rows


def _urgency(found: Violation) -> tuple[bool, bool]:
    """Errors first, and of them those that say which offsets are lost."""
    return found.rule.severity is not Severity.ERROR, found.offset is None


def _told(found: Violation) -> str:
    if found.offset is None or found.last_offset is None:
        return str(found)
    return f"offsets {found.offset}..{found.last_offset}: {found.rule}: {found.detail}"


def publish_output(
    job: Job, plan: OutputJob, finished: Mapping[str, FinishedPartition]
) -> list[Row]:
    """Commit and publish what all tasks staged; the account. Tells what tasks found worth it.

    What listing found wrong with the logs is told too: no task has seen what could not be read.
    """
    for note in (note for part in finished.values() for note in part.account.get("notes", ())):
        _LOGGER.warning("%s", note)
    found = found_in_listing(plan.logs)
    for note in (note for row in found for note in row["notes"]):
        _LOGGER.warning("%s", note)
    rows = combine_accounts([*(part.account for part in finished.values()), *found])
    write_account(job, rows, plan.options, plan.remember(finished))
    with lock_output(job.out):  # two jobs must not take each other's log starts away
        files = [file for part in finished.values() for file in part.files]
        if plan.private:
            _make_private(job, files)
        settle_others(job, files)
        commit(job, [*files, *stage_log_starts(job, plan.log_starts)], rows)
        publish(job)
    return rows
