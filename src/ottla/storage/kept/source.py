"""What a listed file says of how its bytes are kept, and what an open one says of lost ones."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final, Protocol

from ottla.errors import Violation
from ottla.region import Bytes

if TYPE_CHECKING:
    from ottla.storage.files import File
    from ottla.storage.listing import Entry
    from ottla.storage.object_store import StorageOptions

# What stands where bytes could not be had: as the length of a batch it is below any, so that no
# reader takes it for one, nor for room that was never filled.
LOST: Final = 0xFF


class Keeping(Protocol):
    """How the bytes of a listed file are had when they are not simply those of its path.

    Travels to tasks. `chunk_bytes` is how many of its bytes come together, 0 if any do. It
    `lies_in` another file, or in none.
    """

    @property
    def chunk_bytes(self) -> int: ...

    @property
    def lies_in(self) -> "Entry | None": ...

    def open(self, entry: "Entry", options: "StorageOptions") -> "File": ...


class KeptSource(ABC):
    """The bytes of an open file of that kind. What can not be had is LOST, and is remembered."""

    @abstractmethod
    def read(self, target: Bytes, position: int) -> int:
        """Put what begins at a position into `target`; how many bytes."""

    @abstractmethod
    def close(self) -> None:
        """Give back what is open."""

    def peek(self, target: Bytes, position: int) -> int:
        """As `read`, for who only looks and believes nothing: it may cost less."""
        return self.read(target, position)

    @property
    @abstractmethod
    def damages(self) -> list[Violation]:
        """What was lost of the bytes that were read, in any order."""
