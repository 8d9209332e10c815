"""`ottla diff`: what replicas of the same partitions have in common, and which is right."""

import argparse
from typing import Final

from ottla.catalog.catalog import Catalog, list_catalog
from ottla.catalog.chosen import ChosenLogs
from ottla.catalog.logs import Log, live_logs
from ottla.cli.colours import Emphasis, Styled
from ottla.cli.job import choice_of, storage_of
from ottla.cli.output import Format, ShowSize, flush, json_line, print_table, tell, write
from ottla.cli.table import Cell, Column, number
from ottla.errors import OptionError, Row
from ottla.format.names import UNNAMED
from ottla.jobs.replicas import (
    Replica,
    Replicas,
    compare_logs,
    compare_missing,
    group_replicas,
)
from ottla.log.compare.replicas import Alone
from ottla.options.texts import counted

_COLUMNS: Final = (
    Column("PARTITION"),
    Column("REPLICA", rank=1),
    Column("STATE"),
    number("EQUAL UP TO"),
    Column("EPOCHS"),
    number("LACKS"),
    number("LACKS BYTES", rank=3),
    number("ALONE"),
    number("ALONE BYTES", rank=2),
    Column("BEST", rank=4),
)


def run(arguments: argparse.Namespace) -> int:
    """Compare; 1 if anything differs."""
    catalog = list_catalog(arguments.paths, storage_of(arguments))
    choice = choice_of(arguments)
    ChosenLogs(catalog, choice)  # refuses what is not there
    logs = [log for log in live_logs(catalog) if log.name != UNNAMED and choice.chooses(log.name)]
    groups = group_replicas(logs)
    alone = [group[0] for group in groups if len(group) == 1]
    several = [group for group in groups if len(group) > 1]
    if not several:
        raise OptionError(
            f"{', '.join(arguments.paths)}: no partition is here twice; name the log directories of"
            " several brokers, or of a backup and a broker"
        )
    found = [compare_logs(group, catalog.storage) for group in several]
    missing = [(log, place) for log in alone if (place := _place_without(log, catalog))]
    found += [compare_missing(log, place, catalog.storage) for log, place in missing]
    if not arguments.quiet:
        left = len(alone) - len(missing)
        if left:
            tell(f"ottla: {counted(left, 'partition')} in one place only: not compared")
        _print(found, arguments.format, arguments.show_size)
    equal = all(each.is_equal for one in found for each in one.others)
    return 0 if equal else 1


def _place_without(log: Log, catalog: Catalog) -> str | None:
    """Of two places the one that lacks a partition; not where that is one partition itself."""
    if len(catalog.paths) != 2:
        return None
    first, second = catalog.paths
    place = second if _is_in(log.partition.path, first) else first
    if any(_is_in(place, each.path) for each in catalog.partitions):
        return None
    return place


def _is_in(path: str, folder: str) -> bool:
    return f"{path.rstrip('/')}/".startswith(f"{folder.rstrip('/')}/")


def _print(found: list[Replicas], style: Format, show_size: ShowSize) -> None:
    if style is Format.JSONL:
        for one in found:
            for each in one.others:
                write(json_line(_row(one, each)))
        flush()
        return
    rows = [_cells(one, each, show_size) for one in found for each in one.others]
    differ = sum(not each.is_equal for one in found for each in one.others)
    total: list[Cell] = [counted(len(found), "partition"), "", f"{differ} differ", *[""] * 7]
    print_table(_COLUMNS, rows, total)
    for one in found:
        for each in one.others:
            for problem in (*each.comparison.problems[0], *each.comparison.problems[1]):
                tell(f"ottla: {problem}")
            if each.is_of_another_topic:
                best, its = each.topic_ids
                path = each.log.partition.path
                tell(f"ottla: {path} is of another topic: its id is {its}, that of the best {best}")


def _cells(one: Replicas, each: Replica, show_size: ShowSize) -> list[Cell]:
    found = each.comparison
    lacks, alone = _sum(each, 0), _sum(each, 1)
    style = Emphasis.PLAIN if each.is_equal else Emphasis.ERROR
    epochs = "" if found.divergence is None else "{1}, best {0}".format(*found.divergence.epochs)
    return [
        str(one.best.name),
        each.log.partition.path,
        Styled(each.state, style),
        found.equal_to,
        epochs,
        lacks.records or "",
        show_size(lacks.bytes) if lacks.bytes else "",
        alone.records or "",
        show_size(alone.bytes) if alone.bytes else "",
        one.best.partition.path,
    ]


def _sum(each: Replica, side: int) -> Alone:
    found = each.comparison
    total = Alone()
    for pair in (found.before, found.inside, found.after):
        total.records += pair[side].records
        total.bytes += pair[side].bytes
    return total


def _row(one: Replicas, each: Replica) -> Row:
    """All that is known; `lacks` is what only the best has, `alone` what only this one has."""
    found = each.comparison
    name = one.best.name
    divergence = None
    if found.divergence is not None:
        best, its = found.divergence.epochs
        divergence = {"offset": found.divergence.offset, "epoch": its, "bestEpoch": best}
    return {
        "topic": name.topic,
        "partition": name.partition,
        "replica": each.log.partition.path,
        "best": one.best.partition.path,
        "state": each.state,
        "topicId": each.topic_ids[1],
        "bestTopicId": each.topic_ids[0],
        "equalTo": found.equal_to,
        "epoch": each.standing.epoch,
        "logEnd": each.standing.end,
        "bestEpoch": one.standing.epoch,
        "bestLogEnd": one.standing.end,
        "divergence": divergence,
        "lacks": _alone_row(each, 0),
        "alone": _alone_row(each, 1),
        "problems": [*found.problems[0], *found.problems[1]],
    }


def _alone_row(each: Replica, side: int) -> Row:
    found = each.comparison
    pairs = {"before": found.before, "inside": found.inside, "after": found.after}
    return {
        where: {
            "records": pair[side].records,
            "bytes": pair[side].bytes,
            "firstOffset": pair[side].first_offset,
            "lastOffset": pair[side].last_offset,
        }
        for where, pair in pairs.items()
        if pair[side].records or pair[side].bytes
    }
