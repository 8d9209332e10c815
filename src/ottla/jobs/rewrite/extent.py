"""The bounds that jobs which write logs may have, by what remote storage holds of a log."""

from dataclasses import replace

from ottla.catalog.chosen import ChosenLogs
from ottla.catalog.logs import Log
from ottla.catalog.positions import find_log_end
from ottla.errors import OptionError, Term
from ottla.log.read.bounds import Bounds
from ottla.log.write.extent import first_base, read_lineage, remote_offsets


def settle_bounds(log: Log, chosen: ChosenLogs) -> Bounds:
    """The offsets that are asked for of a log that stays itself.

    A broker would delete what only remote storage has, if the log started or ended elsewhere.
    """
    bounds = _resolve(log, chosen)
    remote = remote_offsets(log.partition, log.log_start)
    if not remote:
        return bounds
    read_lineage(log.partition, log.log_start, chosen.storage)  # refuses before any work
    starts_later = bounds.start is not None and bounds.start > remote.start
    ends_before = bounds.stop is not None and bounds.stop < remote.stop
    if starts_later or ends_before:
        raise OptionError(
            f"{log.partition.name}: offsets {remote.start} to {remote.stop - 1} are in remote"
            " storage only, and a broker that mounts the output deletes those that are not between"
            f" {bounds.start} and {remote.stop if bounds.stop is None else bounds.stop}: leave ",
            Term.START if starts_later else Term.STOP,
            " out, or make another topic of it (",
            Term.RESTORE,
            " with ",
            Term.RENAME,
            " or ",
            Term.TOPIC_IDS,
            ")",
        )
    return bounds


def settle_other(log: Log, chosen: ChosenLogs) -> tuple[Bounds, int]:
    """The same for a log that becomes one of another topic, which has nothing in remote storage.

    And how many offsets that were asked for are therefore not in it.
    """
    bounds = _resolve(log, chosen)
    remote = remote_offsets(log.partition, log.log_start)
    if not remote:
        return bounds, 0
    start = max(bounds.start or 0, remote.start)
    stop = remote.stop if bounds.stop is None else min(bounds.stop, remote.stop)
    return replace(bounds, start=max(start, remote.stop)), max(0, stop - start)


def _resolve(log: Log, chosen: ChosenLogs) -> Bounds:
    """No log starts after its end."""
    bounds = chosen.bounds_of(log)
    if bounds.start is not None and log.log_start is None:
        # Nothing says that there was more before the first segment.
        bounds = replace(bounds, start=max(bounds.start, first_base(log.partition, None)))
    last = max((segment.base_offset for segment in log.partition.segments), default=0)
    if bounds.start is None or bounds.start <= last:
        return bounds
    end = find_log_end(log.partition, chosen.storage)
    return replace(bounds, start=max(log.log_start or 0, min(bounds.start, end)))
