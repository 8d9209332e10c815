"""`ottla topics`: the topics of a cluster, from its metadata log or a snapshot of it."""

import argparse
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Final

from ottla.catalog.catalog import list_catalog
from ottla.catalog.missing import require_topics
from ottla.cli.colours import Emphasis, Styled
from ottla.cli.groups import report_problems
from ottla.cli.job import storage_of
from ottla.cli.output import Format, flush, json_line, print_table, write, write_line
from ottla.cli.partitions import name_of
from ottla.cli.table import Cell, Column, number
from ottla.errors import Row
from ottla.internal.image import REMOTE_STORAGE
from ottla.internal.views import VIEWS
from ottla.jobs.read.internal_topics import find_internal_topic, read_current, remote_ranges
from ottla.options.choice import choose_topics
from ottla.options.texts import counted

_COLUMNS: Final = (
    Column("PARTITION"),
    Column("TOPIC ID", rank=1),
    number("LEADER"),
    number("EPOCH", rank=2),
    Column("REPLICAS"),
    Column("ISR"),
    Column("REMOTE"),
)


def run(arguments: argparse.Namespace) -> int:
    """Print the topics; 1 if some records could not be read."""
    catalog = list_catalog(arguments.paths, storage_of(arguments))
    topic = find_internal_topic(catalog, VIEWS["topics"].topic)
    contents = read_current(topic, VIEWS["topics"])
    configs = _configs(read_current(topic, VIEWS["configs"]).rows.to_pylist())
    partitions = [row for row in contents.rows.to_pylist() if not row["error"]]
    topics = list(_topics(partitions, configs, remote_ranges(catalog)))
    choice = choose_topics(arguments.topic or ())
    require_topics(choice, {one["topic"] for one in topics if one["topic"]}, arguments.paths)
    topics = [one for one in topics if choice.chooses_topic(one["topic"] or "")]
    if arguments.format is Format.JSONL:
        for one in topics:
            write(json_line(one))
    else:
        _print_text(topics)
    flush()
    return report_problems(topic.topic, contents, quiet=arguments.quiet)


def _configs(rows: list[Row]) -> dict[str, dict[str, str]]:
    configs: dict[str, dict[str, str]] = {}
    for row in rows:
        if row["resourceType"] == "TOPIC":
            configs.setdefault(row["resourceName"], {})[row["name"]] = row["value"]
    return configs


def _topics(
    rows: list[Row],
    configs: dict[str, dict[str, str]],
    remote: Mapping[tuple[str, int], tuple[int, int]],
) -> Iterator[Row]:
    rows.sort(key=lambda row: (row["topic"] or "", row["topicId"], row["partition"]))
    hidden = ("topic", "topicId", "deleted", "error")
    for (name, topic_id), partitions in groupby(
        rows, key=lambda row: (row["topic"], row["topicId"])
    ):
        yield {
            "topic": name,
            "topicId": topic_id,
            "configs": configs.get(name, {}),
            "partitions": [
                {key: value for key, value in row.items() if key not in hidden}
                | {"remoteRange": remote.get((topic_id, row["partition"]))}
                for row in partitions
            ],
        }


def _print_text(topics: list[Row]) -> None:
    """A line for each partition; below, what is set for a topic, which is too long for a column."""
    lines = [line for one in topics for line in _lines(one)]
    total = [counted(len(topics), "topic"), counted(len(lines), "partition"), *[""] * 5]
    print_table(_COLUMNS, lines, total if lines else ())
    for one in topics:
        if one["configs"]:
            configs = ", ".join(f"{name}={value}" for name, value in sorted(one["configs"].items()))
            write_line(Styled(one["topic"], Emphasis.TITLE), f": {configs}")


def _lines(topic: Row) -> Iterator[list[Cell]]:
    for partition in topic["partitions"]:
        yield [
            name_of({"topic": topic["topic"], "partition": partition["partition"]}),
            topic["topicId"],
            "none" if partition["leader"] < 0 else partition["leader"],
            partition["leaderEpoch"],
            _numbers(partition["replicas"]),
            _numbers(partition["isr"]),
            _remote(partition["remoteRange"], topic["configs"]),
        ]


def _remote(found: tuple[int, int] | None, configs: Mapping[str, str]) -> str:
    """What remote storage has, or that it may have something: only a broker could say more."""
    if found is not None:
        return f"{found[0]}..{found[1]}"
    return "enabled" if configs.get(REMOTE_STORAGE) == "true" else ""


def _numbers(numbers: list[int]) -> str:
    return ",".join(map(str, numbers)) or "none"
