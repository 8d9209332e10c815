"""What a broker remembers of writes that await the coordinator's word (VerificationStateEntry).

Nothing of it is in a log, so the package has no use for it; the broker of these tests does it.
"""

from dataclasses import dataclass

from ottla.kernels.tables import Batches


@dataclass(frozen=True, slots=True)
class Verification:
    """What the coordinator asked about before a producer's first write (VerificationStateEntry)."""

    timestamp: int
    lowest_sequence: int
    epoch: int


def verify(known: Verification | None, sequence: int, epoch: int, now: int) -> Verification:
    """Remember a write that awaits the coordinator's word (maybeCreateVerificationStateEntry)."""
    if known is None:
        return Verification(now, sequence, epoch)
    if epoch > known.epoch:
        return Verification(known.timestamp, sequence, epoch)
    lowest = min(known.lowest_sequence, sequence) if epoch == known.epoch else known.lowest_sequence
    return Verification(known.timestamp, lowest, known.epoch)


def skips_a_write(known: Verification | None, batches: Batches, row: int) -> bool:
    """Whether a client's write is refused because an earlier one still awaits the coordinator."""
    return known is not None and int(batches.base_sequence[row]) > known.lowest_sequence
