"""What a user asks a dump for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.batch.decode import DEFAULT_MAX_BATCH_BYTES
from ottla.dump.payloads import Form, digest_form
from ottla.dump.style import Style
from ottla.options.dump import Encoding
from ottla.schemas.plans import PayloadPlans
from ottla.where.tree import Predicate


class HeaderFilter(NamedTuple):
    """A header that a record must have; None is any value."""

    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Request:
    """How a dump looks and what is in it.

    A record is printed when its key is one of `keys`, it has all of `headers` and is as `where`
    says. `decoder` names the internal topic whose records these are; without it, `decodes` goes by
    the directory's name. Without an `encoding` the style has its own; `hides_payload` shows sizes
    and hashes instead. `payloads` has plans of topics whose keys or values have schemas.
    """

    style: Style
    keys: tuple[bytes, ...] = ()
    headers: tuple[HeaderFilter, ...] = ()
    where: Predicate | None = None
    checks_crcs: bool = True
    opens_records: bool = True
    decodes: bool = False
    decoder: str | None = None
    max_messages: int | None = None
    quiet: bool = False
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    encoding: Encoding | None = None
    hides_payload: bool = False
    payloads: Mapping[str, PayloadPlans] = field(default_factory=dict)

    @property
    def form(self) -> Form | None:
        """How bytes are shown, None for the style's own way."""
        if self.hides_payload:
            return digest_form(self.style.digest)
        return None if self.encoding is None else self.style.forms[self.encoding]

    def selects(self) -> bool:
        """Whether some records are left out."""
        return bool(self.keys or self.headers or self.where)
