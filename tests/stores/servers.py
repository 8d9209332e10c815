"""Object stores on loopback: each is started here, on a free port, and ends with its block.

What they need comes from package registries into a cache, once: s3proxy from Maven Central, Azurite
from npm, fake-gcs-server from the Go module proxy. moto is a package of Python.
"""

import logging
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import boto3
from benchmarks.maven import class_path, java
from pyarrow import fs

from log.s3 import s3_server
from ottla.storage.object_store import StorageOptions

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ottla"
S3PROXY = Path(__file__).parents[1] / "java" / "s3proxy"
AZURITE = "3.35.0"
FAKE_GCS = "v1.55.1"
START_SECONDS = 120
STARTS = 2

S3_SECRETS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
# The account that Azurite has from the start, with the key that everybody knows.
ACCOUNT = "devstoreaccount1"
AZURE_SECRETS = {
    "AZURE_STORAGE_ACCOUNT": ACCOUNT,
    "AZURE_STORAGE_KEY": (
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
    ),
}
SECRETS = S3_SECRETS | AZURE_SECRETS


@dataclass(frozen=True)
class Store:
    """A place for tests: a bucket that is empty at first, or a folder."""

    name: str
    base: str
    endpoint: str | None = None
    endpoint_variable: str = ""
    secrets: Mapping[str, str] = field(default_factory=dict)

    @property
    def options(self) -> StorageOptions:
        return StorageOptions(endpoint=self.endpoint)

    @property
    def environment(self) -> dict[str, str]:
        """What a process must have to reach the store without options."""
        where = {self.endpoint_variable: self.endpoint} if self.endpoint else {}
        return {**self.secrets, **where}


class ServerMissingError(Exception):
    """What a server needs is not on this machine."""


@contextmanager
def moto() -> Iterator[Store]:
    """S3 by moto, in this process."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with s3_server() as server:
        yield _s3_store("moto", server.endpoint)


@contextmanager
def s3proxy(folder: Path) -> Iterator[Store]:
    """S3 by s3proxy, in a JVM, with its objects in memory."""
    settings = {
        "s3proxy.authorization": "aws-v4",
        "s3proxy.identity": S3_SECRETS["AWS_ACCESS_KEY_ID"],
        "s3proxy.credential": S3_SECRETS["AWS_SECRET_ACCESS_KEY"],
        "jclouds.provider": "transient-nio2",
        "jclouds.identity": "none",
        "jclouds.credential": "none",
    }
    properties = folder / "s3proxy.properties"
    quiet = folder / "logback.xml"
    quiet.write_text('<configuration><root level="OFF"/></configuration>')
    jvm = ("-Xmx512m", "-XX:+UseSerialGC", f"-Dlogback.configurationFile={quiet}")
    command = java("org.gaul.s3proxy.Main", class_path(S3PROXY), *jvm)

    def command_at(port: int) -> list[str]:
        told = {**settings, "s3proxy.endpoint": f"http://127.0.0.1:{port}"}
        properties.write_text("".join(f"{name}={value}\n" for name, value in told.items()))
        return [*command, "--properties", str(properties)]

    with _running(command_at, folder / "s3proxy.out") as port:
        yield _s3_store("s3proxy", f"http://127.0.0.1:{port}")


def _s3_store(name: str, endpoint: str) -> Store:
    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id=S3_SECRETS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=S3_SECRETS["AWS_SECRET_ACCESS_KEY"],
    )
    client.create_bucket(Bucket=f"{name}-logs")
    return Store(name, f"s3://{name}-logs", endpoint, "AWS_ENDPOINT_URL_S3", S3_SECRETS)


@contextmanager
def gcs(folder: Path) -> Iterator[Store]:
    """Google Cloud Storage by fake-gcs-server, with its objects in memory."""
    command = [str(_fake_gcs()), "-backend", "memory", "-scheme", "http", "-log-level", "error"]
    command += ["-host", "127.0.0.1"]

    def command_at(port: int) -> list[str]:
        where = ["-public-host", f"127.0.0.1:{port}", "-external-url", f"http://127.0.0.1:{port}"]
        return [*command, "-port", str(port), *where]

    with _running(command_at, folder / "gcs.out") as port:
        endpoint = f"http://127.0.0.1:{port}"
        where = {"scheme": "http", "endpoint_override": f"127.0.0.1:{port}", "project_id": "test"}
        fs.GcsFileSystem(anonymous=True, **where).create_dir("gcs-logs")
        yield Store("gcs", "gs://gcs-logs", endpoint, "STORAGE_EMULATOR_HOST")


def _fake_gcs() -> Path:
    program = CACHE / f"fake-gcs-server-{FAKE_GCS}" / "fake-gcs-server"
    if not program.exists():
        go = _find("go", "/usr/local/go/bin/go")
        module = f"github.com/fsouza/fake-gcs-server@{FAKE_GCS}"
        # It needs a newer Go than distributions have; theirs, since 1.21, fetches that one first.
        environment = {"GOBIN": str(program.parent), "GOTOOLCHAIN": "auto"}
        _install([go, "install", module], program.parent, environment)
    return program


@contextmanager
def azure(folder: Path) -> Iterator[Store]:
    """Azure Blob Storage by Azurite, with its objects in memory."""
    command = [_find("node"), str(_azurite()), "--blobHost", "127.0.0.1"]
    command += ["--inMemoryPersistence", "--skipApiVersionCheck", "--silent"]
    command += ["--disableTelemetry", "--blobPort"]
    with _running(lambda port: [*command, str(port)], folder / "azurite.out") as port:
        authority = f"127.0.0.1:{port}"
        endpoint = f"http://{authority}/{ACCOUNT}"
        fs.AzureFileSystem(
            ACCOUNT,
            account_key=AZURE_SECRETS["AZURE_STORAGE_KEY"],
            blob_storage_authority=authority,
            dfs_storage_authority=authority,
            blob_storage_scheme="http",
            dfs_storage_scheme="http",
        ).create_dir("azure-logs")
        base = f"abfs://azure-logs@{ACCOUNT}.dfs.core.windows.net"
        name = "AZURE_STORAGE_SERVICE_ENDPOINT"
        yield Store("azure", base, endpoint, name, AZURE_SECRETS)


def _azurite() -> Path:
    folder = CACHE / f"azurite-{AZURITE}"
    program = folder / "node_modules/azurite/dist/src/blob/main.js"
    if not program.exists():
        npm = [_find("npm"), "install", "--silent", "--no-audit", "--no-fund"]
        _install([*npm, "--prefix", str(folder), f"azurite@{AZURITE}"], folder, {})
    return program


SERVERS: dict[str, Callable[[Path], AbstractContextManager[Store]]] = {
    "moto": lambda _: moto(),
    "s3proxy": s3proxy,
    "gcs": gcs,
    "azure": azure,
}


def free_port() -> int:
    """A port of loopback that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _find(program: str, other: str = "") -> str:
    found = shutil.which(program) or shutil.which(other)
    if found is None:
        raise ServerMissingError(f"{program} is not installed")
    return found


def _install(command: list[str], folder: Path, environment: Mapping[str, str]) -> None:
    """Fetch a program into the cache; half an installation is none."""
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, cwd=folder
    )
    if done.returncode != 0:
        shutil.rmtree(folder)
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


@contextmanager
def _running(command_at: Callable[[int], list[str]], log: Path) -> Iterator[int]:
    """A server that listens at the port that this gives, until the block ends."""
    port, process = _start(command_at, log)
    try:
        yield port
    finally:
        _end(process)


def _start(
    command_at: Callable[[int], list[str]], log: Path
) -> tuple[int, "subprocess.Popen[bytes]"]:
    for _ in range(STARTS):  # somebody else may take a port before a server does
        port = free_port()
        with log.open("wb") as output:
            process = subprocess.Popen(
                command_at(port), stdout=output, stderr=output, cwd=log.parent
            )
        if _comes_to_listen(port, process):
            return port, process
        _end(process)
        print(log.read_text(errors="replace"), file=sys.stderr)
    raise RuntimeError(f"{process.args!r} does not listen")


def _comes_to_listen(port: int, process: "subprocess.Popen[bytes]") -> bool:
    ends = time.monotonic() + START_SECONDS
    while time.monotonic() < ends and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return True
        time.sleep(0.05)
    return False


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
