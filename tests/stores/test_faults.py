"""Jobs on object stores whose answers are cut, delayed, refused or changed on their way.

Each trial does one thing through a proxy that draws faults from a seed. It must end with the result
of a run without faults, or with an error that names what failed; then the same thing, done again,
must complete. What is there in between is nothing, all, or named as a commit that waits.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ottla
from builders import Row, batch
from choosing import choose
from jobs.test_write import some_rows, table
from ottla.batch.convert import Conversion
from ottla.catalog.catalog import list_catalog
from ottla.engine.local import LocalEngine
from ottla.errors import CorruptLogError, PublishError
from ottla.format.attributes import Codec
from ottla.jobs.export.plan import plan_export
from ottla.jobs.rewrite.convert import plan_convert
from ottla.jobs.run import run_output_job
from ottla.jobs.verify.plan import VerifyOptions
from ottla.jobs.verify.run import verify
from ottla.jobs.write.commit import begin_writing, commit_rows, is_done, save_job
from ottla.jobs.write.stage import stage_rows
from ottla.options.export import ExportOptions
from ottla.options.write import parse_write_options
from ottla.publish.journal import open_journals, waiting_journals
from ottla.storage.files import read_bytes
from ottla.storage.listing import exists, list_files
from ottla.storage.object_store import StorageOptions
from ottla.storage.writing import write_file
from stores.conftest import Stores
from stores.proxy import Fault, Injected, Proxy, fault_proxy
from stores.servers import SECRETS

# So many faults at least: 60 in all, and 500 in `make soak`. Google's and Azure's libraries wait
# for a second or more after each.
FAULTS = {"moto": 30, "gcs": 15, "azure": 15}
MANY_FAULTS = {"moto": 250, "gcs": 125, "azure": 125}
RATES = (0.05, 0.15, 0.4)
AT_ONCE = 6  # faults of one trial
ENGINE = LocalEngine(quiet=True)


@dataclass(frozen=True, slots=True)
class Place:
    """A store, with and without the proxy before it."""

    root: str
    proxy: Proxy
    faulty: StorageOptions
    sound: StorageOptions

    @property
    def logs(self) -> str:
        return f"{self.root}/logs"


class Uploaded(NamedTuple):
    """A place with logs in it."""

    store: str
    place: Place


@pytest.fixture(scope="module", params=FAULTS)
def uploaded(
    request: pytest.FixtureRequest, stores: Stores, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Uploaded]:
    local = tmp_path_factory.mktemp("faults") / "logs"
    write_logs(local)
    store = stores[request.param]
    assert store.endpoint
    url = urlsplit(store.endpoint)
    with pytest.MonkeyPatch.context() as patch, fault_proxy(url.netloc) as proxy:
        for name, value in SECRETS.items():
            patch.setenv(name, value)
        faulty = StorageOptions(endpoint=proxy.endpoint + url.path)
        place = Place(f"{store.base}/faults", proxy, faulty, store.options)
        for path in sorted(filter(Path.is_file, local.rglob("*"))):
            name = str(path.relative_to(local))
            write_file(f"{place.logs}/{name}", path.read_bytes(), place.sound)
        proxy.may_flip(flippable(local))
        yield Uploaded(request.param, place)


def write_logs(folder: Path) -> None:
    """Two small segments, and one that takes several requests."""
    chance = random.Random(5)
    sizes = {"orders-0": [(0, 200), (40, 200)], "big-0": [(0, 200_000)]}
    for name, segments in sizes.items():
        (folder / name).mkdir(parents=True)
        for base, size in segments:
            rows = (
                Row(n, 1_700_000_000_000 + n, b"k", chance.randbytes(size))
                for n in range(base, base + 40)
            )
            data = b"".join(batch([row]) for row in rows)
            (folder / name / f"{base:020d}.log").write_bytes(data)


def flippable(local: Path) -> dict[str, list[int]]:
    """Where the batches of the logs begin."""
    return {
        f"/logs/{path.relative_to(local)}": batch_starts(path.read_bytes())
        for path in local.rglob("*.log")
    }


def batch_starts(data: bytes) -> list[int]:
    found, at = [], 0
    while at + 12 <= len(data):
        found.append(at)
        at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    return found


class Operation(NamedTuple):
    """What to do with a place, and how to see what came of it; `out` is nothing for a read."""

    run: Callable[[Place, str, StorageOptions], Any]
    see: Callable[[Place, str], Any] | None = None


def list_logs(place: Place, out: str, storage: StorageOptions) -> Any:
    catalog = list_catalog([place.logs], storage)
    return [
        (entry.path, entry.size) for partition in catalog.partitions for entry in partition.entries
    ]


def scan(place: Place, out: str, storage: StorageOptions) -> Any:
    log = ottla.open(place.logs, endpoint=storage.endpoint, region=storage.region)
    return log.scan(["orders", "big"]).to_arrow().combine_chunks()


def verify_logs(place: Place, out: str, storage: StorageOptions) -> Any:
    account: list[dict[str, Any]] = []
    partitions = choose(place.logs, storage=storage).partitions
    found = list(verify(ENGINE, partitions, VerifyOptions(storage=storage), account))
    counted = [(row["topic"], row["partition"], row["readRecords"]) for row in account]
    return found, counted


def convert(place: Place, out: str, storage: StorageOptions) -> None:
    chosen = choose(place.logs, topics=("orders",), storage=storage)
    wanted = Conversion(magic=2, codec=Codec.LZ4)
    run_output_job(ENGINE, plan_convert(chosen, out, wanted, {}))


def export(place: Place, out: str, storage: StorageOptions) -> None:
    chosen = choose(place.logs, storage=storage)
    run_output_job(ENGINE, plan_export(chosen, out, ExportOptions()))


def save(place: Place, out: str, storage: StorageOptions) -> None:
    """As the sink does it; its id makes a second one the same."""
    given = {"path": out, "endpoint": storage.endpoint, "region": storage.region, "writeId": "one"}
    options = parse_write_options({name: value for name, value in given.items() if value})
    writing = begin_writing(options)
    job = save_job(writing.options)
    if is_done(job):
        commit_rows(job, writing, [])
        return
    rows = some_rows(1, 120)
    tasks = [stage_rows(job, writing, task, table(rows[task::2])) for task in range(2)]
    commit_rows(job, writing, tasks)


def see_logs(place: Place, out: str) -> Any:
    return {
        entry.path.removeprefix(out): read_bytes(entry, place.sound)
        for entry in list_files(out, place.sound)
        if entry.path.endswith(".log")
    }


def see_tables(place: Place, out: str) -> Any:
    return {
        entry.path.removeprefix(out): pq.read_table(pa.BufferReader(read_bytes(entry, place.sound)))
        for entry in list_files(out, place.sound)
    }


def see_rows(place: Place, out: str) -> Any:
    log = ottla.open(out, endpoint=place.sound.endpoint, region=place.sound.region)
    return log.scan("t", columns=["partition", "offset", "key", "value"]).to_arrow().to_pylist()


OPERATIONS = {
    "list": Operation(list_logs),
    "scan": Operation(scan),
    "convert": Operation(convert, see_logs),
    "verify": Operation(verify_logs),
    "save": Operation(save, see_rows),
    "export": Operation(export, see_tables),
}
ERRORS = (OSError, PublishError, CorruptLogError)


class Expected(NamedTuple):
    result: Any
    names: set[str]


def names_in(place: Place, out: str) -> set[str]:
    if not exists(out, place.sound):
        return set()
    return {entry.path.removeprefix(out) for entry in list_files(out, place.sound)}


def run_trials(place: Place, wanted: int) -> tuple[Counter[Fault], Counter[str]]:
    """Trials of all operations in turn until so many faults were met."""
    expected = {}
    for name, operation in OPERATIONS.items():
        out = f"{place.root}/sound-{name}"
        result = operation.run(place, out, place.sound)
        seen = result if operation.see is None else operation.see(place, out)
        expected[name] = Expected(seen, names_in(place, out))
    faults: Counter[Fault] = Counter()
    endings: Counter[str] = Counter()
    seed = 0
    while faults.total() < wanted or seed < len(OPERATIONS):
        seed += 1
        name = list(OPERATIONS)[seed % len(OPERATIONS)]
        met, ending = run_trial(place, name, seed, expected[name])
        faults.update(each.fault for each in met)
        endings[f"{name} {ending}"] += 1
    return faults, endings


def run_trial(place: Place, name: str, seed: int, expected: Expected) -> tuple[list[Injected], str]:
    operation, out = OPERATIONS[name], f"{place.root}/trial-{seed}"
    ending, result, told = "completed", None, place.root
    with place.proxy.faulty(seed, RATES[seed % len(RATES)], most=AT_ONCE) as met:
        try:
            result = operation.run(place, out, place.faulty)
        except ERRORS as error:
            ending, told = "failed", str(error)
    assert place.root.rpartition("/")[2] in told, f"no object in: {told}"
    assert ending == "completed" or met, "an error without a fault"
    there = names_in(place, out)
    if there and there != expected.names:
        assert ending == "failed"
        assert waiting_journals(out, place.sound), f"half of the output is visible: {there}"
    if ending == "failed":
        result = operation.run(place, out, place.sound)
    seen = result if operation.see is None else operation.see(place, out)
    same = seen.equals(expected.result) if isinstance(seen, pa.Table) else seen == expected.result
    assert same, f"trial {seed}, {name} {ending} after {met}"
    if operation.see is not None:
        assert names_in(place, out) == expected.names
        assert open_journals(out, place.sound) == []
    return met, ending


def tell(faults: Counter[Fault], endings: Counter[str]) -> None:
    print(*(f"{count} x {fault}" for fault, count in sorted(faults.items())), sep="; ")
    print(*(f"{ending}: {count}" for ending, count in sorted(endings.items())), sep="; ")


def test_faults_lose_nothing_double_nothing_and_hide_nothing(uploaded: Uploaded) -> None:
    faults, endings = run_trials(uploaded.place, FAULTS[uploaded.store])
    tell(faults, endings)
    assert len(faults) > len(Fault) // 2
    assert endings.total() >= len(OPERATIONS)


@pytest.mark.soak
def test_many_faults(uploaded: Uploaded) -> None:
    tell(*run_trials(uploaded.place, MANY_FAULTS[uploaded.store]))


@pytest.mark.parametrize("fault", [each for each in Fault if each is not Fault.FLIP])
def test_a_passing_fault_is_not_noticed(uploaded: Uploaded, fault: Fault) -> None:
    """Each request of an object's life, and its first answer is spoiled."""
    place = uploaded.place
    uri = f"{place.root}/one/{fault.name}/t-0/{0:020d}.log"
    data = random.Random(3).randbytes(100_000)
    met: list[Injected] = []
    with place.proxy.faulty(1, 1.0, fault, most=1) as once:
        write_file(uri, data, place.faulty)
    met += once
    with place.proxy.faulty(1, 1.0, fault, most=1) as once:
        assert read_bytes(uri, place.faulty) == data
    met += once
    with place.proxy.faulty(1, 1.0, fault, most=1) as once:
        (entry,) = list_files(f"{place.root}/one/{fault.name}", place.faulty)
    met += once
    assert (entry.path, entry.size) == (uri, len(data))
    assert len(met) >= 2  # some answers have no body to cut
