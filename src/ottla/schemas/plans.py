"""What is asked of keys and values that have schemas; it imports nothing heavy."""

from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from ottla.schemas.decoding import PayloadPlan


class Wire(StrEnum):
    """How bytes name their schema."""

    AUTO = "auto"  # by headers, else by what the bytes begin with, where that is known
    CONFLUENT = "confluent"
    APICURIO = "apicurio"  # version 3: as Confluent's, without its exceptions
    APICURIO2 = "apicurio2"  # ids of eight bytes
    GLUE = "glue"
    SINGLE_OBJECT = "single-object"
    NONE = "none"  # bare payloads


class PayloadPlans(NamedTuple):
    """How the keys and the values of a topic are decoded; None: they have no schemas."""

    key: "PayloadPlan | None" = None
    value: "PayloadPlan | None" = None

    def of(self, side: str) -> "PayloadPlan | None":
        """That of `key` or `value`."""
        return self.key if side == "key" else self.value


NO_PLANS: Final = PayloadPlans()
