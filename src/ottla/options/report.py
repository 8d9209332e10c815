"""What is asked of a report."""

from dataclasses import dataclass
from typing import Final

from ottla.errors import OptionError

DEFAULT_PRICE: Final = 0.02


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """What is asked; `price` is of a gigabyte (10 ** 9 bytes) for a month, in any currency.

    `compacted` are topics, or patterns of them, to take for compacted whatever their policy.
    """

    price: float = DEFAULT_PRICE
    sample_bytes: int = 16 << 20
    split_bytes: int = 64 << 20
    seed: int = 0
    what_if: bool = True
    compaction: bool = True
    compacted: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.price < float("inf"):
            raise OptionError(f"a price of {self.price}: give what a gigabyte costs in a month")
        if self.sample_bytes <= 0:
            raise OptionError("a sample of no bytes says nothing: give more, or leave what-if out")
