"""Requests to object stores, on objects of Arrow that stand for them: none of these is sent."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ottla.storage.files import File, _Remote
from ottla.storage.object_store import DEFAULT_OPTIONS

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
