"""Control records that Kafka cannot read (ControlRecordUtils): of a part, or of a whole window.

Markers of transactions are read by kernels anyway, and those that could be read are what they
should be. Only what is left, KRaft's own records and damage, is opened by Python.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from ottla.batch.attributes import is_control
from ottla.batch.control import ControlRecordError, cached, read_control
from ottla.batch.control_records import read_key_value
from ottla.batch.decode import DEFAULT_MAX_BATCH_BYTES, Decoder
from ottla.batch.parts import Part, read_parts
from ottla.errors import Rule, Violation
from ottla.format.arrays import Bools
from ottla.format.attributes import ControlType
from ottla.kernels.producers.state import Markers
from ottla.kernels.tables import Batches, Wanted, take_batches
from ottla.region import Region

_WANTED: Final = Wanted.KEYS | Wanted.VALUES | Wanted.CONTROL


def check_control_batches(
    region: Region,
    batches: Batches,
    markers: Markers,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
) -> Iterator[Violation]:
    """The control records of sound batches that Kafka cannot read."""
    rows = _not_only_a_marker(batches, markers)
    if rows.any():
        decoder = Decoder(_WANTED, max_batch_bytes=max_batch_bytes)
        for part in read_parts(decoder, region, take_batches(batches, rows)):
            for _, violation in check_control_records(part, region.path):
                yield violation


def _not_only_a_marker(batches: Batches, markers: Markers) -> Bools:
    """Control batches with something else than one marker that was read."""
    is_marker = np.isin(markers.control_type, (ControlType.ABORT, ControlType.COMMIT))
    rest: Bools = is_control(batches) & (batches.count > 0) & ~(is_marker & (batches.count == 1))
    return rest


def check_control_records(part: Part, file: str) -> Iterator[tuple[int, Violation]]:
    """The control records of a part that Kafka cannot read, by their place in its chunk."""
    control = is_control(part.batches)
    if part.chunk is None or not control.any():
        return
    buffers = part.chunk.buffers
    rows = np.repeat(np.arange(control.size), part.record_counts)
    for record in np.flatnonzero(control[rows]).tolist():
        detail = _why_unreadable(*read_key_value(buffers, record))
        if detail is None:
            continue
        row, offset = rows[record], int(buffers.offset[record])
        violation = Violation(
            Rule.CONTROL_RECORD,
            detail,
            file,
            int(part.batches.position[row]),
            size=int(part.batches.size[row]),
            offset=offset,
            last_offset=offset,
        )
        yield record, violation


@cached
def _why_unreadable(key: bytes | None, value: bytes | None) -> str | None:
    try:
        read_control(key, value)
    except ControlRecordError as error:
        return str(error)
    return None
