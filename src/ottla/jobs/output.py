"""A job that writes: parts that are staged in parallel, and what each partition adds at the end."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ottla.log.publish import FinishedPartition, Job
from ottla.object_store import StorageOptions
from ottla.storage import Entry


class Part(Protocol):
    """What one task stages; travels to it."""

    @property
    def size(self) -> int: ...


def nothing_to_close(_: Mapping[str, FinishedPartition]) -> Mapping[str, Part]:
    """For jobs whose parts are all there is."""
    return {}


def nothing_to_remember(_: Mapping[str, FinishedPartition]) -> Sequence[Any]:
    """For jobs that need to know nothing of the ones before."""
    return ()


@dataclass(frozen=True, slots=True)
class OutputJob:
    """What to run. `inputs` and `options` name the job: the same ones resume it.

    Keys of `parts` and of what `closing` makes of them are names of files, and never the same. The
    accounts of both are added up by topic and partition. What `remember` makes of finished parts
    is kept with the account.
    """

    title: str
    out: str
    inputs: Sequence[Entry]
    options: Mapping[str, Any]
    storage: StorageOptions
    parts: Mapping[str, Part]
    stage: Callable[[Job, Any], FinishedPartition]
    closing: Callable[[Mapping[str, FinishedPartition]], Mapping[str, Part]]
    close: Callable[[Job, Any], FinishedPartition]
    remember: Callable[[Mapping[str, FinishedPartition]], Sequence[Any]] = nothing_to_remember
