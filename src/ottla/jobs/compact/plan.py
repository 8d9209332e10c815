"""Compact logs as Kafka's cleaner does: which tasks there are, in what order, and what they write.

First headers are surveyed, a task for each log (`survey`); then the offsets that stay are found
(`learn`); then segments are written anew, or what would stay of them is counted (`clean`,
`explain`). `run` has engines run them; what is decided about a batch or a record is in
`ottla.rules`.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, NamedTuple

from ottla.catalog.chosen import ChosenLogs
from ottla.catalog.logs import Log
from ottla.catalog.slices import Cutting, Task, cut_tasks
from ottla.catalog.stable import Stable
from ottla.errors import OptionError, PublishError
from ottla.format.arrays import Words
from ottla.format.names import Kind, TopicPartition
from ottla.jobs.compact.clean import (
    Cleaning,
    CompactedLog,
    CompactPart,
    close_log,
    count_part,
    write_part,
)
from ottla.jobs.compact.learn import Found, LearnLog
from ottla.jobs.compact.survey import (
    CompactOptions,
    LogToSurvey,
    Surveyed,
    read_cleaner_checkpoints,
    write_facts,
)
from ottla.jobs.evidence import with_evidence
from ottla.jobs.output import OutputJob, choose_inputs, nothing_to_close
from ottla.log.files.checkpoints import EpochStart
from ottla.log.files.partition import Segment
from ottla.log.read.bounds import Bounds
from ottla.log.write.extent import find_extent, join_lineage, read_lineage
from ottla.publish.checked import FinishedPartition
from ottla.publish.job import Job, job_name
from ottla.publish.journal import staged_path
from ottla.rules.cleaner.compaction import Round
from ottla.rules.cleaner.survivors import Learning
from ottla.storage.files import read_bytes
from ottla.storage.listing import Entry, exists
from ottla.storage.object_store import StorageOptions
from ottla.storage.writing import create_file, write_file

_NOW: Final = "now.json"
_SURVIVORS: Final = "survivors.json"


@dataclass(frozen=True, slots=True)
class Compaction:
    """What to compact into `out`. Without `now` the clock of the first run counts, also for others.

    `lineages` are the leader epochs that the checkpoints of the logs name. `explains` counts what
    would stay and writes nothing: nobody needs them then, and every log is cleaned that has
    something to clean, whether a broker would choose it or not.
    """

    chosen: ChosenLogs
    out: str
    options: CompactOptions
    now: int | None
    logs: tuple[Log, ...]
    checkpoints: Mapping[TopicPartition, int]
    lineages: Mapping[TopicPartition, tuple[EpochStart, ...]] = field(default_factory=dict)
    explains: bool = False
    gives_evidence: bool = False

    @property
    def storage(self) -> StorageOptions:
        return self.chosen.storage

    @property
    def name(self) -> str:
        """The job's name: the same input and options give the same."""
        return job_name(self.inputs, self.described())

    @property
    def inputs(self) -> Iterator[Entry]:
        return (entry for log in self.logs for entry in log.partition.entries)

    def described(self) -> dict[str, Any]:
        """The options that name the job."""
        return {
            "command": "explain" if self.explains else "compact",
            "selection": self.chosen.described(),
            "options": asdict(self.options) | {"config": self.options.config._asdict()},
            "checkpoints": sorted(self.checkpoints.items()),
            "now": self.now,
            "logStarts": sorted((log.name, log.log_start) for log in self.logs),
            **({"evidence": True} if self.gives_evidence else {}),
        }

    def cleans(self, surveyed: Surveyed) -> bool:
        """Whether a log is cleaned, and not only copied."""
        return bool(surveyed.groups) and (self.explains or surveyed.cleanable.is_chosen)


def plan_compaction(
    chosen: ChosenLogs,
    out: str,
    options: CompactOptions,
    *,
    now: int | None = None,
    explains: bool = False,
) -> Compaction:
    """Compact what is chosen into OUT."""
    logs = [log for log in choose_inputs(chosen, out) if log.partition.segments]
    if not logs:
        raise OptionError(f"{', '.join(chosen.paths)}: no partition here has a segment")
    checkpoints = _checkpoints(chosen, logs)
    lineages = {}
    if not explains:  # refuses, before any work, what would cost remote data
        for log in logs:
            lineages[log.name] = read_lineage(log.partition, log.log_start, chosen.storage)
    return Compaction(chosen, out, options, now, tuple(logs), checkpoints, lineages, explains)


def plan_explanation(
    chosen: ChosenLogs, logs: Sequence[Log], scratch: str, options: CompactOptions, now: int
) -> Compaction:
    """Explain logs that are known; tasks leave files beside `scratch` while they run."""
    cleaned = tuple(log for log in logs if log.partition.segments)
    checkpoints = _checkpoints(chosen, cleaned)
    return Compaction(chosen, scratch, options, now, cleaned, checkpoints, explains=True)


def _checkpoints(chosen: ChosenLogs, logs: Iterable[Log]) -> dict[TopicPartition, int]:
    names = {log.name for log in logs}
    found = read_cleaner_checkpoints(chosen.catalog)
    return {name: offset for name, offset in found.items() if name in names}


def plan_surveys(plan: Compaction, now: int) -> list[LogToSurvey]:
    """A task for each log."""
    parts = []
    for log in plan.logs:
        checkpoint = plan.checkpoints.get(log.name)
        parts.append(LogToSurvey(log, checkpoint, now, plan.options, plan.storage))
    return parts


def settle_now(job: Job, plan: Compaction, clock: int) -> int:
    """The time of the round: what was asked for, else when the job was first begun."""
    if plan.now is not None:
        return plan.now
    path = job.path(_NOW)
    create_file(path, json.dumps(clock).encode(), job.storage)
    try:
        now = json.loads(read_bytes(path, job.storage))
    except (ValueError, RecursionError):
        now = None
    if not isinstance(now, int):
        raise PublishError(f"{path} holds no time: delete its job, and compact again")
    return now


class FirstPass(NamedTuple):
    """The tasks that find out what stays; `numbers` gives logs by the name of their partition."""

    tasks: list[Task]
    logs: list[LearnLog]
    numbers: dict[str, tuple[int, LearnLog]]
    part_count: int

    @property
    def size(self) -> int:
        return sum(part.size for task in self.tasks for part in task)


def plan_first_pass(plan: Compaction, surveyed: Sequence[Surveyed], secret: Words) -> FirstPass:
    """Slices of all logs that are cleaned; parts are the groups of all logs, one after another."""
    cleaned = [each for each in surveyed if plan.cleans(each)]
    logs: list[LearnLog] = []
    count = 0
    for each in cleaned:
        told = Learning(
            secret,
            each.cleanable.first_dirty_offset,
            each.log.earliest,
            plan.options.hash_bits,
        )
        bases = tuple(group.segments[0].base_offset for group in each.groups)
        drops_unkeyed = plan.options.drops_unkeyed or plan.explains
        logs.append(LearnLog(told, bases, count, drops_unkeyed))
        count += len(bases)
    tasks = cut_tasks(
        [each.log for each in cleaned],
        [Bounds(None, each.bound) for each in cleaned],
        [Stable(each.facts.aborted, each.bound) for each in cleaned],
        Cutting(plan.options.split_bytes),
        plan.storage,
    )
    numbers = {str(each.log.name): (number, logs[number]) for number, each in enumerate(cleaned)}
    return FirstPass([*tasks], logs, numbers, count)


def read_found(job: Job) -> dict[int, Found] | None:
    """What an earlier run of the same job found to stay; None if it did not come so far."""
    path = staged_path(job, _SURVIVORS)
    if not exists(path, job.storage):
        return None
    try:
        content = json.loads(read_bytes(path, job.storage))
        return {int(part): Found(**found) for part, found in content.items()}
    except (AttributeError, RecursionError, TypeError, ValueError) as error:
        raise PublishError(
            f"{path} is not what a first pass leaves: delete its job, and compact again"
        ) from error


def write_found(job: Job, found: Mapping[int, Found]) -> None:
    """Let a second run go on from here."""
    content = {str(part): asdict(its) for part, its in found.items()}
    write_file(staged_path(job, _SURVIVORS), json.dumps(content).encode(), job.storage)


def _facts_name(directory: str) -> str:
    """A file under `staging`; the name of a directory may be as long as that of a file can be."""
    return f"{hashlib.sha256(os.fsencode(directory)).hexdigest()}.facts"


def plan_second_pass(
    plan: Compaction,
    job: Job,
    surveyed: Sequence[Surveyed],
    found: Mapping[int, Found],
    now: int,
) -> OutputJob:
    """The parts of all logs; those that are only copied too, unless nothing is written."""
    parts: dict[str, CompactPart] = {}
    its_parts: dict[str, dict[str, CompactPart]] = {}
    number = 0
    for each in surveyed:
        facts = _facts_name(each.directory)
        write_file(staged_path(job, facts), write_facts(each.facts), job.storage)
        planned: list[CompactPart] = []
        if plan.cleans(each):
            planned += _cleaned_parts(plan, each, found, number, now)
            number += len(each.groups)
        if not plan.explains:
            planned += _copied_parts(plan, each)
        named = {f"{part.directory}.{part.base_offset:020d}": part for part in planned}
        its_parts[each.directory] = named
        parts |= named

    def closing(finished: Mapping[str, FinishedPartition]) -> dict[str, CompactedLog]:
        return {
            each.directory: _closing(plan, each, finished, its_parts[each.directory])
            for each in surveyed
        }

    job_plan = OutputJob(
        title="explain" if plan.explains else "compact",
        out=plan.out,
        logs=plan.logs,
        options=plan.described() | {"now": now},
        storage=plan.storage,
        parts=parts,
        stage=count_part if plan.explains else write_part,
        closing=nothing_to_close if plan.explains else closing,
        close=close_log,
        log_starts={each.log.name: each.log.log_start for each in surveyed},
    )
    return with_evidence(job_plan) if plan.gives_evidence else job_plan


def _cleaned_parts(
    plan: Compaction, each: Surveyed, found: Mapping[int, Found], first: int, now: int
) -> Iterator[CompactPart]:
    round_ = Round(each.bound, now, plan.options.config.delete_retention_ms)
    for number, group in enumerate(each.groups, first):
        its = found.get(number)
        cleaning = Cleaning(
            round_,
            group.began,
            None if its is None else its.file,
            _facts_name(each.directory),
            each.legacy_horizon,
        )
        has_last = not each.rest and group is each.groups[-1]
        yield _part(plan, each, group.segments, cleaning, has_last=has_last)


def _copied_parts(plan: Compaction, each: Surveyed) -> Iterator[CompactPart]:
    segments = each.rest if plan.cleans(each) else each.log.partition.segments
    for number, segment in enumerate(segments, 1):
        is_last = number == len(segments)
        if is_last or segments[number].base_offset > each.log.earliest:
            yield _part(plan, each, (segment,), None, has_last=is_last)


def _part(
    plan: Compaction,
    each: Surveyed,
    segments: tuple[Segment, ...],
    cleaning: Cleaning | None,
    *,
    has_last: bool,
) -> CompactPart:
    return CompactPart(
        each.directory,
        each.log.name,
        segments,
        has_last,
        each.log.earliest,
        cleaning,
        plan.storage,
        plan.options.max_batch_bytes,
    )


def _closing(
    plan: Compaction,
    each: Surveyed,
    finished: Mapping[str, FinishedPartition],
    parts: Mapping[str, CompactPart],
) -> CompactedLog:
    log, lineage = each.log, plan.lineages[each.log.name]
    extent = find_extent(log.partition, log.log_start, each.log_end, lineage, plan.storage)
    epochs = join_lineage(extent.epochs, each.epochs)
    logs = [file for key in parts for file in finished[key].files if file.target.endswith(Kind.LOG)]
    bases = [part.base_offset for part in parts.values()]
    return CompactedLog(
        each.directory,
        each.log.name,
        tuple(sorted(logs, key=lambda file: file.target)),
        max(bases),
        replace(extent, base_offset=min(bases), epochs=epochs),
        _facts_name(each.directory),
    )
