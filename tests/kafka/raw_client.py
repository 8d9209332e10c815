"""Requests byte by byte, so that what no client library would send can be sent."""

import socket
import struct
from types import TracebackType
from typing import NamedTuple, Self

# Of each the last version, or nearly, before compact arrays: a 4.x broker still takes them, and
# leaves the epochs of transactions to the client (KIP-890 moved them into later versions).
PRODUCE, PRODUCE_VERSION = 0, 7
LIST_OFFSETS, LIST_OFFSETS_VERSION = 2, 2
INIT_PRODUCER_ID, INIT_PRODUCER_ID_VERSION = 22, 1
ADD_PARTITIONS_TO_TXN, ADD_PARTITIONS_TO_TXN_VERSION = 24, 1
END_TXN, END_TXN_VERSION = 26, 1
CLIENT_ID = b"raw"
ALL_REPLICAS = -1
LATEST = -1
TRANSACTION_TIMEOUT_MS = 600_000  # longer than a test: the coordinator ends none by itself


class Answer(NamedTuple):
    """What the broker said of one partition."""

    error_code: int
    base_offset: int


class Identity(NamedTuple):
    """What a coordinator gave to a transactional id, if the error code is 0."""

    error_code: int
    producer_id: int
    epoch: int


class RawClient:
    """One connection."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._correlation = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()

    def produce(
        self, topic: str, batches: bytes, *, partition: int = 0, transactional_id: str | None = None
    ) -> Answer:
        """Send batches to one partition."""
        body = _string(transactional_id) + struct.pack(">hi", ALL_REPLICAS, 10_000)
        body += struct.pack(">i", 1) + _string(topic) + struct.pack(">ii", 1, partition)
        body += struct.pack(">i", len(batches)) + batches
        answer = self._ask(PRODUCE, PRODUCE_VERSION, body)
        at = 4 + 2 + len(topic) + 4 + 4  # topics, its name, partitions, its index
        return Answer(*struct.unpack_from(">hq", answer, at))

    def init_producer_id(self, transactional_id: str) -> Identity:
        """A new epoch for a transactional id; ends the transaction that it had open."""
        body = _string(transactional_id) + struct.pack(">i", TRANSACTION_TIMEOUT_MS)
        answer = self._ask(INIT_PRODUCER_ID, INIT_PRODUCER_ID_VERSION, body)
        return Identity(*struct.unpack_from(">hqh", answer, 4))

    def add_partition(self, transactional_id: str, producer: tuple[int, int], topic: str) -> int:
        """Put partition 0 of a topic into the transaction; the error code."""
        body = _string(transactional_id) + struct.pack(">qh", *producer)
        body += struct.pack(">i", 1) + _string(topic) + struct.pack(">ii", 1, 0)
        answer = self._ask(ADD_PARTITIONS_TO_TXN, ADD_PARTITIONS_TO_TXN_VERSION, body)
        at = 4 + 4 + 2 + len(topic) + 4 + 4  # throttle, topics, its name, partitions, its index
        return int(struct.unpack_from(">h", answer, at)[0])

    def end_transaction(
        self, transactional_id: str, producer: tuple[int, int], *, commits: bool
    ) -> int:
        """Commit or abort; the error code. Markers are written after the answer."""
        body = _string(transactional_id) + struct.pack(">qh?", *producer, commits)
        answer = self._ask(END_TXN, END_TXN_VERSION, body)
        return int(struct.unpack_from(">h", answer, 4)[0])

    def latest_offset(self, topic: str, *, committed: bool) -> int:
        """The high watermark of partition 0, or its last stable offset."""
        body = struct.pack(">ibi", -1, committed, 1) + _string(topic)
        body += struct.pack(">iiq", 1, 0, LATEST)
        answer = self._ask(LIST_OFFSETS, LIST_OFFSETS_VERSION, body)
        at = 4 + 4 + 2 + len(topic) + 4 + 4
        error_code, _, offset = struct.unpack_from(">hqq", answer, at)
        assert error_code == 0
        return int(offset)

    def _ask(self, api_key: int, version: int, body: bytes) -> bytes:
        self._correlation += 1
        head = struct.pack(">hhih", api_key, version, self._correlation, len(CLIENT_ID))
        request = head + CLIENT_ID + body
        self._socket.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", self._read(4))
        answer = self._read(size)
        assert struct.unpack_from(">i", answer) == (self._correlation,)
        return answer[4:]

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            assert piece, "the broker closed the connection"
            data += piece
        return data


def _string(text: str | None) -> bytes:
    if text is None:
        return struct.pack(">h", -1)
    return struct.pack(">h", len(text)) + text.encode()
