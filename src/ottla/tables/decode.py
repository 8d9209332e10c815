"""Bytes of any origin by a schema of the caller's."""

import json
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from ottla.arrow.schema import HEADERS_TYPE
from ottla.batch.decode import DEFAULT_MAX_BATCH_BYTES
from ottla.errors import OptionError
from ottla.options.export import ValueAs
from ottla.schemas.decoding import PayloadDecoder, decode_pieces, plan_payloads
from ottla.schemas.registry import NO_ID, Registry, SchemaType, Version
from ottla.schemas.wires import WireFormat
from ottla.tables.arguments import one_of, value_as_of
from ottla.tables.words import naming_arguments

_TYPES: Final = {
    ValueAs.AVRO: SchemaType.AVRO,
    ValueAs.PROTOBUF: SchemaType.PROTOBUF,
    ValueAs.JSONSCHEMA: SchemaType.JSON,
}
_TOPIC: Final = "values"  # in what is said of a schema that can not be used


@naming_arguments()
def decode(
    values: pa.Array | pa.ChunkedArray,
    schema: str | Mapping[str, Any],
    *,
    value_as: str = ValueAs.AVRO,
    wire: str = WireFormat.NONE,
) -> pa.ChunkedArray:
    """A column of bytes as a typed column, by one schema; what is no value of it is null.

    `schema` is a text, or JSON as Python has it; `value_as` is its language: avro, protobuf (the
    first message of a .proto text, if `wire` names no other) or jsonschema. `wire` says what stands
    in front of payloads (docs/schemas.md); ids there are skipped.
    """
    kind = _TYPES.get(value_as_of(value_as, "value_as"))
    if kind is None:
        raise OptionError(f"value_as: {', '.join(_TYPES)}, since there is a schema")
    text = schema if isinstance(schema, str) else json.dumps(schema)
    registry = Registry([Version(f"{_TOPIC}-value", 1, NO_ID, kind, text)])
    plan = plan_payloads(
        registry,
        _TOPIC,
        "value",
        wire=one_of(WireFormat, wire, "wire"),
        only=None,
        seen=(),
        max_bytes=DEFAULT_MAX_BATCH_BYTES,
    )
    decoders = {"value": PayloadDecoder(plan)}
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    made = []
    for chunk in chunks:
        columns = {"value": chunk.cast(pa.binary()), "headers": pa.nulls(len(chunk), HEADERS_TYPE)}
        records = pa.RecordBatch.from_pydict(columns)
        made += [found["value"].column for _, found in decode_pieces(records, decoders)]
    return pa.chunked_array(made, plan.arrow_type)
