"""`ottla schemas`: the registry in a log, what topics use of it, and files of it."""

import argparse
from collections.abc import Iterator
from typing import Final

from ottla.catalog.catalog import list_catalog
from ottla.catalog.logs import find_logs
from ottla.catalog.missing import no_logs, require_topics
from ottla.cli.job import engine_for, storage_of
from ottla.cli.output import Format, flush, json_line, print_table, tell, write, write_line
from ottla.cli.table import Cell, Column, number
from ottla.errors import OptionError, Row
from ottla.format.names import natural_order
from ottla.jobs.schemas.files import SCRIPT, write_import, write_schemas
from ottla.jobs.schemas.load import load_registry
from ottla.jobs.schemas.usage import CountUses, Usage, count_usage, sample_usage
from ottla.options.choice import choose_topics
from ottla.options.texts import counted
from ottla.schemas.decoding import find_writer
from ottla.schemas.payloads import Naming
from ottla.schemas.registry import Registry, Version
from ottla.storage.paths import join

_COLUMNS: Final = (
    Column("SUBJECT"),
    number("VERSION"),
    number("ID"),
    Column("TYPE"),
    Column("STATE"),
    Column("COMPATIBILITY", rank=1),
    number("REFERENCES", rank=2),
    Column("GUID", rank=3),
)
_USED: Final = (
    Column("TOPIC"),
    Column("OF"),
    Column("SCHEMA"),
    number("RECORDS"),
    Column("SUBJECT"),
    number("VERSION"),
)


def run(arguments: argparse.Namespace) -> int:
    """Print schemas and their use; 1 if records name some that are not there."""
    if arguments.out and arguments.import_out:
        raise OptionError("--out and --import write different files: say one")
    catalog = list_catalog(arguments.paths, storage_of(arguments))
    if not catalog.partitions:
        raise no_logs(catalog.paths, catalog.storage)
    registry = load_registry(catalog, arguments.schemas)
    if not arguments.quiet:
        for problem in registry.problems:
            tell(f"ottla: {problem}")
    if arguments.out or arguments.import_out:
        return _write_files(registry, arguments)
    choice = choose_topics(arguments.topic or ())
    topics = {each.name.topic for each in catalog.partitions if each.name.topic is not None}
    require_topics(choice, topics, catalog.paths)
    logs = find_logs(catalog, choice)
    asked = CountUses(registry, arguments.wire, catalog.storage)
    if arguments.exact:
        sizes = (segment.log.size for log in logs for segment in log.partition.segments)
        with engine_for("schemas", sizes, arguments) as engine:
            usage = count_usage(engine, logs, asked, arguments.split_bytes)
    else:
        usage = sample_usage(logs, asked)
    schemas = [_schema_row(one, registry) for one in sorted(registry.versions, key=_order)]
    uses = list(_use_rows(usage, registry))
    if arguments.format is Format.JSONL:
        for row in (*schemas, *uses):
            write(json_line(row))
    else:
        _print_text(schemas, uses, exact=arguments.exact)
    flush()
    return int(bool(registry.problems) or any(not row["explained"] for row in uses))


def _write_files(registry: Registry, arguments: argparse.Namespace) -> int:
    storage = storage_of(arguments)
    left_out: list[str] = []
    if arguments.out:
        count = write_schemas(registry, arguments.out, storage)
        told = f"{counted(count, 'schema')} in {arguments.out}"
    else:
        left_out = write_import(registry, arguments.import_out, storage)
        told = f"Next: sh {join(arguments.import_out, SCRIPT)} http://localhost:8081"
    if not arguments.quiet:
        write_line(told)
        for each in left_out:
            tell(f"ottla: not in it: {each}")
    flush()
    return int(bool(registry.problems) or bool(left_out))


def _order(version: Version) -> tuple[str, str, int]:
    return version.context, version.subject, version.version


def _schema_row(version: Version, registry: Registry) -> Row:
    levels = registry.compatibility
    return {
        "type": "schema",
        "subject": version.subject,
        "version": version.version,
        "id": version.id,
        "guid": version.guid,
        "schemaType": str(version.type),
        "state": str(version.state),
        "context": version.context,
        "compatibility": levels.get(version.subject, levels.get(None)),
        "references": [list(reference) for reference in version.references],
        "encodingRules": list(version.encoding_rules),
        "fieldRules": list(version.field_rules),
        "schema": version.text,
    }


def _use_rows(usage: Usage, registry: Registry) -> Iterator[Row]:
    """A row for each schema that keys or values of a topic name.

    Bytes that name none are told only beside others that do: most topics have no schemas.
    """
    sums: dict[tuple[str, str, str], Row] = {}
    for use, count in usage.items():
        found = find_writer(registry, use.writer, use.topic, use.side)
        key = use.topic, use.side, str(use.writer)
        row = sums.setdefault(
            key,
            {
                "type": "usage",
                "topic": use.topic,
                "of": use.side,
                "naming": str(use.writer.naming),
                "schema": use.writer.value,
                "wire": str(use.writer.wire),
                "records": 0,
                "subject": None if found is None else found.subject,
                "version": None if found is None else found.version,
                "explained": found is not None,
            },
        )
        row["records"] += count
    explained = {key[:2] for key, row in sums.items() if row["explained"]}
    for key in sorted(sums, key=lambda key: (natural_order(key[0], 0), key[1:])):
        if sums[key]["naming"] != Naming.NONE or key[:2] in explained:
            yield sums[key]


def _print_text(schemas: list[Row], uses: list[Row], *, exact: bool) -> None:
    total = [counted(len(schemas), "schema"), *[""] * (len(_COLUMNS) - 1)]
    print_table(_COLUMNS, map(_schema_cells, schemas), total if schemas else ())
    if uses:
        write_line("")
        print_table(_USED, map(_use_cells, uses))
        if not exact:
            write_line("Of some windows of each partition: --exact counts all records.")


def _schema_cells(row: Row) -> list[Cell]:
    return [
        row["subject"],
        row["version"],
        row["id"] if row["id"] >= 0 else None,
        row["schemaType"],
        "" if row["state"] == "live" else row["state"],
        row["compatibility"] or "",
        len(row["references"]) or "",
        row["guid"],
    ]


def _use_cells(row: Row) -> list[Cell]:
    named = "none named" if row["naming"] == Naming.NONE else f"{row['naming']} {row['schema']}"
    subject = row["subject"] if row["explained"] else "not explained by any schema"
    return [row["topic"], row["of"], named, row["records"], subject, row["version"]]
