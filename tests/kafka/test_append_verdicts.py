"""Single batches, sent to a broker and to our rules: the same verdict and the same bytes."""

import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from broker import Broker
from clients import create_topic
from raw_client import RawClient
from test_append_rules import NONE, send_when_led

import builders
import naive
from builders import Row
from ottla.errors import Rule
from ottla.format.attributes import Codec, TimestampType
from ottla.kernels.bytes.crc import compute_crcs
from ottla.rules.append.accept import Accepted, Refused, append
from ottla.rules.append.checks import AppendPolicy, check_request
from ottla.rules.producers.producer import Origin
from rules.histories import tables

NOW = int(time.time() * 1000)
HOUR = 3_600_000
# org.apache.kafka.common.protocol.Errors
CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, INVALID_TIMESTAMP, INVALID_RECORD = 2, 10, 32, 87
ERROR_CODES = {
    Rule.CRC_MATCHES: CORRUPT_MESSAGE,
    Rule.APPEND_BATCH_SIZE: MESSAGE_TOO_LARGE,
    Rule.APPEND_TIMESTAMP: INVALID_TIMESTAMP,
    Rule.APPEND_TIMESTAMP_TYPE: INVALID_TIMESTAMP,
}
ROWS = [Row(at, NOW + time_, b"k%d" % at, b"value") for at, time_ in enumerate([5, 9, 7])]


class Topic(NamedTuple):
    """The same settings for a broker and for us."""

    config: dict[str, str]
    policy: AppendPolicy


TOPICS = {
    "plain": Topic({}, AppendPolicy()),
    "compacted": Topic({"cleanup_policy": "compact"}, AppendPolicy(is_compacted=True)),
    "append-time": Topic(
        {"message_timestamp_type": "LogAppendTime"},
        AppendPolicy(timestamp_type=TimestampType.LOG_APPEND_TIME),
    ),
    "small": Topic({"max_message_bytes": "300"}, AppendPolicy(max_message_bytes=300)),
    "near": Topic(
        {"message_timestamp_before_max_ms": "60000"}, AppendPolicy(timestamp_before_max_ms=60_000)
    ),
    **{
        codec: Topic({"compression_type": codec}, AppendPolicy(compression_type=Codec[name]))
        for codec, name in [("uncompressed", "NONE"), ("gzip", "GZIP"), ("zstd", "ZSTD")]
    },
}


def damaged() -> bytes:
    data = bytearray(builders.batch(ROWS))
    data[70] ^= 1
    return bytes(data)


def wrong_max() -> bytes:
    data = bytearray(builders.batch(ROWS))
    struct.pack_into(">q", data, 35, NOW - 1)
    return builders.reseal(bytes(data))


def counted(delta: int, count: int) -> bytes:
    payload = b"".join(builders.record(row, base_timestamp=NOW) for row in ROWS)
    return builders.batch_of(
        payload, count=count, last_offset_delta=delta, timestamps=(NOW, NOW + 9)
    )


SENT: dict[str, Callable[[], bytes]] = {
    "good": lambda: builders.batch(ROWS),
    "gzip": lambda: builders.batch(ROWS, codec=1),
    "lz4": lambda: builders.batch(ROWS, codec=3),
    "zstd": lambda: builders.batch(ROWS, codec=4),
    "idempotent": lambda: builders.batch(ROWS, producer=(55, 0, 0)),
    "no-key": lambda: builders.batch([Row(0, NOW, b"k"), Row(1, NOW, None)]),
    "old": lambda: builders.batch([Row(0, NOW - 30 * 24 * HOUR, b"k")]),
    "future": lambda: builders.batch([Row(0, NOW + 2 * HOUR, b"k")]),
    "no-time": lambda: builders.batch([Row(0, -1, b"k")]),
    "claims-append-time": lambda: builders.batch(ROWS, attributes=8),
    "wrong-max-timestamp": wrong_max,
    "damaged": damaged,
    "base-offset": lambda: builders.batch([Row(5, NOW, b"k")]),
    "large": lambda: builders.batch([Row(0, NOW, b"k", b"v" * 400)]),
    "large-compressed": lambda: builders.batch([Row(0, NOW, b"k", b"v" * 400)], codec=1),
    # Not a marker: without a transactional id the broker would not get so far as to look.
    "control": lambda: builders.batch([Row(0, NOW, b"\0\0\0\x02", b"")], attributes=0x20),
    "no-sequence": lambda: builders.batch(ROWS, producer=(55, 0, -1)),
    "delta-large": lambda: counted(15, 3),
    "count-large": lambda: counted(5, 6),
    "count-small": lambda: counted(1, 2),
    "no-records": lambda: builders.batch_of(b"", count=0),
    "two-batches": lambda: builders.batch(ROWS) + builders.batch(ROWS),
    "magic-1": lambda: builders.message(Row(0, NOW, b"k"), magic=1),
}


def judge(data: bytes, now: int, policy: AppendPolicy) -> Accepted | Refused:
    region, batches, _ = tables(data)
    compute_crcs(region.data, 0, batches)
    for found in check_request(region, batches):
        return Refused((found,))
    return append(region, batches, next_offset=0, now=now, origin=Origin.CLIENT, policy=policy)


def without_sizes(data: bytes) -> list[dict[str, Any]]:
    """What a batch says, but for what follows from the library that compressed it."""
    lines = [line for line in naive.decode(data) if line["type"] != "end"]
    free = ("size", "crc")
    return [{name: line[name] for name in line if name not in free} for line in lines]


def wait_for(log: Path) -> None:
    """A topic is known a moment before its files are there."""
    deadline = time.monotonic() + 30
    while not log.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("sent", SENT)
@pytest.mark.parametrize("topic", TOPICS)
def test_a_broker_and_our_rules_agree(broker: Broker, topic: str, sent: str) -> None:
    name = f"verdict-{topic}-{sent}"
    create_topic(broker.bootstrap, name, **TOPICS[topic].config)
    log = broker.log_dir / f"{name}-0" / f"{0:020}.log"
    wait_for(log)
    data = SENT[sent]()
    with RawClient(broker.port) as client:
        answer = send_when_led(client, name, data)
    stored = log.read_bytes()
    # The broker's clock, where it left a trace of it.
    lines = [line for line in naive.decode(stored) if line["type"] == "batch"]
    append_time = topic == "append-time" and lines
    now = int(lines[0]["maxTimestamp"]) if append_time else int(time.time() * 1000)
    done = judge(data, now, TOPICS[topic].policy)
    if isinstance(done, Refused):
        assert answer.error_code == ERROR_CODES.get(done.rule, INVALID_RECORD)
        assert stored == b""
        return
    assert answer == (NONE, 0)
    if done.was_encoded:
        assert without_sizes(done.data.tobytes()) == without_sizes(stored)
    else:
        assert done.data.tobytes() == stored
