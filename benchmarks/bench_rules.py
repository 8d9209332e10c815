"""The broker's rules against what they are made of: an append and a round of cleaning against their
decoding, keys, encoding and codecs by themselves, transactions against the walk over headers.

Appends come in windows of a log, each batch an append of its own, as `ottla append` judges them; so
do their parts. One batch per call is measured too, without a target.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks import ours
from benchmarks.corpus import SEGMENTS, Plan
from benchmarks.rounds import best_rates, timed
from benchmarks.table import millions, ratio
from benchmarks.targets import PARTS_TO_WHOLE, TRANSACTIONS_TO_WALK
from ottla.arrow.from_arrow import records_from_arrow
from ottla.batch.decode import Decoder
from ottla.batch.encode import encode_batches, encode_control
from ottla.batch.new_batch import NewBatch
from ottla.batch.records import Decoded, Reused, decode_whole, take_records
from ottla.format.attributes import Codec, ControlType
from ottla.jobs.verify.transactions import read_transactions
from ottla.kernels.bytes.crc import compute_crcs
from ottla.kernels.records.scan import scan
from ottla.kernels.tables import (
    Batches,
    Int64s,
    RecordBuffers,
    Wanted,
    allocate_batches,
    take_batches,
)
from ottla.log.files.partition import find_partitions
from ottla.log.read.buffer import WINDOW_BYTES
from ottla.region import Region, padded
from ottla.rules.append.accept import Accepted, append
from ottla.rules.append.checks import AppendPolicy
from ottla.rules.append.each import Appends, LogEnd, Taken, append_each
from ottla.rules.append.records import AppendDecoders
from ottla.rules.cleaner.cleaning import clean_window, make_decoder
from ottla.rules.cleaner.compaction import Cleaner, Outcome, Round, last_records
from ottla.rules.cleaner.survivors import Learning, NewestKeys, find_entries, is_survivor
from ottla.rules.producers.producer import Origin, empty_state, no_markers
from ottla.rules.producers.transactions import Transactions

HEADING = ("what", "Ottla M/s", "against", "M/s", "ratio", "target")

RECORDS = 100_000
SHORT_TURNS = 5  # as many rounds as elsewhere, of turns of some milliseconds
PER_BATCH = 500
LARGE = 5000  # records in about half of max.message.bytes
NOW = 1_700_000_000_000
SECRET = np.array([3, 4], dtype=np.uint64)

_ALL = Wanted.CONTROL | Wanted.KEYS | Wanted.VALUES | Wanted.HEADERS
_APPENDS = (
    ("append in place, none", Codec.NONE, None),
    ("append in place, lz4", Codec.LZ4, None),
    ("append none as lz4", Codec.NONE, Codec.LZ4),
    ("append gzip as zstd", Codec.GZIP, Codec.ZSTD),
)

Window = tuple[Region, Batches]
Work = Callable[[], int]


class Sum(NamedTuple):
    """Something whole, and the parts whose times add up to what it must cost."""

    whole: Work
    parts: Mapping[str, Work]


def rows(plan: Plan) -> Iterator[tuple[str, ...]]:
    """Appends, cleaning, transactions."""
    for (name, source, target), per_batch in product(_APPENDS, (PER_BATCH, LARGE)):
        label = f"{name}, {per_batch} per batch"
        windows = _sent(_windows(_log(source, per_batch)))
        yield _against_parts(label, _append_each(windows, target), plan, PARTS_TO_WHOLE)
    for name, source, target in _APPENDS:
        label = f"{name}, {PER_BATCH} per batch, one per call"
        alone = _sent(_windows(_log(source), window_bytes=1))
        yield _against_parts(label, _append(alone, target), plan, None)
    for codec in (Codec.NONE, Codec.LZ4, Codec.ZSTD):
        label = f"compaction, {codec.name.lower()}"
        yield _against_parts(label, _compaction(codec), plan, PARTS_TO_WHOLE)
    for every in (2, 10):
        yield _transactions(every, plan)


def _against_parts(name: str, of: Sum, plan: Plan, target: float | None) -> tuple[str, ...]:
    best = best_rates(
        {name: timed(work) for name, work in {"whole": of.whole, **of.parts}.items()},
        SHORT_TURNS * plan.rounds,
    )
    whole = best.pop("whole")
    parts = 1 / sum(1 / rate for rate in best.values())
    figures = millions(whole), " + ".join(of.parts), millions(parts)
    return name, *figures, *ratio(whole, parts, target)


def _log(codec: Codec, per_batch: int = PER_BATCH) -> bytes:
    """Records of 100 bytes whose keys come twice on average."""
    chosen = np.random.default_rng(1).integers(0, RECORDS // 2, RECORDS)
    text = '{"customer": %d, "city": "Ottla street %d", "amount": %d, "note": "as agreed"}'
    table = pa.record_batch(
        {
            "key": pa.array([b"k%06d" % key for key in chosen], pa.binary()),
            "value": pa.array([(text % (n, n % 97, n % 1009)).encode() for n in chosen]).cast(
                pa.binary()
            ),
            "offset": np.arange(RECORDS),
            "timestamp": np.arange(RECORDS) + NOW,
        }
    )
    bounds = np.arange(0, RECORDS + 1, per_batch)
    encoded = encode_batches(records_from_arrow(table), bounds, NewBatch(codec=codec))
    return encoded.data.tobytes()


def _windows(data: bytes, window_bytes: int = WINDOW_BYTES) -> list[Window]:
    """The batches, as many at a time as a window of a file holds, and at least one."""
    held = padded(data)
    table = allocate_batches(RECORDS // PER_BATCH)
    count, *_ = scan(held, 0, len(data), 0, table)
    table = take_batches(table, slice(0, count))
    compute_crcs(held, 0, table)
    region = Region(held, len(data), "memory", 0)
    windows: list[Window] = []
    first = 0
    while first < count:
        limit = int(table.position[first]) + window_bytes
        stop = max(first + 1, int(np.searchsorted(table.position + table.size, limit)))
        windows.append((region, take_batches(table, slice(first, stop))))
        first = stop
    return windows


def _sent(windows: list[Window]) -> list[Window]:
    """The same batches, each from offset 0 on as a producer sends it."""
    for _, batches in windows:
        batches.base_offset[:] = 0
        batches.last_offset[:] = batches.last_offset_delta
    return windows


def _append_each(windows: list[Window], target: Codec | None) -> Sum:
    """Windows of a log, whose batches are appends of their own."""
    appends = Appends(NOW, Origin.CLIENT, AppendPolicy(compression_type=target))

    def whole() -> int:
        end = LogEnd(0, empty_state())
        for region, batches in windows:
            compute_crcs(region.data, 0, batches)
            for outcome in append_each(end, region, batches, appends):
                assert isinstance(outcome, Taken)
        return end.next_offset

    return Sum(whole, _append_parts(windows, target))


def _append(windows: list[Window], target: Codec | None) -> Sum:
    """One batch per call."""
    policy = AppendPolicy(compression_type=target)
    decoders = AppendDecoders()

    def whole() -> int:
        for region, batches in windows:
            compute_crcs(region.data, 0, batches)
            done = append(
                region,
                batches,
                next_offset=1000,
                now=NOW,
                origin=Origin.CLIENT,
                policy=policy,
                decoders=decoders,
            )
            assert isinstance(done, Accepted)
        return RECORDS

    return Sum(whole, _append_parts(windows, target))


def _append_parts(windows: list[Window], target: Codec | None) -> dict[str, Work]:
    """What an append is made of, over the same windows."""
    decoder = Decoder(Wanted.CONTROL if target is None else _ALL, allocate=Reused())

    def decode() -> int:
        for region, batches in windows:
            compute_crcs(region.data, 0, batches)
            decode_whole(decoder, region, batches)
        return RECORDS

    if target is None:
        return {"decode": decode}
    decoded = [decode_whole(Decoder(_ALL), *window).decoded for window in windows]
    batched = [
        (records._replace(offset=np.arange(records.offset.size)), np.append(0, np.cumsum(rows)))
        for records, rows in decoded
    ]

    def encode() -> int:
        for records, bounds in batched:
            encode_batches(records, bounds, NewBatch(codec=target))
        return RECORDS

    return {"decode": decode, "encode": encode}


def _compaction(codec: Codec) -> Sum:
    windows = _windows(_log(codec))
    aborted = Transactions().aborted()
    by_key = Decoder(Wanted.KEYS | Wanted.CONTROL, check_crcs=False, allocate=Reused())
    whole_records = make_decoder()

    def find(decoded: Iterable[tuple[Batches, Decoded]]) -> Int64s:
        newest = NewestKeys()
        for batches, each in decoded:
            newest.put(find_entries(Learning(SECRET, 0), batches, each, aborted))
        return newest.newest()

    def learn() -> Int64s:
        return find((window[1], decode_whole(by_key, *window).decoded) for window in windows)

    def whole() -> int:
        cleaner = _cleaner(learn())
        for region, batches in windows:
            clean_window(
                cleaner,
                whole_records,
                region,
                batches,
                no_markers(batches.size.size),
                keeps_legacy_tombstones=True,
            )
        return RECORDS

    def decode_keys() -> int:
        groups = (decode_whole(by_key, *window) for window in windows)
        return sum(group.decoded.records.offset.size for group in groups)

    def decode() -> int:
        groups = (decode_whole(whole_records, *window) for window in windows)
        return sum(group.decoded.records.offset.size for group in groups)

    decoded = [decode_whole(Decoder(_ALL, check_crcs=False), *window).decoded for window in windows]
    survivors = learn()
    kept = [_kept(window, each, survivors) for window, each in zip(windows, decoded, strict=True)]

    def keys() -> int:
        """Both passes over keys: find the newest of each, and ask who they are."""
        found = find(zip((batches for _, batches in windows), decoded, strict=True))
        for records, _ in decoded:
            is_survivor(found, records)
        return RECORDS

    def encode() -> int:
        for records, bounds in kept:
            encode_batches(records, bounds, NewBatch(codec=codec))
        return RECORDS

    return Sum(
        whole, {"decode keys": decode_keys, "keys": keys, "decode": decode, "encode": encode}
    )


def _cleaner(survivors: Int64s) -> Cleaner:
    round_ = Round(RECORDS, NOW, delete_retention_ms=86_400_000)
    return Cleaner(round_, survivors, Transactions().aborted(), last_records(empty_state()))


def _kept(
    window: Window, decoded: Decoded, survivors: Int64s
) -> tuple[RecordBuffers, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """What a round writes anew of a window, and where its batches begin."""
    _, batches = window
    records, counts = decoded
    retention = _cleaner(survivors).check_retention(
        batches, no_markers(counts.size), counts, records, keeps_legacy_tombstones=True
    )
    rebuilt = retention.outcome == Outcome.REBUILT
    chosen = np.flatnonzero(retention.keep & np.repeat(rebuilt, counts))
    return take_records(records, chosen), np.append(0, np.cumsum(retention.kept[rebuilt]))


def _transactions(every: int, plan: Plan) -> tuple[str, ...]:
    path = _transactional(every)
    (partition,) = find_partitions([str(path.parent)])
    with_markers = f"transactions, every {every}. batch a marker"
    count = ours.header_positions(path).size

    def analyse() -> int:
        found = read_transactions(partition).transactions
        assert found.last_stable_offset() == found.end_offset
        return count * (found.aborted().size == 0)

    best = best_rates(
        {"analysis": timed(analyse), "walk": timed(lambda: count * (ours.walk(path) > 0))},
        plan.rounds,
    )
    figures = millions(best["analysis"]), "header walk", millions(best["walk"])
    return with_markers, *figures, *ratio(best["analysis"], best["walk"], TRANSACTIONS_TO_WALK)


def _transactional(every: int) -> Path:
    """Transactions of fifty producers in turn, of batches of ten records of 100 bytes."""
    path = SEGMENTS / "transactions" / f"every{every}-0" / f"{0:020d}.log"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(
            b"".join(_transaction(number, every) for number in range(100_000 // every))
        )
    return path


def _transaction(number: int, every: int) -> bytes:
    """A transaction of every - 1 batches, and its marker."""
    count = 10 * (every - 1)
    base = number * (count + 1)
    first_sequence = number // 50 * count
    offsets = np.arange(base, base + count)
    values = pa.array([b"x" * 100] * count, pa.binary())
    table = pa.record_batch(
        {"key": values, "value": values, "offset": offsets, "timestamp": offsets + NOW}
    )
    new = NewBatch(
        producer_id=number % 50,
        producer_epoch=0,
        base_sequence=first_sequence,
        is_transactional=True,
    )
    data = encode_batches(records_from_arrow(table), np.arange(0, count + 1, 10), new).data
    marker = NewBatch(
        producer_id=number % 50,
        producer_epoch=0,
        is_transactional=True,
        is_control=True,
        base_offset=base + count,
    )
    fields = {"coordinatorEpoch": 0}
    return data.tobytes() + encode_control(marker, NOW, [(ControlType.COMMIT, fields)])
