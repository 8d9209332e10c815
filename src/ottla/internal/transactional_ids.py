"""The transactional ids of a cluster, from the records of `__transaction_state`."""

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

from ottla.errors import Row
from ottla.internal.records import TRANSACTION_STATE, decode_record, why_unusable

# TransactionState
STATUS_NAMES: Final = {
    0: "Empty", 1: "Ongoing", 2: "PrepareCommit", 3: "PrepareAbort",
    4: "CompleteCommit", 5: "CompleteAbort", 6: "Dead", 7: "PrepareEpochFence",
}  # fmt: skip

TRANSACTIONAL_IDS_SCHEMA: Final = pa.schema(
    [
        pa.field("transactionalId", pa.string()),
        pa.field("producerId", pa.int64()),
        pa.field("producerEpoch", pa.int32()),
        pa.field("status", pa.string()),
        pa.field("timeoutMs", pa.int32()),
        pa.field("startTimestamp", pa.int64()),
        pa.field("lastUpdateTimestamp", pa.int64()),
        pa.field(
            "partitions",
            pa.list_(pa.struct([("topic", pa.string()), ("partitions", pa.list_(pa.int32()))])),
        ),
        pa.field("previousProducerId", pa.int64()),
        pa.field("nextProducerId", pa.int64()),
        pa.field("nextProducerEpoch", pa.int32()),
        pa.field("clientTransactionVersion", pa.int32()),
        pa.field("deleted", pa.bool_()),
        pa.field("logOffset", pa.int64()),
        pa.field("logTimestamp", pa.int64()),
        pa.field("error", pa.string()),
    ]
)


def current_transactional_ids(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """The last state of every transactional id that has not been removed."""
    last: dict[str, Row] = {}
    errors = []
    for batch in batches:
        for row in _rows(batch):
            if "error" in row:
                errors.append(row)
            elif row["deleted"]:
                last.pop(row["transactionalId"], None)
            else:
                last[row["transactionalId"]] = row
    rows = [last[name] for name in sorted(last)] + errors
    return pa.Table.from_pylist(rows, schema=TRANSACTIONAL_IDS_SCHEMA)


def transactional_id_history(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Every state that a transactional id was in."""
    for batch in batches:
        yield pa.Table.from_pylist(list(_rows(batch)), schema=TRANSACTIONAL_IDS_SCHEMA)


def _rows(batch: pa.RecordBatch) -> Iterator[Row]:
    names = ("offset", "timestamp", "key", "value", "isControl")
    for offset, timestamp, key, value, is_control in zip(
        *(batch[name].to_pylist() for name in names), strict=True
    ):
        if is_control:
            continue
        origin = {"logOffset": offset, "logTimestamp": timestamp}
        decoded = decode_record(TRANSACTION_STATE, key, value)
        if problem := why_unusable(decoded):
            yield origin | {"error": problem}
        elif decoded.key is not None and "data" in decoded.key:
            name = decoded.key["data"]["transactionalId"]
            if decoded.tombstone:
                yield origin | {"transactionalId": name, "deleted": True}
            elif decoded.value is not None and "data" in decoded.value:
                yield origin | _state(name, decoded.value["data"])


def _state(name: str, data: Row) -> Row:
    status = data["transactionStatus"]
    return {
        "transactionalId": name,
        "producerId": data["producerId"],
        "producerEpoch": data["producerEpoch"],
        "status": STATUS_NAMES.get(status, str(status)),
        "timeoutMs": data["transactionTimeoutMs"],
        "startTimestamp": data["transactionStartTimestampMs"],
        "lastUpdateTimestamp": data["transactionLastUpdateTimestampMs"],
        "partitions": [
            {"topic": one["topic"], "partitions": one["partitionIds"]}
            for one in data["transactionPartitions"] or ()
        ],
        "previousProducerId": data.get("previousProducerId", -1),
        "nextProducerId": data.get("nextProducerId", -1),
        "nextProducerEpoch": data.get("nextProducerEpoch", -1),
        "clientTransactionVersion": data.get("clientTransactionVersion", 0),
        "deleted": False,
    }
