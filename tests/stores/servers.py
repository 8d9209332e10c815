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
    port = free_port()
    settings = {
        "s3proxy.endpoint": f"http://127.0.0.1:{port}",
        "s3proxy.authorization": "aws-v4",
        "s3proxy.identity": S3_SECRETS["AWS_ACCESS_KEY_ID"],
        "s3proxy.credential": S3_SECRETS["AWS_SECRET_ACCESS_KEY"],
        "jclouds.provider": "transient-nio2",
        "jclouds.identity": "none",
        "jclouds.credential": "none",
    }
    properties = folder / "s3proxy.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    quiet = folder / "logback.xml"
    quiet.write_text('<configuration><root level="OFF"/></configuration>')
    jvm = ("-Xmx512m", "-XX:+UseSerialGC", f"-Dlogback.configurationFile={quiet}")
    command = java("org.gaul.s3proxy.Main", class_path(S3PROXY), *jvm)
    with _running([*command, "--properties", str(properties)], port, folder / "s3proxy.out"):
        yield _s3_store("s3proxy", settings["s3proxy.endpoint"])


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
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    command = [_fake_gcs(), "-backend", "memory", "-scheme", "http", "-host", "127.0.0.1"]
    command += ["-port", str(port), "-public-host", f"127.0.0.1:{port}", "-external-url", endpoint]
    with _running([*map(str, command), "-log-level", "error"], port, folder / "gcs.out"):
        where = {"scheme": "http", "endpoint_override": f"127.0.0.1:{port}", "project_id": "test"}
        fs.GcsFileSystem(anonymous=True, **where).create_dir("gcs-logs")
        yield Store("gcs", "gs://gcs-logs", endpoint, "STORAGE_EMULATOR_HOST")


def _fake_gcs() -> Path:
    program = CACHE / f"fake-gcs-server-{FAKE_GCS}" / "fake-gcs-server"
    if not program.exists():
        go = _find("go", "/usr/local/go/bin/go")
        module = f"github.com/fsouza/fake-gcs-server@{FAKE_GCS}"
        _install([go, "install", module], program.parent, {"GOBIN": str(program.parent)})
    return program


@contextmanager
def azure(folder: Path) -> Iterator[Store]:
    """Azure Blob Storage by Azurite, with its objects in memory."""
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
    command = [_find("node"), str(_azurite()), "--blobHost", "127.0.0.1", "--blobPort", str(port)]
    command += ["--inMemoryPersistence", "--skipApiVersionCheck", "--silent"]
    command += ["--disableTelemetry"]
    with _running(command, port, folder / "azurite.out"):
        authority = f"127.0.0.1:{port}"
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
def _running(command: list[str], port: int, log: Path) -> Iterator[None]:
    """A server that listens, until the block ends."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=log.parent)
    try:
        _wait_for(port, process, log)
        yield
    finally:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    ends = time.monotonic() + START_SECONDS
    while time.monotonic() < ends and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    print(log.read_text(errors="replace"), file=sys.stderr)
    raise RuntimeError(f"{process.args!r} does not listen")
