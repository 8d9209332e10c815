"""An S3 server of a bucket that nobody could fill: keys are made up when they are listed.

`python -m benchmarks.listing_server PARTITIONS SEGMENTS` prints its port. It knows what a listing
needs: HEAD and ListObjectsV2, with and without a delimiter.
"""

import asyncio
import sys
from urllib.parse import parse_qs, urlsplit

from benchmarks.trees import partition_name

BUCKET, PREFIX = "bucket", "logs/"
PAGE = 1000
SIZES = {".log": 143, ".index": 0, ".timeindex": 12}
KEY = (
    "<Contents><Key>{key}</Key><LastModified>2025-10-09T08:53:20.000Z</LastModified>"
    "<ETag>&quot;0&quot;</ETag><Size>{size}</Size><StorageClass>STANDARD</StorageClass></Contents>"
)
HEAD = '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult><Name>bucket</Name>'
END = "</ListBucketResult>"


class Bucket:
    """Partitions in the order of their numbers; a token is the number of the next."""

    def __init__(self, partitions: int, segments: int) -> None:
        self.partitions = partitions
        self.contents = "".join(
            KEY.format(key=f"@{3 * number:020d}{kind}", size=size)
            for number in range(segments)
            for kind, size in SIZES.items()
        )

    def answer(self, query: dict[str, list[str]]) -> str:
        """The page that a request asks for."""
        prefix, first = query["prefix"][0], int(query.get("continuation-token", ["0"])[0])
        if prefix != PREFIX:
            return HEAD + "<IsTruncated>false</IsTruncated>" + self._contents(prefix) + END
        if "delimiter" not in query:  # is there anything?
            found = self._contents(f"{PREFIX}{partition_name(0)}/").partition("</Contents>")
            return f"{HEAD}<IsTruncated>false</IsTruncated>{found[0]}{found[1]}{END}"
        stop = min(first + PAGE, self.partitions)
        found_prefixes = "".join(
            f"<CommonPrefixes><Prefix>{PREFIX}{partition_name(number)}/</Prefix></CommonPrefixes>"
            for number in range(first, stop)
        )
        following = f"<NextContinuationToken>{stop}</NextContinuationToken>"
        more = stop < self.partitions
        told = f"<IsTruncated>{str(more).lower()}</IsTruncated>{following if more else ''}"
        return HEAD + told + found_prefixes + END

    def _contents(self, prefix: str) -> str:
        return self.contents.replace("@", prefix)


class Connection(asyncio.Protocol):
    """Requests have no bodies: one ends with an empty line."""

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self.held = b""
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        *requests, self.held = (self.held + data).split(b"\r\n\r\n")
        for request in requests:
            method, target = request.split(b" ", 2)[:2]
            address = urlsplit(target.decode())
            query = parse_qs(address.query, keep_blank_values=True)
            if method == b"GET" and "prefix" in query:
                self._answer("200 OK", self.bucket.answer(query).encode())
            else:
                self._answer("404 Not Found" if address.path.count("/") > 1 else "200 OK", b"")

    def _answer(self, status: str, body: bytes) -> None:
        kind = "Content-Type: application/xml"
        self.transport.write(
            f"HTTP/1.1 {status}\r\n{kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
        )


async def serve(partitions: int, segments: int) -> None:
    """Say where, then answer until somebody ends the process."""
    bucket = Bucket(partitions, segments)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(bucket), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(*map(int, sys.argv[1:])))
