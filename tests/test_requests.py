"""Requests to object stores, on objects of Arrow that stand for them: none of these is sent."""

import base64
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pytest

from builders import Row, batch
from ottla.errors import OptionError
from ottla.log.read.windows import read_windows
from ottla.storage import object_store
from ottla.storage.files import File, _Remote, read_bytes
from ottla.storage.object_store import (
    AZURE,
    DEFAULT_OPTIONS,
    GCS,
    S3,
    StorageOptions,
    connect,
    find_azure_key,
    find_endpoint,
)
from ottla.storage.retries import send

URI = "s3://bucket/key"


class Stream:
    """An open object of Google's store, which closes itself when a request fails."""

    def __init__(self, system: "System", number: int) -> None:
        self.system, self.number = system, number

    def size(self) -> int:
        return 100

    def read_at(self, size: int, position: int) -> bytes:
        if self.number > 1:
            return bytes(size)
        self.system.together.wait()
        if position:  # this thread learns of it when the other has opened the object again
            assert self.system.reopened.wait(30)
        raise ValueError("operation on closed file")

    def close(self) -> None:
        """Nothing to give back."""


class System:
    """A file system that counts what is opened."""

    def __init__(self) -> None:
        self.opened = 0
        self.together = threading.Barrier(2, timeout=30)
        self.reopened = threading.Event()

    def open_input_file(self, key: str) -> Stream:
        self.opened += 1
        if self.opened > 1:
            self.reopened.set()
        return Stream(self, self.opened)


def test_threads_open_a_closed_object_again_once() -> None:
    system = System()
    source = _Remote(system, "bucket/key", URI, DEFAULT_OPTIONS)
    file = File(URI, source.size, source)

    def read(position: int) -> int:
        return file.read_into(np.empty(10, dtype=np.uint8), position, 10)

    with file, ThreadPoolExecutor(2) as threads:
        assert list(threads.map(read, (0, 90))) == [10, 10]
    assert system.opened == 2


class Store:
    """One object, with bytes that are others in the first answer that has them."""

    def __init__(self, data: bytes, flipped: set[int]) -> None:
        self.data, self.flipped = data, flipped
        self.sent = 0

    def open_input_file(self, key: str) -> "Store":
        return self

    def size(self) -> int:
        return len(self.data)

    def read_at(self, size: int, position: int) -> bytes:
        answer = bytearray(self.data[position : position + size])
        self.sent += len(answer)
        for each in [at for at in self.flipped if position <= at < position + size]:
            self.flipped.remove(each)
            answer[each - position] ^= 1
        return bytes(answer)

    def close(self) -> None:
        """Nothing to give back."""


def test_of_a_damaged_object_no_byte_is_sent_more_than_twice() -> None:
    good = batch([Row(0, 0, b"k", b"v" * 5000)])
    bad = good[:16] + b"\x09" + good[17:]
    store = Store((good + bad) * 600, {len(good) // 2 + at * 100 * len(good) for at in range(12)})
    source = _Remote(store, "bucket/key", URI, DEFAULT_OPTIONS)
    with File(URI, source.size, source) as file:
        windows = list(read_windows(file))
    batches = [each.batches for each in windows]
    assert sum(each.position.size for each in batches) == 600
    assert all((each.crc == each.computed_crc).all() for each in batches)
    assert sum(each.violation is not None for each in windows) == 600
    assert store.flipped == set()
    assert store.sent <= 2 * len(store.data)


class LeftEarly(threading.Event):
    """Set by whoever has closed the file while a request waits to be sent again."""

    def wait(self, timeout: float | None = None) -> bool:
        self.set()
        return super().wait(timeout)


def test_nothing_is_sent_for_who_left_during_the_wait() -> None:
    sent = []

    def request() -> None:
        sent.append(1)
        raise ConnectionError("reset")

    with pytest.raises(ConnectionError, match="reset"):
        send("reading", URI, request, given_up=LeftEarly())
    assert sent == [1]


@pytest.mark.parametrize("kind", [pa.ArrowException, pa.ArrowInvalid, pa.ArrowNotImplementedError])
def test_what_arrow_can_not_make_sense_of_is_named(kind: type[Exception]) -> None:
    def request() -> None:
        raise kind("Unknown error")

    with pytest.raises(OSError, match=f"reading {URI}: Unknown error"):
        send("reading", URI, request)


def test_a_bucket_whose_region_is_not_found_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow refuses this name before it asks anybody."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(OSError, match="finding the region of s3://: Not a valid bucket name"):
        read_bytes("s3:///key")


@pytest.mark.parametrize(
    "found",
    [
        "ftp://127.0.0.1",
        "s3://bucket",
        "http://",
        "http://a b",
        "http://127.0.0.1:port",
        "http://127.0.0.1:1:2",
        "http://host?x=1",
        "[::1",
    ],
)
@pytest.mark.parametrize(
    ("store", "name"),
    [
        (S3, "AWS_ENDPOINT_URL"),
        (S3, "AWS_ENDPOINT_URL_S3"),
        (GCS, "STORAGE_EMULATOR_HOST"),
        (AZURE, "AZURE_STORAGE_SERVICE_ENDPOINT"),
    ],
)
def test_a_place_where_no_store_can_be_is_refused_by_the_name_of_its_variable(
    store: str, name: str, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3", raising=False)
    monkeypatch.setenv(name, found)
    with pytest.raises(OptionError, match=rf"^{name} .*is no address"):
        find_endpoint(store, DEFAULT_OPTIONS)
    with pytest.raises(OptionError, match=r"^the endpoint .*is no address"):
        find_endpoint(store, StorageOptions(found))


@pytest.mark.parametrize("found", ["http://u:hunter2@host", "https://host?sv=1&sig=hunter2"])
def test_a_refused_place_that_may_have_a_secret_is_not_shown(
    found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", found)
    with pytest.raises(OptionError, match=r"STORAGE_EMULATOR_HOST is no address") as refused:
        find_endpoint(GCS, DEFAULT_OPTIONS)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("found", "url"),
    [
        ("http://127.0.0.1:9000/", "http://127.0.0.1:9000"),
        ("https://[::1]:9000", "https://[::1]:9000"),
        ("minio_1:9000", "https://minio_1:9000"),
        ("https://s3.example.com/gateway", "https://s3.example.com/gateway"),
    ],
)
def test_a_place_where_a_store_can_be_is_taken(found: str, url: str) -> None:
    endpoint = find_endpoint(S3, StorageOptions(found))
    assert endpoint is not None
    assert endpoint.url == url


def test_threads_that_name_a_profile_share_one_file_system(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The profile is in the environment meanwhile, where other threads would change it."""
    together = threading.Barrier(2)
    seen = []

    def build(**_: object) -> object:
        with suppress(threading.BrokenBarrierError):
            together.wait(0.2)
        seen.append(os.environ.get("AWS_PROFILE"))
        return object()

    monkeypatch.delenv("AWS_PROFILE", raising=False)
    monkeypatch.setattr(object_store.fs, "S3FileSystem", build)
    options = StorageOptions("http://127.0.0.1:9", region="us-east-1", profile="backup")
    object_store._file_system.cache_clear()
    try:
        with ThreadPoolExecutor(2) as threads:
            found = list(threads.map(connect, ["s3://b/k"] * 2, [options] * 2))
    finally:
        object_store._file_system.cache_clear()
    assert found[0] == found[1]
    assert seen == ["backup"]
    assert "AWS_PROFILE" not in os.environ


@pytest.mark.parametrize("key", ["not base64!", "abc", "schlüssel"])
def test_a_key_that_is_none_is_refused_and_not_shown(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_KEY", key)
    with pytest.raises(OptionError, match="AZURE_STORAGE_KEY holds no key") as refused:
        find_azure_key()
    assert key not in str(refused.value)
    monkeypatch.setenv("AZURE_STORAGE_KEY", whole := base64.b64encode(b"key").decode())
    assert find_azure_key() == whole
