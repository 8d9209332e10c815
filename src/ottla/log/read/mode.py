"""What readers do about what is broken."""

from enum import StrEnum


class Mode(StrEnum):
    """What to do about a broken batch (the words of Spark's file sources)."""

    FAILFAST = "FAILFAST"
    DROPMALFORMED = "DROPMALFORMED"
    PERMISSIVE = "PERMISSIVE"
