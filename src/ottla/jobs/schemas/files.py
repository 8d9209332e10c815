"""Schemas as files: of their own languages, or what puts them into a registry again.

Names in a registry are anybody's: a file is named by the percent-encoded subject, never by a path.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any, Final
from urllib.parse import quote

from ottla.errors import OptionError, SchemaError
from ottla.jobs.schemas.load import ENDINGS, INDEX
from ottla.schemas.registry import Registry, State, Version
from ottla.storage.listing import list_names
from ottla.storage.object_store import StorageOptions
from ottla.storage.paths import join
from ottla.storage.writing import write_file

_LONGEST: Final = 150  # of a name: file systems take 255 bytes, and there is more to it
SCRIPT: Final = "import.sh"
_FRONT: Final = """\
#!/bin/sh
# Puts schemas into an empty registry, with the ids that they had:
#   sh import.sh http://localhost:8081
# The bodies lie beside this file. The registry is in mode IMPORT meanwhile.
set -eu
registry=${1:?the address of a registry, such as http://localhost:8081}
here=$(dirname "$0")
call() {
  method=$1 place=$2 body=${3:-}
  if [ -n "$body" ]; then set -- -d "@$here/$body"; else set -- ; fi
  curl -fsS -o /dev/null -X "$method" \\
    -H 'Content-Type: application/vnd.schemaregistry.v1+json' "$@" "$registry$place"
}
"""


def write_schemas(registry: Registry, out: str, storage: StorageOptions) -> int:
    """A file for each version that was not forgotten, and an index of them; how many."""
    _require_empty(out, storage)
    lines = []
    versions = [one for one in registry.versions if one.state is not State.HARD]
    for one in versions:
        name = file_name(one)
        write_file(join(out, name), one.text.encode(), storage)
        told = {key: value for key, value in one.body.items() if key != "schema"}
        told |= {"subject": one.subject, "version": one.version, "id": one.id}
        told |= {"schemaType": str(one.type), "deleted": one.state is State.SOFT}
        lines.append(json.dumps({"file": name} | told) + "\n")
    write_file(join(out, INDEX), "".join(lines).encode(), storage)
    return len(versions)


def file_name(version: Version) -> str:
    """
    >>> from ottla.schemas.registry import SchemaType
    >>> one = Version("../x", 1, 7, SchemaType.AVRO, "")
    >>> file_name(one)
    '%2E.%2Fx.v1.id7.avsc'
    """
    name = file_stem(version.subject) or "%"  # a file without a name is hidden
    return f"{name}.v{version.version}.id{version.id}.{ENDINGS[version.type]}"


def file_stem(name: str) -> str:
    """Any name as a part of one of a file; what is too long is cut, and told apart by a digest."""
    made = encode_name(name)
    if len(made) <= _LONGEST:
        return made
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{made[:_LONGEST].rpartition('%')[0] or made[:_LONGEST]}~{digest}"


def encode_name(subject: str) -> str:
    """A subject as one part of a path or of an address, which leads nowhere else."""
    quoted = quote(subject, safe="")
    return f"%2E{quoted[1:]}" if quoted.startswith(".") else quoted


def write_import(registry: Registry, out: str, storage: StorageOptions) -> list[str]:
    """Bodies, and a script that sends them; what it leaves out, told.

    The script holds numbers and percent-encoded subjects, and no text of a schema.
    """
    _require_empty(out, storage)
    versions, left_out = _in_order(registry)
    calls = ["call PUT /mode mode-import.json"]
    bodies: dict[str, Any] = {
        "mode-import.json": {"mode": "IMPORT"},
        "mode-readwrite.json": {"mode": "READWRITE"},
    }
    for number, one in enumerate(versions, 1):
        body = f"{number:06d}.json"
        bodies[body] = _body(one)
        calls.append(f"call POST /subjects/{encode_name(one.subject)}/versions {body}")
    for number, (subject, level) in enumerate(sorted(_levels(registry)), 1):
        body = f"config-{number:06d}.json"
        bodies[body] = {"compatibility": level}
        place = f"/config/{encode_name(subject)}" if subject else "/config"
        calls.append(f"call PUT {place} {body}")
    calls += [
        f"call DELETE /subjects/{encode_name(one.subject)}/versions/{one.version}"
        for one in reversed(versions)
        if one.state is State.SOFT
    ]
    calls.append("call PUT /mode mode-readwrite.json")
    for name, content in bodies.items():
        write_file(join(out, name), json.dumps(content).encode(), storage)
    write_file(join(out, SCRIPT), (_FRONT + "\n".join(calls) + "\n").encode(), storage)
    return left_out


def _levels(registry: Registry) -> Iterable[tuple[str, str]]:
    return ((subject or "", level) for subject, level in registry.compatibility.items())


def _body(version: Version) -> dict[str, Any]:
    body: dict[str, Any] = {
        "version": version.version,
        "id": version.id,
        "schemaType": str(version.type),
        "schema": version.text,
        "references": [reference._asdict() for reference in version.references],
    }
    kept = {name: version.body.get(name) for name in ("metadata", "ruleSet")}
    return body | {name: value for name, value in kept.items() if value is not None}


def _in_order(registry: Registry) -> tuple[list[Version], list[str]]:
    """Versions, those first that others refer to; a registry takes one schema for an id."""
    ordered: dict[tuple[str, int], Version] = {}
    left_out: list[str] = []
    texts: dict[tuple[str, int], tuple[str, str]] = {}
    for one in sorted(_kept(registry), key=lambda one: (one.id, one.subject, one.version)):
        if one.id < 0:
            left_out.append(f"{one} has no id")
            continue
        meaning = (str(one.type), one.text)
        if texts.setdefault((one.context, one.id), meaning) != meaning:
            left_out.append(f"{one} has the id of another schema")
            continue
        try:
            needed = [each for _, each in registry.referenced(one)]
        except SchemaError as error:
            left_out.append(str(error))
            continue
        for each in (*needed, one):
            if each.state is not State.HARD:
                ordered.setdefault((each.subject, each.version), each)
    return list(ordered.values()), left_out


def _kept(registry: Registry) -> Iterator[Version]:
    return (one for one in registry.versions if one.state is not State.HARD)


def _require_empty(out: str, storage: StorageOptions) -> None:
    if list_names(out, storage):
        raise OptionError(f"{out} is not empty: choose another folder")
