"""A job that writes: parts that are staged in parallel, and what each partition adds at the end."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from ottla.errors import Row
from ottla.format.names import TopicPartition
from ottla.log.write.extent import stage_log_starts
from ottla.publish.account import combine_accounts, write_account
from ottla.publish.checked import FinishedPartition
from ottla.publish.job import Job
from ottla.publish.journal import commit, publish
from ottla.publish.locks import lock_output
from ottla.storage.files import Entry
from ottla.storage.object_store import StorageOptions

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
    """What to run. `inputs` and `options` name the job: the same ones resume it.

    Keys of `parts` and of what `closing` makes of them are names of files, and never the same. The
    accounts of both are added up by topic and partition. `log_starts` has every log that is
    written, with what the checkpoint of OUT shall say of it: None is nothing. What `remember` makes
    of finished parts is kept with the account.
    """

    title: str
    out: str
    inputs: Sequence[Entry]
    options: Mapping[str, Any]
    storage: StorageOptions
    parts: Mapping[str, OutputPart]
    stage: Callable[[Job, Any], FinishedPartition]
    closing: Callable[[Mapping[str, FinishedPartition]], Mapping[str, OutputPart]]
    close: Callable[[Job, Any], FinishedPartition]
    log_starts: Mapping[TopicPartition, int | None]
    remember: Callable[[Mapping[str, FinishedPartition]], Sequence[Any]] = nothing_to_remember


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
