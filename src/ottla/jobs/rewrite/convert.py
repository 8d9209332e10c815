"""Convert logs to another magic, codec or batch size; what is already as wanted is copied."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ottla.batch.convert import Conversion, convert, make_decoder
from ottla.batch.count import count_records
from ottla.batch.decode import Decoder
from ottla.batch.encode import UNPLACED
from ottla.batch.memory import allocate_from_pool
from ottla.batch.new_batch import CURRENT_MAGIC
from ottla.batch.rebatch import rebatch
from ottla.batch.recompress import recompress
from ottla.catalog.chosen import ChosenLogs
from ottla.catalog.logs import Log
from ottla.catalog.slices import Slice
from ottla.catalog.stable import find_stable
from ottla.errors import CorruptLogError
from ottla.jobs.output import OutputJob, choose_inputs
from ottla.jobs.rewrite.extent import settle_bounds
from ottla.jobs.rewrite.plan import (
    DEFAULT_SPLIT_BYTES,
    Changed,
    Rewriting,
    plan_rewriting,
    read_metadata,
)
from ottla.jobs.rewrite.trim import scanned
from ottla.kernels.tables import Batches, Wanted, take_batches
from ottla.log.files.transaction_index import read_transaction_index
from ottla.log.write.index_builder import SegmentConfig
from ottla.region import PADDING, Region
from ottla.rules.producers.transactions import aborted_mask

T = TypeVar("T")


class _Decoders(NamedTuple):
    """One that gives all of a record, and one that only sees whether batches hold."""

    whole: Decoder
    checker: Decoder


@dataclass(frozen=True, slots=True)
class Converting:
    """Every batch as `conversion` wants it; `rebatches` if those of magic 2 get its size too."""

    conversion: Conversion
    rebatches: bool = False

    def begin(self, max_batch_bytes: int) -> _Decoders:
        """Decoders for all windows."""
        checker = Decoder(
            Wanted.CONTROL, max_batch_bytes=max_batch_bytes, allocate=allocate_from_pool
        )
        return _Decoders(make_decoder(max_batch_bytes), checker)

    def apply(
        self, decoders: _Decoders, region: Region, batches: Batches, part: Slice
    ) -> Iterator[Changed]:
        """The window converted; where only the codec changes, records are not touched."""
        if part.aborted:
            # Without markers nobody could tell them from the others.
            aborted = aborted_mask(batches, read_transaction_index(part.aborted))
            yield Changed(region, take_batches(batches, slice(0, 0)), 0, int(aborted.sum()), 0)
            batches = take_batches(batches, ~aborted)
        wanted, codec = self.conversion, self.conversion.codec
        is_current = (
            wanted.magic in (None, CURRENT_MAGIC) and (batches.magic == CURRENT_MAGIC).all()
        )
        if is_current and self.rebatches:
            for new_data, copied in rebatch(*decoders, region, batches, wanted):
                new_region, table = scanned(new_data, region.path)
                yield Changed(new_region, table, copied, 0, count_records(new_region, table))
        elif is_current and codec is not None:
            level = wanted.level
            for data, table, copied in recompress(decoders.checker, region, batches, codec, level):
                new_region = Region(data, data.size - PADDING, region.path, 0)
                yield Changed(new_region, table, copied, 0, count_records(new_region, table))
        else:
            pieces = convert(decoders.whole, region, batches, wanted)
            for converted in _placed(pieces, region, batches):
                new_region, table = scanned(converted.data, region.path)
                copied, dropped = converted.copied, converted.dropped
                yield Changed(new_region, table, copied, dropped, count_records(new_region, table))


def _placed(converted: Iterator[T], region: Region, batches: Batches) -> Iterator[T]:
    """The same; an error about records names the file and the batch that they are from."""
    try:
        yield from converted
    except CorruptLogError as error:
        found = error.violation
        if found.file != UNPLACED or found.offset is None:
            raise
        row = min(int(np.searchsorted(batches.last_offset, found.offset)), batches.size.size - 1)
        position = int(batches.position[row])
        raise CorruptLogError(replace(found, file=region.path, position=position)) from error


def plan_convert(
    chosen: ChosenLogs,
    out: str,
    conversion: Conversion,
    by_topic: Mapping[str, Mapping[str, Any]],
    *,
    rebatches: bool = False,
    split_bytes: int = DEFAULT_SPLIT_BYTES,
    config: SegmentConfig = SegmentConfig(),  # noqa: B008  (frozen)
) -> OutputJob:
    """Convert what is chosen into OUT; `by_topic` holds what is different for some topics.

    A topic with a size of its own is rebatched, all are if `rebatches` says so.
    """
    conversions = {topic: replace(conversion, **its) for topic, its in by_topic.items()}
    rewritings = []
    for log in choose_inputs(chosen, out):
        topic = log.name.topic
        change = Converting(
            conversions.get(topic, conversion),
            rebatches or "batch_bytes" in by_topic.get(topic, ()),
        )
        rewritings.append(_rewriting(log, change, chosen))
    options = {
        "command": "convert",
        "selection": chosen.described(),
        "conversion": _sorted(conversion),
        "rebatches": rebatches,
        "byTopic": {topic: _sorted(its) for topic, its in sorted(conversions.items())},
        "splitBytes": split_bytes,
        "config": config,
    }
    return plan_rewriting(
        "convert",
        out,
        rewritings,
        options,
        split_bytes=split_bytes,
        config=config,
        storage=chosen.storage,
    )


def _sorted(conversion: Conversion) -> dict[str, Any]:
    """As plain values in a fixed order: the name of the job depends on it."""
    return asdict(conversion) | {"allowed": sorted(conversion.allowed)}


def _rewriting(log: Log, change: Converting, chosen: ChosenLogs) -> Rewriting:
    magic = change.conversion.magic
    is_legacy = magic is not None and magic < CURRENT_MAGIC
    return Rewriting(
        log,
        settle_bounds(log, chosen),
        find_stable(log.partition, None, chosen.storage) if is_legacy else None,
        log.name,
        change,
        read_metadata(log, chosen.storage),
        magic,
    )
