"""An S3 server on loopback (moto) that remembers which bytes it was asked for."""

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

import boto3
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

BUCKET = "bucket"
COPY_SECONDS = 0.02  # as stores take some


@dataclass(slots=True)
class Server:
    """Where it is, what prefixes were listed, and the GETs of bytes: (key, first byte, last byte).

    `copies` has how many objects were being copied when another copy was asked for. What
    `loses_copies` says of copies that it made is not true.
    """

    endpoint: str = ""
    loses_copies: bool = False
    listed: list[str] = field(default_factory=list)
    reads: list[tuple[str, int, int]] = field(default_factory=list)
    copies: Counter[int] = field(default_factory=Counter)

    def client(self) -> Any:
        return boto3.client("s3", endpoint_url=self.endpoint, region_name="us-east-1")


@contextmanager
def s3_server() -> Iterator[Server]:
    """A server with one bucket, empty."""
    server = Server()
    moto = DomainDispatcherApplication(create_backend_app)
    # moto looks whether an object is there, then writes it; two threads may both look first.
    one_at_a_time = threading.Lock()
    copying: list[Any] = []

    def remember(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        query = parse_qs(environ["QUERY_STRING"])
        if "list-type" in query:
            server.listed += query.get("prefix", [""])
        wanted = environ.get("HTTP_RANGE", "")
        if environ["REQUEST_METHOD"] == "GET" and wanted.startswith("bytes="):
            first, last = wanted.removeprefix("bytes=").split("-")
            server.reads.append((environ["PATH_INFO"], int(first), int(last)))
        if server.loses_copies and "HTTP_X_AMZ_COPY_SOURCE" in environ:
            start_response("200 OK", [("Content-Type", "application/xml")])
            return [b"<CopyObjectResult><ETag>&quot;0&quot;</ETag></CopyObjectResult>"]
        with one_at_a_time if "HTTP_IF_NONE_MATCH" in environ else nullcontext():
            if "HTTP_X_AMZ_COPY_SOURCE" in environ:
                copying.append(environ)
                server.copies[len(copying)] += 1
                time.sleep(COPY_SECONDS)
                copying.pop()
            return moto(environ, start_response)  # type: ignore[no-any-return]

    listener = make_server("127.0.0.1", 0, remember, threaded=True)
    server.endpoint = f"http://127.0.0.1:{listener.server_port}"
    thread = threading.Thread(target=listener.serve_forever, daemon=True)
    thread.start()
    server.client().create_bucket(Bucket=BUCKET)
    try:
        yield server
    finally:
        listener.shutdown()
        thread.join()
