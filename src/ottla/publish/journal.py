"""Staging, commit and publishing of new files: OUT is always the old or the new state.

A broker refuses to start when a log directory holds a folder that is not a partition. So OUT holds
partition directories and Kafka's own checkpoint files; all that a job needs lies in the sibling
`OUT.ottla/JOB/`:

    lock              held by the processes that work on the job, on a local disk (`locks`)
    staging/          files under names that no other attempt uses
    finished/K.json   partition K is staged: its files and its account
    quarantine/       what a job left out
    commit.json       every file and its place in OUT; to write it is the commit point
    claim-*           of a run that commits to an object store; see below
    published.json    the same file, renamed when all are in place: the journal is closed

A journal without `published.json` is open. Publishing is idempotent: whoever writes to OUT next
finishes an open journal if it was committed and discards it if not. Who only reads leaves it alone.
What a journal says is checked first (`checked`), and a quarantine is never deleted: it may be all
that is left of what a salvage took out.

An object store has no locks, so a job may be discarded while it commits. Two things keep one from
the other. Who discards first puts an empty `commit.json`, which only one can put, and takes it away
when all else is gone. And who commits puts a claim before it looks at what it staged, and names it
in its commit: a commit without its claim came after a discard and counts as none.
"""

import errno
import hashlib
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, Final

from ottla.errors import OptionError, PublishError, Term
from ottla.publish.checked import (
    CLAIM,
    FinishedPartition,
    StagedFile,
    check_folder,
    check_ours,
    encode_json,
    is_bare,
    is_checkpoint,
    is_target,
    own_sizes,
    parse_claim,
    parse_files,
    parse_finished,
    read_json,
)
from ottla.publish.job import Job, journal_folder
from ottla.publish.locks import LOCK, PUBLISHED, busy, claim_output, lock_output, locked
from ottla.storage.conditional_put import require_client
from ottla.storage.files import same_bytes
from ottla.storage.listing import exists, list_files, list_names
from ottla.storage.object_store import DEFAULT_OPTIONS, StorageOptions
from ottla.storage.paths import is_remote, join, local_path
from ottla.storage.writing import (
    create_file,
    delete_file,
    delete_files,
    delete_tree,
    move_below,
    move_files,
    sync_directory,
    write_file,
)

_COMMIT: Final = "commit.json"
_STAGING: Final = "staging"
_FINISHED: Final = "finished"
_QUARANTINE: Final = "quarantine"
_DISCARDED: Final = "discarded"  # how an empty commit.json is listed here
_CLAIM: Final = "claim-"  # how claims begin
_ROUNDS: Final = 10  # as often do others meddle with what one process settles in an object store
_SCRATCH: Final = "scratch-"  # how jobs begin that publish nothing
_LONG: Final = 200  # of the 255 bytes that a name of a file may have
_SHORT: Final = 40  # characters of a target that help people to know a staged file


@contextmanager
def run_job(out: str, name: str, storage: StorageOptions = DEFAULT_OPTIONS) -> Iterator[Job]:
    """Settle what other jobs left, then begin this one or go on where it was killed.

    On a local disk nobody else writes to OUT while the block runs, and the job is locked, so that
    nobody takes it for a dead one.
    """
    job = Job(out, name, storage)
    require_publishable(out)
    with claim_output(out), locked(job) as mine:
        if not mine:
            raise PublishError(f"another process is running this job: {job.folder}")
        try:
            with lock_output(out):
                if settle(out, storage, running=name):
                    raise busy(out)
                if is_published(job):
                    _forget_if_taken_away(job)
                elif is_committed(job):
                    publish(job)
                elif is_remote(out) and exists(job.path(_COMMIT), storage):
                    discard(job)  # who began to was killed: what is left may be half of it
            yield job
        except (OptionError, PublishError):
            _forget_if_not_begun(job)
            raise


def _forget_if_not_begun(job: Job) -> None:
    """A job that was refused before any work leaves no journal behind."""
    if not is_remote(job.out) and set(list_names(job.folder, job.storage)) <= {LOCK}:
        discard(job)


@contextmanager
def scratch_job(out: str, storage: StorageOptions = DEFAULT_OPTIONS) -> Iterator[Job]:
    """A job that publishes nothing: what it stages goes with it, and other jobs are left alone."""
    if is_remote(out):
        require_client(out)  # on Azure it deletes
    job = Job(out, f"{_SCRATCH}{uuid.uuid4().hex}", storage)
    with locked(job):
        try:
            yield job
        finally:
            forget(job)
    if not is_remote(out):
        with suppress(OSError):  # other jobs are in there
            os.rmdir(local_path(journal_folder(out)))


def _forget_if_taken_away(job: Job) -> None:
    """Let a job run again when what it published is no longer there; a part of it is refused.

    Checkpoints are no proof: others write them again. Logs may have grown under a broker.
    """
    files = _read_files(job, PUBLISHED)
    files = [file for file in files if not is_checkpoint(file.target)] or files
    there = _published_sizes(job, files)
    cut = [file for file in files if there.get(file.target, -1) < file.size]
    if cut and len(there) == 0:
        delete_file(job.path(_COMMIT), job.storage)  # a copy that was killed may have left it
        delete_file(job.path(PUBLISHED), job.storage)
    elif cut:
        target = join(job.out, cut[0].target)
        found = there.get(cut[0].target)
        has = "is gone" if found is None else f"has {found} bytes"
        raise PublishError(
            f"{target} {has}, but had {cut[0].size} when this job was done: take all of {job.out}"
            " away to do it again, or choose another OUT"
        )


def is_published(job: Job) -> bool:
    """Whether the job was done before, and what it wrote is still there."""
    _check(job)
    return exists(job.path(PUBLISHED), job.storage)


def is_committed(job: Job) -> bool:
    """Whether it is decided what the job publishes; it may have done so."""
    _check(job)
    return _has_commit(job) or is_published(job)  # in this order one becomes the other


def _has_commit(job: Job) -> bool:
    """Whether there is a commit that counts."""
    path = job.path(_COMMIT)
    if not is_remote(job.out):
        return exists(path)
    if not exists(path, job.storage) or _is_empty(job):
        return False
    try:
        claim = parse_claim(read_json(path, job.storage), path)
    except FileNotFoundError:  # published or discarded since
        return False
    return claim is None or exists(job.path(claim), job.storage)


def _is_empty(job: Job) -> bool:
    """Whether somebody discards the job, or was killed at it."""
    with suppress(FileNotFoundError):
        return [entry.size for entry in list_files(job.path(_COMMIT), job.storage)] == [0]
    return False


def _check(job: Job) -> None:
    """Refuse the journal of somebody else."""
    if is_remote(job.out):
        return
    with suppress(FileNotFoundError):  # it has none yet
        check_ours(local_path(journal_folder(job.out)))
        check_folder(local_path(job.folder))


def new_staged_name(target: str) -> str:
    """A name under `staging` for one attempt at a file; any file system can have it."""
    return f"{uuid.uuid4().hex}-{os.path.basename(target)[-_SHORT:]}"


def staged_path(job: Job, staged: str) -> str:
    """Where a task writes a staged file."""
    if not is_bare(staged):
        raise PublishError(f"{staged!r} is no name of a file in {job.path(_STAGING)}")
    return job.path(_STAGING, staged)


def mark_finished(job: Job, partition: str, finished: FinishedPartition) -> None:
    """Say that a partition is staged whole, so that a second run need not do it again."""
    files = [file._asdict() for file in finished.files]
    content = {"part": partition, "files": files, "account": finished.account}
    name = partition
    if len(os.fsencode(partition)) > _LONG:  # a topic may be named as long as a file can be
        name = hashlib.sha256(os.fsencode(partition)).hexdigest()
    write_file(job.path(_FINISHED, f"{name}.json"), encode_json(content), job.storage)


def finished_partitions(job: Job) -> dict[str, FinishedPartition]:
    """The partitions that an earlier run of this job staged, whole."""
    _check(job)
    found = {}
    for name in list_names(job.path(_FINISHED), job.storage):
        if name.endswith(".json"):
            path = job.path(_FINISHED, name)
            content = read_json(path, job.storage)
            found[str(content.get("part", name.removesuffix(".json")))] = parse_finished(
                content, path
            )
    return found


def commit(job: Job, files: Sequence[StagedFile], account: Sequence[Mapping[str, Any]]) -> None:
    """Decide what the job publishes, once; whoever comes later follows the first."""
    # Whose commit it is can be told by its bytes, also where the answer to a put was lost.
    writer = uuid.uuid4().hex
    content: dict[str, Any] = {
        "writer": writer,
        "files": [file._asdict() for file in files],
        "account": list(account),
    }
    if not is_remote(job.out):
        _commit(job, files, content)
        return
    # Before the check: who discards what is checked later takes the claim too.
    content[CLAIM] = f"{_CLAIM}{writer}"
    claim = job.path(content[CLAIM])
    write_file(claim, b"", job.storage)
    try:
        _commit(job, files, content)
    except PublishError:  # of any other error nobody knows whether the commit was written
        delete_file(claim, job.storage)
        raise


def _commit(job: Job, files: Sequence[StagedFile], content: Mapping[str, Any]) -> None:
    _check_commit(job, files)
    if not is_remote(job.out):
        # A killed run may have made them and not come to sync what they are in.
        folder = local_path(journal_folder(job.out))
        for made in (os.path.dirname(folder), folder, local_path(job.folder)):
            sync_directory(made)
        if exists(job.path(_STAGING)):
            sync_directory(local_path(job.path(_STAGING)))
    if not create_file(job.path(_COMMIT), encode_json(content), job.storage) and not is_committed(
        job
    ):
        raise discarded(job)


def discarded(job: Job) -> PublishError:
    """What to raise where another job discarded this one; on a disk nobody can."""
    return PublishError(
        f"another job wrote to {job.out} and discarded what this one had staged: run it again when"
        " nobody else writes there"
    )


def settle_others(job: Job, files: Sequence[StagedFile]) -> None:
    """Have no other job commit to an object store between this one's check and its moves.

    What others committed is published, so that the check meets it. Who was discarded itself must
    not discard others in turn: then none would be done.
    """
    if is_remote(job.out):
        _check_staged(job, files)
        settle(job.out, job.storage, running=job.name)


def _check_staged(job: Job, files: Sequence[StagedFile]) -> None:
    staged = staged_sizes(job)
    for file in files:
        if staged.get(file.staged) != file.size:
            found = staged.get(file.staged, "nothing")
            path = staged_path(job, file.staged)
            raise PublishError(f"{path} had {file.size} bytes when it was staged, now {found}")


def _check_commit(job: Job, files: Sequence[StagedFile]) -> None:
    targets = [file.target for file in files]
    if len(set(targets)) != len(targets):
        raise PublishError(f"two staged files for one place in {job.out}")
    _check_staged(job, files)
    there = _published_sizes(job, files)
    for file in files:
        if not is_target(file.target):  # or nobody would publish it
            raise PublishError(f"{file.target!r} is no place in {job.out} where jobs publish")
        if file.target in there and not file.replaces:
            raise PublishError(f"{join(job.out, file.target)} is in the way")
    if apart := _other_disk(job, files):
        raise PublishError(
            f"{apart} is on another file system than {job.folder}: unmount it, or choose another"
            " OUT; the same job then goes on where it stopped"
        )


def require_publishable(out: str) -> None:
    """Refuse, before any work, an OUT to which nothing can be committed or moved."""
    if is_remote(out):
        require_client(out)
        return
    folder = journal_folder(out)
    if _device(local_path(out)) != _device(folder):
        raise PublishError(
            f"{out} is on another file system than {folder}, where its files would be staged: name"
            " a folder in it as OUT"
        )


def _other_disk(job: Job, files: Iterable[StagedFile]) -> str | None:
    """A folder in OUT that is a disk of its own: nothing can be moved there at once."""
    if is_remote(job.out):
        return None
    disk = _device(local_path(job.folder))
    folders = {local_path(join(job.out, os.path.dirname(file.target))) for file in files}
    return next((folder for folder in sorted(folders) if _device(folder) != disk), None)


def _device(path: str) -> int:
    """The file system of a path, or of the folder in which it would be made."""
    while True:
        try:
            return os.stat(path).st_dev
        except FileNotFoundError:
            path = os.path.dirname(os.path.abspath(path))


def _unfinished(what: str, remedy: str) -> PublishError:
    """What to raise of a journal that stays as it is; it must not stay for ever."""
    return PublishError(
        f"{what}: {remedy} and finish the journal, or give it up: see ", Term.FINISH
    )


def _published_sizes(job: Job, files: Iterable[StagedFile]) -> dict[str, int]:
    """The sizes of the targets that are there; what else is in OUT costs nothing on a disk."""
    if is_remote(job.out):  # a listing has a thousand sizes for the price of one
        return _sizes(job.out, job.storage)
    sizes = {}
    for file in files:
        with suppress(FileNotFoundError):
            sizes[file.target] = os.lstat(local_path(join(job.out, file.target))).st_size
    return sizes


def committed_files(job: Job) -> list[StagedFile]:
    """What a job that is not published yet decided to publish."""
    _check(job)
    return _read_files(job, _COMMIT)


def published_files(job: Job) -> list[StagedFile]:
    """What a job published, as it says."""
    _check(job)
    return _read_files(job, PUBLISHED)


def staged_sizes(job: Job) -> dict[str, int]:
    """The sizes of the files that were staged and not published yet."""
    folder = job.path(_STAGING)
    if is_remote(job.out) or not exists(folder):
        return _sizes(folder, job.storage)
    return own_sizes(local_path(folder))


def _sizes(folder: str, storage: StorageOptions) -> dict[str, int]:
    """The sizes of files by their name below `folder`."""
    skip = len(_listed(folder).rstrip("/")) + 1
    try:
        return {entry.path[skip:]: entry.size for entry in list_files(folder, storage)}
    except FileNotFoundError:
        return {}


def _listed(folder: str) -> str:
    """A folder as the paths of its files begin: a file URI is listed as a path."""
    return folder if is_remote(folder) else local_path(folder)


def publish(job: Job) -> None:
    """Bring OUT to the state that was committed; repeated as often as it takes."""
    if not is_remote(job.out):
        _publish(job)
        return
    for _ in range(_ROUNDS):
        if not _has_commit(job):
            if is_published(job):  # by somebody who met the commit
                return
            raise discarded(job)
        with suppress(FileNotFoundError):  # the same, and this far yet
            _publish(job)
            return
    raise PublishError(f"others take away what {job.folder} publishes: see what they are")


def _publish(job: Job) -> None:
    files = committed_files(job)
    staged = staged_sizes(job)
    _check_way(job, files, staged)
    moves = [
        (staged_path(job, file.staged), file.target) for file in files if file.staged in staged
    ]
    try:
        move_below(job.out, moves, job.storage)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        # One disk, and a part of it mounted again inside of OUT.
        what = f"{job.out} holds a mount, to which nothing can be moved from {job.folder}"
        raise _unfinished(what, "unmount it") from error
    delete_tree(job.path(_STAGING), job.storage)
    delete_tree(job.path(_FINISHED), job.storage)
    move_files([(job.path(_COMMIT), job.path(PUBLISHED))], job.storage)
    if is_remote(job.out):  # last: without it the commit would not count
        _delete_claims(job)


def _delete_claims(job: Job) -> None:
    """Also those of runs that lost: what is published needs none."""
    for name in list_names(job.folder, job.storage):
        if name.startswith(_CLAIM):
            delete_file(job.path(name), job.storage)


def _check_way(job: Job, files: Sequence[StagedFile], staged: Mapping[str, int]) -> None:
    """Refuse, before anything moves, what can not be published whole."""
    there = _published_sizes(job, files)
    for file in files:
        target = join(job.out, file.target)
        found = staged.get(file.staged, there.get(file.target))
        if found is None:
            what = f"{file.target} is neither staged nor published in {job.out}"
            raise _unfinished(what, "bring it back")
        if found != file.size:
            what = f"{target} was committed with {file.size} bytes, now it has {found}"
            raise _unfinished(what, "bring it back")
        in_both = file.staged in staged and file.target in there
        if in_both and not (file.replaces or _is_moved(job, file, there[file.target])):
            what = f"{target} is in the way of what {job.folder} committed"
            raise _unfinished(what, "move it away")
    if apart := _other_disk(job, files):
        raise _unfinished(f"{apart} is on another file system than {job.folder}", "unmount it")
    if not is_remote(job.out):
        for folder in {os.path.dirname(file.target) for file in files}:
            _refuse_links(local_path(job.out), folder)


def _is_moved(job: Job, file: StagedFile, size: int) -> bool:
    """Whether what is in place is the staged file itself.

    A copy in an object store may have been killed before it deleted what it had copied; and a disk
    that lost power may have kept both names of a file that was renamed.
    """
    if is_remote(job.out):
        copied = join(job.out, file.target)
        return size == file.size and same_bytes(staged_path(job, file.staged), copied, job.storage)
    target = local_path(join(job.out, file.target))
    return os.path.samestat(os.lstat(local_path(staged_path(job, file.staged))), os.lstat(target))


def _refuse_links(out: str, folder: str) -> None:
    path = out
    for name in filter(None, folder.split("/")):
        path = os.path.join(path, name)
        if os.path.islink(path):
            raise PublishError(f"{path} is a link: files are published inside of {out} only")


def discard(job: Job) -> None:
    """Forget a job that was not committed."""
    if not withdraw(job):
        raise PublishError(f"{job.folder} was committed: publish it")


def withdraw(job: Job) -> bool:
    """Forget a job unless it was committed, and say whether it is forgotten."""
    if is_remote(job.out):
        return _withdraw_from_store(job)
    if exists(job.path(_COMMIT)):
        return False
    forget(job)
    return True


def _withdraw_from_store(job: Job) -> bool:
    """Its process may live, and commit at any moment: an empty commit keeps it from that.

    What is deleted was there before the empty commit was seen: if that is taken away by another who
    discards, and the same job begins again, nothing of it is touched.
    """
    marker = job.path(_COMMIT)
    for _ in range(_ROUNDS):
        left = [
            name
            for name in _sizes(job.folder, job.storage)
            if name != _COMMIT and not name.startswith(f"{_QUARANTINE}/")
        ]
        if not create_file(marker, b"", job.storage):
            if is_committed(job):
                return False
            write_file(
                marker, b"", job.storage
            )  # a commit that came after a discard, or that is gone
        if exists(job.path(PUBLISHED), job.storage):  # by its process, just now
            return False
        if not left:
            delete_file(marker, job.storage)
            return True
        delete_files([job.path(name) for name in left], job.storage)
    return True  # its process still stages: it cannot commit, and the next writer deletes the rest


def forget(job: Job) -> None:
    """Delete all of a journal but its quarantine."""
    _check(job)
    delete_file(job.path(_COMMIT), job.storage)  # first: half of a commit could never be published
    if not exists(job.path(_QUARANTINE), job.storage):
        delete_tree(job.folder, job.storage)
        return
    for name in list_names(job.folder, job.storage):
        if name in (_STAGING, _FINISHED):
            delete_tree(job.path(name), job.storage)
        elif name != _QUARANTINE:
            delete_file(job.path(name), job.storage)


def settle(out: str, storage: StorageOptions = DEFAULT_OPTIONS, *, running: str = "") -> list[str]:
    """Finish every open journal that was committed and discard the others, but for `running`.

    A local job whose process lives is left alone, and named if it will write. An object store has
    no locks: there, one job at a time may write to OUT, and a second makes the first fail when it
    commits, or publishes what the first one committed.
    """
    alive = []
    for name in open_journals(out, storage):
        job = Job(out, name, storage)
        if name == running:
            continue
        with locked(job) as mine:
            if not mine:
                alive.append(name)
            elif not withdraw(job):
                publish(job)
    return [name for name in alive if not name.startswith(_SCRATCH)]


def publish_committed(
    out: str, storage: StorageOptions = DEFAULT_OPTIONS, *, guarded: tuple[str, ...] = ()
) -> None:
    """Finish every open journal that was committed; the others may still be gone on with.

    Whoever holds the lock of OUT says which jobs publish only under it: how their names begin.
    """
    for name in waiting_journals(out, storage):
        job = Job(out, name, storage)
        with nullcontext(True) if name.startswith(guarded) else locked(job) as mine:
            if mine:
                publish(job)


def open_journals(out: str, storage: StorageOptions = DEFAULT_OPTIONS) -> list[str]:
    """The jobs that are not settled; OUT may be mounted when there is none."""
    journals = _journals(out, storage).items()
    return sorted(
        name for name, inside in journals if PUBLISHED not in inside and inside - {_QUARANTINE}
    )


def waiting_journals(out: str, storage: StorageOptions = DEFAULT_OPTIONS) -> list[str]:
    """The jobs that are committed and not published; whose they are is not looked at."""
    journals = _journals(out, storage).items()
    return sorted(
        name for name, inside in journals if _COMMIT in inside and PUBLISHED not in inside
    )


def committed_journals(out: str, storage: StorageOptions = DEFAULT_OPTIONS) -> list[str]:
    """The jobs that are published, or will be."""
    journals = _journals(out, storage).items()
    found = sorted(name for name, inside in journals if inside & {PUBLISHED, _COMMIT})
    for name in found:
        _check(Job(out, name, storage))
    return found


def _journals(out: str, storage: StorageOptions) -> dict[str, set[str]]:
    """What lies directly in the folder of each job, by its name; a link is no folder of a job."""
    folder = journal_folder(out)
    names: dict[str, set[str]] = {}
    if is_remote(out):
        for path, size in _sizes(folder, storage).items():
            name, separator, inside = path.partition("/")
            if inside == _COMMIT and size == 0:
                inside = _DISCARDED
            if separator:
                names.setdefault(name, set()).add(inside.partition("/")[0])
        return names
    if os.path.isdir(local_path(folder)) and not os.path.islink(local_path(folder)):
        with os.scandir(local_path(folder)) as entries:
            folders = [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
        for entry in folders:
            with suppress(FileNotFoundError):  # discarded since
                names[entry.name] = set(os.listdir(entry.path))
    return names


def _read_files(job: Job, name: str) -> list[StagedFile]:
    path = job.path(name)
    return parse_files(read_json(path, job.storage), path)
