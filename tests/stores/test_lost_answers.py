"""The answer to a conditional put is lost: its client asks again, and meets its own object."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from ottla.publish.journal import commit, open_journals, publish, run_job
from ottla.storage.files import read_bytes
from ottla.storage.object_store import StorageOptions
from ottla.storage.writing import create_file
from stores.conftest import Stores
from stores.operations import staged
from stores.proxy import read_line
from stores.servers import SERVERS

BETWEEN = Path(__file__).with_name("losing_answers.py")


@contextmanager
def losing_an_answer(endpoint: str) -> Iterator[tuple[StorageOptions, Callable[[], int]]]:
    """A way to a server, and what the answer was that got lost on it."""
    url = urlsplit(endpoint)
    command = [sys.executable, str(BETWEEN), url.netloc]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as between:
        try:
            port = int(read_line(between))
            options = StorageOptions(f"http://127.0.0.1:{port}{url.path}")
            yield options, lambda: int(read_line(between))
        finally:
            between.terminate()


@pytest.mark.parametrize("name", SERVERS)
def test_who_puts_an_object_knows_it_when_the_answer_is_lost(name: str, stores: Stores) -> None:
    store = stores[name]
    assert store.endpoint
    path = f"{store.base}/lost/commit.json"
    with losing_an_answer(store.endpoint) as (options, lost):
        assert create_file(path, b"mine", options)
        assert lost() in (200, 201)  # it was written
        assert not create_file(path, b"of another", options)
    assert read_bytes(path, store.options) == b"mine"


@pytest.mark.parametrize("name", SERVERS)
def test_who_comes_second_is_not_told_that_it_won(name: str, stores: Stores) -> None:
    store = stores[name]
    assert store.endpoint
    path = f"{store.base}/lost/second.json"
    assert create_file(path, b"of another", store.options)
    with losing_an_answer(store.endpoint) as (options, lost):
        assert not create_file(path, b"mine", options)
        assert lost() in (409, 412)
    assert read_bytes(path, store.options) == b"of another"


@pytest.mark.parametrize("name", SERVERS)
def test_a_commit_whose_answer_is_lost_is_published_once(name: str, stores: Stores) -> None:
    store = stores[name]
    assert store.endpoint
    out = f"{store.base}/lost/out"
    with losing_an_answer(store.endpoint) as (options, lost), run_job(out, "job", options) as job:
        files = staged(job, ("t-0/00000000000000000000.log", b"log"))
        commit(job, files, [])
        assert lost() in (200, 201)
        publish(job)
    assert read_bytes(f"{out}/t-0/00000000000000000000.log", store.options) == b"log"
    assert open_journals(out, store.options) == []
