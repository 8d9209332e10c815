"""Find one batch of a file and open it, whatever its state."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from ottla.batch.decode import Decoder
from ottla.batch.parts import read_parts
from ottla.errors import OptionError, Rule, Severity, Violation
from ottla.format.layout import BATCH_OVERHEAD
from ottla.format.sentinels import NO_OFFSET
from ottla.kernels.tables import Batches, Wanted, take_batches
from ottla.log.check.control import check_control_records
from ottla.log.files.foreign import require_segment
from ottla.log.read.windows import read_windows
from ottla.region import Region
from ottla.storage.files import File, open_file

_WANTED: Final = Wanted.KEYS | Wanted.VALUES | Wanted.INDEXES | Wanted.CONTROL


@dataclass(frozen=True, slots=True)
class OpenedBatch:
    """The bytes of a batch and what is known of it.

    `row` is None where no batch can be cut; `data` is then what may be its beginning. `payload` is
    what its records decompress to, if they are compressed and do. Offsets of messages in a wrapper
    are `shift` too small.
    """

    position: int
    data: bytes
    row: Batches | None
    payload: bytes | None
    shift: int
    violations: tuple[Violation, ...]

    @property
    def is_broken(self) -> bool:
        """Whether no batch is here, or one with an error."""
        errors = (violation.rule.severity is Severity.ERROR for violation in self.violations)
        return self.row is None or any(errors)


def open_at_position(path: str, position: int) -> OpenedBatch:
    """Open the batch that holds this byte, or what stands there in its place."""
    with open_file(path) as file:
        require_segment(file)
        return open_batch(file, find_position(file, position))


def open_at_offset(path: str, offset: int) -> OpenedBatch:
    """Open the batch that holds this offset."""
    with open_file(path) as file:
        require_segment(file)
        return open_batch(file, find_offset(file, offset))


def find_position(file: File, position: int) -> int:
    """Where the batch that holds this byte begins; the byte itself if none does."""
    if not 0 <= position < file.size:
        raise OptionError(f"{file.path} has {file.size} bytes: there is none at {position}")
    for window in read_windows(file, check_crcs=False):
        begins = window.batches.position
        row = int(np.searchsorted(begins, position, side="right")) - 1
        if row >= 0 and position < begins[row] + window.batches.size[row]:
            return int(begins[row])
        if window.stop > position:
            break
    return position


def find_offset(file: File, offset: int) -> int:
    """Where the batch with this offset begins: the first that ends at or after it, as in Kafka."""
    last = NO_OFFSET
    for window in read_windows(file, check_crcs=False):
        reached = np.flatnonzero(window.batches.last_offset >= offset)
        if reached.size:
            row = int(reached[0])
            if window.batches.base_offset[row] > offset:
                following = int(window.batches.base_offset[row])
                raise OptionError(f"no batch has offset {offset}; the next begins at {following}")
            return int(window.batches.position[row])
        if window.batches.last_offset.size:
            last = int(window.batches.last_offset[-1])
    raise OptionError(f"no batch has offset {offset}; the last ends at {last}")


def open_batch(file: File, position: int) -> OpenedBatch:
    """Cut, check and decompress the batch that begins at `position`."""
    for window in read_windows(file, start=position):
        if window.batches.position.size:
            row = take_batches(window.batches, slice(0, 1))
            return _decode(window.region, row)
        if window.violation is not None:
            front = _read(file, position, BATCH_OVERHEAD)
            return OpenedBatch(position, front, None, None, 0, (window.violation,))
    return OpenedBatch(position, _read(file, position, BATCH_OVERHEAD), None, None, 0, ())


def _read(file: File, position: int, size: int) -> bytes:
    data = np.zeros(size, dtype=np.uint8)
    return data[: file.read_into(data, position, size)].tobytes()


def _decode(region: Region, row: Batches) -> OpenedBatch:
    decoder = Decoder(_WANTED)
    violations = _violations(decoder, region, row)
    if any(violation.rule is Rule.CRC_MATCHES for violation in violations):
        # Kafka looks no further, but whoever inspects a damaged batch wants to.
        decoder = Decoder(_WANTED, check_crcs=False)
        violations += _violations(decoder, region, row)
    payloads = decoder.payloads
    payload = None
    if payloads.in_arena[0]:
        payload = decoder.arena.data[payloads.start[0] : payloads.stop[0]].tobytes()
    position, size = int(row.position[0]), int(row.size[0])
    start = position - region.position
    data = region.data[start : start + size].tobytes()
    return OpenedBatch(position, data, row, payload, int(payloads.shift[0]), tuple(violations))


def _violations(decoder: Decoder, region: Region, row: Batches) -> list[Violation]:
    found: list[Violation] = []
    for part in read_parts(decoder, region, row):
        found += (broken.violation for broken in part.broken)
        found += (violation for _, violation in check_control_records(part, region.path))
    return found
