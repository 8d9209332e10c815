"""An HTTP proxy before an object store, which cuts, delays, refuses and changes answers.

What it does to a request is drawn from a seed; what it did is remembered. It is a process of its
own: Arrow's file system for Google's store waits for answers while no other thread may run.
"""

import http.client
import json
import random
import socket
import socketserver
import struct
import subprocess
import sys
import threading
import time
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

_STATUS = {429: "Too Many Requests", 500: "Internal Server Error", 503: "Service Unavailable"}
_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "expect", "content-length"})
_PAUSE = 0.3
_SILENCE = 120.0  # seconds after which a process is not waited for


class Fault(StrEnum):
    CUT_BEFORE = "cut before the store saw the request"
    LOST_ANSWER = "answer lost after the store did the work"
    CUT_BODY = "answer cut in the middle of its body"
    TOO_MANY = "429"
    ERROR = "500"
    BUSY = "503"
    DELAY = "answer delayed"
    FLIP = "a byte of the body flipped"


class Injected(NamedTuple):
    fault: Fault
    method: str
    path: str


class _Request(NamedTuple):
    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key.lower() == name), "")


class _Answer(NamedTuple):
    status: int
    reason: str
    headers: list[tuple[str, str]]
    body: bytes


Flippable = Mapping[str, Sequence[int]]  # ends of paths, and where what a CRC is about begins
UNCOVERED = 16  # bytes of a batch before those that its CRC is about, or that name its format


@dataclass(slots=True)
class _Plan:
    """What the process shall do, and what it did."""

    upstream: tuple[str, int]
    address: str = ""
    rate: float = 0.0
    kinds: tuple[Fault, ...] = tuple(Fault)
    left: int = 0
    flippable: Flippable = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    injected: list[Injected] = field(default_factory=list)
    chance: random.Random = field(default_factory=random.Random)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def obey(self, order: dict[str, Any]) -> dict[str, Any]:
        """Do what the other process says, and tell it what was done since it said something."""
        with self.lock:
            self.flippable = order.get("flippable", self.flippable)
            self.rate, self.left = order.get("rate", 0.0), order.get("most", 0)
            self.kinds = tuple(map(Fault, order.get("kinds", Fault)))
            self.chance.seed(order.get("seed", 0))
            told = {"requests": self.requests, "injected": self.injected}
            self.requests, self.injected = [], []
        return told

    def choose(self, request: _Request) -> Fault | None:
        with self.lock:
            self.requests.append((request.method, request.path))
            if self.left <= 0 or self.chance.random() >= self.rate:
                return None
            return self.chance.choice(self.kinds)

    def note(self, fault: Fault, request: _Request) -> None:
        with self.lock:
            self.injected.append(Injected(fault, request.method, request.path))
            self.left -= 1

    def flipped(self, request: _Request, answer: _Answer) -> bytes | None:
        """The body with one byte changed; None where nobody could find that."""
        first = _first_byte(request)
        with self.lock:
            for _ in range(20):
                at = self.chance.randrange(len(answer.body) or 1)
                if at < len(answer.body) and self._can_flip(request.path, first + at):
                    body = bytearray(answer.body)
                    body[at] ^= 1 << self.chance.randrange(8)
                    return bytes(body)
        return None

    def _can_flip(self, path: str, position: int) -> bool:
        if path.startswith("/storage/v1/") and "alt=media" not in path:
            return False  # what Google's store says of an object has no checksum
        name = unquote(path.partition("?")[0])
        if name.endswith(".json"):
            return True
        starts = next((self.flippable[end] for end in self.flippable if name.endswith(end)), None)
        if not starts or position < starts[0]:
            return False
        return position - starts[bisect(starts, position) - 1] >= UNCOVERED


def _first_byte(request: _Request) -> int:
    asked = request.header("range") or request.header("x-ms-range")
    return int(asked.removeprefix("bytes=").partition("-")[0] or 0)


def read_line(process: "subprocess.Popen[str]") -> str:
    """What a process says next; one that stays silent is ended, for its test has failed."""
    assert process.stdout is not None
    timer = threading.Timer(_SILENCE, process.kill)
    timer.start()
    try:
        line = process.stdout.readline()
    finally:
        timer.cancel()
    assert line, f"{process.args!r} ended, or said nothing for {_SILENCE} s"
    return line


class Proxy:
    """The process, from outside: where it is, and what it shall do and did."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.requests: list[tuple[str, str]] = []
        self.endpoint = f"http://{self._tell({})['address']}"

    def _tell(self, order: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        told: dict[str, Any] = json.loads(read_line(self._process))
        self.requests += [(method, path) for method, path in told["requests"]]
        return told

    def may_flip(self, flippable: Flippable) -> None:
        """Say which objects have CRCs, and where what they are about begins."""
        self._tell({"flippable": flippable})

    def asked(self) -> int:
        """How many requests there were."""
        self._tell({})
        return len(self.requests)

    @contextmanager
    def faulty(
        self, seed: int, rate: float, *kinds: Fault, most: int = 1 << 30
    ) -> Iterator[list[Injected]]:
        """Do something to about `rate` of the requests in the block, `most` of them; says what."""
        self._tell({"seed": seed, "rate": rate, "kinds": kinds or tuple(Fault), "most": most})
        done: list[Injected] = []
        try:
            yield done
        finally:
            done += [Injected(Fault(fault), *rest) for fault, *rest in self._tell({})["injected"]]


@contextmanager
def fault_proxy(upstream: str) -> Iterator[Proxy]:
    """A proxy before `upstream`, `host:port`; it does nothing until it is told to."""
    command = [sys.executable, str(Path(__file__)), *upstream.rsplit(":", 1)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Proxy(process)
        finally:
            process.kill()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 128


def main() -> None:
    """Be the proxy until stdin ends."""
    plan = _Plan((sys.argv[1], int(sys.argv[2])))

    class Handler(_Handler):
        shared = plan

    with _Server(("127.0.0.1", 0), Handler) as server:
        plan.address = f"127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        for line in sys.stdin:
            print(json.dumps({"address": plan.address, **plan.obey(json.loads(line))}), flush=True)
        server.shutdown()


class _CutError(Exception):
    """The connection shall end here."""


class _Handler(socketserver.StreamRequestHandler):
    shared: _Plan
    disable_nagle_algorithm = True
    wbufsize = -1

    def handle(self) -> None:
        connection = http.client.HTTPConnection(*self.shared.upstream, timeout=60)
        try:
            while (request := self._read_request()) is not None:
                self._serve(request, connection)
        except (_CutError, OSError, http.client.HTTPException):
            if self.shared.chance.random() < 0.5:  # a reset instead of an end
                linger = struct.pack("ii", 1, 0)
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        finally:
            connection.close()

    def _serve(self, request: _Request, connection: http.client.HTTPConnection) -> None:
        proxy = self.shared
        fault = proxy.choose(request)
        if fault is Fault.CUT_BEFORE:
            proxy.note(fault, request)
            raise _CutError
        if fault in (Fault.TOO_MANY, Fault.ERROR, Fault.BUSY):
            proxy.note(fault, request)
            status = int(fault.value)
            self._send(request, _Answer(status, _STATUS[status], [], b""))
            return
        answer = _forward(request, connection)
        if fault is Fault.LOST_ANSWER:
            proxy.note(fault, request)
            raise _CutError
        # Half of an error in XML ends the process in Azure's library (std::runtime_error).
        if fault is Fault.CUT_BODY and len(answer.body) > 1 and answer.status < 400:
            proxy.note(fault, request)
            self._send(request, answer, cut=len(answer.body) // 2)
            raise _CutError
        if fault is Fault.DELAY:
            proxy.note(fault, request)
            time.sleep(_PAUSE)
        if fault is Fault.FLIP and request.method == "GET" and answer.status in (200, 206):
            body = proxy.flipped(request, answer)
            if body is not None:
                proxy.note(fault, request)
                answer = answer._replace(body=body)
        self._send(request, answer)

    def _read_request(self) -> _Request | None:
        line = self.rfile.readline().decode("latin-1").split()
        if len(line) < 3:
            return None
        headers = []
        while (raw := self.rfile.readline().decode("latin-1").rstrip("\r\n")) != "":
            name, _, value = raw.partition(":")
            headers.append((name, value.strip()))
        request = _Request(line[0], line[1], headers, b"")
        if request.header("expect").lower() == "100-continue":
            self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self.wfile.flush()
        if "chunked" in request.header("transfer-encoding").lower():
            return request._replace(body=self._read_chunks())
        return request._replace(body=self.rfile.read(int(request.header("content-length") or 0)))

    def _read_chunks(self) -> bytes:
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass  # trailers
        return body

    def _send(self, request: _Request, answer: _Answer, cut: int | None = None) -> None:
        lines = [f"HTTP/1.1 {answer.status} {answer.reason}"]
        upstream = "{}:{}".format(*self.shared.upstream)
        ours = self.shared.address
        for name, value in answer.headers:
            if name.lower() not in _HOP:
                lines.append(f"{name}: {value.replace(upstream, ours)}")
        size = next((v for k, v in answer.headers if k.lower() == "content-length"), "0")
        told = size if request.method == "HEAD" else str(len(answer.body))
        if answer.status not in (204, 304):
            lines.append(f"Content-Length: {told}")
        self.wfile.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
        self.wfile.write(answer.body if cut is None else answer.body[:cut])
        self.wfile.flush()


def _forward(request: _Request, connection: http.client.HTTPConnection) -> _Answer:
    connection.putrequest(request.method, request.path, skip_host=True, skip_accept_encoding=True)
    for name, value in request.headers:
        if name.lower() not in _HOP:
            connection.putheader(name, value)
    if request.body or request.method in ("PUT", "POST"):
        connection.putheader("Content-Length", str(len(request.body)))
    connection.endheaders(request.body or None)
    answer = connection.getresponse()
    body = answer.read()
    return _Answer(answer.status, answer.reason, answer.getheaders(), body)


if __name__ == "__main__":
    main()
