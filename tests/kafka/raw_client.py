"""Produce requests byte by byte, so that batches which no client library would send can be sent."""

import socket
import struct
from types import TracebackType
from typing import NamedTuple, Self

PRODUCE = 0
PRODUCE_VERSION = 7  # the last one before compact arrays; a 4.x broker still takes it
CLIENT_ID = b"raw"
ALL_REPLICAS = -1


class Answer(NamedTuple):
    """What the broker said of one partition."""

    error_code: int
    base_offset: int


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
