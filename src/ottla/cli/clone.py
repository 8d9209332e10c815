"""`ottla clone`: a backup as a cluster that boots."""

import argparse
import os
import shlex
from typing import Final

from ottla.catalog.catalog import list_catalog
from ottla.cli.colours import Emphasis, Styled
from ottla.cli.flags import parse_pairs
from ottla.cli.job import limits_of, run_plan, storage_of
from ottla.cli.output import (
    Format,
    flush,
    json_line,
    print_table,
    write,
    write_line,
    write_wrapped,
)
from ottla.cli.table import Cell, Column, number
from ottla.errors import OptionError
from ottla.jobs.clone.node_files import SERVER_PROPERTIES
from ottla.jobs.clone.plan import Clone, plan_clone
from ottla.jobs.clone.request import (
    DEFAULT_KEEP,
    CloneRequest,
    Retention,
    metadata_version_name,
    parse_keep,
    parse_metadata_version,
)
from ottla.jobs.output import has_errors
from ottla.options.choice import choose_topics
from ottla.options.texts import counted

_COLUMNS: Final = (
    Column("TOPIC"),
    number("PARTITIONS"),
    Column("ID FROM"),
    Column("TOPIC ID", rank=1),
    number("CONFIGS", rank=2),
    Column("WAS", rank=3),
)


def run(arguments: argparse.Namespace) -> int:
    """Clone, or say what a clone would be; 1 if something had to be salvaged or is lost.

    A broken batch stops it otherwise.
    """
    clone = plan_clone(
        list_catalog(arguments.paths, storage_of(arguments)),
        choose_topics(arguments.topic or ()),
        limits_of(arguments),
        arguments.out,
        _request(arguments),
        split_bytes=arguments.split_bytes,
    )
    if not arguments.quiet:
        _print_plan(clone, arguments.format)
    if arguments.dry_run:
        return 0
    rows = run_plan(clone.job, arguments, arguments.format)
    if not arguments.quiet:
        _print_commands(clone, arguments)
    is_less = any(row["quarantinedBytes"] or row["lostOffsets"] for row in rows)
    return int(is_less or has_errors(clone.job.logs))


def _request(arguments: argparse.Namespace) -> CloneRequest:
    version = arguments.metadata_version
    return CloneRequest(
        node_ids=_node_ids(arguments.node_ids, arguments.nodes),
        replication=arguments.replication,
        cluster_id=arguments.cluster_id,
        host=arguments.host,
        port=arguments.port,
        metadata_version=None if version is None else parse_metadata_version(version),
        keep=DEFAULT_KEEP if arguments.keep is None else parse_keep(tuple(arguments.keep)),
        retention=Retention(arguments.retention),
        exclude=tuple(one.strip() for text in arguments.exclude for one in text.split(",")),
        rename=parse_pairs(arguments.rename, "TOPIC=NEW"),
        salvage=arguments.salvage,
    )


def _node_ids(text: str | None, nodes: int | None) -> tuple[int, ...]:
    if text is None:
        return tuple(range(1, (nodes or 1) + 1))
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() for word in words):
        raise OptionError(f"--node-ids {text}: numbers with commas, such as 1,2,3")
    if nodes is not None and nodes != len(words):
        raise OptionError(f"--node-ids {text} are {len(words)}, and --nodes says {nodes}")
    return tuple(map(int, words))


def _print_plan(clone: Clone, style: Format) -> None:
    """Every topic and where its id comes from, then what is not as it was."""
    cluster = clone.cluster
    if style is Format.JSONL:
        for topic in cluster.topics:
            row = {
                "topic": topic.source.name,
                "was": topic.source.old_name,
                "topicId": topic.topic_id,
                "origin": topic.source.origin,
                "partitions": topic.source.count,
                "replicas": topic.replicas,
                "configs": dict(topic.configs),
            }
            write(json_line({"type": "topic", **row}))
        for told in clone.told:
            write(json_line({"type": "note", "text": told}))
        flush()
        return
    rows: list[list[Cell]] = [
        [
            topic.source.name,
            topic.source.count,
            topic.source.origin,
            topic.topic_id,
            len(topic.configs),
            topic.source.old_name if topic.source.old_name != topic.source.name else "",
        ]
        for topic in cluster.topics
    ]
    partitions = sum(topic.source.count for topic in cluster.topics)
    total: list[Cell] = [counted(len(rows), "topic"), partitions, "", "", "", ""]
    print_table(_COLUMNS, rows, total)
    was = clone.backup.cluster_id
    before = f" (was {was})" if was not in (None, cluster.cluster_id) else ""
    write_line(
        f"cluster {cluster.cluster_id}{before}, metadata version"
        f" {metadata_version_name(cluster.level)}, {counted(len(cluster.nodes), 'node')}"
    )
    for told in clone.told:
        write_wrapped(Styled("note: ", Emphasis.TITLE), told)
    flush()


def _print_commands(clone: Clone, arguments: argparse.Namespace) -> None:
    """How to start the nodes, and the first thing to ask them."""
    nodes = (os.path.join(clone.job.out, node.folder) for node in clone.cluster.nodes)
    starts = [
        f"kafka-server-start.sh {shlex.quote(os.path.join(node, SERVER_PROPERTIES))}"
        for node in nodes
    ]
    host = f"[{arguments.host}]" if ":" in arguments.host else arguments.host
    server = f"{host}:{clone.cluster.nodes[0].client_port}"
    check = f"kafka-topics.sh --bootstrap-server {server} --describe"
    if arguments.format is Format.JSONL:
        write(json_line({"type": "commands", "start": starts, "check": check}))
        flush()
        return
    write_line(
        Styled("Start it", Emphasis.TITLE),
        ":" if len(starts) == 1 else ", each in a shell of its own:",
    )
    for line in starts:
        write_line(f"  {line}")
    write_line(Styled("Then look", Emphasis.TITLE), ":")
    write_line(f"  {check}")
    flush()
