"""`ottla schemas`, and the registry that its files make again."""

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from cli.here import run
from schemas.registries import framed, record, registered, write_registry, write_values

V1 = record("Order", ("id", "int"))
V2 = record("Order", ("id", "int"), ("line", ["null", "shop.Line"], None))
LINE = record("Line", ("name", "string"))
REFERS = [{"name": "shop.Line", "subject": "line", "version": 1}]


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    config = {"keytype": "CONFIG", "subject": "orders-value", "magic": 0}
    level = {"compatibilityLevel": "FULL"}
    write_registry(
        folder,
        [
            registered("orders-value", 1, 17, V1, deleted=True),
            registered("orders-value", 2, 5, V2, references=REFERS),
            registered("line", 1, 40, LINE),
            registered(":.eu:../x", 1, 17, '"string"'),
            (json.dumps(config).encode(), json.dumps(level).encode()),
        ],
    )
    write_values(folder, "orders", [framed(17, V1, {"id": 1})] * 3 + [b"\0\0\0\0\x63x", None])
    return folder


def lines(*words: str) -> tuple[int, list[dict[str, Any]]]:
    code, out, _ = run("schemas", *words, "--json", "--quiet")
    return code, [json.loads(line) for line in out.splitlines()]


@pytest.mark.parametrize("how", [[], ["--exact"]])
def test_what_topics_use(logs: Path, how: list[str]) -> None:
    code, rows = lines(str(logs), *how)
    assert code == 1, "a record names a schema that is not there"
    found = {(row["subject"], row["version"]): row for row in rows if row["type"] == "schema"}
    assert found["orders-value", 1]["state"] == "soft-deleted"
    assert found["orders-value", 2]["compatibility"] == "FULL"
    assert found[":.eu:../x", 1]["context"] == ".eu"
    uses = [(row["schema"], row["records"], row["subject"]) for row in rows if "records" in row]
    assert uses == [(17, 3, "orders-value"), (99, 1, None)]


def test_the_table_fits(logs: Path) -> None:
    code, out, told = run("schemas", str(logs))
    assert code == 1
    assert max(map(len, out.splitlines())) <= 80
    assert "not explained by any schema" in out
    assert "--exact" in out
    assert "id 17 is orders-value version 1" in told


class Importing(BaseHTTPRequestHandler):
    """A registry in mode IMPORT: it takes ids and versions, and only what it can resolve."""

    mode = "READWRITE"
    schemas: dict[tuple[str, int], dict[str, Any]]
    deleted: list[tuple[str, int]]
    config: dict[str, Any]

    def answer(self, code: int) -> None:
        self.send_response(code)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def body(self) -> dict[str, Any]:
        found = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert isinstance(found, dict)
        return found

    def parts(self) -> list[str]:
        return [unquote(part) for part in self.path.split("/")[1:]]

    def do_PUT(self) -> None:
        what, *subject = self.parts()
        if what == "mode":
            type(self).mode = self.body()["mode"]
        else:
            self.config["/".join(subject)] = self.body()["compatibility"]
        self.answer(200)

    def do_POST(self) -> None:
        _, subject, _ = self.parts()
        body = self.body()
        context = subject.split(":")[1] if subject.startswith(":.") else "."
        missing = [
            each
            for each in body["references"]
            if (each["subject"], each["version"]) not in self.schemas
        ]
        taken = [
            one
            for (name, _), one in self.schemas.items()
            if one["id"] == body["id"] and one["context"] == context and name != subject
        ]
        if self.mode != "IMPORT" or missing or taken:
            self.answer(422)
            return
        self.schemas[subject, body["version"]] = body | {"context": context}
        self.answer(200)

    def do_DELETE(self) -> None:
        _, subject, _, version = self.parts()
        self.deleted.append((subject, int(version)))
        self.answer(200 if (subject, int(version)) in self.schemas else 404)

    def log_message(self, *_: Any) -> None:
        return


@contextmanager
def serving() -> Iterator[tuple[str, type[Importing]]]:
    handler = type("Handler", (Importing,), {"schemas": {}, "deleted": [], "config": {}})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", handler
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.skipif(shutil.which("curl") is None, reason="the script needs curl, which is not here")
def test_an_import_restores_ids(logs: Path, tmp_path: Path) -> None:
    out = tmp_path / "import"
    code, told, _ = run("schemas", str(logs), "--import", str(out))
    assert "import.sh" in told
    assert code == 1, "an id means two schemas, in two contexts"
    with serving() as (address, registry):
        here = os.environ | {"no_proxy": "*"}
        subprocess.run(["sh", str(out / "import.sh"), address], check=True, env=here)
        assert {key: one["id"] for key, one in registry.schemas.items()} == {
            ("orders-value", 1): 17,
            ("line", 1): 40,
            ("orders-value", 2): 5,
            (":.eu:../x", 1): 17,
        }
        assert json.loads(registry.schemas["orders-value", 2]["schema"]) == V2
        assert registry.deleted == [("orders-value", 1)]
        assert registry.config == {"orders-value": "FULL"}
        assert registry.mode == "READWRITE"


def test_files_are_a_registry_again(logs: Path, tmp_path: Path) -> None:
    out = tmp_path / "files"
    assert run("schemas", str(logs), "--out", str(out))[0] == 1
    first = {(row.get("subject"), row.get("version"), row.get("id")) for row in lines(str(logs))[1]}
    again = lines(str(logs), "--schemas", str(out))[1]
    assert {(row.get("subject"), row.get("version"), row.get("id")) for row in again} == first


def test_without_a_registry(tmp_path: Path) -> None:
    write_values(tmp_path / "logs", "orders", [b"x"])
    code, _, told = run("schemas", str(tmp_path / "logs"))
    assert code == 2
    assert "there is no partition of _schemas" in told


def test_a_dump_shows_values(logs: Path) -> None:
    words = ["dump", str(logs), "--topic", "orders", "--value-as", "registry"]
    code, out, _ = run(*words)
    assert code == 0
    assert 'key: "k" payload: {"id":1' in out
    assert "undecodable: value: no such schema: id 99" in out
    code, _, told = run("dump", str(logs), "--value-as", "utf8")
    assert code == 2
    assert "--encoding" in told


def test_a_dump_shows_what_has_no_schema_as_asked(logs: Path) -> None:
    write_values(logs, "plain", [b"text"])
    words = ["dump", str(logs), "--topic", "orders", "--topic", "plain", "--encoding", "hex"]
    code, out, _ = run(*words, "--value-as", "registry")
    assert code == 0
    assert 'key: "6b" payload: {"id":1' in out
    assert "key: 6b payload: 74657874" in out
