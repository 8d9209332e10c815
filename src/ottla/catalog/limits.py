"""Where limits lie in a log: a limit of any kind becomes an offset, by the same rules for all.

Commands pass over what a log does not have. The connector is strict: its options say what an offset
that is gone means, and a time after all records.
"""

import logging
from collections.abc import Sequence
from typing import Final

from ottla.catalog.logs import Log
from ottla.catalog.positions import find_log_end, find_timestamp
from ottla.catalog.stable import Stable, find_stable
from ottla.errors import DataLossError, OptionError, Term
from ottla.format.names import UNNAMED
from ottla.log.read.bounds import Bounds
from ottla.log.read.mode import Isolation
from ottla.options.offsets import (
    Edge,
    Limit,
    LimitPair,
    Offset,
    Offsets,
    Place,
    Timestamp,
    Timestamps,
)
from ottla.options.read import NoMatch, ReadOptions, SliceAccess, UpTo
from ottla.storage.object_store import StorageOptions

_LOGGER: Final = logging.getLogger(__name__)


def report_loss(message: str, options: ReadOptions | SliceAccess) -> None:
    """Raise, or go on with a warning (KafkaSourceProvider.FAIL_ON_DATA_LOSS_OPTION_KEY)."""
    if options.fail_on_data_loss:
        advice = f"{message}. To read what is left, set "
        raise DataLossError(advice, Term.FAIL_ON_DATA_LOSS, " to false")
    _LOGGER.warning("%s; going on with what is left, as the options say", message)


def find_latest(log: Log, options: ReadOptions) -> int:
    """The end of what a reader may see: log end, high watermark, or last stable offset."""
    limit = watermark(log, options)
    if options.isolation is Isolation.READ_COMMITTED:
        return find_stable(log.partition, limit, options.storage).last_stable_offset
    end = find_log_end(log.partition, options.storage)
    return end if limit is None else min(end, limit)


def watermark(log: Log, options: ReadOptions) -> int | None:
    """The high watermark, if it is to limit the reading."""
    if options.up_to is UpTo.LOG_END:
        return None
    # A broker that has not written the checkpoint yet has replicated nothing it vouches for.
    return log.high_watermark if log.high_watermark is not None else log.earliest


def resolve_limits(
    log: Log, limits: LimitPair, storage: StorageOptions, strict: ReadOptions | None = None
) -> Bounds:
    """The offsets of a log between limits; what was deleted below its start stays deleted.

    A limit that nobody set is None: bytes are then read to their end whatever their offsets say.
    """
    start = find_place(log, limits.start)
    stop = find_place(log, limits.stop)
    return Bounds(_start(log, start, storage, strict), _stop(log, stop, storage, strict))


def find_place(log: Log, limit: Limit | None) -> Place | None:
    """What a limit is in one log."""
    if isinstance(limit, Timestamps):
        if log.name == UNNAMED:
            path = log.partition.path
            raise OptionError(f"no timestamp can name {path}: it is no partition directory")
        time = limit.by_partition.get(log.name)
        return None if time is None else Timestamp(time)
    if isinstance(limit, Offsets):
        number = limit.by_partition.get(log.name)  # none names what has no name
        if number is None or number >= 0:
            return None if number is None else Offset(number)
        if number not in [edge.value for edge in Edge]:
            raise OptionError(
                f"offset {number} of {log.name}: below 0 are only -1, the end, and -2, the start"
            )
        return Edge(number)
    return limit


def _start(
    log: Log, place: Place | None, storage: StorageOptions, strict: ReadOptions | None
) -> int | None:
    if place is None or isinstance(place, Edge):
        return log.log_start
    if isinstance(place, Offset):
        if strict is not None:
            return _require_start(log, place.offset, strict)
        return max(place.offset, log.log_start or 0)
    found = find_time(log, place, storage, strict)
    if found is not None:
        return found
    if strict is not None:
        return find_latest(log, strict)
    return max(find_log_end(log.partition, storage), log.log_start or 0)


def find_time(
    log: Log, place: Timestamp, storage: StorageOptions, strict: ReadOptions | None
) -> int | None:
    """The first offset that is not older; where there is none, None, if that is no error."""
    found = find_timestamp(log.partition, place.timestamp, storage)
    if found is not None:
        return max(found, log.log_start or 0)
    if strict is not None and strict.starting_no_match is NoMatch.ERROR:
        where = log.partition.title
        raise OptionError(
            f"no offset matched the starting timestamp {place.timestamp} in {where}; ",
            Term.NO_MATCH,
            "=latest would start at its end",
        )
    return None


def _stop(
    log: Log, place: Place | None, storage: StorageOptions, strict: ReadOptions | None
) -> int | None:
    if place is None or isinstance(place, Edge):
        return None
    if isinstance(place, Timestamp):
        return find_timestamp(log.partition, place.timestamp, storage)
    if strict is not None:
        _require_end(log, place.offset, strict)
    return place.offset


def _require_start(log: Log, wanted: int, options: ReadOptions) -> int:
    if wanted < log.earliest:
        message = f"{log.partition.title} begins at offset {log.earliest}, after {wanted}"
        report_loss(message, options)
        return log.earliest
    _require_end(log, wanted, options)
    return wanted


def _require_end(log: Log, wanted: int, options: ReadOptions) -> None:
    segments = log.partition.segments
    if segments and wanted > segments[-1].base_offset:
        end = find_log_end(log.partition, options.storage)
        if wanted > end:
            report_loss(f"{log.partition.title} ends at offset {end}, before {wanted}", options)


def resolve_bounds(
    logs: Sequence[Log], options: ReadOptions
) -> tuple[list[Bounds], list[Stable | None]]:
    """From where to where a query reads each log, and what is stable of it if that matters."""
    strict = options if options.strict else None
    if strict is not None:
        check_named(logs, options.starting, "starting")
        check_named(logs, options.ending, "ending")
    bounds, stables = [], []
    for log in logs:
        stable = None
        limit = watermark(log, options)
        if options.isolation is Isolation.READ_COMMITTED:
            stable = find_stable(log.partition, limit, options.storage)
            limit = stable.last_stable_offset
        limits = LimitPair(options.starting, options.ending)
        asked = resolve_limits(log, limits, options.storage, strict)
        start, stop = asked.start, asked.stop
        if stop is None or (limit is not None and limit < stop):
            stop = limit
        is_odd = start is not None and stop is not None and start > stop and limit != stop
        if is_odd and strict is not None:
            name = log.partition.title
            raise OptionError(f"{name} would start at {start}, after its end at {stop}")
        bounds.append(Bounds(start, stop))
        stables.append(stable)
    return bounds, stables


def check_named(logs: Sequence[Log], limit: Limit | None, which: str) -> None:
    """A limit in JSON names exactly the partitions that are read, as the connector demands."""
    if not isinstance(limit, Offsets | Timestamps):
        return
    found = {log.name for log in logs} - {UNNAMED}
    odd = found ^ limit.by_partition.keys()
    if odd:
        raise OptionError(
            f"{which} offsets must name exactly the partitions that are read; the difference is "
            + ", ".join(sorted(map(str, odd)))
        )
