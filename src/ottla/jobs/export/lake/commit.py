"""The end of an export to a table: one commit, and then what killed exports left behind.

Files lie below the table before it is told of them. An export that is killed in between leaves them
named by its journal. They are removed when the table has moved on from what that export planned
from: whoever wrote them, dead or slow, can not commit them any more.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ottla.errors import PublishError
from ottla.format.names import TopicPartition
from ottla.jobs.export.lake.files import measure_files
from ottla.jobs.export.lake.layout import Layout
from ottla.jobs.export.lake.state import OFFSETS, Addition, LakeTable, Offsets, parse_state
from ottla.publish.account import FILE as ACCOUNT_FILE
from ottla.publish.account import read_account
from ottla.publish.checked import read_json
from ottla.publish.job import Job
from ottla.publish.journal import committed_journals, forget, published_files
from ottla.publish.locks import locked
from ottla.storage.listing import exists
from ottla.storage.paths import join
from ottla.storage.writing import delete_file, write_file

AFTER: Final = "after"  # of the options in an account
_REGISTERED: Final = "registered"  # in a journal whose files the table has


@dataclass(frozen=True, slots=True)
class Registration:
    """Tells a table of the files of a job, once they are in place."""

    table: LakeTable
    layout: Layout
    form: Mapping[str, Any]
    ids: Mapping[str, str]
    after: Offsets

    def __call__(self, job: Job) -> None:
        upto = _ends(job)
        files = published_files(job)
        if files:
            measured = measure_files(job.out, files, self.layout.measured, job.storage)
            self.table.append(
                Addition(
                    job.name,
                    list(measured),
                    self.form,
                    self.layout.table,
                    self.ids,
                    self.after,
                    upto,
                )
            )
        write_file(job.path(_REGISTERED), b"", job.storage)
        for name in committed_journals(job.out, job.storage):
            if name != job.name:
                _settle(Job(job.out, name, job.storage), self.table)


def _ends(job: Job) -> Offsets:
    """The next offsets after what a job wrote."""
    return {
        TopicPartition(row["topic"], row["partition"]): row["lastOffset"] + 1
        for row in read_account(job)
        if row["lastOffset"] is not None
    }


def _settle(job: Job, table: LakeTable) -> None:
    """Remove what another export left, as far as no state of the table has it."""
    with locked(job) as mine:
        if not mine:
            return
        if not exists(job.path(_REGISTERED), job.storage):
            ends = _ends(job)
            state = table.read_state(ends)
            base = _planned_after(job)
            now = {} if state is None else state.next
            if ends and all(now.get(name) == base.get(name) for name in ends):
                return  # it may still be added
            targets = [file.target for file in published_files(job)]
            for target in set(targets) - table.referenced(targets):
                delete_file(join(job.out, target), job.storage)
        forget(job)


def _planned_after(job: Job) -> Offsets:
    path = job.path(ACCOUNT_FILE)
    options = read_json(path, job.storage).get("options")
    told = options.get(AFTER) if isinstance(options, dict) else None
    if not isinstance(told, str):
        raise PublishError(f"{path} holds no account of an export to a table")
    return parse_state({OFFSETS: told}, path).next
