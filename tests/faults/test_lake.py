"""Exports to tables that are killed, that meet each other, or that the disk has no room for.

No row is twice in the table, none is missing, and after the next run no file is left that the table
does not have.
"""

import json
import random
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from builders import Row, batch
from faults import faulty_lake
from faults.processes import finish, full_disk, make_room, start
from lake.readers import FORMATS, orphans, read_table
from lake.remote import open_remote, orphans_remote, read_remote, s3_environment
from log.generated import write_partition
from log.s3 import s3_server
from ottla.publish.journal import open_journals

PARTITIONS = 3
USAGE = 2
FAULTS, SOAK = pytest.mark.faults, pytest.mark.soak
KILLS = [pytest.param(10, marks=FAULTS), pytest.param(100, marks=SOAK)]
PAIRS = [pytest.param(3, marks=FAULTS), pytest.param(30, marks=SOAK)]


class Runs:
    """Commands in processes of their own."""

    def __init__(self, process: Any) -> None:
        self.process = process
        assert self._answer() == "ready"

    def _answer(self) -> Any:
        return json.loads(self.process.stdout.readline())

    def run(self, *runs: dict[str, Any]) -> tuple[float, list[int]]:
        self.process.stdin.write(json.dumps(runs).encode() + b"\n")
        self.process.stdin.flush()
        seconds, codes = self._answer()
        return seconds, codes


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    folder = tmp_path_factory.mktemp("warm")
    Growing(folder).grow()
    process = start(faulty_lake, folder / "logs")
    yield Runs(process)
    process.kill()
    finish(process)


class Growing:
    """Logs that grow by a segment at a time, and what is in them."""

    def __init__(self, folder: Path, size: int = 200) -> None:
        self.folder = folder
        self.ends = [0] * PARTITIONS
        self.size = size

    def grow(self, count: int = 40) -> None:
        for partition, first in enumerate(self.ends):
            value = bytes(self.size)
            rows = [Row(at, 1000 + at, b"k", value) for at in range(first, first + count)]
            data = b"".join(batch(rows[at : at + 8], codec=3) for at in range(0, count, 8))
            write_partition(self.folder / "logs", f"orders-{partition}", first, data)
            self.ends[partition] = first + count

    def expected(self) -> list[tuple[int, int]]:
        return [(part, at) for part, end in enumerate(self.ends) for at in range(end)]

    def words(self, form: str, table: object, *more: str) -> list[str]:
        small = ["--split-bytes", "1000", "--quiet"]
        return ["export", str(self.folder / "logs"), str(table), "--format", form, *small, *more]


def rows_of(table: Any) -> list[tuple[int, int]]:
    rows = table.select(["partition", "offset"]).to_pylist()
    return sorted((row["partition"], row["offset"]) for row in rows)


def check(logs: Growing, table: Path, form: str, counts: Counter[str]) -> None:
    """What the next run makes of what is there, on the engine of this process."""
    assert faulty_lake.main(logs.words(form, table)) == 0
    found = Counter(rows_of(read_table(table, form)))
    counts["rows twice"] += sum(number - 1 for number in found.values())
    counts["rows missing"] += len(set(logs.expected()) - found.keys())
    counts["files left"] += len(orphans(table, form))
    assert sorted(found.elements()) == logs.expected()
    assert orphans(table, form) == set()
    assert open_journals(str(table)) == []


@pytest.mark.parametrize("kills", KILLS)
@pytest.mark.parametrize("form", FORMATS)
def test_exports_killed_at_random_moments(
    runs: Runs, tmp_path: Path, form: str, kills: int, counts: Counter[str]
) -> None:
    chance, logs, table = random.Random(f"{form}{kills}"), Growing(tmp_path), tmp_path / "t"
    logs.grow()
    whole, _ = runs.run({"words": logs.words(form, tmp_path / "whole")})
    killed = 0
    while killed < kills:
        moment = chance.uniform(0, whole * 1.1)
        _, codes = runs.run({"words": logs.words(form, table), "kill": moment})
        killed += codes == [-signal.SIGKILL]
        if chance.random() < 0.5:  # the next one finds the same logs, or more
            logs.grow(8)
        if chance.random() < 0.5:  # or first another that is killed
            check(logs, table, form, counts)
    check(logs, table, form, counts)
    counts[f"exports to {form} killed at a random moment"] += killed


@FAULTS
@pytest.mark.parametrize("grown", [False, True], ids=["same", "grown"])
@pytest.mark.parametrize("moment", ["moved", "told"])
@pytest.mark.parametrize("form", FORMATS)
def test_exports_killed_around_the_commit(
    runs: Runs, tmp_path: Path, form: str, moment: str, grown: bool, counts: Counter[str]
) -> None:
    logs, table = Growing(tmp_path), tmp_path / "t"
    for _ in range(2):
        logs.grow()
        _, codes = runs.run({"words": logs.words(form, table), "die": moment})
        assert codes == [-signal.SIGKILL]
        logs.grow(8 if grown else 0)
        check(logs, table, form, counts)
        counts[f"exports to {form} killed around the commit"] += 1


@pytest.mark.parametrize("pairs", PAIRS)
@pytest.mark.parametrize("form", FORMATS)
def test_pairs_of_exports(
    runs: Runs, tmp_path: Path, form: str, pairs: int, counts: Counter[str]
) -> None:
    logs, table = Growing(tmp_path), tmp_path / "t"
    for _ in range(pairs):
        logs.grow()
        words = logs.words(form, table)
        _, codes = runs.run({"words": words}, {"words": words})
        assert set(codes) <= {0, USAGE}
        check(logs, table, form, counts)
        counts[f"pairs of exports to {form}"] += 1


@pytest.mark.parametrize("pairs", PAIRS)
@pytest.mark.parametrize("form", FORMATS)
def test_pairs_of_exports_to_an_object_store(
    tmp_path: Path, form: str, pairs: int, counts: Counter[str]
) -> None:
    """Where nobody can lock anything."""
    logs = Growing(tmp_path)
    logs.grow()
    with s3_server() as server:
        settings = s3_environment(server, tmp_path)
        process = start(faulty_lake, tmp_path / "logs", **settings)
        runs = Runs(process)
        where, flags = open_remote(form, tmp_path)
        for _ in range(pairs):
            logs.grow(16)
            words = logs.words(form, where, *flags)
            _, codes = runs.run({"words": words}, {"words": words})
            assert set(codes) <= {0, USAGE}
            for _ in range(2):  # the first one may finish what one of the pair left
                _, codes = runs.run({"words": words})
            assert codes == [0]
            found = rows_of(read_remote(form, server, tmp_path))
            counts["rows twice"] += len(found) - len(set(found))
            assert found == logs.expected()
            assert orphans_remote(form, server, tmp_path) == set()
            counts[f"pairs of exports to {form} on an object store"] += 1
        process.kill()
        finish(process)


@FAULTS
@pytest.mark.parametrize("left", [4_000, 30_000, 60_000, 90_000])
@pytest.mark.parametrize("form", FORMATS)
def test_a_full_disk(
    runs: Runs, tmp_path: Path, form: str, left: int, counts: Counter[str]
) -> None:
    logs = Growing(tmp_path)
    logs.grow()
    with full_disk(tmp_path, left=left) as disk:
        _, (code,) = runs.run({"words": logs.words(form, disk / "t")})
        assert code in (0, USAGE)
        counts[f"exports to {form} that a full disk stopped"] += code == USAGE
        make_room(disk)
        logs.grow(8)
        check(logs, disk / "t", form, counts)
