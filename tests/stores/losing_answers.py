"""A way to a server on which the answer to the first conditional put is lost.

`python losing_answers.py HOST:PORT` prints its own port, and then a line when it has lost one. It
is a process of its own: Arrow holds Python's lock while it opens an object of Google's store.
"""

import http.client
import socket
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_OF_CONNECTION = {"connection", "transfer-encoding", "content-length", "keep-alive"}


class _Forwarder(BaseHTTPRequestHandler):
    """Passes requests on; of the first put that has a condition, nobody hears how it went."""

    protocol_version = "HTTP/1.1"
    server: "_Between"

    def handle_one(self) -> None:
        body = self._body()
        there = http.client.HTTPConnection(self.server.target)
        there.request(self.command, self.path, body, dict(self.headers))
        answer = there.getresponse()
        data = answer.read()
        there.close()
        if self._has_condition() and not self.server.has_lost:
            self.server.has_lost = True
            print(answer.status, flush=True)
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

    def __getattr__(self, name: str) -> object:
        if name.startswith("do_"):  # whatever the method
            return self.handle_one
        raise AttributeError(name)

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
        """Lines are for those who wait for them."""


class _Between(ThreadingHTTPServer):
    def __init__(self, target: str) -> None:
        super().__init__(("127.0.0.1", 0), _Forwarder)
        self.target = target
        self.has_lost = False


if __name__ == "__main__":
    between = _Between(sys.argv[1])
    print(between.server_port, flush=True)
    between.serve_forever()
