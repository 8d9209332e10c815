"""What is sent again and what is not, what is said in the end, and how requests are counted."""

import random
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from builders import Row, batch
from choosing import choose
from ottla.batch.convert import Conversion
from ottla.engine.local import LocalEngine
from ottla.errors import PublishError
from ottla.errors import Row as AccountRow
from ottla.format.attributes import Codec
from ottla.jobs.export.lake.files import measure_files
from ottla.jobs.rewrite.convert import plan_convert
from ottla.jobs.run import run_output_job
from ottla.jobs.verify.plan import VerifyOptions
from ottla.jobs.verify.run import verify
from ottla.log.read.windows import read_windows
from ottla.notices import StoreTrouble
from ottla.publish.checked import StagedFile, encode_json, read_json
from ottla.storage import listing, retries
from ottla.storage.files import open_file, read_bytes
from ottla.storage.listing import exists, list_files, list_names
from ottla.storage.object_store import StorageOptions
from ottla.storage.writing import create_file, delete_file, move_files, open_output, write_file
from stores.conftest import Stores
from stores.proxy import Fault, Proxy, fault_proxy
from stores.servers import SECRETS
from stores.test_faults import batch_starts

STORES = ("moto", "gcs", "azure")
ENGINE = LocalEngine(quiet=True)


class Place:
    """A folder in a store, behind a proxy."""

    def __init__(self, name: str, base: str, proxy: Proxy, options: StorageOptions) -> None:
        self.name, self.proxy, self.options = name, proxy, options
        self.base = f"{base}/retries"

    def at(self, name: str) -> str:
        return f"{self.base}/{name}"

    def asked(self) -> int:
        return self.proxy.asked()


@pytest.fixture(scope="module", params=STORES)
def place(request: pytest.FixtureRequest, stores: Stores) -> Iterator[Place]:
    store = stores[request.param]
    assert store.endpoint
    url = urlsplit(store.endpoint)
    with pytest.MonkeyPatch.context() as patch, fault_proxy(url.netloc) as proxy:
        for name, value in SECRETS.items():
            patch.setenv(name, value)
        options = StorageOptions(endpoint=proxy.endpoint + url.path)
        yield Place(request.param, store.base, proxy, options)


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "_FIRST_WAIT", 0.001)
    monkeypatch.setattr(retries, "_PATIENCE", 5.0)


@pytest.mark.parametrize("fault", [Fault.BUSY, Fault.CUT_BEFORE])
def test_a_store_that_stays_down_is_named(place: Place, fault: Fault, hurry: None) -> None:
    uri = place.at("down.log")
    write_file(uri, b"x" * 1000, place.options)
    before = place.asked()
    with (
        place.proxy.faulty(1, 1.0, fault),
        pytest.raises(retries.StoreError, match=f"{uri}: . attempts in") as found,
    ):
        read_bytes(uri, place.options)
    assert "run this again" in str(found.value)
    if fault is Fault.BUSY:  # where a connection ends, libraries open another at once
        attempts = 4 if place.name == "azure" else 1
        assert place.asked() - before <= 8 * attempts


def test_what_is_final_is_not_sent_again(place: Place) -> None:
    before = place.asked()
    with pytest.raises(FileNotFoundError):
        read_bytes(place.at("nothing.log"), place.options)
    assert place.asked() - before <= 2


def test_a_cut_body_is_never_the_end_of_a_file(
    place: Place, hurry: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "_PATIENCE", 60.0)  # for a second attempt on a slow machine
    uri = place.at("cut.log")
    write_file(uri, b"x" * 300_000, place.options)
    with place.proxy.faulty(1, 1.0, Fault.CUT_BODY) as met, suppress(retries.StoreError):
        # A library may ask for the rest until all is there.
        assert read_bytes(uri, place.options) == b"x" * 300_000
    assert len(met) > 1
    assert read_bytes(uri, place.options) == b"x" * 300_000


def test_an_object_that_was_replaced_by_a_shorter_one_is_found(place: Place, hurry: None) -> None:
    uri = place.at(f"t-0/{0:020d}.log")
    batches = [batch([Row(n, n, None, b"v" * 5000)]) for n in range(100)]
    write_file(uri, b"".join(batches), place.options)
    (entry,) = list_files(place.at("t-0"), place.options)
    with open_file(entry, place.options) as file:
        write_file(uri, b"".join(batches[:40]), place.options)
        with pytest.raises(OSError, match=r"was replaced|vanished|shrank"):
            list(read_windows(file))


# Google's store is listed as a whole; for S3 see log/test_s3.py.
@pytest.mark.parametrize("place", ["azure"], indirect=True)
def test_a_prefix_that_vanishes_while_others_are_listed_is_no_error(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [place.at(f"vanishing/t-{number}/0.log") for number in range(3)]
    for uri in files:
        write_file(uri, b"x", place.options)
    list_below = listing._list_below

    def list_late(uri: str, prefix: str, *rest: Any, **named: Any) -> list[listing.Folder]:
        if prefix.endswith("t-1"):
            delete_file(files[1], place.options)
        return list_below(uri, prefix, *rest, **named)

    monkeypatch.setattr(listing, "_list_below", list_late)
    folders, _ = listing.list_folders(place.at("vanishing"), place.options)
    assert [folder.path for folder in folders] == [place.at(f"vanishing/t-{n}") for n in (0, 2)]


SECOND = 10  # a seed by which the first request passes, and the next one does not


# Google's client looks for the bucket meanwhile, so nobody knows which request is the second.
@pytest.mark.parametrize("place", ["moto", "azure"], indirect=True)
def test_whose_commit_won_is_asked_again(place: Place) -> None:
    uri = place.at("j/first.json")
    assert create_file(uri, b"first", place.options)
    for data in (b"first", b"second"):
        with place.proxy.faulty(SECOND, 0.5, Fault.BUSY, most=1) as met:
            assert create_file(uri, data, place.options) == (data == b"first")
        assert [each.method in ("GET", "HEAD") for each in met] == [True]


def test_the_footer_of_a_table_is_asked_for_again(place: Place) -> None:
    sink = pa.BufferOutputStream()
    table = pa.table({"offset": range(1000), "value": [f"{n}" * 30 for n in range(1000)]})
    pq.write_table(table, sink, row_group_size=4)  # a footer that no first look has whole
    data = sink.getvalue().to_pybytes()
    write_file(place.at("table/t.parquet"), data, place.options)
    files = [StagedFile("staged", "t.parquet", len(data))]
    for number in range(3):
        with place.proxy.faulty(number, 1.0, Fault.BUSY, most=1) as met:
            (found,) = measure_files(place.at("table"), files, {"o": "offset"}, place.options)
        assert (found.rows, found.bounds) == (1000, {"o": (0, 999)})
        assert len(met) == 1


def test_an_object_that_was_not_finished_is_not_there(place: Place) -> None:
    uri = place.at("unfinished.log")
    with pytest.raises(TypeError), open_output(uri, place.options) as stream:
        stream.writelines([b"half", None])
    assert not exists(uri, place.options)


def test_a_move_whose_answers_are_lost_is_done_once(place: Place) -> None:
    source, target = place.at("moved/from.log"), place.at("moved/to.log")
    for most in (1, 2, 3):
        write_file(source, b"moved", place.options)
        with place.proxy.faulty(1, 1.0, Fault.LOST_ANSWER, most=most):
            move_files([(source, target)], place.options)
        assert not exists(source, place.options)
        assert read_bytes(target, place.options) == b"moved"


def test_a_changed_byte_of_a_batch_is_read_again(place: Place) -> None:
    uri = place.at(f"flipped/t-0/{0:020d}.log")
    chance = random.Random(1)
    data = b"".join(batch([Row(n, n, None, chance.randbytes(9000))]) for n in range(50))
    write_file(uri, data, place.options)
    place.proxy.may_flip({f"flipped/t-0/{0:020d}.log": batch_starts(data)})
    with (
        place.proxy.faulty(3, 1.0, Fault.FLIP, most=1) as met,
        open_file(uri, place.options) as file,
    ):
        windows = list(read_windows(file))
    assert met
    assert sum(window.batches.position.size for window in windows) == 50
    assert all((each.batches.crc == each.batches.computed_crc).all() for each in windows)


def test_a_changed_byte_of_a_journal_is_read_again_or_refused(place: Place, hurry: None) -> None:
    uri = place.at("j/commit.json")
    content = {"files": [{"staged": "f", "target": "t-0/0.log", "size": 3}], "account": []}
    write_file(uri, encode_json(content), place.options)
    for seed in range(2):
        with place.proxy.faulty(seed, 1.0, Fault.FLIP, most=2):
            assert read_json(uri, place.options) == {"version": 1, **content}
    refused = (PublishError, retries.StoreError)  # Google's library has a checksum of its own
    with place.proxy.faulty(3, 1.0, Fault.FLIP), pytest.raises(refused, match=r"commit\.json"):
        read_json(uri, place.options)


def test_accounts_say_what_was_asked_for(place: Place) -> None:
    """By the proxy's own count of what went through it."""
    sizes = {}
    for number in range(2):
        data = b"".join(batch([Row(n, n, None, b"v" * 20_000)]) for n in range(300))
        write_file(place.at(f"counted/t-{number}/{0:020d}.log"), data, place.options)
        sizes[number] = len(data)
    chosen = choose(place.at("counted"), storage=place.options)
    before, account = place.asked(), list[AccountRow]()
    options = VerifyOptions(storage=place.options)
    found = list(verify(ENGINE, chosen.partitions, options, account))
    assert not [row for row in found if row["severity"] == "error"]
    assert [row["requestBytes"] for row in account] == [sizes[0], sizes[1]]
    asked = place.asked() - before
    assert sum(row["requests"] for row in account) == asked
    wanted = Conversion(magic=2, codec=Codec.ZSTD)
    rows = run_output_job(ENGINE, plan_convert(chosen, place.at("counted-out"), wanted, {}))
    for row in rows:
        assert row["requests"] > 2
        assert row["requestBytes"] > row["readBytes"] + row["writtenBytes"]


# Of S3 and Google Arrow looks first by itself.
DELETES = {"moto": 3, "gcs": 2, "azure": 1}


def test_a_delete_does_not_look_first(place: Place) -> None:
    path = place.at("deleted/a.log")
    write_file(path, b"x", place.options)
    before = place.asked()
    delete_file(path, place.options)
    assert place.asked() - before == DELETES[place.name]
    delete_file(path, place.options)  # of what is gone
    assert not exists(path, place.options)


# S3 and Azure are asked first what it is, and Azure for each prefix below it too.
LISTS = {"moto": 3, "gcs": 1, "azure": 5}
NAMES = {"moto": 1, "gcs": 1, "azure": 1}


def test_a_prefix_is_listed_once(place: Place) -> None:
    for number in range(3):
        write_file(place.at(f"listed/t-{number}/0.log"), b"x", place.options)
    before = place.asked()
    assert len(list_files(place.at("listed"), place.options)) == 3
    assert place.asked() - before == LISTS[place.name]
    before = place.asked()
    assert list_names(place.at("listed"), place.options) == ["t-0", "t-1", "t-2"]
    assert place.asked() - before == NAMES[place.name]
    (file,) = list_files(place.at("listed/t-0/0.log"), place.options)
    assert (file.path, file.size) == (place.at("listed/t-0/0.log"), 1)
    assert list_names(place.at("unlisted"), place.options) == []
    with pytest.raises(FileNotFoundError):
        list_files(place.at("unlisted"), place.options)


def test_a_long_wait_is_told_and_not_too_often(capsys: pytest.CaptureFixture[str]) -> None:
    trouble = StoreTrouble()
    trouble.tell(0.5, "reading s3://b/k", "503")
    assert capsys.readouterr().err == ""
    trouble.tell(1.5, "reading s3://b/k", "503\x1b[31m\nagain")
    trouble.tell(2.5, "reading s3://b/k", "503")
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "waiting for a store: reading s3://b/k: 503" in told
    assert "\x1b" not in told
    trouble.quiet = True
    trouble.tell(99.0, "reading s3://b/k", "503")
    assert capsys.readouterr().err == ""
