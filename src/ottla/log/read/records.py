"""The one reader of records: windows in, chunks of records out, with what was left out of them.

Batches that the bounds or the isolation leave out are dropped from the table before anything of
them is decompressed; records are looked at one by one only where a batch crosses a bound. The
reader itself raises nothing: what a violation means is for `Mode`, in the same way for everyone.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ottla.arrow.permissive import add_corrupt, corrupt_rows, permissive_schema
from ottla.arrow.schema import RECORD_COLUMNS
from ottla.arrow.to_arrow import records_to_arrow
from ottla.batch.decode import DEFAULT_MAX_BATCH_BYTES, Broken, Chunk, Decoder
from ottla.batch.memory import allocate_from_pool
from ottla.batch.select import Selected
from ottla.errors import Severity, Stage, Violation, require_sound
from ottla.format.arrays import Bools
from ottla.format.names import UNNAMED, TopicPartition
from ottla.kernels.tables import Wanted, take_batches
from ottla.log.read.bounds import EVERYTHING, Bounds, may_hold, within
from ottla.log.read.mode import Mode as Mode
from ottla.log.read.windows import Window
from ottla.rules.producers.transactions import Entries, aborted_mask


@dataclass(frozen=True, slots=True)
class RecordRequest:
    """What is wanted of a segment: `flags` of records, of the offsets within `bounds`.

    Violations carry the `name` of the partition.
    """

    flags: Wanted
    bounds: Bounds = EVERYTHING
    name: TopicPartition = UNNAMED
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES


@dataclass(frozen=True, slots=True)
class Reading:
    """Some records, those of them that are wanted if not all are, and what was left out.

    The records may come from before and from behind what was left out.
    """

    chunk: Chunk | None = None
    kept: Bools | None = None
    violations: Sequence[Violation] = ()

    def to_arrow(self, columns: Sequence[str]) -> pa.RecordBatch | None:
        """The records with the columns of the core; None if there are none."""
        if self.chunk is None:
            return None
        rows = None if self.kept is None else np.flatnonzero(self.kept)
        return records_to_arrow(self.chunk, columns, rows)


def choose_batches(
    windows: Iterable[Window], bounds: Bounds, aborted: Entries | None
) -> Iterator[Window]:
    """The windows without batches outside the bounds or of aborted transactions."""
    if bounds == EVERYTHING and aborted is None:
        yield from windows
        return
    for window in windows:
        wanted = may_hold(window.batches, bounds)
        if aborted is not None:
            wanted &= ~aborted_mask(window.batches, aborted)
        yield window._replace(batches=take_batches(window.batches, wanted))


Choose = Callable[[Chunk], Bools]


def read_records(
    windows: Iterable[Window], wanted: RecordRequest, choose: Choose | None = None
) -> Iterator[Reading]:
    """The records of the windows in order, each violation with the records around it.

    Where `choose` wants few of them, those of several readings come as one.
    """
    decoder = Decoder(
        wanted.flags, max_batch_bytes=wanted.max_batch_bytes, allocate=allocate_from_pool
    )
    readings = _read_all(decoder, windows, wanted)
    return readings if choose is None else _chosen(decoder, readings, choose)


def _chosen(decoder: Decoder, readings: Iterable[Reading], choose: Choose) -> Iterator[Reading]:
    few = Selected(decoder.wanted, decoder.allocate)
    try:
        for reading in readings:
            chunk = reading.chunk
            if chunk is None:
                yield from map(Reading, few.flush())
                yield reading
                continue
            chosen = choose(chunk)
            kept = chosen if reading.kept is None else chosen & reading.kept
            rows = np.flatnonzero(kept)
            if reading.violations or not few.takes(chunk, rows):
                yield from map(Reading, few.flush())
                yield replace(reading, kept=kept)
            else:
                yield from map(Reading, few.add(chunk, rows))
                decoder.reuse(chunk)
    except Exception:  # without `choose` the records before it would have been given by now
        yield from map(Reading, few.flush())
        raise
    yield from map(Reading, few.flush())


def _read_all(
    decoder: Decoder, windows: Iterable[Window], wanted: RecordRequest
) -> Iterator[Reading]:
    for window in windows:
        left_out: list[Violation] = []
        for chunk, broken in decoder.decode(window.region, window.batches):
            left_out += _asked(broken, wanted.bounds)
            if chunk is not None:
                yield _reading(chunk, left_out, wanted)
                left_out = []
        if window.violation is not None and window.violation.rule.severity is Severity.ERROR:
            left_out.append(window.violation)
        if left_out:
            yield _reading(decoder.flush(), left_out, wanted)
    yield _reading(decoder.flush(), [], wanted)


def _asked(broken: Iterable[Broken], bounds: Bounds) -> list[Violation]:
    """What is about something within the bounds; batches outside were not opened."""
    return [bad.violation for bad in broken if _is_asked(bad.violation, bounds)]


def _is_asked(violation: Violation, bounds: Bounds) -> bool:
    if violation.rule.stage is not Stage.RECORD or violation.offset is None:
        return True
    return bool(within(np.array([violation.offset]), bounds)[0])


def _reading(chunk: Chunk | None, left_out: list[Violation], wanted: RecordRequest) -> Reading:
    kept = None
    if chunk is not None and wanted.bounds != EVERYTHING:
        inside = within(chunk.buffers.offset[: chunk.count], wanted.bounds)
        kept = None if inside.all() else inside
    return Reading(chunk, kept, name_violations(left_out, wanted.name))


def name_violations(violations: Sequence[Violation], name: TopicPartition) -> Sequence[Violation]:
    """Violations with the partition that they are about."""
    return [
        replace(violation, topic=name.topic, partition=name.partition) for violation in violations
    ]


def obey(mode: Mode, readings: Iterable[Reading]) -> Iterator[Reading]:
    """The same readings; FAILFAST raises the first violation, before the records around it."""
    for reading in readings:
        if mode is Mode.FAILFAST:
            require_sound(reading.violations)
        yield reading


def to_batches(
    readings: Iterable[Reading], columns: Sequence[str], mode: Mode
) -> Iterator[pa.RecordBatch]:
    """Records as Arrow, as the mode says.

    PERMISSIVE gives one row more for each violation, null but for `_corrupt`, the last column.
    """
    schema = permissive_schema(pa.schema([RECORD_COLUMNS[name] for name in columns]))
    for reading in obey(mode, readings):
        records = reading.to_arrow(columns)
        if records is not None:
            yield add_corrupt(records, schema) if mode is Mode.PERMISSIVE else records
        if reading.violations and mode is Mode.PERMISSIVE:
            yield corrupt_rows(reading.violations, schema)
