"""A registry from the partition of `_schemas` in a log directory, or from a folder of files."""

import base64
import json
import posixpath
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final
from urllib.parse import unquote
from uuid import UUID

from ottla.batch.decode import DEFAULT_MAX_BATCH_BYTES
from ottla.catalog.catalog import Catalog, list_catalog
from ottla.catalog.logs import find_logs
from ottla.errors import OptionError, SchemaError
from ottla.jobs.read.internal_topics import read_partition
from ottla.log.files.partition import Partition
from ottla.log.read.records import Mode
from ottla.options.choice import Choice
from ottla.schemas.registry import (
    NO_ID,
    TOPIC,
    Registry,
    SchemaType,
    Version,
    fold_registry,
    parse_version,
)
from ottla.storage.files import read_bytes
from ottla.storage.listing import Entry, list_files
from ottla.storage.object_store import StorageOptions

INDEX: Final = "schemas.jsonl"  # beside the files: which subject, version and id each is
ENDINGS: Final = {SchemaType.AVRO: "avsc", SchemaType.PROTOBUF: "proto", SchemaType.JSON: "json"}
_TYPES: Final = {ending: kind for kind, ending in ENDINGS.items()}
_UUID: Final = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"  # of a version in AWS Glue
_FILE: Final = re.compile(
    rf"(.+?)(?:\.v([0-9]{{1,9}}))?(?:\.id(?:([0-9]{{1,10}})|({_UUID})))?\.(avsc|proto|json)"
)
_MOST_FILE: Final = 10_000_000
_MOST_FILES: Final = 100_000


def load_registry(catalog: Catalog, schemas: str | None) -> Registry:
    """The registry of a path, or of the logs themselves."""
    if schemas is None:
        partitions = _partitions(catalog)
        if not partitions:
            raise OptionError(
                f"there is no partition of {TOPIC} in {', '.join(catalog.paths)}: name the log"
                " directory that holds it, or a folder of .avsc, .proto and .json files, as schemas"
            )
        return _read_log(partitions, catalog.storage)
    found = list_catalog((schemas,), catalog.storage)
    partitions = _partitions(found)
    if partitions:
        return _read_log(partitions, catalog.storage)
    return _read_files(schemas, catalog.storage)


def holds_registry(catalog: Catalog) -> bool:
    """Whether the registry of a cluster lies in its logs."""
    return bool(_partitions(catalog))


def _partitions(catalog: Catalog) -> list[Partition]:
    return [log.partition for log in find_logs(catalog, Choice(topics=(TOPIC,)))]


def _read_log(partitions: list[Partition], storage: StorageOptions) -> Registry:
    problems: list[str] = []
    registry = fold_registry(_records(partitions, storage, problems))
    registry.problems[:0] = problems
    return registry


def _records(
    partitions: list[Partition], storage: StorageOptions, problems: list[str]
) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Keys and values in order; what is broken is told, and the rest is still of use."""
    for partition in partitions:
        for batch in read_partition(partition, storage, Mode.PERMISSIVE, DEFAULT_MAX_BATCH_BYTES):
            rows = batch.to_pydict()
            corrupt = rows.get("_corrupt") or [None] * batch.num_rows
            controls = rows.get("isControl") or [False] * batch.num_rows
            for key, value, broken, control in zip(
                rows["key"], rows["value"], corrupt, controls, strict=True
            ):
                if broken is not None:
                    problems.append(broken)
                elif not control:
                    yield key, value


def _read_files(path: str, storage: StorageOptions) -> Registry:
    files = {
        posixpath.basename(entry.path): entry
        for entry in list_files(path, storage)[:_MOST_FILES]
        if entry.special is None
    }
    index = _read_index(files[INDEX], storage) if INDEX in files else {}
    problems: list[str] = []
    versions: list[Version] = []
    for name, entry in files.items():
        matched = _FILE.fullmatch(name)
        if matched is None:
            continue
        try:
            versions.append(_read_file(entry, matched, index.get(name), storage))
        except (SchemaError, UnicodeError) as error:
            problems.append(f"{entry.path}: {error}")
    if not versions:
        raise OptionError(
            f"{path} holds neither a partition of {TOPIC} nor .avsc, .proto or .json files"
        )
    return Registry(versions, problems=problems)


def _read_file(
    entry: Entry, matched: re.Match[str], told: dict[str, Any] | None, storage: StorageOptions
) -> Version:
    """A file of `ottla schemas --out`, or any other whose name is its subject."""
    if entry.size > _MOST_FILE:
        raise SchemaError(f"{entry.size} bytes are too many for a schema")
    text = read_bytes(entry, storage).decode()
    subject, version, number, guid, ending = matched.groups()
    values: dict[str, Any] = {
        "subject": unquote(subject),
        "version": int(version or 1),
        "id": int(number) if number else NO_ID,
        "schemaType": str(_TYPES[ending]),
    }
    values |= {"schema": text}
    if guid is not None:
        values["md5"] = base64.b64encode(UUID(guid).bytes).decode()
    if told is not None:
        values = told | {"schema": text}
    named, count = values.get("subject"), values.get("version")
    if not isinstance(named, str) or type(count) is not int:
        raise SchemaError(f"{INDEX} does not say whose it is")
    return parse_version(named, count, values)


def _read_index(entry: Entry, storage: StorageOptions) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for line in read_bytes(entry, storage).splitlines():
        with suppress(ValueError, RecursionError):
            row = json.loads(line)
            if isinstance(row, dict) and isinstance(row.get("file"), str):
                found[row["file"]] = row
    return found
