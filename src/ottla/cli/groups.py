"""`ottla groups`: what groups had committed, and how far behind the logs at hand they were."""

import argparse
import csv
import io
import sys

import pyarrow.compute as pc

from ottla.catalog.catalog import Catalog, list_catalog
from ottla.catalog.missing import no_topic
from ottla.catalog.positions import find_log_end
from ottla.cli.job import storage_of
from ottla.cli.output import (
    Format,
    encode_text,
    flush,
    json_line,
    print_table,
    tell,
    time_text,
    write,
    write_line,
)
from ottla.errors import OptionError, Row
from ottla.internal.views import VIEWS
from ottla.jobs.read.internal_topics import Contents, find_internal_topic, read_current


def run(arguments: argparse.Namespace) -> int:
    """Print the committed offsets; 1 if some records could not be read."""
    if arguments.state and (arguments.topic or arguments.partition):
        raise OptionError("--state shows whole groups: leave out --topic and --partition")
    view = VIEWS["groups" if arguments.state else "group_offsets"]
    catalog = list_catalog(arguments.paths, storage_of(arguments))
    topic = find_internal_topic(catalog, view.topic)
    contents = read_current(topic, view)
    rows = contents.rows.to_pylist()
    if arguments.topic:
        there = {row["topic"] for row in rows if row["topic"]}
        require_topics(arguments.topic, there, arguments.paths)
    chosen = [row for row in rows if not row["error"] and _is_wanted(row, arguments)]
    if arguments.state:
        _print_states(chosen, arguments.format)
    elif arguments.reset_offsets:
        _print_reset_offsets(chosen)
    else:
        _print_offsets(_with_lag(chosen, catalog), arguments.format)
    flush()
    return report_problems(view.topic, contents, quiet=arguments.quiet)


def require_topics(named: list[str], there: set[str], paths: list[str]) -> None:
    """Refuse topics that are not there, and name those that may be meant."""
    if missing := set(named) - there:
        raise no_topic(missing, there, paths)


def report_problems(topic: str, contents: Contents, *, quiet: bool) -> int:
    """Say on stderr what could not be read, unless `quiet`; the exit code."""
    rows = contents.rows.filter(pc.is_valid(contents.rows["error"])).to_pylist()
    lines = [f"{topic}, offset {row['logOffset']}: {row['error']}" for row in rows]
    if not quiet:
        for line in contents.broken + lines:
            tell(f"ottla: {line}")
    return 1 if contents.broken or lines else 0


def _is_wanted(row: Row, arguments: argparse.Namespace) -> bool:
    if arguments.group and row["group"] not in arguments.group:
        return False
    if arguments.topic and row["topic"] not in arguments.topic:
        return False
    return not arguments.partition or row["partition"] in arguments.partition


def _with_lag(rows: list[Row], catalog: Catalog) -> list[Row]:
    """Add the log end of each partition whose log is here; of several replicas the furthest."""
    wanted = {(row["topic"], row["partition"]) for row in rows}
    ends: dict[tuple[str, int], int] = {}
    for partition in catalog.partitions:
        name = partition.name
        if name in wanted and partition.segments:
            end = find_log_end(partition, catalog.storage)
            ends[name] = max(end, ends.get(name, 0))
    return [row | _lag(row["offset"], ends.get((row["topic"], row["partition"]))) for row in rows]


def _lag(offset: int, end: int | None) -> Row:
    return {"logEndOffset": end, "lag": None if end is None else end - offset}


def _print_offsets(rows: list[Row], style: Format) -> None:
    if style is Format.JSONL:
        for row in rows:
            del row["error"], row["deleted"]
            write(json_line(row))
        return
    names = ("group", "topic", "partition", "offset", "logEndOffset", "lag", "commitTimestamp")
    titles = ("GROUP", "TOPIC", "PARTITION", "OFFSET", "LOG-END", "LAG", "COMMITTED", "METADATA")
    print_table(
        titles,
        (
            [*(row[name] for name in names[:-1]), time_text(row[names[-1]]), row["metadata"]]
            for row in rows
        ),
    )


def _print_reset_offsets(rows: list[Row]) -> None:
    # Kafka splits the file at \n and reads each line by itself, always with a group in front
    # (ConsumerGroupCommand.parseResetPlan takes this form for one group too).
    for row in rows:
        line = io.StringIO()
        fields = [row["group"], row["topic"], row["partition"], row["offset"]]
        csv.writer(line, lineterminator="").writerow(fields)
        if sys.stdout.isatty():
            write_line(line.getvalue())
        else:
            write(encode_text(line.getvalue() + "\n"))


def _print_states(rows: list[Row], style: Format) -> None:
    if style is Format.JSONL:
        for row in rows:
            del row["error"], row["deleted"]
            write(json_line(row))
        return
    titles = ("GROUP", "TYPE", "STATE", "PROTOCOL", "EPOCH", "MEMBERS", "LAST RECORD")
    print_table(
        titles,
        (
            [
                row["group"],
                row["type"],
                row["state"],
                row["protocol"] or row["protocolType"],
                row["epoch"],
                len(row["members"] or ()),
                time_text(row["logTimestamp"]),
            ]
            for row in rows
        ),
    )
