"""The rows of a report: what is there, how it is, what it would be otherwise.

Everything that the page shows is in a row or worked out from rows: sums of savings, and shares.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from ottla.batch.new_batch import CURRENT_MAGIC
from ottla.catalog.chosen import ChosenLogs
from ottla.catalog.logs import Log
from ottla.errors import Row
from ottla.format.attributes import CODEC_NAMES, Codec
from ottla.jobs.compact.explain import explain_uncounted, plain_obstacle
from ottla.jobs.compact.survey import Surveyed
from ottla.jobs.report.survey import BUCKET_MS, Survey, add_up, bin_floor
from ottla.jobs.report.verdict import sum_up
from ottla.jobs.report.what_if import (
    AS_IT_IS,
    BATCH_SIZES,
    CONFIDENCE,
    Estimate,
    Setting,
    WhatIfPlan,
)
from ottla.log.files.partition import Partition
from ottla.log.write.extent import remote_offsets, remote_range
from ottla.options.report import ReportOptions as ReportOptions
from ottla.rules.cleaner.cleanable import explain_unkeyed
from ottla.rules.producers.transactions import is_hanging
from ottla.version import VERSION

_BUCKETS: Final = 120  # of a timeline, at most
_PRODUCERS: Final = 10
_GB: Final = 1_000_000_000
_MAX_TIMEOUT_MS: Final = 900_000  # transaction.max.timeout.ms of a broker
_MEASURES: Final = {
    "batchBytes": "batch_sizes",
    "batchRecords": "batch_counts",
    "recordBytes": "record_sizes",
    "latenessMs": "lateness",
}


def head_row(chosen: ChosenLogs, created: int, options: ReportOptions, found: Iterable[Row]) -> Row:
    """What the report is about and what it found, in one row."""
    rows = list(found)
    topics = [row for row in rows if row["type"] == "topic"]
    severities = Counter(row["severity"] for row in rows if row["type"] == "finding")
    totals = {
        name: sum(row[name] for row in topics)
        for name in ("partitions", "segments", "bytes", "batches", "records")
    }
    return {
        "type": "report",
        "version": VERSION,
        "paths": list(chosen.paths),
        "created": created,
        "topics": len(topics),
        **totals,
        **sum_up(rows),
        "errors": severities["error"],
        "warnings": severities["warning"],
        "openTransactions": sum(row["type"] == "openTransaction" for row in rows),
        "compacted": sorted({row["topic"] for row in rows if row["type"] == "compaction"}),
        "pricePerGbMonth": options.price,
        "confidence": CONFIDENCE,
        "sampleBytes": options.sample_bytes,
    }


def topic_rows(logs: Sequence[Log], surveys: Sequence[Mapping[int, Survey]]) -> Iterator[Row]:
    """Topics, then their partitions, segments, timelines, distributions and producers.

    `surveys` are of the segments of each log.
    """
    by_topic: dict[str, list[int]] = {}
    for number, log in enumerate(logs):
        by_topic.setdefault(log.name.topic, []).append(number)
    wholes = {
        topic: add_up(survey for number in numbers for survey in surveys[number].values())
        for topic, numbers in sorted(by_topic.items())
    }
    first, width = _buckets([time for whole in wholes.values() for time in whole.timeline])
    for topic, whole in wholes.items():
        numbers = by_topic[topic]
        yield _topic(topic, [logs[number].partition for number in numbers], whole)
        for number in numbers:
            yield from _partition(logs[number], surveys[number])
        yield from _timeline(topic, whole, first, width)
        yield from _distributions(topic, whole)
        yield from _producers(topic, whole)


def _contents(survey: Survey) -> Row:
    return {
        "bytes": survey.size,
        "batches": survey.batches,
        "records": survey.records,
        "firstTimestamp": survey.first_timestamp,
        "lastTimestamp": survey.last_timestamp,
        "unreadableBytes": survey.unreadable_bytes,
    }


def _topic(topic: str, partitions: Sequence[Partition], survey: Survey) -> Row:
    return {
        "type": "topic",
        "topic": topic,
        "partitions": len(partitions),
        "segments": sum(len(partition.segments) for partition in partitions),
        **_contents(survey),
        "recordBytes": survey.record_bytes,
        "formats": {f"v{magic}": size for magic, size in sorted(survey.magic_bytes.items())},
        "codecs": dict(sorted(survey.codec_bytes.items())),
        "producers": sum(producer >= 0 for producer in survey.producer_bytes),
        "transactionalBytes": survey.transactional_bytes,
    }


def _partition(log: Log, surveys: Mapping[int, Survey]) -> Iterator[Row]:
    names = {"topic": log.name.topic, "partition": log.name.partition}
    whole = add_up(surveys.values())
    segments = log.partition.segments
    remote = remote_offsets(log.partition, log.log_start)
    spans = ((each, surveys.get(at, Survey()).last_offset) for at, each in enumerate(segments))
    yield {
        "type": "partition",
        **names,
        "segments": len(segments),
        **_contents(whole),
        "firstOffset": whole.first_offset,
        "lastOffset": whole.last_offset,
        "remoteOffsets": len(remote),
        "remoteRange": remote_range(remote, spans),
    }
    for number, segment in enumerate(segments):
        survey = surveys.get(number, Survey())
        yield {
            "type": "segment",
            **names,
            "segment": number,
            "baseOffset": segment.base_offset,
            **_contents(survey),
            "bytes": segment.log.size,
            "lastOffset": survey.last_offset,
        }


def _buckets(times: Sequence[int]) -> tuple[int, int]:
    """Where the buckets of all topics begin, and a width with which there are not too many.

    One plot shows the topics on top of each other, so their buckets must be the same.
    """
    if not times:
        return 0, BUCKET_MS
    first, last = min(times), max(times)
    return first, BUCKET_MS * -(-(last - first + BUCKET_MS) // (BUCKET_MS * _BUCKETS))


def _timeline(topic: str, survey: Survey, first: int, width: int) -> Iterator[Row]:
    """Bytes by time, in buckets of a width."""
    wide: Counter[int] = Counter()
    for time, size in survey.timeline.items():
        wide[first + (time - first) // width * width] += size
    for time, size in sorted(wide.items()):
        yield {"type": "timeline", "topic": topic, "from": time, "to": time + width, "bytes": size}


def _distributions(topic: str, survey: Survey) -> Iterator[Row]:
    for measure, name in _MEASURES.items():
        for number, count in sorted(getattr(survey, name).items()):
            yield {
                "type": "distribution",
                "topic": topic,
                "measure": measure,
                "from": bin_floor(number),
                "to": bin_floor(number + 1),
                "count": count,
            }


def _producers(topic: str, survey: Survey) -> Iterator[Row]:
    """The producers that wrote most; those without an id are one."""
    for producer, size in survey.producer_bytes.most_common(_PRODUCERS):
        yield {
            "type": "producer",
            "topic": topic,
            "producerId": producer if producer >= 0 else None,
            "bytes": size,
        }


def what_if_row(plan: WhatIfPlan, setting: Setting, found: Estimate, options: ReportOptions) -> Row:
    """What a topic would take, in bytes and money; `low` and `high` are equal if it was tried."""
    codec = None if setting.codec is None else CODEC_NAMES[setting.codec]
    topic, stored = plan.topic, plan.stored_size
    return {
        "type": "whatIf",
        "topic": topic,
        "kind": _kind(setting),
        "magic": setting.magic,
        "codec": codec,
        "level": setting.level,
        "batchBytes": setting.batch_bytes,
        "currentBytes": stored,
        "bytes": found.size,
        "low": found.low,
        "high": found.high,
        "measured": "whole" if plan.draw.is_whole else "sample",
        "triedBytes": sum(trial.size for trial in plan.trials),
        "savedBytes": stored - found.size,
        "perMonth": round(found.size * options.price / _GB, 9),
        "savedPerMonth": round((stored - found.size) * options.price / _GB, 9),
    }


def _kind(setting: Setting) -> str:
    """Who can bring it about: `convert`, or nobody but the producers."""
    if setting == AS_IT_IS:
        return "today"
    return "rebatch" if setting.magic is None else "convert"


def overhead_rows(rows: Sequence[Row]) -> Iterator[Row]:
    """What each format takes beside keys, values and headers when nothing is compressed.

    In the largest batches, where magic 2 shares its 61 bytes among most records. Messages of older
    formats stand alone, so that sizes of batches are nothing to them. These formats
    lack the records of aborted and open transactions, so topics with any are compared with none.
    """
    topics = {row["topic"]: row for row in rows if row["type"] == "topic"}
    for row in rows:
        plain = row["type"] == "whatIf" and row["codec"] == CODEC_NAMES[Codec.NONE]
        if not plain or row["batchBytes"] != _roomiest(row["magic"]):
            continue
        topic = topics[row["topic"]]
        if topic["transactionalBytes"] and row["magic"] < CURRENT_MAGIC:
            continue
        beside = (row["bytes"] - topic["recordBytes"]) / max(1, topic["records"])
        yield {
            "type": "overhead",
            "topic": row["topic"],
            "magic": row["magic"],
            "records": topic["records"],
            "recordBytes": topic["recordBytes"],
            "bytes": row["bytes"],
            "perRecord": round(beside, 2),
        }


def _roomiest(magic: int) -> int | None:
    return max(BATCH_SIZES) if magic == CURRENT_MAGIC else None


def compaction_row(surveyed: Surveyed, explained: Row | None, survey: Survey) -> Row:
    """What `ottla compact --explain` says of a log; without that, what headers and survey say."""
    if explained is not None:
        return {"type": "compaction", **explained}
    row = {"type": "compaction", **explain_uncounted(surveyed)}
    unkeyed = survey.records - survey.keyed
    if unkeyed:
        row["obstacles"].append(plain_obstacle(explain_unkeyed(unkeyed)))
    return row | {"unkeyedRecords": unkeyed}


def open_transaction_rows(surveyed: Surveyed, now: int) -> Iterator[Row]:
    """The transactions of a log that no marker ended."""
    name, found = surveyed.log.name, surveyed.open
    hanging = is_hanging(found, now, _MAX_TIMEOUT_MS)
    for row, first_offset in enumerate(found.first_offset.tolist()):
        yield {
            "type": "openTransaction",
            "topic": name.topic,
            "partition": name.partition,
            "producerId": int(found.producer_id[row]),
            "producerEpoch": int(found.producer_epoch[row]),
            "firstOffset": first_offset,
            "lastTimestamp": int(found.last_timestamp[row]),
            "hanging": bool(hanging[row]),
            "heldBack": surveyed.log_end - first_offset,
        }
