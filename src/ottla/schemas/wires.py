"""The wire formats by their names; nothing heavy is imported, lest `--help` wait for it."""

from enum import StrEnum


class WireFormat(StrEnum):
    """How bytes name their schema."""

    AUTO = "auto"  # by headers, else by what the bytes begin with, where that is known
    CONFLUENT = "confluent"
    APICURIO = "apicurio"  # version 3: as Confluent's, without its exceptions
    APICURIO2 = "apicurio2"  # ids of eight bytes
    GLUE = "glue"
    SINGLE_OBJECT = "single-object"
    NONE = "none"  # bare payloads
