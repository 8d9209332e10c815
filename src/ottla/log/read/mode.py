"""What readers do about what is broken, and about what is not committed."""

from enum import StrEnum


class Mode(StrEnum):
    """What to do about a broken batch (the words of Spark's file sources)."""

    FAILFAST = "FAILFAST"
    DROPMALFORMED = "DROPMALFORMED"
    PERMISSIVE = "PERMISSIVE"


class Isolation(StrEnum):
    """Whether records of aborted and open transactions are given."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"
