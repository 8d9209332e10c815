"""`ottla topics`: the topics of a cluster, from its metadata log or a snapshot of it."""

import argparse
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from ottla.catalog.catalog import list_catalog
from ottla.cli.groups import report_problems, require_topics
from ottla.cli.job import storage_of
from ottla.cli.output import Format, flush, json_line, print_table, write
from ottla.errors import Row
from ottla.internal.views import VIEWS
from ottla.jobs.read.internal_topics import find_internal_topic, read_current


def run(arguments: argparse.Namespace) -> int:
    """Print the topics; 1 if some records could not be read."""
    catalog = list_catalog(arguments.paths, storage_of(arguments))
    topic = find_internal_topic(catalog, VIEWS["topics"].topic)
    contents = read_current(topic, VIEWS["topics"])
    configs = _configs(read_current(topic, VIEWS["configs"]).rows.to_pylist())
    partitions = [row for row in contents.rows.to_pylist() if not row["error"]]
    topics = list(_topics(partitions, configs))
    if arguments.topic:
        require_topics(arguments.topic, {one["topic"] for one in topics}, arguments.paths)
        topics = [one for one in topics if one["topic"] in arguments.topic]
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


def _topics(rows: list[Row], configs: dict[str, dict[str, str]]) -> Iterator[Row]:
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
                for row in partitions
            ],
        }


def _print_text(topics: list[Row]) -> None:
    titles = ("TOPIC", "ID", "PARTITION", "LEADER", "EPOCH", "REPLICAS", "ISR", "CONFIGS")
    print_table(titles, (line for one in topics for line in _lines(one)))


def _lines(topic: Row) -> Iterator[list[Any]]:
    configs = ",".join(f"{name}={value}" for name, value in sorted(topic["configs"].items()))
    for partition in topic["partitions"]:
        yield [
            topic["topic"],
            topic["topicId"],
            partition["partition"],
            "none" if partition["leader"] < 0 else partition["leader"],
            partition["leaderEpoch"],
            _numbers(partition["replicas"]),
            _numbers(partition["isr"]),
            configs,
        ]


def _numbers(numbers: list[int]) -> str:
    return ",".join(map(str, numbers))
