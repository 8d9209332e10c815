"""A round of the cleaner's rules on bytes of a log, and logs as the naive cleaner knows them."""

import struct
from dataclasses import replace

import numpy as np

import naive
from ottla.batch.records import decode_sound_groups
from ottla.kernels.bytes.crc import compute_crcs
from ottla.kernels.producers.state import Markers
from ottla.kernels.tables import Batches, Int64s, take_batches
from ottla.region import Region
from ottla.rules.cleaner.cleaning import Cleaned, clean_window, make_decoder
from ottla.rules.cleaner.compaction import Cleaner, Round, last_records
from ottla.rules.cleaner.survivors import Learning, NewestKeys, find_entries
from ottla.rules.producers.producer import empty_state
from ottla.rules.producers.transactions import Entries, Transactions
from rules.histories import tables
from rules.naive_compaction import Batch, Record

SECRET = np.array([3, 4], dtype=np.uint64)


def window_of(data: bytes) -> tuple[Region, Batches, Markers]:
    """Bytes as a reader gives them: with what their CRCs should be."""
    region, batches, markers = tables(data)
    compute_crcs(region.data, 0, batches)
    return region, batches, markers


def transactions_of(data: bytes) -> Transactions:
    _, batches, markers = tables(data)
    found = Transactions()
    found.add(batches, markers)
    return found


def find_survivors(region: Region, batches: Batches, aborted: Entries, dirty: int) -> Int64s:
    """The first pass: the offsets that stay for their key's sake."""
    newest = NewestKeys()
    for span, decoded in decode_sound_groups(make_decoder(), region, batches):
        group = take_batches(batches, span)
        newest.put(find_entries(Learning(SECRET, dirty), group, decoded, aborted))
    return np.sort(np.concatenate([newest.newest(), newest.confirmed()]))


def clean(
    data: bytes,
    rest: bytes,
    round_: Round,
    *,
    dirty: int = 0,
    active: bool = True,
    legacy: bool = True,
) -> tuple[Cleaned, Cleaner]:
    """One round over `data`, with `rest` behind it; `active` says whether producers are known."""
    region, batches, markers = window_of(data)
    whole = transactions_of(data + rest)
    survivors = find_survivors(region, batches, whole.aborted(), dirty)
    state = whole.state if active else empty_state()
    cleaner = Cleaner(round_, survivors, whole.aborted(), last_records(state))
    cleaned = clean_window(
        cleaner, make_decoder(), region, batches, markers, keeps_legacy_tombstones=legacy
    )
    return cleaned, cleaner


def decode(data: bytes) -> list[Batch]:
    """What the naive reader finds, in the words of the naive cleaner."""
    batches: list[Batch] = []
    for line in naive.decode(data):
        if line["type"] == "batch":
            assert line["crcValid"]
            batches.append(_batch(line))
        elif line["type"] == "record":
            record = Record(line["offset"], line["key"], line["value"], line["timestamp"])
            last = batches[-1]
            kind = struct.unpack(">hh", record.key)[1] if last.control and record.key else None
            batches[-1] = replace(last, records=(*last.records, record), marker=kind)
        else:
            assert line["type"] == "end"
    return batches


def as_read(batches: list[Batch]) -> list[Batch]:
    """What `decode` can know: an emptied marker does not say what it was."""
    return [batch if batch.records else replace(batch, marker=None) for batch in batches]


def _batch(line: naive.Line) -> Batch:
    last = line["lastOffset"]
    if line["magic"] < 2:  # a wrapper tells where it ends, and not where it begins
        return Batch(last, last, (), magic=line["magic"])
    return Batch(
        line["baseOffset"],
        last,
        (),
        line["producerId"],
        line["producerEpoch"],
        line["baseSequence"],
        line["isTransactional"],
        None,
        line["isControl"],
        line["deleteHorizonMs"],
    )
