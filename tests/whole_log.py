"""Verify and salvage from beginning to end in one go: the truth for jobs that cut logs in parts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

from ottla.batch.decode import DEFAULT_MAX_BATCH_BYTES, Decoder
from ottla.errors import Violation
from ottla.kernels.search.salvage import Intact
from ottla.kernels.tables import Wanted
from ottla.log.check.partition import Seen, check_seen, see_tail, see_window
from ottla.log.files.partition import Partition, Segment
from ottla.log.read.windows import read_windows
from ottla.log.salvage.found import FoundPiece, concat_rows
from ottla.log.salvage.plan import SegmentPlan, plan_from
from ottla.log.salvage.search import find_intact
from ottla.storage.files import open_file
from ottla.storage.object_store import DEFAULT_OPTIONS, StorageOptions


def check_partition(
    partition: Partition,
    options: StorageOptions = DEFAULT_OPTIONS,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
) -> Iterator[Violation]:
    """Every violation of a partition, in the order of its files."""
    segments = (_see_segment(each, options, max_batch_bytes) for each in partition.segments)
    yield from check_seen(partition, segments, options)


def _see_segment(segment: Segment, options: StorageOptions, max_batch_bytes: int) -> Iterator[Seen]:
    decoder = Decoder(Wanted.CONTROL, max_batch_bytes=max_batch_bytes)
    with open_file(segment.log, options) as file:
        window = None
        for window in read_windows(file, max_batch_bytes=max_batch_bytes):
            yield see_window(window, decoder)
        yield see_tail(file, window)


@dataclass(frozen=True, slots=True)
class HeldFound:
    """What was found in a segment, in memory."""

    held: Sequence[FoundPiece]

    def rows(self) -> Iterator[Intact]:
        return (piece.rows for piece in self.held)

    def pieces(self) -> Iterator[FoundPiece]:
        return iter(self.held)


class WholePlan(SegmentPlan):
    """A plan that gives all at once."""

    @property
    def kept(self) -> Intact:
        return concat_rows([piece.kept for piece in self.pieces()])

    @property
    def quarantined(self) -> list[Violation]:
        return [violation for piece in self.pieces() for violation in piece.left_out]


def whole(plan: SegmentPlan) -> WholePlan:
    return WholePlan(*(getattr(plan, field.name) for field in fields(plan)))


def plan_salvage(
    partition: Partition,
    options: StorageOptions = DEFAULT_OPTIONS,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
) -> list[WholePlan]:
    """Decide for every byte of the logs of a partition."""
    found = []
    for segment in partition.segments:
        with open_file(segment.log, options) as file:
            pieces = list(find_intact(file, segment.base_offset, max_batch_bytes))
        found.append(HeldFound(pieces))
    return [whole(plan) for plan in plan_from(partition, found)]
