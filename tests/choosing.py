"""Logs that were listed and chosen, in one call."""

from pathlib import Path

from ottla.catalog.catalog import list_catalog
from ottla.catalog.chosen import ChosenLogs
from ottla.options.choice import Choice
from ottla.options.offsets import Limit, LimitPair
from ottla.storage.object_store import DEFAULT_OPTIONS, StorageOptions


def choose(
    path: str | Path,
    *,
    topics: tuple[str, ...] = (),
    partitions: tuple[int, ...] = (),
    start: Limit | None = None,
    stop: Limit | None = None,
    storage: StorageOptions = DEFAULT_OPTIONS,
) -> ChosenLogs:
    """What is chosen of a path as it is now."""
    catalog = list_catalog([str(path)], storage)
    return ChosenLogs(catalog, Choice(topics, partitions), LimitPair(start, stop))
