"""Metadata snapshots: the file that a controller starts from when it has no log.

A snapshot is a control batch with its header, batches of records, and a control batch with its
footer (RecordsSnapshotWriter). Its name says which offset and epoch it stands for.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.batch.encode import encode_batches, encode_control, split
from ottla.batch.new_batch import NewBatch
from ottla.batch.rows import NewRecord, pack_rows
from ottla.format.attributes import ControlType
from ottla.internal.encode import encode_metadata
from ottla.internal.image import Data

_BATCH_BYTES: Final = 1 << 20


class SnapshotRecord(NamedTuple):
    """A record of a snapshot, its type as decoding names it."""

    type: str
    version: int
    data: Data


def write_snapshot(records: Sequence[SnapshotRecord], epoch: int, timestamp: int) -> bytes:
    """The bytes of a snapshot; `timestamp` is that of the last record that it stands for."""
    rows = [
        NewRecord(1 + at, timestamp, None, encode_metadata(*record))
        for at, record in enumerate(records)
    ]
    header = {"lastContainedLogTimestamp": timestamp}
    return b"".join(
        [
            _control(0, epoch, timestamp, ControlType.SNAPSHOT_HEADER, header),
            _data(rows, epoch),
            _control(1 + len(rows), epoch, timestamp, ControlType.SNAPSHOT_FOOTER, {}),
        ]
    )


def snapshot_name(end_offset: int, epoch: int) -> str:
    """The name of a snapshot of everything before an offset.

    >>> snapshot_name(42, 1)
    '00000000000000000042-0000000001.checkpoint'
    """
    return f"{end_offset:020d}-{epoch:010d}.checkpoint"


def _data(rows: Sequence[NewRecord], epoch: int) -> bytes:
    if not rows:
        return b""
    new = NewBatch(partition_leader_epoch=epoch)
    records = pack_rows(rows)
    return encode_batches(records, split(records, new, _BATCH_BYTES), new).data.tobytes()


def _control(offset: int, epoch: int, timestamp: int, kind: ControlType, fields: Data) -> bytes:
    new = NewBatch(base_offset=offset, partition_leader_epoch=epoch, is_control=True)
    return encode_control(new, timestamp, [(kind, fields)])
