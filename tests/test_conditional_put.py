"""Clients of stores, on a server on loopback that answers as it is told to."""

import base64
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ottla.storage import retries
from ottla.storage.conditional_put import delete_on_azure
from ottla.storage.object_store import StorageOptions, parse_address
from ottla.storage.retries import StoreError, send
from ottla.storage.writing import create_file

AZURE = "abfs://container@account.dfs.core.windows.net/commit.json"
S3 = "s3://bucket/commit.json"
DONE = {"PUT": 201, "DELETE": 202}
THREADS = 32
PASSING = [408, 429, 500, 503]


class Server(ThreadingHTTPServer):
    """Fails at writes as often as it is told to; it has nothing that could be read."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.options = StorageOptions(f"http://127.0.0.1:{self.server_port}", region="us-east-1")
        self.failures: list[int] = []
        self.times: list[float] = []  # of writes
        self.connections = 0


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def _write(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.times.append(time.monotonic())
        self._answer(self.server.failures.pop(0) if self.server.failures else DONE[self.command])

    def _read(self) -> None:
        self._answer(404)

    do_PUT = do_DELETE = _write  # noqa: N815
    do_GET = do_HEAD = _read  # noqa: N815

    def _answer(self, status: int) -> None:
        self.send_response(status)
        for name, value in (
            ("Content-Length", "0"),
            ("ETag", '"1"'),
            ("Last-Modified", "Thu, 19 Nov 2026 05:00:00 GMT"),
        ):
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("AZURE_STORAGE_KEY", base64.b64encode(b"key").decode())
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr(retries, "_PATIENCE", 5.0)
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def delete(server: Server) -> None:
    request = partial(delete_on_azure, parse_address(AZURE), server.options)
    send("deleting", AZURE, request)


@pytest.mark.parametrize("status", PASSING)
def test_a_delete_on_azure_is_sent_again(server: Server, status: int) -> None:
    server.failures = [status]
    delete(server)
    assert len(server.times) == 2


@pytest.mark.parametrize("status", PASSING)
def test_a_commit_on_azure_is_sent_again(server: Server, status: int) -> None:
    server.failures = [status]
    assert create_file(AZURE, b"data", server.options)
    assert len(server.times) == 2


def test_an_azure_that_stays_busy_is_named(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "_FIRST_WAIT", 0.001)
    server.failures = [503] * 9
    with pytest.raises(StoreError, match=f"writing {AZURE}: 8 attempts in"):
        create_file(AZURE, b"data", server.options)
    assert len(server.times) == 8


def test_a_commit_on_s3_waits_for_who_is_faster_and_has_not_written_yet(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "_FIRST_WAIT", 0.4)
    server.failures = [409] * 3
    assert create_file(S3, b"data", server.options)
    assert server.times[3] - server.times[2] > 0.5 * 1.6


def test_requests_to_azure_share_a_connection(server: Server) -> None:
    for _ in range(5):
        delete(server)
    assert len(server.times) == 5
    assert server.connections == 1


def test_many_threads_delete_on_azure_in_silence(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(delete, [server] * 200))
    assert len(server.times) == 200
    assert server.connections <= THREADS
    assert "pool" not in caplog.text


@pytest.mark.parametrize("status", [400, 403])
def test_what_azure_refuses_is_not_sent_again(server: Server, status: int) -> None:
    server.failures = [status, status]
    with pytest.raises(OSError, match=f"writing {AZURE}: "):
        create_file(AZURE, b"data", server.options)
    with pytest.raises(OSError, match=f"deleting {AZURE}: "):
        delete(server)
    assert len(server.times) == 2
