"""What logs would take in other settings: windows are drawn, re-encoded as `convert` would, and
what they become is set against what is known of every window.

Windows are put into strata by how well a few pieces of them compress: a rare kind has one of
its own; from each some are drawn at random, without replacement. The total follows by regression on
what is known of every window, the raw size of its records and what the pieces say, and its bounds
by the residuals that windows have when they are left out of the fit, with the t distribution
(Cochran, Sampling Techniques, 5.4 and chapter 7; freedom by Satterthwaite). A topic that is not
larger than the sample is measured whole: its bounds are equal.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from time import thread_time_ns
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ottla.batch.attributes import codec_ids, is_control
from ottla.batch.convert import DEFAULT_BATCH_BYTES, Conversion, Loss
from ottla.batch.decode import DEFAULT_MAX_BATCH_BYTES, Decoder
from ottla.batch.new_batch import CURRENT_MAGIC
from ottla.batch.rebatch import has_odd_times, rebatch
from ottla.batch.records import decode_groups
from ottla.catalog.slices import Slice
from ottla.codec import Arena, compress, decompress_into, resolve_level
from ottla.codec.levels import LEVELS
from ottla.format.attributes import Codec
from ottla.format.layout import BATCH_OVERHEAD
from ottla.format.sentinels import NO_PRODUCER_ID
from ottla.jobs.report.survey import Unit
from ottla.jobs.rewrite.convert import Converting
from ottla.jobs.rewrite.trim import scanned
from ottla.kernels.tables import Batches, Int64s, Wanted, take_batches
from ottla.log.read.windows import read_windows
from ottla.region import Region
from ottla.storage.files import open_file
from ottla.storage.object_store import StorageOptions

CONFIDENCE: Final = 0.99
# The default of a producer's batch.size, and what stays below a broker's message.max.bytes.
BATCH_SIZES: Final = (16 << 10, 128 << 10, 512 << 10)
_BY_USE: Final = (Codec.ZSTD, Codec.LZ4, Codec.SNAPPY, Codec.GZIP, Codec.NONE)
_OTHER_LEVELS: Final = {Codec.ZSTD: (1, 9)}
MEASURED_SCHEMA: Final = pa.schema(
    [
        pa.field("unit", pa.int32(), nullable=False),
        pa.field("setting", pa.int32(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("write", pa.float64(), nullable=False),
        pa.field("read", pa.float64(), nullable=False),
    ]
)
_STRATUM: Final = 4  # windows drawn from each, so that each says how much its windows differ
_LEAST: Final = 8
_MOST_LEVERAGE: Final = 0.9
_MOST: Final = 1 << 31  # what a decoder could open before is not larger
_SECOND: Final = 1_000_000_000

Floats = npt.NDArray[np.float64]


class Setting(NamedTuple):
    """What batches would become. None of magic, codec and size keeps what they have: a size alone
    is as producers would have sent them; nothing can do that to stored batches with sequences.
    """

    magic: int | None
    codec: Codec | None
    level: int | None
    batch_bytes: int | None


AS_IT_IS: Final = Setting(None, None, None, None)
# What most people would choose: it asks nothing of producers but a word.
LEAD: Final = Setting(CURRENT_MAGIC, Codec.ZSTD, LEVELS[Codec.ZSTD].default, None)


def all_settings() -> list[Setting]:
    """What people choose between: LEAD is in front, sizes of batches follow, then older formats;
    these without a size, as none of their batches join.
    """
    sizes = (None, *BATCH_SIZES)
    current = [(codec, level) for codec in _BY_USE for level in levels_of(codec)]
    return [
        *(Setting(CURRENT_MAGIC, *each, size) for size in sizes for each in current),
        *(Setting(None, None, None, size) for size in sizes),
        *(
            Setting(magic, codec, level, None)
            for magic in range(CURRENT_MAGIC)
            for codec in _BY_USE
            if codec is not Codec.ZSTD
            for level in levels_of(codec)
        ),
    ]


def levels_of(codec: Codec) -> list[int | None]:
    """The default, and of zstd what people set instead; None of a codec without levels.

    Producers rarely set a level (KIP-390), and if so that of zstd: 1 to spare CPU, or a few more
    to save bytes. On the demo's logs 9 takes 4 times as long as 3 and gives 5 % less; 19 takes 80
    times as long and gives 10 % less; 22 gives the same as 19, in 700 MB for each thread.
    """
    levels = LEVELS.get(codec)
    return [None] if levels is None else [levels.default, *_OTHER_LEVELS.get(codec, ())]


class Draw(NamedTuple):
    """The windows of a topic that are re-encoded; `stratum` says for each window where it is."""

    chosen: Int64s
    stratum: Int64s

    @property
    def is_whole(self) -> bool:
        return self.chosen.size == self.stratum.size


def draw_units(units: Sequence[Unit], sample_bytes: int, seed: int) -> Draw:
    """Choose windows of about `sample_bytes` in all, or every one where that is enough."""
    stored = np.array([unit.stored_size for unit in units], dtype=np.float64)
    known = known_of(units)
    count = max(_LEAST, int(sample_bytes / stored.mean())) if units else 0
    if stored.sum() <= sample_bytes or count >= len(units):
        return Draw(np.arange(len(units)), np.zeros(len(units), dtype=np.int64))
    share = known[:, 1] / known[:, 0]
    stratum = _strata(share, max(2, count // (2 * _STRATUM)))
    there = np.bincount(stratum)
    wanted = np.maximum(_STRATUM, count * there // len(units))
    chance = np.random.default_rng(seed)
    drawn = [
        chance.choice(np.flatnonzero(stratum == number), size=min(most, size), replace=False)
        for number, (most, size) in enumerate(zip(there.tolist(), wanted.tolist(), strict=True))
    ]
    return Draw(np.sort(np.concatenate(drawn)), stratum)


def _strata(share: Floats, count: int) -> Int64s:
    """Cut in half, again and again, the stratum whose windows are many and far apart."""
    stratum = np.zeros(share.size, dtype=np.int64)
    for new in range(1, count):
        members = [share[stratum == number] for number in range(new)]
        widest = int(np.argmax([its.size * np.ptp(its) for its in members]))
        middle = (members[widest].min() + members[widest].max()) / 2
        stratum[(stratum == widest) & (share > middle)] = new
        if not (stratum == new).any():  # all alike
            break
    return stratum


def known_of(units: Sequence[Unit]) -> Floats:
    """What the survey knows of each window: raw size and packed size."""
    rows = [(unit.raw_size, unit.packed_size) for unit in units]
    return np.array(rows, dtype=np.float64).reshape(len(units), 2)


class Estimate(NamedTuple):
    """Bytes, and between what they lie with CONFIDENCE."""

    size: int
    low: int
    high: int


def estimate(draw: Draw, known: Floats, measured: Floats) -> Estimate:
    """The total of all windows; known[i] is of window i, measured[j] of the j-th that was drawn."""
    if draw.is_whole:
        exact = round(float(measured.sum()))
        return Estimate(exact, exact, exact)
    drawn, its_stratum = known[draw.chosen], draw.stratum[draw.chosen]
    there, taken = np.bincount(draw.stratum), np.bincount(its_stratum)
    weight = (there / taken)[its_stratum]
    scale = np.sqrt(weight)
    inverse = np.linalg.pinv(drawn * scale[:, None]) * scale
    fit = inverse @ measured
    residual = measured - drawn @ fit
    found = float((known @ fit).sum()) + float((weight * residual).sum())
    leverage = np.minimum(_MOST_LEVERAGE, np.einsum("ij,ji->i", drawn, inverse))
    margin = _margin(residual / (1 - leverage), its_stratum, there, taken)
    # What was measured is there, whatever the rest is.
    low = max(found - margin, float(measured.sum()))
    return Estimate(round(found), round(low), round(found + margin))


def _margin(residual: Floats, stratum: Int64s, there: Int64s, taken: Int64s) -> float:
    """How far the total may be off, from the residuals of what was drawn from each stratum."""
    variances = []
    for number, (size, count) in enumerate(zip(there.tolist(), taken.tolist(), strict=True)):
        if size > count > 1:
            spread = float(residual[stratum == number].var(ddof=1))
            variances.append((size * (size - count) / count * spread, count - 1))
    total = sum(variance for variance, _ in variances)
    if total == 0:
        return 0.0
    freedom = total**2 / sum(variance**2 / free for variance, free in variances)
    return float(_t_quantile(freedom) * total**0.5)


def _t_quantile(freedom: float) -> float:
    """Of the t distribution, two-sided at CONFIDENCE, by Fisher's expansion.

    >>> [round(_t_quantile(freedom), 1) for freedom in (3, 5, 12)]  # tables: 5.841 4.032 3.055
    [5.8, 4.0, 3.1]
    """
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return float(sum(term / freedom**power for power, term in enumerate(terms)))


@dataclass(frozen=True, slots=True)
class Trial:
    """A window to re-encode. Older formats get nothing from `last_stable_offset` on, and nothing
    of the aborted transactions that its slice names, as `convert` does.
    """

    number: int
    unit: Unit
    last_stable_offset: int
    settings: tuple[Setting, ...]
    storage: StorageOptions

    @property
    def size(self) -> int:
        return self.unit.stored_size


class Cost(NamedTuple):
    """What batches take: bytes, and CPU seconds of the codecs to write and to read them.

    Seconds are nan where batches have an old format: nobody writes those any more.
    """

    size: int
    write: float
    read: float


def try_unit(trial: Trial) -> Iterator[pa.RecordBatch]:
    """A row for each setting with what the window would take."""
    count = len(trial.settings)
    costs = [Cost(0, 0.0, 0.0)] * count
    checker = Decoder(Wanted.CONTROL)
    unit = trial.unit
    with open_file(unit.part.log, trial.storage) as file:
        for window in read_windows(file, start=unit.start, end=unit.stop):
            batches = _sound(checker, window.region, window.batches)
            costs = [
                _add(before, cost)
                for before, cost in zip(costs, _measure(trial, window.region, batches), strict=True)
            ]
    columns = [[trial.number] * count, range(count), *zip(*costs, strict=True)]
    arrays = [
        pa.array(column, field.type) for column, field in zip(columns, MEASURED_SCHEMA, strict=True)
    ]
    yield pa.RecordBatch.from_arrays(arrays, schema=MEASURED_SCHEMA)


def _add(one: Cost, other: Cost) -> Cost:
    return Cost(one.size + other.size, one.write + other.write, one.read + other.read)


def _sound(checker: Decoder, region: Region, batches: Batches) -> Batches:
    """Without the batches that no reader gives or no writer makes: `convert` would stop there."""
    fit = np.ones(batches.position.size, dtype=np.bool_)
    for span, decoded, left_out in decode_groups(checker, region, batches):
        broken = [bad.violation.position for bad in left_out]
        fit[span] = ~np.isin(batches.position[span], broken) & ~has_odd_times(decoded)
    return take_batches(batches, fit)


def _measure(trial: Trial, region: Region, batches: Batches) -> list[Cost]:
    known: dict[tuple[object, ...], Cost] = {}
    costs = []
    for setting in trial.settings:
        # Where no record may move to another batch, all batch sizes give the same.
        moves = _moves(batches, setting)
        key = (setting, moves) if moves else setting[:3]
        if key not in known:
            known[key] = _cost_of(trial, setting, region, batches)
        costs.append(known[key])
    return costs


def _moves(batches: Batches, setting: Setting) -> bool:
    legacy = batches.magic < CURRENT_MAGIC
    if (legacy & (codec_ids(batches) == Codec.NONE)).any() or setting.codec is None:
        return True
    return setting.magic == CURRENT_MAGIC and bool((batches.producer_id == NO_PRODUCER_ID).any())


def _cost_of(trial: Trial, setting: Setting, region: Region, batches: Batches) -> Cost:
    whole = Cost(0, 0.0, 0.0)
    for its_region, table in _encode(trial, setting, region, batches):
        write, read = _time_codecs(setting, its_region, table)
        whole = _add(whole, Cost(int(table.size.sum()), write, read))
    return whole


def _encode(
    trial: Trial, setting: Setting, region: Region, batches: Batches
) -> Iterator[tuple[Region, Batches]]:
    """The batches as the setting wants them, piece by piece."""
    magic, codec, level, size = setting
    if not batches.position.size or setting == AS_IT_IS:
        yield region, batches
        return
    conversion = Conversion(magic, codec, level, frozenset(Loss), size or DEFAULT_BATCH_BYTES)
    change = Converting(conversion, rebatches=size is not None)
    decoders = change.begin(DEFAULT_MAX_BATCH_BYTES)
    if magic is None and (batches.magic == CURRENT_MAGIC).all():
        anonymous = np.where(is_control(batches), batches.producer_id, NO_PRODUCER_ID)
        batches = batches._replace(producer_id=anonymous)
        for data, _ in rebatch(*decoders, region, batches, conversion):
            yield scanned(data, region.path)
        return
    part = trial.unit.part
    if magic is None or magic == CURRENT_MAGIC:
        part = _without_aborted(part)
    else:
        batches = take_batches(batches, batches.last_offset < trial.last_stable_offset)
    for changed in change.apply(decoders, region, batches, part):
        yield changed.region, changed.batches


def _time_codecs(setting: Setting, region: Region, batches: Batches) -> tuple[float, float]:
    """CPU seconds to write payloads and to read them: a second time, as copies have no first."""
    if (batches.magic < CURRENT_MAGIC).any():
        return np.nan, np.nan
    arena, source = Arena(), region.data.data
    write = read = 0
    packed = np.flatnonzero(codec_ids(batches) != Codec.NONE)
    stops = batches.position + batches.size - region.position
    starts = batches.position + BATCH_OVERHEAD - region.position
    columns = (codec_ids(batches), starts, stops)
    for codec, start, stop in zip(*(each[packed].tolist() for each in columns), strict=True):
        level = resolve_level(codec, setting.level if codec == setting.codec else None)
        arena.truncate(0)
        began = thread_time_ns()
        size = decompress_into(codec, CURRENT_MAGIC, source[start:stop], arena, _MOST)
        between = thread_time_ns()
        compress(codec, CURRENT_MAGIC, arena.view[:size], level=level)
        write, read = write + thread_time_ns() - between, read + between - began
    return write / _SECOND, read / _SECOND


def _without_aborted(part: Slice) -> Slice:
    return replace(part, aborted=b"")


class WhatIfPlan(NamedTuple):
    """The trials of a topic, and what they stand for."""

    topic: str
    units: Sequence[Unit]
    draw: Draw
    trials: Sequence[Trial]

    @property
    def stored_size(self) -> int:
        return sum(unit.stored_size for unit in self.units)

    def estimate(self, costs: Mapping[tuple[int, int], Cost], setting: int) -> Estimate:
        """What the topic would take; `costs` are by number of trial and of setting."""
        sizes = [costs[trial.number, setting].size for trial in self.trials]
        return estimate(self.draw, known_of(self.units), np.array(sizes, dtype=float))

    def seconds(
        self, costs: Mapping[tuple[int, int], Cost], setting: int
    ) -> tuple[float | None, float | None]:
        """CPU time to write and to read the topic, from what the same records took in trials."""
        share = sum(unit.raw_size for unit in self.units) / sum(
            trial.unit.raw_size for trial in self.trials
        )
        write = share * sum(costs[trial.number, setting].write for trial in self.trials)
        read = share * sum(costs[trial.number, setting].read for trial in self.trials)
        return (None, None) if np.isnan(write) else (round(write, 6), round(read, 6))


class SampledPartition(NamedTuple):
    """The windows of a partition, and what `convert` must know of it before."""

    units: Sequence[Unit]
    aborted: bytes
    last_stable_offset: int


def plan_what_if(
    topics: Mapping[str, Sequence[SampledPartition]],
    settings: Sequence[Setting],
    *,
    sample_bytes: int,
    seed: int,
    storage: StorageOptions,
) -> list[WhatIfPlan]:
    """Draw windows of every topic; trials are numbered through."""
    plans: list[WhatIfPlan] = []
    first = 0
    for topic, sources in topics.items():
        every = [(unit, source) for source in sources for unit in source.units]
        units = [unit for unit, _ in every]
        draw = draw_units(units, sample_bytes, seed)
        chosen = [every[row] for row in draw.chosen.tolist()]
        trials = [
            Trial(
                first + number,
                unit._replace(part=replace(unit.part, aborted=source.aborted)),
                source.last_stable_offset,
                tuple(settings),
                storage,
            )
            for number, (unit, source) in enumerate(chosen)
        ]
        first += len(trials)
        plans.append(WhatIfPlan(topic, units, draw, trials))
    return [plan for plan in plans if plan.trials]
