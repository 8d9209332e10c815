"""As much of S3 as a reader needs (GET, HEAD, LIST) over a folder, as a process of its own.

`python -m benchmarks.object_server FOLDER SECONDS` prints the addresses of two servers, one that
answers at once and one that waits so long before each answer. The kernel sends the bytes of files,
so that the server takes little of a core.
"""

import os
import sys
import time
from email.utils import formatdate
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def __init__(self, *given: object, folder: Path, seconds: float) -> None:
        self.folder, self.seconds = folder, seconds
        super().__init__(*given)  # type: ignore[arg-type]

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, *, with_body: bool) -> None:
        time.sleep(self.seconds)
        address = urlsplit(self.path)
        _, _, key = unquote(address.path).lstrip("/").partition("/")
        path = self.folder / key
        if not key:
            asked = parse_qs(address.query)
            self._send_listing(asked.get("prefix", [""])[0], asked.get("delimiter", [""])[0])
        elif path.is_file():
            self._send_file(path, with_body=with_body)
        else:
            self._send_head(404, 0)

    def _send_file(self, path: Path, *, with_body: bool) -> None:
        size = path.stat().st_size
        first, last = 0, size - 1
        asked = self.headers.get("Range", "").removeprefix("bytes=")
        if asked:
            begin, _, end = asked.partition("-")
            first, last = int(begin), min(int(end or last), last)
        part = {"Content-Range": f"bytes {first}-{last}/{size}"} if asked else {}
        self._send_head(206 if asked else 200, last - first + 1, part | _dates(path))
        if not with_body:
            return
        self.wfile.flush()
        with path.open("rb") as file:
            while first <= last:
                first += os.sendfile(
                    self.connection.fileno(), file.fileno(), first, last - first + 1
                )

    def _send_listing(self, prefix: str, delimiter: str) -> None:
        """Of all below a prefix at once: there are few files."""
        rows, folders = [], {}
        for path in sorted(path for path in self.folder.rglob("*") if path.is_file()):
            key = str(path.relative_to(self.folder))
            if not key.startswith(prefix):
                continue
            folder, found, _ = (
                key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
            )
            if found:
                name = escape(prefix + folder + found)
                folders[name] = f"<CommonPrefixes><Prefix>{name}</Prefix></CommonPrefixes>"
            else:
                rows.append(
                    f"<Contents><Key>{escape(key)}</Key><Size>{path.stat().st_size}</Size>"
                    "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
                )
        rows += folders.values()
        body = (
            '<?xml version="1.0" encoding="UTF-8"?>'
            '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<Prefix>{escape(prefix)}</Prefix><KeyCount>{len(rows)}</KeyCount>"
            f"<IsTruncated>false</IsTruncated>{''.join(rows)}</ListBucketResult>"
        ).encode()
        self._send_head(200, len(body), {"Content-Type": "application/xml"})
        self.wfile.write(body)

    def _send_head(self, status: int, size: int, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(size))
        self.end_headers()

    def log_message(self, format: str, *_: object) -> None:  # noqa: A002
        """Nobody reads it."""


def _dates(path: Path) -> dict[str, str]:
    modified = formatdate(path.stat().st_mtime, usegmt=True)
    return {"Last-Modified": modified, "ETag": '"0"', "Accept-Ranges": "bytes"}


def main() -> None:
    """Serve until stdin ends."""
    folder, seconds = Path(sys.argv[1]), float(sys.argv[2])
    for wait in (0.0, seconds):
        handler = partial(_Handler, folder=folder, seconds=wait)
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        server.request_queue_size = 128
        Thread(target=server.serve_forever, daemon=True).start()
        print(f"http://127.0.0.1:{server.server_port}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
