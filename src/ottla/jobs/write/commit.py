"""A save from the driver's side: what is there before, and what becomes of all that was staged.

To write `commit.json` is the commit point, as for every job. Who decides on it holds the lock of
OUT, so that two saves never take the same offsets. Saves go on beside each other, but not beside
another job.
"""

import hashlib
import os
import re
import time
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Final

from ottla.errors import OptionError, PublishError, Row, Term
from ottla.format.names import UNNAMED, DirectoryState, TopicPartition, parse_directory_name
from ottla.jobs.write.place import PartitionEnd, Placed, Stamp, find_end, place_parts, stamp_log
from ottla.jobs.write.stage import StagedPart, Writing
from ottla.log.files.identity import new_topic_id
from ottla.log.files.ownership import may_be_owned
from ottla.log.write.extent import read_log_starts
from ottla.options.write import WriteOptions
from ottla.publish.account import REQUESTS
from ottla.publish.job import Job
from ottla.publish.journal import (
    commit,
    committed_journals,
    discard,
    forget,
    is_committed,
    is_published,
    publish,
    publish_committed,
    require_publishable,
    settle,
)
from ottla.publish.locks import hold, lock_output, refuse_claimed
from ottla.storage.listing import exists, list_names
from ottla.storage.paths import is_remote, join, local_path
from ottla.storage.retries import Requests

_SAVE: Final = "save-"
_ONCE: Final = "once-"  # a save that nobody can ask for again
_STREAM: Final = "stream-"
SAVES: Final = (_SAVE, _ONCE, _STREAM)  # how jobs begin that publish under the lock of OUT
_STREAM_NAME: Final = re.compile(rf"({_STREAM}[0-9a-f]+-)([0-9]+)")
_MAX_NEW_PARTITIONS: Final = 10_000  # each gets files; a wrong number in a row must not fill OUT
_STAMPERS: Final = 8  # kernels run without the GIL, and the rest is waiting
_STAMPED_BYTES: Final = 256 << 20  # of segments from a store: each is in memory, whole
_PLACERS: Final = 8  # a partition is a few small files to read and to write, durably


def begin_writing(options: WriteOptions) -> Writing:
    """Look at what is there, with what dead drivers committed."""
    out = options.path
    if not is_remote(out) and may_be_owned(local_path(join(out, "topic-0", "0.log"))):
        raise PublishError(f"a broker is running on {out}: stop it before writing there")
    require_publishable(out)
    refuse_claimed(out)
    with lock_output(out):
        if exists(out, options.storage):
            _finish_committed(out, options)
        else:
            _forget_published(out, options)
    return Writing(options, _existing(out, options), time.time_ns() // 1_000_000)


def save_job(options: WriteOptions) -> Job:
    """The job of one save; only one that was given an id can be recognised when it comes again."""
    if options.write_id is None:
        return Job(options.path, _ONCE + uuid.uuid4().hex, options.storage)
    return Job(options.path, _SAVE + _digest(options.write_id), options.storage)


def stream_job(options: WriteOptions, query: str, batch: int) -> Job:
    """The job of one batch of a streaming query, the same whenever that batch is run."""
    return Job(options.path, f"{_STREAM}{_digest(query)}-{batch}", options.storage)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def is_done(job: Job) -> bool:
    """Whether the rows of the job, or of a later batch of its query, are written already."""
    if is_committed(job):
        return True
    return any(later > _batch(job.name) for later in _batches_of_query(job).values())


def _batches_of_query(job: Job) -> dict[str, int]:
    """The committed batches of a stream by their jobs' names; none for a save."""
    found = _STREAM_NAME.fullmatch(job.name)
    if not found:
        return {}
    names = committed_journals(job.out, job.storage)
    return {name: _batch(name) for name in names if name.startswith(found[1])}


def _batch(name: str) -> int:
    return int(name.rpartition("-")[2])


def commit_rows(job: Job, writing: Writing, tasks: Sequence[Sequence[StagedPart]]) -> list[Row]:
    """Place what tasks staged, in their order, behind what is there, and publish it, once."""

    def stamp(work: tuple[Row, Stamp]) -> tuple[int, int]:
        requests = Requests()
        with requests.counting():
            stamp_log(job, work[1])
        return requests.take()

    hold(job)  # the workers that held it may be gone, and others discard what nobody holds
    with lock_output(job.out):
        refuse_claimed(job.out)
        _finish_committed(job.out, writing.options)
        settle(job.out, job.storage, running=job.name)
        if is_done(job):
            if not is_committed(job):
                discard(job)
            elif not is_published(job):
                publish(job)
            return []
        placed = _place(job, writing, [part for parts in tasks for part in parts])
        with ThreadPoolExecutor(_stampers(job, placed)) as stampers:
            stamps = [(each.account, stamp) for each in placed for stamp in each.stamps]
            for (account, _), sent in zip(stamps, stampers.map(stamp, stamps), strict=True):
                for name, count in zip(REQUESTS, sent, strict=True):
                    account[name] += count
        rows = [each.account for each in placed if each.account["topic"] is not None]
        commit(job, [file for each in placed for file in each.files], rows)
        publish(job)
        with suppress(OSError):  # the rows are there, whatever becomes of old journals
            _forget_older(job)
        return rows


def _stampers(job: Job, placed: Sequence[Placed]) -> int:
    """How many segments are stamped at once."""
    if not is_remote(job.out):
        return _STAMPERS
    largest = max((file.size for each in placed for file in each.files), default=0)
    return max(1, min(_STAMPERS, _STAMPED_BYTES // max(1, largest)))


def abandon_rows(job: Job) -> None:
    """Forget what was staged, unless it was committed before something else failed."""
    with lock_output(job.out):  # a run that took the place of this one may be committing it
        if not is_committed(job):
            discard(job)


def _finish_committed(out: str, options: WriteOptions) -> None:
    """Publish what dead drivers committed: under the lock of OUT no living one publishes a save,
    though workers may still hold its job.
    """
    publish_committed(out, options.storage, guarded=SAVES)


def _forget_published(out: str, options: WriteOptions) -> None:
    """Who takes OUT away wants its rows again, also those of a save that has an id.

    Journals of other jobs stay: they hold accounts and quarantines that nobody can make again.
    """
    for name in committed_journals(out, options.storage):
        job = Job(out, name, options.storage)
        if name.startswith(SAVES) and is_published(job):
            forget(job)
    _finish_committed(out, options)


def _forget_older(job: Job) -> None:
    """Only the last batch of a query can come again, and of other saves only those with an id.

    The job's own journal stays: it holds the account, and tells late attempts of its tasks that
    they are not needed.
    """
    older = [name for name, batch in _batches_of_query(job).items() if batch < _batch(job.name)]
    if job.name.startswith(_ONCE):
        names = committed_journals(job.out, job.storage)
        older = [name for name in names if name.startswith(_ONCE) and name != job.name]
    for name in older:
        forget(Job(job.out, name, job.storage))


def _existing(out: str, options: WriteOptions) -> dict[str, int]:
    """How many partitions each topic has: those up to the highest."""
    counts: dict[str, int] = {}
    for name in list_names(out, options.storage):
        found, state = parse_directory_name(name)
        if found != UNNAMED and state is DirectoryState.LIVE:
            counts[found.topic] = max(counts.get(found.topic, 0), found.partition + 1)
    return counts


def _place(job: Job, writing: Writing, parts: Sequence[StagedPart]) -> list[Placed]:
    by_name: dict[str, dict[int, list[StagedPart]]] = {}
    if writing.options.topic is not None and writing.partition_count(writing.options.topic):
        by_name[writing.options.topic] = {}
    for part in parts:
        by_name.setdefault(part.topic, {}).setdefault(part.partition, []).append(part)
    wanted: dict[TopicPartition, list[StagedPart]] = {}
    existing = _existing(job.out, writing.options)
    for topic, partitions in sorted(by_name.items()):
        # A topic has all partitions below its last: whoever appends next counts them.
        count = max(writing.partition_count(topic) or 0, max(partitions, default=-1) + 1)
        if count - existing.get(topic, 0) > _MAX_NEW_PARTITIONS:
            raise OptionError(
                f"topic {topic}: partition {count - 1} would make {count} partitions of which at"
                f" most {_MAX_NEW_PARTITIONS} may be new: is it meant?"
            )
        for number in sorted({*partitions, *range(existing.get(topic, 0), count)}):
            wanted[TopicPartition(topic, number)] = partitions.get(number, [])
    return _place_all(job, writing.options, wanted)


def _place_all(
    job: Job, options: WriteOptions, wanted: Mapping[TopicPartition, Sequence[StagedPart]]
) -> list[Placed]:
    starts = read_log_starts(job.out, job.storage)
    ends: dict[str, dict[int, PartitionEnd]] = {}
    with ThreadPoolExecutor(_PLACERS) as placers:
        found = placers.map(partial(find_end, job, starts), wanted)
        for name, end in zip(wanted, found, strict=True):
            ends.setdefault(name.topic, {})[name.partition] = end
        ids = {topic: _topic_id(job, options, starts, topic, its) for topic, its in ends.items()}

        def place(name: TopicPartition) -> Placed:
            end = ends[name.topic][name.partition]
            return place_parts(job, options, end, wanted[name], ids[name.topic])

        return list(placers.map(place, wanted))


def _topic_id(
    job: Job,
    options: WriteOptions,
    starts: Mapping[TopicPartition, int],
    topic: str,
    ends: Mapping[int, PartitionEnd],
) -> str:
    """The id that the topic has, else the one that was asked for, else a new one."""
    asked = options.topic_ids.get(topic)
    there = next((end.topic_id for end in ends.values() if end.topic_id is not None), None)
    if there is None and 0 not in ends:
        there = find_end(job, starts, TopicPartition(topic, 0)).topic_id
    if asked is not None and there is not None and asked != there:
        raise OptionError(Term.TOPIC_IDS, f": topic {topic} has the id {there}, not {asked}")
    return there or asked or new_topic_id()


def absolute(path: str) -> str:
    """A local path as every process understands it, whatever its working directory."""
    return path if is_remote(path) else os.path.abspath(local_path(path))
