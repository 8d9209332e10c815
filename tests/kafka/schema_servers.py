"""Registries on loopback, as far as serialisers ask: Confluent's, Apicurio's and AWS Glue's."""

import hashlib
import json
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

Answer = tuple[int, Any]


@dataclass
class Registered:
    """A schema that a serialiser brought."""

    subject: str
    version: int
    id: int
    type: str
    text: str
    references: list[dict[str, Any]] = field(default_factory=list)

    @property
    def guid(self) -> uuid.UUID:
        """As Confluent's registry makes it of text and references."""
        hashed = hashlib.md5(self.text.encode())
        for each in self.references:
            hashed.update(each["name"].encode() + each["subject"].encode())
            hashed.update(each["version"].to_bytes(4, "big"))
        return uuid.UUID(bytes=hashed.digest())

    def record(self) -> tuple[bytes, bytes]:
        """Key and value of the topic `_schemas`, their fields in the order of the registry."""
        key = {"keytype": "SCHEMA", "subject": self.subject, "version": self.version, "magic": 1}
        value: dict[str, Any] = {"subject": self.subject, "version": self.version, "id": self.id}
        if self.type != "AVRO":
            value["schemaType"] = self.type
        if self.references:
            value["references"] = self.references
        value |= {"schema": self.text, "deleted": False}
        return _compact(key), _compact(value)


def _compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


class SchemaServer:
    """What was registered, and how one registry answers."""

    def __init__(self, first_id: int = 1) -> None:
        self.schemas: list[Registered] = []
        self.first_id = first_id

    def add(self, subject: str, kind: str, text: str, references: Any = None) -> Registered:
        for one in self.schemas:
            if (one.subject, one.text) == (subject, text):
                return one
        same = [one.id for one in self.schemas if one.text == text]
        number = same[0] if same else self.first_id + len(self.schemas)
        version = 1 + sum(one.subject == subject for one in self.schemas)
        made = Registered(subject, version, number, kind, text, references or [])
        self.schemas.append(made)
        return made

    def newest(self, subject: str) -> Registered:
        return [one for one in self.schemas if one.subject == subject][-1]

    def confluent(self, method: str, path: list[str], body: Any, target: str) -> Answer:
        """`/subjects/S/versions` registers, `/subjects/S` looks up; both tell all there is."""
        if method == "POST":
            kind = body.get("schemaType") or "AVRO"
            found = self.add(path[1], kind, body["schema"], body.get("references"))
        elif path[0] == "associations":  # of a topic with a subject of another name: none here
            return 404, {"error_code": 40401, "message": "not found"}
        else:
            assert path[2:] == ["versions", "latest"], path
            found = self.newest(path[1])
        return 200, {
            "subject": found.subject,
            "version": found.version,
            "id": found.id,
            "guid": str(found.guid),
            "schemaType": found.type,
            "schema": found.text,
            "references": found.references,
        }

    def apicurio(self, method: str, path: list[str], body: Any, target: str) -> Answer:
        """Version 3: artifacts of groups. Content and its version have different ids."""
        path = path[path.index("v3") + 1 :]
        if method == "POST":
            assert path == ["groups", "default", "artifacts"], path
            content = body["firstVersion"]["content"]
            needed = [
                {"name": one["name"], "subject": one["artifactId"], "version": int(one["version"])}
                for one in content.get("references") or ()
            ]
            kind, text = body["artifactType"], content["content"]
            found = self.add(body["artifactId"], kind, text, needed)
            return 200, {"artifact": {"artifactId": found.subject}, "version": _coordinates(found)}
        if path[0] == "ids":
            found = next(one for one in self.schemas if one.id + GLOBAL == int(path[2]))
            return 200, [] if path[-1] == "references" else found.text
        return 200, _coordinates(self.newest(path[3]))

    def glue(self, method: str, path: list[str], body: Any, target: str) -> Answer:
        """One question: which version a definition is. A schema is named as its topic."""
        assert target == "AWSGlue.GetSchemaByDefinition", (target, body)
        name, text = body["SchemaId"]["SchemaName"], body["SchemaDefinition"]
        found = self.add(f"{name}-value", name.split("-")[1].upper(), text)
        return 200, {"SchemaVersionId": str(glue_id(found)), "Status": "AVAILABLE"}


GLOBAL = 1000  # what the global ids of Apicurio are above those of contents


def _coordinates(one: Registered) -> dict[str, Any]:
    return {
        "groupId": "default",
        "artifactId": one.subject,
        "artifactType": one.type,
        "version": str(one.version),
        "contentId": one.id,
        "globalId": one.id + GLOBAL,
        "state": "ENABLED",
    }


def glue_id(one: Registered) -> uuid.UUID:
    """Glue's ids are random and have nothing to do with the text."""
    return uuid.uuid5(uuid.NAMESPACE_URL, f"{one.subject} {one.version}")


@contextmanager
def serve(answer: Callable[[str, list[str], Any, str], Answer]) -> Iterator[str]:
    """A server on loopback, and its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)

        def reply(self) -> None:
            sent = self.body()
            body = json.loads(sent) if sent else None
            path = [unquote(part) for part in urlsplit(self.path).path.split("/")[1:]]
            code, found = answer(self.command, path, body, self.headers.get("X-Amz-Target") or "")
            data = found.encode() if isinstance(found, str) else json.dumps(found).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = reply  # noqa: N815

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
