"""A remote log as a partition: the segments that are the log, in order, and what is not read."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from ottla.errors import Rule, Violation
from ottla.format.names import (
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    DirectoryState,
    FileName,
    Kind,
)
from ottla.log.files.checkpoints import EpochStart, write_leader_epochs
from ottla.log.files.contents import PartitionFiles
from ottla.log.files.identity import write_topic_id
from ottla.log.files.partition import Partition, Segment
from ottla.log.files.swaps import Named, Settled
from ottla.log.tiered.cut import CutSegment, cut_segment
from ottla.log.tiered.ends import check_ends
from ottla.log.tiered.lineage import SegmentStep, is_within, walk, with_records
from ottla.log.tiered.segments import RemoteLog, RemoteSegment, read_epochs
from ottla.storage.kept.views import literal_entry
from ottla.storage.listing import Entry
from ottla.storage.object_store import StorageOptions

_MAX_CHECKPOINTS: Final = 3  # that are read for one that can be right


class RemoteChoice(NamedTuple):
    """Segments to read of a remote log, the files of them, and what was found on the way.

    `stop` is the offset behind them.
    """

    segments: list[Segment]
    named: list[Named]
    findings: list[Violation]
    stop: int


def as_partition(log: RemoteLog, options: StorageOptions) -> Partition:
    """A remote log by itself."""
    log = check_ends(log, (), options)
    lineage, broken = find_lineage(log, options)
    remote = choose_segments(log, lineage, None, options)
    others = {
        PARTITION_METADATA: literal_entry(
            f"{log.path}/{PARTITION_METADATA}", write_topic_id(log.home.topic_id)
        )
    }
    if lineage:
        path = f"{log.path}/{LEADER_EPOCH_CHECKPOINT}"
        others[LEADER_EPOCH_CHECKPOINT] = literal_entry(path, write_leader_epochs(lineage))
    findings = (*log.findings, *broken, *remote.findings)
    return Partition(
        log.path,
        log.home.name,
        DirectoryState.LIVE,
        PartitionFiles(
            tuple(remote.segments), tuple(remote.named), Settled(tuple(remote.named)), others
        ),
        findings,
        is_remote=True,
    )


def find_lineage(
    log: RemoteLog, options: StorageOptions
) -> tuple[tuple[EpochStart, ...], list[Violation]]:
    """The leader epochs of a log, from the segment that the last leader uploaded last.

    Where its checkpoint is lost they are its own, and what segments before it say of older ones.
    """
    broken: list[Violation] = []
    known: list[EpochStart] = []
    tries = _MAX_CHECKPOINTS
    order = sorted(
        (segment for segment in log.segments if segment.epochs),
        key=lambda each: (each.epochs[-1].epoch, each.end, each.event_ms),
        reverse=True,
    )
    for segment in order:
        if segment.leader_epochs is not None and tries:
            tries -= 1
            try:
                epochs, found = read_epochs(segment.leader_epochs, options)
            except FileNotFoundError:
                epochs, found = (), []
            broken += found
            if epochs:
                return tuple(_with_older(known, epochs)), broken
        known = _with_older(known, segment.epochs)
    return tuple(known), broken


def _with_older(known: list[EpochStart], older: Sequence[EpochStart]) -> list[EpochStart]:
    """Epochs with those before them; of the first one's start an older segment may know more."""
    if not known:
        return list(older)
    first = known[0]
    start = min(offset for epoch, offset in (first, *older) if epoch == first.epoch)
    before = [each for each in older if each.epoch < first.epoch and each.start_offset < start]
    return [*before, EpochStart(first.epoch, start), *known[1:]]


def choose_segments(
    log: RemoteLog, lineage: Sequence[EpochStart], stop: int | None, options: StorageOptions
) -> RemoteChoice:
    """The segments of a lineage up to an offset, each from where the one before ends.

    Where a segment reaches over that offset, it ends at the first batch that does.
    """
    kept = with_records(lineage)
    # Nothing says of a segment without epochs that it is of another branch.
    fits = [not kept or not each.epochs or is_within(each, kept) for each in log.segments]
    within = [each for each, fit in zip(log.segments, fits, strict=True) if fit]
    findings = [_branch(each) for each, fit in zip(log.segments, fits, strict=True) if not fit]
    chosen = walk(within, stop)
    taken = {step.number for step in chosen.steps}
    findings += [
        _overlap(each)
        for number, each in enumerate(within)
        if number not in taken and each.end >= each.start
    ]
    findings += [_gap(log, gap) for gap in chosen.gaps]
    segments: list[Segment] = []
    named: list[Named] = []
    snapshot: tuple[int, Entry | None] = (-1, None)  # the offset that the one before ends at
    for step in chosen.steps:
        segment, base = within[step.number], step.start
        try:
            file, sides, left_out = _between(segment, step, options)
        except FileNotFoundError:
            findings.append(_vanished(segment, base))
            continue
        if left_out:
            findings.append(_gap(log, left_out))
        named.append((FileName(base, Kind.LOG), file))
        named.extend((FileName(base, kind), entry) for kind, entry in sides.items())
        if snapshot[0] == base and snapshot[1] is not None:
            sides[Kind.PRODUCER_SNAPSHOT] = snapshot[1]
        segments.append(Segment(base, file, sides))
        if step.stop is not None:
            snapshot = step.stop, None
            continue
        snapshot = segment.end + 1, segment.snapshot
        if segment.snapshot is not None:
            named.append((FileName(segment.end + 1, Kind.PRODUCER_SNAPSHOT), segment.snapshot))
    return RemoteChoice(segments, named, findings, snapshot[0])


def _between(segment: RemoteSegment, step: SegmentStep, options: StorageOptions) -> CutSegment:
    """What a step takes of a segment."""
    if step.start == segment.start and step.stop is None:
        return CutSegment(segment.log, dict(segment.sides))
    bounds = step.start, step.stop
    return cut_segment(segment.start, segment.log, segment.sides, bounds, options)


def join_partition(local: Partition, log: RemoteLog, options: StorageOptions) -> Partition:
    """A local log with what remote storage has of it before: up to where the local one begins."""
    log = check_ends(log, (each.base_offset for each in local.segments), options)
    lineage, broken = _local_lineage(local, log, options)
    first = local.segments[0].base_offset if local.segments else None
    remote = choose_segments(log, lineage, first, options)
    here = local.contents
    together = PartitionFiles(
        (*remote.segments, *here.segments),
        (*remote.named, *here.named),
        here.settled._replace(live=(*remote.named, *here.settled.live)),
        here.others,
    )
    return replace(
        local,
        files=together,
        findings=(*local.findings, *log.findings, *broken, *_behind(local, log, remote, options)),
    )


def _behind(
    local: Partition, log: RemoteLog, remote: RemoteChoice, options: StorageOptions
) -> list[Violation]:
    """What was found; segments past the end of the local log are no overlap: nobody reads them."""
    from ottla.log.read.next_offset import read_next_offset  # with kernels: help does not wait

    overlaps = [each for each in remote.findings if each.rule is Rule.REMOTE_OVERLAP]
    last = max((each.last_offset or 0 for each in overlaps), default=-1)
    if not local.segments or last < local.segments[-1].base_offset:
        return remote.findings
    active = local.segments[-1]
    index = active.side_files.get(Kind.OFFSET_INDEX)
    try:
        end = read_next_offset(active.log, index, active.base_offset, options)
    except FileNotFoundError:
        return remote.findings  # who reads it will say so
    end = max(end, remote.stop)
    if last < end:
        return remote.findings
    within = [each for each in remote.findings if each not in overlaps or _ends(each) < end]
    detail = (
        "the local log ends before these offsets, which remote storage has: they are not read;"
        " leave out the log directory to read them"
    )
    return [*within, replace(_gap(log, range(end, last + 1)), detail=detail)]


def _ends(found: Violation) -> int:
    return found.last_offset or 0


def _local_lineage(
    local: Partition, log: RemoteLog, options: StorageOptions
) -> tuple[tuple[EpochStart, ...], list[Violation]]:
    entry = local.find(LEADER_EPOCH_CHECKPOINT)
    epochs = () if entry is None else tuple(read_epochs(entry, options)[0])
    return (epochs, []) if epochs else find_lineage(log, options)


def _branch(segment: RemoteSegment) -> Violation:
    detail = (
        "a segment of leader epochs that are not in the log's: a branch that an unclean election"
        " cut off; it is not read"
    )
    found = ", ".join(f"{each.epoch} from {each.start_offset}" for each in segment.epochs[:9])
    return _of_segment(segment, Rule.REMOTE_LINEAGE, detail, found=found or "no epochs")


def _overlap(segment: RemoteSegment) -> Violation:
    detail = "other segments have all of its offsets: it is not read"
    return _of_segment(segment, Rule.REMOTE_OVERLAP, detail)


def _vanished(segment: RemoteSegment, offset: int) -> Violation:
    detail = "an object of the segment vanished between listing and reading: it is not read"
    found = _of_segment(segment, Rule.REMOTE_OBJECT_COMPLETE, detail)
    return replace(found, offset=offset)


def _of_segment(
    segment: RemoteSegment, rule: Rule, detail: str, found: str | None = None
) -> Violation:
    return Violation(
        *(rule, detail, segment.log.path, 0),
        size=segment.log.size,
        offset=segment.start,
        last_offset=segment.end,
        found=found,
    )


def _gap(log: RemoteLog, gap: range) -> Violation:
    detail = "no remote segment has these offsets: their records are lost, or lie elsewhere"
    return Violation(
        *(Rule.REMOTE_GAP, detail, log.path, 0), offset=gap.start, last_offset=gap.stop - 1
    )
