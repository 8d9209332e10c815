"""A job that writes: parts that are staged in parallel, and what each partition adds at the end."""

import logging
import os
import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from ottla.catalog.chosen import ChosenLogs
from ottla.catalog.logs import Log
from ottla.errors import OptionError, PublishError, Row
from ottla.format.names import TopicPartition
from ottla.log.write.extent import stage_log_starts
from ottla.publish.account import combine_accounts, write_account
from ottla.publish.checked import FinishedPartition
from ottla.publish.job import Job
from ottla.publish.journal import commit, publish
from ottla.publish.locks import lock_output
from ottla.storage.files import Entry, is_remote, join, list_names, local_path
from ottla.storage.object_store import S3_SCHEMES, StorageOptions

_LOGGER: Final = logging.getLogger(__name__)


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


@dataclass(frozen=True, slots=True)
class OutputJob:
    """What to run. The files of `logs` and `options` name the job: the same ones resume it.

    Keys of `parts` and of what `closing` makes of them are names of files, and never the same. The
    accounts of both are added up by topic and partition. `log_starts` has every log that is
    written, with what the checkpoint of OUT shall say of it: None is nothing. What `remember` makes
    of finished parts is kept with the account.
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

    @property
    def inputs(self) -> list[Entry]:
        """Every file of what is read."""
        return [entry for log in self.logs for entry in log.partition.entries]


def choose_inputs(chosen: ChosenLogs, out: str, *, with_internal: bool = True) -> list[Log]:
    """The logs of which a job writes something to OUT.

    To write into what is read, or around it, is refused, however the two are named.
    """
    require_apart(out, chosen.paths)
    logs = chosen.logs() if with_internal else chosen.user_logs()
    require_apart(out, [log.partition.path for log in logs])
    return logs


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
        return os.path.realpath(local_path(path))
    scheme, _, rest = path.partition("://")
    return f"{'s3' if scheme in S3_SCHEMES else scheme}://{posixpath.normpath(rest)}"


def _holds(folder: str, path: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def require_room(job: Job, names: Iterable[TopicPartition]) -> None:
    """Refuse, before any work, to write a log where one is: two would become one."""
    there = set(list_names(job.out, job.storage))
    for name in sorted(names):
        directory = str(name)
        if directory in there and list_names(join(job.out, directory), job.storage):
            raise PublishError(f"{join(job.out, directory)} is in the way: choose another OUT")


def publish_output(
    job: Job, plan: OutputJob, finished: Mapping[str, FinishedPartition]
) -> list[Row]:
    """Commit and publish what all tasks staged; the account. Tells what tasks found worth it."""
    for note in (note for part in finished.values() for note in part.account.get("notes", ())):
        _LOGGER.warning("%s", note)
    rows = combine_accounts(part.account for part in finished.values())
    write_account(job, rows, plan.options, plan.remember(finished))
    with lock_output(job.out):  # two jobs must not take each other's log starts away
        files = [file for part in finished.values() for file in part.files]
        commit(job, [*files, *stage_log_starts(job, plan.log_starts)], rows)
        publish(job)
    return rows
