"""Avro as one of the languages of schemas: what the registry knows, for the decoder of datums."""

from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa

from ottla.errors import SchemaError
from ottla.schemas.avro import (
    AvroFault,
    AvroSchema,
    compile_avro,
    decode_avro,
    parse_avro,
)
from ottla.schemas.avro_merge import merge_avro
from ottla.schemas.avro_resolve import find_lost
from ottla.schemas.payloads import Faults, split_whole
from ottla.schemas.registry import Registry, Version
from ottla.schemas.wire import fingerprint
from ottla.schemas.wires import WireFormat

_RAW: Final = "bytes"
split = split_whole


@lru_cache(maxsize=256)
def _parsed(text: str, references: tuple[str, ...]) -> AvroSchema:
    return parse_avro(text, references)


def parse_version(version: Version, registry: Registry) -> AvroSchema:
    """The schema of a version, with those that it refers to."""
    references = tuple(one.text for _, one in registry.referenced(version))
    return _parsed(version.text, references)


def record_name(schema: AvroSchema) -> str:
    """The full name of a record, an enum or a fixed; of others the kind."""
    root = schema.types[schema.root]
    return root.name or root.kind


@lru_cache(maxsize=4096)
def _fingerprint(schema: AvroSchema) -> int:
    return fingerprint(schema)


def fingerprint_of(version: Version, registry: Registry) -> int | None:
    """The fingerprint of a schema (CRC-64-AVRO of its canonical form), if it is one."""
    try:
        return _fingerprint(parse_version(version, registry))
    except SchemaError:
        return None


class AvroDecoder:
    """Datums of one writer's schema as a column of the reader's."""

    too_large = int(AvroFault.TOO_LARGE)

    def __init__(self, writer: AvroSchema, reader: AvroSchema, *, is_confluent: bool) -> None:
        self.program = compile_avro(writer, reader)
        self.arrow_type: pa.DataType = self.program.arrow_type
        # Confluent writes values of the schema "bytes" as they are, without their length.
        kinds = {schema.types[schema.root].kind for schema in (writer, reader)}
        self.is_raw = is_confluent and kinds == {_RAW} and pa.types.is_binary(self.arrow_type)

    def decode(self, payloads: pa.Array, max_bytes: int) -> tuple[pa.Array, Faults]:
        """A column, and what is wrong with each row; 0 for nothing."""
        if self.is_raw:
            return payloads, np.zeros(len(payloads), np.uint8)
        return decode_avro(self.program, payloads, max_bytes)

    def say(self, fault: int) -> str:
        """What is wrong, in a word."""
        return AvroFault(fault).name.lower().replace("_", "-")


def names(version: Version, registry: Registry, indexes: tuple[int, ...]) -> list[str]:  # noqa: ARG001
    """The type of a schema."""
    return [record_name(parse_version(version, registry))]


def all_names(version: Version, registry: Registry) -> list[str]:
    """The same: there is one."""
    return names(version, registry, (0,))


def lost_fields(
    writer: Version,
    reader: Version,
    name: str,  # noqa: ARG001
    registry: Registry,
    older: tuple[Version, ...] = (),
) -> set[str]:
    """Fields of the writer that would be lost with the reader."""
    return find_lost(parse_version(writer, registry), _reader(reader, older, registry))


def decoder(
    writer: Version,
    reader: Version,
    name: str,  # noqa: ARG001
    registry: Registry,
    wire: WireFormat = WireFormat.CONFLUENT,
    older: tuple[Version, ...] = (),
) -> AvroDecoder:
    """What decodes payloads of a writer; SchemaError if they do not resolve."""
    return AvroDecoder(
        parse_version(writer, registry),
        _reader(reader, older, registry),
        is_confluent=wire in (WireFormat.AUTO, WireFormat.CONFLUENT),
    )


def _reader(version: Version, older: tuple[Version, ...], registry: Registry) -> AvroSchema:
    others = tuple(parse_version(each, registry) for each in older)
    return _merged(parse_version(version, registry), others)


@lru_cache(maxsize=64)
def _merged(newest: AvroSchema, older: tuple[AvroSchema, ...]) -> AvroSchema:
    return merge_avro(newest, older) if older else newest
