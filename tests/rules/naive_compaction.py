"""Log cleaning on plain lists, as section 4.8 of Kafka's design and KIP-534 tell it."""

from dataclasses import dataclass, field, replace

DELETE_RETENTION = 1000


@dataclass(frozen=True)
class Record:
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int = 0


@dataclass(frozen=True)
class Batch:
    base: int
    last: int
    records: tuple[Record, ...]
    producer_id: int = -1
    epoch: int = -1
    sequence: int = -1
    transactional: bool = False
    marker: int | None = None  # 0 abort, 1 commit; the records of an emptied one are gone
    control: bool = False
    horizon: int | None = None
    magic: int = 2


@dataclass
class Log:
    batches: list[Batch] = field(default_factory=list)


def aborted_batches(batches: list[Batch]) -> set[int]:
    """Bases of data batches whose transaction an abort marker ends."""
    found = set()
    for at, batch in enumerate(batches):
        if batch.control or not batch.transactional:
            continue
        for later in batches[at + 1 :]:
            if later.producer_id == batch.producer_id and later.control and later.records:
                if later.marker == 0:
                    found.add(batch.base)
                break
    return found


def last_batches(batches: list[Batch]) -> set[int]:
    """Bases of batches that hold a producer's last sequence, or its last epoch if it has none."""
    kept = set()
    for producer_id in {batch.producer_id for batch in batches if batch.producer_id >= 0}:
        own = [
            batch
            for batch in batches
            if batch.producer_id == producer_id and not (batch.control and not batch.records)
        ]
        if not own:
            continue
        epoch = own[-1].epoch
        at = len(own)
        while at > 0 and own[at - 1].epoch == epoch:
            at -= 1
        data = [batch for batch in own[at:] if not batch.control]
        if data:
            kept.add(data[-1].base)
        else:
            kept |= {
                batch.base
                for batch in batches
                if batch.control and batch.producer_id == producer_id and batch.epoch == epoch
            }
    return kept


def clean(
    batches: list[Batch],
    whole: list[Batch],
    dirty: int,
    bound: int,
    now: int,
    retention: int = DELETE_RETENTION,
) -> list[Batch]:
    """What is left of the batches below `bound`; `whole` is the log with what comes after.

    Segments of old formats count as young: their tombstones stay, and get no horizon.
    """
    aborted = aborted_batches(whole)
    newest: dict[bytes, int] = {}
    for batch in batches:
        if batch.control or batch.base in aborted:
            continue
        for record in batch.records:
            if record.key is not None and record.offset >= dirty:
                newest[record.key] = record.offset
    needed = last_batches(whole)
    left = []
    for at, batch in enumerate(batches):
        removable = _is_removable(batches, at, aborted)
        expired = batch.horizon is not None and batch.horizon <= now
        if removable and (expired or not batch.control):
            kept: tuple[Record, ...] = ()
        elif batch.control:
            kept = batch.records
        else:
            kept = tuple(
                record
                for record in batch.records
                if record.key is not None
                and record.offset >= newest.get(record.key, -1)
                and (record.value is not None or not expired)
            )
        if kept:
            delays = any(record.value is None for record in kept) or (removable and batch.control)
            horizon = batch.horizon
            if delays and horizon is None and batch.magic == 2:
                horizon = now + retention
            left.append(_with(batch, kept, horizon))
        elif batch.base in needed or batch.last + 1 == bound:
            left.append(replace(batch, records=(), horizon=None))
    return left


def _with(batch: Batch, kept: tuple[Record, ...], horizon: int | None) -> Batch:
    if batch.magic == 2:
        return replace(batch, records=kept, horizon=horizon)
    # The offset of a compressed message is that of the last message in it.
    return replace(batch, base=kept[-1].offset, last=kept[-1].offset, records=kept)


def _is_removable(batches: list[Batch], at: int, aborted: set[int]) -> bool:
    batch = batches[at]
    if not batch.control:
        return batch.base in aborted
    if not batch.records:
        return True
    own = [other for other in batches[:at] if other.producer_id == batch.producer_id]
    since = []
    for other in reversed(own):
        if other.control and other.records:
            break
        since.append(other)
    return not any(other.transactional and not other.control for other in since)
