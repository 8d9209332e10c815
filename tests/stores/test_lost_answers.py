"""The answer to a conditional put is lost: its client asks again, and meets its own object."""

import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import pytest

from ottla.publish.journal import commit, open_journals, publish, run_job
from ottla.storage.files import read_bytes
from ottla.storage.object_store import StorageOptions
from ottla.storage.writing import create_file
from stores.conftest import Stores
from stores.operations import staged
from stores.servers import SERVERS

_OF_CONNECTION = {"connection", "transfer-encoding", "content-length", "keep-alive"}


class _Forwarder(BaseHTTPRequestHandler):
    """Passes requests on; of the first put that has a condition, nobody hears how it went."""

    protocol_version = "HTTP/1.1"
    server: "_Between"

    def handle_request(self) -> None:
        body = self._body()
        there = http.client.HTTPConnection(self.server.target)
        there.request(self.command, self.path, body, dict(self.headers))
        answer = there.getresponse()
        data = answer.read()
        there.close()
        if self._has_condition() and not self.server.lost:
            self.server.lost.append((self.command, answer.status))
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in _OF_CONNECTION:
                self.send_header(name, value)
        size = answer.getheader("content-length") if self.command == "HEAD" else str(len(data))
        self.send_header("Content-Length", size or "0")
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_request

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        del self.headers["Transfer-Encoding"]
        data = b""
        while size := int(self.rfile.readline(), 16):
            data += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return data

    def _has_condition(self) -> bool:
        return "If-None-Match" in self.headers or "ifGenerationMatch=0" in self.path

    def log_message(self, *_: object) -> None:
        """Tests print their own lines."""


class _Between(ThreadingHTTPServer):
    def __init__(self, target: str) -> None:
        super().__init__(("127.0.0.1", 0), _Forwarder)
        self.target = target
        self.lost: list[tuple[str, int]] = []


@contextmanager
def losing_an_answer(endpoint: str) -> Iterator[tuple[StorageOptions, list[Any]]]:
    """A way to a server on which the answer to the first conditional put is lost."""
    url = urlsplit(endpoint)
    between = _Between(url.netloc)
    thread = threading.Thread(target=between.serve_forever, daemon=True)
    thread.start()
    try:
        yield StorageOptions(f"http://127.0.0.1:{between.server_port}{url.path}"), between.lost
    finally:
        between.shutdown()
        between.server_close()
        thread.join()


@pytest.mark.parametrize("name", SERVERS)
def test_who_puts_an_object_knows_it_when_the_answer_is_lost(name: str, stores: Stores) -> None:
    store = stores[name]
    assert store.endpoint
    path = f"{store.base}/lost/commit.json"
    with losing_an_answer(store.endpoint) as (options, lost):
        assert create_file(path, b"mine", options)
        assert len(lost) == 1
        assert lost[0][1] in (200, 201)  # it was written
        assert not create_file(path, b"of another", options)
    assert read_bytes(path, store.options) == b"mine"


@pytest.mark.parametrize("name", SERVERS)
def test_who_comes_second_is_not_told_that_it_won(name: str, stores: Stores) -> None:
    store = stores[name]
    assert store.endpoint
    path = f"{store.base}/lost/second.json"
    assert create_file(path, b"of another", store.options)
    with losing_an_answer(store.endpoint) as (options, lost):
        assert not create_file(path, b"mine", options)
        assert [status for _, status in lost] in ([409], [412])
    assert read_bytes(path, store.options) == b"of another"


@pytest.mark.parametrize("name", SERVERS)
def test_a_commit_whose_answer_is_lost_is_published_once(name: str, stores: Stores) -> None:
    store = stores[name]
    assert store.endpoint
    out = f"{store.base}/lost/out"
    with losing_an_answer(store.endpoint) as (options, lost), run_job(out, "job", options) as job:
        files = staged(job, ("t-0/00000000000000000000.log", b"log"))
        commit(job, files, [])
        assert len(lost) == 1
        publish(job)
    assert read_bytes(f"{out}/t-0/00000000000000000000.log", store.options) == b"log"
    assert open_journals(out, store.options) == []
