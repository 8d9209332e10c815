"""`append --dry-run` as a library: would a broker take these batches, and what would it store."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from ottla.batch.attributes import codec_ids
from ottla.errors import Row, Rule, Violation
from ottla.format.attributes import CODEC_NAMES
from ottla.format.names import LEADER_EPOCH_CHECKPOINT
from ottla.format.sentinels import INT64_MAX
from ottla.jobs.verify.transactions import read_transactions
from ottla.kernels.tables import Batches, take_batches
from ottla.log.files.checkpoints import read_leader_epochs
from ottla.log.files.foreign import require_segment
from ottla.log.files.partition import Partition
from ottla.log.files.small_files import read_small
from ottla.log.read.windows import read_windows, require_sound_windows
from ottla.region import Region
from ottla.rules.append.accept import Accepted
from ottla.rules.append.checks import (
    ZSTD_PRODUCE_VERSION,
    check_request,
    find_refused_requests,
)
from ottla.rules.append.each import Appends, LogEnd, Outcome, Taken, append_each
from ottla.rules.producers.producer import Duplicate, Origin, Refusal
from ottla.storage.files import open_file


def last_leader_epoch(partition: Partition) -> int:
    """The epoch that the partition's checkpoint ends with, 0 without one."""
    entry = partition.find(LEADER_EPOCH_CHECKPOINT)
    if entry is None:
        return 0
    epochs = read_leader_epochs(read_small(entry), entry.path)
    return epochs[-1].epoch if epochs else 0


def try_append(
    segments: Sequence[str],
    partition: Partition,
    appends: Appends,
    produce_version: int = ZSTD_PRODUCE_VERSION,
) -> Iterator[Row]:
    """A row with the verdict on each batch, then one that counts them; nothing is written."""
    found = read_transactions(partition, from_offset=INT64_MAX)
    end = LogEnd(found.transactions.end_offset, found.transactions.state)
    counts = {"accepted": 0, "duplicate": 0, "refused": 0}
    for region, batches in _windows(segments):
        verdicts = _verdicts(end, region, batches, appends, produce_version)
        for about, verdict in zip(_about(region, batches), verdicts, strict=True):
            counts[verdict["verdict"]] += 1
            yield about | verdict
    yield {"type": "end", **counts, "nextOffset": end.next_offset}


def _windows(paths: Sequence[str]) -> Iterator[tuple[Region, Batches]]:
    for path in paths:
        with open_file(path) as file:
            require_segment(file)
            for window in require_sound_windows(read_windows(file)):
                yield window.region, window.batches


def _about(region: Region, batches: Batches) -> Iterator[Row]:
    columns = (batches.position, batches.size, batches.magic, codec_ids(batches))
    for position, size, magic, codec in zip(*(each.tolist() for each in columns), strict=True):
        yield {
            "type": "batch",
            "file": region.path,
            "position": position,
            "size": size,
            "magic": magic,
            "codec": CODEC_NAMES.get(codec),
        }


def _verdicts(
    end: LogEnd, region: Region, batches: Batches, appends: Appends, produce_version: int
) -> Iterator[Row]:
    """A verdict for each batch, which is an append of its own, the way a producer sends it."""
    sent = Batches(*(column.copy() for column in batches))
    refused = np.zeros(sent.position.size, dtype=np.bool_)
    if appends.origin is Origin.CLIENT:
        # The offset lies outside the CRC, and a broker overwrites it anyway.
        modern = sent.magic >= 2
        sent.base_offset[modern] = 0
        sent.last_offset[modern] = sent.last_offset_delta[modern]
        # Brokers of 4.x take produce requests from version 3 on (KIP-896).
        refused = find_refused_requests(sent, produce_version)
    ends = 1 + np.flatnonzero(np.diff(refused))
    for first, stop in pairwise([0, *ends.tolist(), refused.size]):
        some = take_batches(sent, slice(first, stop))
        if not refused[first:stop].any():
            for outcome in append_each(end, region, some, appends):
                yield from _outcome_rows(outcome)
            continue
        for row in range(stop - first):
            alone = take_batches(some, slice(row, row + 1))
            wrong = list(check_request(region, alone, produce_version))
            yield _violated(wrong[0].rule, wrong)


def _outcome_rows(outcome: Outcome) -> Iterator[Row]:
    """One, or as many as were taken at once."""
    if isinstance(outcome, Taken):
        for row in range(outcome.batches.position.size):
            yield {"verdict": "accepted", **_stored(outcome.one(row))}
    elif isinstance(outcome, Accepted):
        yield {"verdict": "accepted", **_stored(outcome)}
    elif isinstance(outcome, Duplicate):
        seen = outcome.batch
        offsets = {"firstOffset": seen.first_offset, "lastOffset": seen.last_offset}
        yield {"verdict": "duplicate", **offsets}
    elif isinstance(outcome, Refusal):
        yield {"verdict": "refused", **_refusal(outcome)}
    else:
        yield _violated(outcome.rule, outcome.violations)


def _violated(rule: Rule, violations: Sequence[Violation]) -> Row:
    rows = [each.as_row() for each in violations]
    return {"verdict": "refused", "rule": str(rule), "violations": rows}


def _refusal(refusal: Refusal) -> Row:
    return {
        "rule": str(refusal.rule),
        "violations": [
            {
                "rule": str(refusal.rule),
                "detail": refusal.detail,
                "found": refusal.found,
                "expected": refusal.expected,
            }
        ],
    }


def _stored(done: Accepted) -> Row:
    batches = done.batches
    stores = batches.position.size > 0  # nothing of a coordinator's batch without records
    return {
        "firstOffset": done.first_offset,
        "lastOffset": done.last_offset,
        "stored": "encoded" if done.was_encoded else "in-place",
        "storedSize": int(batches.size.sum()),
        "storedMagic": int(batches.magic[0]) if stores else None,
        "storedCodec": CODEC_NAMES.get(int(codec_ids(batches)[0])) if stores else None,
        "maxTimestamp": done.max_timestamp,
        "offsetOfMaxTimestamp": done.offset_of_max_timestamp,
        "logAppendTime": done.log_append_time,
    }
