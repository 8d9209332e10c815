"""What a user asks a dump for."""

from dataclasses import dataclass
from typing import NamedTuple

from ottla.batch.decode import DEFAULT_MAX_BATCH_BYTES
from ottla.dump.style import Style


class HeaderFilter(NamedTuple):
    """A header that a record must have; None is any value."""

    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Request:
    """How a dump looks and what is in it.

    A record is printed when its key is one of `keys` and it has all of `headers`. `decoder` names
    the internal topic whose records these are; without it, `decodes` goes by the directory's name.
    """

    style: Style
    keys: tuple[bytes, ...] = ()
    headers: tuple[HeaderFilter, ...] = ()
    checks_crcs: bool = True
    opens_records: bool = True
    decodes: bool = False
    decoder: str | None = None
    max_messages: int | None = None
    quiet: bool = False
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES

    def selects(self) -> bool:
        """Whether some records are left out."""
        return bool(self.keys or self.headers)
