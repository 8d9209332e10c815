"""Bytes inside group records that have a layout of their own: subscriptions and assignments.

A blob that does not decode stays the base64 it was, as in kafka-dump-log: it is the member's own
business and must not make the group's record unreadable.
"""

from base64 import b64decode
from functools import cache, lru_cache
from typing import Final

from ottla.internal.interpreter import body_readers, default_of
from ottla.internal.notation import Schema, read_table
from ottla.internal.primitives import Json, MalformedError, Reader

# (subscription, assignment) in the numbering of tables/member_blobs.txt
BLOBS_OF_PROTOCOL_TYPE: Final = {"consumer": (0, 1), "connect": (2, 3)}


def decode_blobs(record: str, values: dict[str, Json]) -> dict[str, Json]:
    """The same values, with every blob that decodes in place of its bytes."""
    if record == "GroupMetadataValue" and values["protocolType"] in BLOBS_OF_PROTOCOL_TYPE:
        subscription, assignment = BLOBS_OF_PROTOCOL_TYPE[values["protocolType"]]
        for member in values["members"]:
            member["subscription"] = decode_blob(subscription, member["subscription"])
            member["assignment"] = decode_blob(assignment, member["assignment"])
    elif values.get("classicMemberMetadata"):
        for protocol in values["classicMemberMetadata"]["supportedProtocols"]:
            protocol["metadata"] = decode_blob(0, protocol["metadata"])
    return values


@lru_cache(maxsize=1 << 12)  # each rebalance writes the members' subscriptions anew
def decode_blob(number: int, text: str) -> Json:
    """Decode base64 text as one of tables/member_blobs.txt, or give it back."""
    data = b64decode(text)
    version = int.from_bytes(data[:2], "big", signed=True)
    if len(data) < 2 or version < 0:
        return text
    schema = read_table("member_blobs")["record", number][0]
    # Higher versions only append: read the part that is known (ConsumerProtocol).
    known = min(version, schema.versions.last)
    values = _defaults(schema, known)
    at = 2
    try:
        for name, read in _readers(number, known):
            # Some clients claim a version and stop after UserData: what is missing has its default.
            if at == len(data) and at > 2:
                break
            values[name], at = read(data, at)
    except MalformedError:
        return text
    return values


@cache
def _readers(number: int, version: int) -> list[tuple[str, Reader]]:
    schema = read_table("member_blobs")["record", number][0]
    return body_readers(schema.fields, version)


def _defaults(schema: Schema, version: int) -> dict[str, Json]:
    return {field.name: default_of(field) for field in schema.fields if version in field.versions}
