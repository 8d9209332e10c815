"""What is in logs: a part of a segment says what it holds, parts of a topic are added up.

Sizes and times go into bins, so that what a part says stays small however much it holds.
"""

import pickle
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from ottla.batch.attributes import codec_ids, is_control, is_transactional
from ottla.batch.decode import Decoder
from ottla.batch.records import Reused, decode_groups, unpack_bits
from ottla.catalog.logs import Log
from ottla.catalog.slices import Cutting, Slice, cut_log
from ottla.codec import compress
from ottla.format.attributes import CODEC_NAMES, Codec
from ottla.format.sentinels import NO_OFFSET, NO_PRODUCER_ID
from ottla.kernels.tables import Batches, Int64s, RecordBuffers, Wanted, take_batches
from ottla.log.read.bounds import Bounds
from ottla.log.read.windows import Window, read_windows
from ottla.region import Bytes
from ottla.storage.files import open_file
from ottla.storage.object_store import StorageOptions

SURVEY_SCHEMA: Final = pa.schema(
    [
        pa.field("log", pa.int32(), nullable=False),
        pa.field("segment", pa.int32(), nullable=False),
        pa.field("survey", pa.binary(), nullable=False),
    ]
)

BUCKET_MS: Final = 60_000  # of the timeline, as fine as a page could ever show
RECORD_OVERHEAD: Final = 10  # what a record of magic 2 takes beside its fields, about
MAX_PRODUCERS: Final = 10_000  # that a part names; the rest share the name of none

_PROBE: Final = 8 << 10  # bytes of a piece that is compressed to see how well a window would be
_PROBES: Final = 8
_ALL: Final = Wanted.KEYS | Wanted.VALUES | Wanted.HEADERS


@dataclass(frozen=True, slots=True)
class SurveyPart:
    """Bytes to look at: which log, which of its segments, and the slice of it."""

    log: int
    segment: int
    slice: Slice
    storage: StorageOptions

    @property
    def size(self) -> int:
        return self.slice.size


class Unit(NamedTuple):
    """A window as a rewriting job reads it: what a what-if re-encodes whole.

    `raw_size` is what its records take when nothing is compressed, `packed_size` what they would
    take if all of them were compressed as well as a few pieces of them.
    """

    part: Slice
    start: int
    stop: int
    stored_size: int
    raw_size: int
    packed_size: int


@dataclass(slots=True)
class Survey:
    """What a part, a segment, a partition or a topic holds. Bins are powers of two."""

    size: int = 0
    batches: int = 0
    records: int = 0
    record_bytes: int = 0
    keyed: int = 0
    unreadable_bytes: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    first_timestamp: int | None = None
    last_timestamp: int | None = None
    magic_bytes: Counter[int] = field(default_factory=Counter)
    codec_bytes: Counter[str] = field(default_factory=Counter)
    timeline: Counter[int] = field(default_factory=Counter)
    batch_sizes: Counter[int] = field(default_factory=Counter)
    batch_counts: Counter[int] = field(default_factory=Counter)
    record_sizes: Counter[int] = field(default_factory=Counter)
    lateness: Counter[int] = field(default_factory=Counter)
    producer_bytes: Counter[int] = field(default_factory=Counter)
    transactional_bytes: int = 0
    units: list[Unit] = field(default_factory=list)

    def add(self, other: "Survey") -> None:
        """Take in what a later part holds."""
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in _BINS:
            getattr(self, name).update(getattr(other, name))
        self.units += other.units
        for name, choose in _EDGES:
            known = [
                each for each in (getattr(self, name), getattr(other, name)) if each is not None
            ]
            setattr(self, name, choose(known) if known else None)


_SUMS: Final = (
    "size",
    "batches",
    "records",
    "record_bytes",
    "keyed",
    "unreadable_bytes",
    "transactional_bytes",
)
_BINS: Final = (
    "magic_bytes",
    "codec_bytes",
    "timeline",
    "batch_sizes",
    "batch_counts",
    "record_sizes",
    "lateness",
    "producer_bytes",
)
_EDGES: Final = (
    ("first_offset", min),
    ("last_offset", max),
    ("first_timestamp", min),
    ("last_timestamp", max),
)


def plan_survey(logs: Sequence[Log], split_bytes: int, storage: StorageOptions) -> list[SurveyPart]:
    """Every log in slices, cut as a rewriting job cuts them."""
    parts = []
    for number, log in enumerate(logs):
        bases = {each.base_offset: at for at, each in enumerate(log.partition.segments)}
        bounds = Bounds(start=log.log_start)
        parts += [
            SurveyPart(number, bases[part.base_offset], part, storage)
            for part in cut_log(log, bounds, Cutting(split_bytes), storage)
        ]
    return parts


def survey_part(part: SurveyPart) -> Iterator[pa.RecordBatch]:
    """One row with what the slice holds; what can not be read is counted and left out."""
    survey, cut = Survey(size=part.size), part.slice
    decoder = Decoder(_ALL, allocate=Reused())
    newest = -1
    with open_file(cut.log, part.storage) as file:
        stop = min(cut.stop, file.size)
        for window in read_windows(file, start=cut.start, end=stop):
            newest = _see(survey, decoder, window, cut, newest)
    survey.unreadable_bytes = part.size - sum(survey.magic_bytes.values())
    row = (part.log, part.segment, pickle.dumps(survey))
    arrays = [pa.array([cell], field.type) for cell, field in zip(row, SURVEY_SCHEMA, strict=True)]
    yield pa.RecordBatch.from_arrays(arrays, schema=SURVEY_SCHEMA)


def _see(survey: Survey, decoder: Decoder, window: Window, part: Slice, newest: int) -> int:
    if not window.batches.position.size:
        return newest
    stored = raw = 0
    packed = 0.0
    for span, (records, rows), left_out in decode_groups(decoder, window.region, window.batches):
        every = take_batches(window.batches, span)
        broken = np.isin(every.position, [bad.violation.position for bad in left_out])
        batches = take_batches(every, ~broken)
        sizes = record_sizes(records)
        its_raw = int(sizes.sum()) + RECORD_OVERHEAD * sizes.size
        stored, raw = stored + int(batches.size.sum()), raw + its_raw
        packed += its_raw * _packed_share(records.value_bytes[: records.value_bounds[-1]])
        _see_batches(survey, batches, rows[~broken])
        _see_records(survey, records, sizes)
        newest = _see_times(survey, batches, records.timestamp, newest)
    if stored:
        start = int(window.batches.position[0])
        survey.units.append(Unit(part, start, window.stop, stored, max(1, raw), round(packed)))
    return newest


def _packed_share(data: Bytes) -> float:
    """How much is left of pieces from all over the data when they are compressed."""
    starts = np.linspace(0, max(0, data.size - _PROBE), _PROBES).astype(np.int64)
    pieces = [data[start : start + _PROBE] for start in np.unique(starts).tolist()]
    probe = np.concatenate(pieces)
    return len(compress(Codec.ZSTD, 2, probe.data, level=1)) / probe.size if probe.size else 1.0


def _see_batches(survey: Survey, batches: Batches, rows: Int64s) -> None:
    if not batches.position.size:
        return
    control = is_control(batches)
    survey.batches += batches.position.size
    survey.transactional_bytes += int(batches.size[is_transactional(batches)].sum())
    known = batches.base_offset[batches.base_offset != NO_OFFSET]
    if survey.first_offset is None and known.size:
        survey.first_offset = int(known[0])
    survey.last_offset = int(batches.last_offset[-1])
    _add_sums(survey.magic_bytes, batches.magic, batches.size)
    by_codec: Counter[int] = Counter()
    _add_sums(by_codec, codec_ids(batches), batches.size)
    for codec, size in by_codec.items():
        survey.codec_bytes[CODEC_NAMES.get(codec, f"unknown-{codec}")] += size
    _add_bins(survey.batch_sizes, batches.size[~control])
    _add_bins(survey.batch_counts, rows[~control & (rows > 0)])
    _add_sums(survey.producer_bytes, batches.producer_id, batches.size)
    for producer, _ in survey.producer_bytes.most_common()[MAX_PRODUCERS:]:
        # Taken out first: one of them may be those without an id.
        size = survey.producer_bytes.pop(producer)
        survey.producer_bytes[NO_PRODUCER_ID] += size


def _see_records(survey: Survey, records: RecordBuffers, sizes: Int64s) -> None:
    count = records.offset.size
    survey.records += count
    survey.record_bytes += int(sizes.sum())
    survey.keyed += int(unpack_bits(records.key_valid, count).sum())
    _add_bins(survey.record_sizes, sizes)


def _see_times(survey: Survey, batches: Batches, timestamps: Int64s, newest: int) -> int:
    """Lateness is how far a record is behind the newest one in front of it in its part."""
    known = timestamps[timestamps >= 0]
    if known.size:
        low, high = int(known.min()), int(known.max())
        first, last = survey.first_timestamp, survey.last_timestamp
        survey.first_timestamp = low if first is None else min(low, first)
        survey.last_timestamp = high if last is None else max(high, last)
        reached = np.maximum(np.maximum.accumulate(known), newest)
        _add_bins(survey.lateness, reached - known)
        newest = int(reached[-1])
    dated = batches.max_timestamp >= 0
    _add_sums(
        survey.timeline,
        batches.max_timestamp[dated] // BUCKET_MS * BUCKET_MS,
        batches.size[dated],
    )
    return newest


def record_sizes(records: RecordBuffers) -> Int64s:
    """Bytes of the key, value and headers of each record."""
    keys = np.diff(records.header_key_bounds).astype(np.int64)
    values = np.diff(records.header_value_bounds).astype(np.int64)
    ends = np.concatenate([[0], np.cumsum(keys + values)])
    headers = ends[records.header_bounds[1:]] - ends[records.header_bounds[:-1]]
    sizes: Int64s = (
        np.diff(records.key_bounds).astype(np.int64) + np.diff(records.value_bounds) + headers
    )
    return sizes


def bin_floor(number: int) -> int:
    """The least value of a bin: bin 0 holds 0, bin n from 2 ** (n - 1) to 2 ** n - 1.

    >>> [bin_floor(number) for number in range(5)]
    [0, 1, 2, 4, 8]
    """
    return 1 << (number - 1) if number else 0


def _add_bins(bins: Counter[int], values: Int64s) -> None:
    # frexp gives the exponent e of x = m * 2**e with 0.5 <= m < 1, which is the bin's number.
    numbers = np.frexp(values.astype(np.float64))[1]
    found, counts = np.unique(numbers, return_counts=True)
    bins.update(dict(zip(found.tolist(), counts.tolist(), strict=True)))


def _add_sums(sums: Counter[int], keys: Int64s, values: Int64s) -> None:
    found, where = np.unique(keys, return_inverse=True)
    totals = np.zeros(found.size, dtype=np.int64)
    np.add.at(totals, where, values)
    sums.update(dict(zip(found.tolist(), totals.tolist(), strict=True)))


def read_surveys(rows: Iterable[Mapping[str, Any]], logs: int) -> list[dict[int, Survey]]:
    """What tasks gave: for each log its segments by number."""
    found: list[dict[int, Survey]] = [{} for _ in range(logs)]
    for row in rows:
        survey: Survey = pickle.loads(row["survey"])  # noqa: S301  from a task of this job
        found[row["log"]].setdefault(row["segment"], Survey()).add(survey)
    return found


def add_up(surveys: Iterable[Survey]) -> Survey:
    """One survey of all."""
    whole = Survey()
    for each in surveys:
        whole.add(each)
    return whole
