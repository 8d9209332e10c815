"""How the keys and values of a topic are decoded, for those who only pass it on."""

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from ottla.schemas.decoding import PayloadPlan


class PayloadPlans(NamedTuple):
    """How the keys and the values of a topic are decoded; None: they have no schemas.

    `told` is for people: why a side stays bytes although it has schemas.
    """

    key: "PayloadPlan | None" = None
    value: "PayloadPlan | None" = None
    told: tuple[str, ...] = ()

    def of(self, side: str) -> "PayloadPlan | None":
        """That of `key` or `value`."""
        return self.key if side == "key" else self.value


NO_PLANS: Final = PayloadPlans()
