"""The encoder, fed with what Kafka said of the corpus, gives the bytes that Kafka wrote."""

import base64
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import naive
import naive_codecs
from corpus import CASES, expected_lines
from ottla.arrow.from_arrow import records_from_arrow
from ottla.arrow.schema import RAW_HEADERS_TYPE
from ottla.batch.encode import encode, encode_empty
from ottla.batch.new_batch import NewBatch
from ottla.errors import CorruptLogError, OptionError

KINDS = ("ok", "hdr", "ts", "idem", "txn", "ctl", "leg", "empty", "horizon", "compact")
UNDAMAGED = [case for case in CASES if case.split("-")[0] in KINDS]
TIMESTAMP_TYPES = {"NoTimestampType": -1, "CreateTime": 0, "LogAppendTime": 1}
# Made by hand, past what Kafka's builder takes: a codec without records, negative ids and times.
REFUSED = {
    "idem-v2-none-negpid-raw": "producer",
    "ts-v2-none-negative-raw": "timestamp",
    "empty-v2-gzip-compressed-raw": "codec none",
    "empty-v2-lz4-compressed-raw": "codec none",
    "empty-v2-snappy-compressed-raw": "codec none",
    "empty-v2-zstd-compressed-raw": "codec none",
    "empty-v2-zstd-nopayload-raw": "codec none",
}
# Wrappers with more inside than a reader sees: other magics, offsets or timestamps, or a key.
HIDING = (
    "innermagic0",
    "innermagic1",
    "innerlatbit",
    "lat-wrapper",
    "relative",
    "absolute-inner",
    "relative-gaps",
    "wrapperkey",
    "zerooffset",
)
ROWS = pa.schema(
    {
        "offset": pa.int64(),
        "timestamp": pa.int64(),
        "key": pa.binary(),
        "value": pa.binary(),
        "headers": RAW_HEADERS_TYPE,
    }
)

Line = dict[str, Any]


def settings(batch: Line) -> NewBatch:
    chosen: dict[str, Any] = {
        "magic": batch["magic"],
        "codec": batch["codecId"],
        "timestamp_type": TIMESTAMP_TYPES[batch["timestampType"]],
    }
    if batch["timestampType"] == "LogAppendTime":
        chosen["log_append_time"] = batch["maxTimestamp"]
    if batch["magic"] < 2:
        return NewBatch(**chosen)
    if batch["deleteHorizonMs"] is not None:
        chosen["delete_horizon"] = batch["deleteHorizonMs"]
    if batch["count"] == 0:
        chosen["max_timestamp"] = batch["maxTimestamp"]
    return NewBatch(
        **chosen,
        base_offset=batch["baseOffset"],
        partition_leader_epoch=batch["partitionLeaderEpoch"],
        producer_id=batch["producerId"],
        producer_epoch=batch["producerEpoch"],
        base_sequence=batch["baseSequence"],
        is_transactional=batch["isTransactional"],
        is_control=batch["isControl"],
        last_offset_delta=batch["lastOffsetDelta"],
    )


def decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def arrow(records: list[Line]) -> pa.RecordBatch:
    rows = [
        {
            "offset": record["offset"],
            "timestamp": record["timestamp"],
            "key": decoded(record["key"]),
            "value": decoded(record["value"]),
            "headers": [
                {"key": key.encode(), "value": decoded(value)} for key, value in record["headers"]
            ],
        }
        for record in records
    ]
    return pa.RecordBatch.from_pylist(rows, schema=ROWS)


def encoded(batch: Line, records: list[Line]) -> bytes:
    new = settings(batch)
    return encode(records_from_arrow(arrow(records)), new) if records else encode_empty(new)


def uncompressed(batch: Line, data: bytes) -> tuple[bytes, bytes]:
    """What goes around the payload, but for sizes and CRC, and the payload."""
    magic, codec = batch["magic"], batch["codecId"]
    front, payload = (
        (61, data[61:]) if magic == 2 else (34, data[34:]) if magic else (26, data[26:])
    )
    around = (
        data[:8] + data[12:17] + data[21:front] if magic == 2 else data[:8] + data[16 : front - 4]
    )
    return around, b"".join(naive_codecs.decompress(payload, codec, magic=magic))


def is_stated(case: str, batch: Line) -> bool:
    """Whether the expected lines say all that the bytes hold.

    Of records with the broker's timestamp, the producer's is in the bytes of magic 2 only.
    """
    producers_time = batch["magic"] == 2 and batch["timestampType"] == "LogAppendTime"
    hiding = case.split("-", 3)[3] in HIDING and batch["codecId"] != 0
    return not producers_time and not hiding


def visible(data: bytes) -> list[Line]:
    """Records as the naive reader gives them; magic 0 has no room for what inner magic 1 adds."""
    fields = ("offset", "sequence", "key", "value", *(["timestamp"] if data[16] else []))
    records = [line for line in naive.decode(data) if line["type"] == "record"]
    return [{name: line[name] for name in fields} for line in records]


def batches_of(lines: list[Line]) -> list[tuple[Line, list[Line]]]:
    """Batches that Kafka could read, each with its records."""
    broken = {line["position"] for line in lines if line.get("stage") == "records"}
    records: dict[int, list[Line]] = defaultdict(list)
    for line in lines:
        if line["type"] == "record":
            records[line["position"]].append(line)
    batches = [line for line in lines if line["type"] == "batch"]
    return [(line, records[line["position"]]) for line in batches if line["position"] not in broken]


@pytest.mark.parametrize("case", [case for case in UNDAMAGED if case not in REFUSED])
def test_the_encoder_gives_kafkas_bytes(corpus: Path, case: str) -> None:
    data = (corpus / "segments" / f"{case}.log").read_bytes()
    for batch, records in batches_of(expected_lines(corpus, case)):
        theirs = data[batch["position"] : batch["position"] + batch["size"]]
        ours = encoded(batch, records)
        if not is_stated(case, batch):
            assert visible(ours) == visible(theirs)
        elif batch["codecId"] == 0:
            assert ours == theirs
        else:
            assert uncompressed(batch, ours) == uncompressed(batch, theirs)


@pytest.mark.parametrize(("case", "reason"), REFUSED.items())
def test_what_kafkas_builder_refuses_is_refused(corpus: Path, case: str, reason: str) -> None:
    refusals = []
    for batch, records in batches_of(expected_lines(corpus, case)):
        try:
            encoded(batch, records)
        except (OptionError, CorruptLogError) as error:
            refusals.append(str(error))
    assert refusals
    assert all(reason in refusal for refusal in refusals)


def test_nearly_all_batches_of_the_corpus_are_compared_byte_by_byte(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counts: Counter[str] = Counter()
    for case in UNDAMAGED:
        for batch, _ in batches_of(expected_lines(corpus, case)):
            if case in REFUSED or not is_stated(case, batch):
                counts["not stated"] += 1
            else:
                counts["uncompressed" if batch["codecId"] == 0 else "compressed"] += 1
    with capsys.disabled():
        print(f"\nencoder against the corpus: {dict(counts)}")
    assert counts == {"uncompressed": 3672, "compressed": 256, "not stated": 64}
