"""What a job is called and where it stages: in the sibling of its output."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ottla.errors import PublishError
from ottla.storage.listing import Entry
from ottla.storage.object_store import DEFAULT_OPTIONS, StorageOptions
from ottla.storage.paths import is_remote, join, real_path

_TOGETHER: Final = 1000  # files


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

    A link is followed: whoever names OUT in another way meets the same journals and locks, and
    what is staged lies on the disk of OUT.

    >>> journal_folder("/data/restored/")
    '/data/restored.ottla'
    """
    real = out if is_remote(out) else real_path(out)
    if not has_siblings(real):
        raise PublishError(f"{out} cannot be written to as a whole: name a folder in it")
    return f"{real.rstrip('/')}.ottla"


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
    # As JSON of both in one list, but never as one text: of a million files that is a gigabyte.
    digest = hashlib.sha256(b"[[")
    for at in range(0, len(snapshot), _TOGETHER):
        digest.update(b", " if at else b"")
        digest.update(json.dumps(snapshot[at : at + _TOGETHER])[1:-1].encode())
    digest.update(f"], {json.dumps(sorted(options.items()), default=str)}]".encode())
    return digest.hexdigest()[:24]
