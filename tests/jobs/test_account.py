"""What every job says that it read is what the input holds, by the naive reader."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from choosing import choose
from jobs.plain import lines_of
from jobs.test_compact import CLEANING, NOW
from jobs.topics import write_topic
from ottla.batch.convert import Conversion
from ottla.engine.local import LocalEngine
from ottla.errors import Row
from ottla.format.attributes import Codec
from ottla.format.magic import Loss
from ottla.jobs.compact.plan import plan_compaction
from ottla.jobs.compact.run import compact
from ottla.jobs.engine import Engine
from ottla.jobs.export.plan import plan_export
from ottla.jobs.output import OutputJob
from ottla.jobs.rewrite.convert import plan_convert
from ottla.jobs.rewrite.restore import Renaming, compile_filter, plan_restore
from ottla.jobs.rewrite.salvage import plan_salvage_job
from ottla.jobs.run import run_output_job
from ottla.jobs.verify.plan import VerifyOptions
from ottla.jobs.verify.run import verify
from ottla.options.export import ExportOptions

SPLITS = [2000, 1 << 30]
ENGINE: Engine = LocalEngine(quiet=True)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("account") / "logs"
    write_topic(folder, "orders", partitions=2)
    return folder


def held(logs: Path) -> list[tuple[str, int, int, int]]:
    """Each partition with the bytes, batches and records of its segments; wrappers are batches."""
    found = []
    for folder in sorted(logs.glob("*-*")):
        lines = lines_of(folder)
        kinds = [line["type"] for line in lines]
        size = sum(log.stat().st_size for log in folder.glob("*.log"))
        found.append((folder.name, size, kinds.count("batch"), kinds.count("record")))
    return found


def read(rows: list[Row]) -> list[tuple[str, int, int, int]]:
    return [(f"{row['topic']}-{row['partition']}", *(row[name] for name in READ)) for row in rows]


READ = ("readBytes", "readBatches", "readRecords")
NOTHING = Renaming({}, {})


def down(logs: Path, out: str, split: int) -> OutputJob:
    wanted = Conversion(magic=1, codec=Codec.GZIP, allowed=frozenset(Loss))
    return plan_convert(choose(logs), out, wanted, {}, split_bytes=split)


def up(logs: Path, out: str, split: int) -> OutputJob:
    wanted = Conversion(magic=2, codec=Codec.LZ4)
    return plan_convert(choose(logs), out, wanted, {}, split_bytes=split)


def copy(logs: Path, out: str, split: int) -> OutputJob:
    everything = compile_filter((), None, ())
    return plan_restore(choose(logs), out, everything, NOTHING, split_bytes=split)


def some(logs: Path, out: str, split: int) -> OutputJob:
    few = compile_filter((), "key1", ())
    return plan_restore(choose(logs), out, few, NOTHING, split_bytes=split)


def export(logs: Path, out: str, split: int) -> OutputJob:
    return plan_export(choose(logs), out, ExportOptions(split_bytes=split))


def salvage(logs: Path, out: str, _: int) -> OutputJob:
    return plan_salvage_job(choose(logs), out)


JOBS = {"up": up, "copy": copy, "some": some, "export": export, "salvage": salvage}


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("job", JOBS)
def test_a_job_says_truly_what_it_read(logs: Path, tmp_path: Path, job: str, split: int) -> None:
    plan = JOBS[job](logs, str(tmp_path / "out"), split)
    assert read(run_output_job(ENGINE, plan)) == held(logs)


@pytest.mark.parametrize("split", SPLITS)
def test_verify_says_truly_what_it_read(logs: Path, split: int) -> None:
    rows: list[Row] = []
    list(verify(ENGINE, choose(logs).partitions, VerifyOptions(split_bytes=split), rows))
    assert read(rows) == held(logs)


@pytest.mark.parametrize("split", SPLITS)
def test_compact_says_truly_what_it_read(logs: Path, tmp_path: Path, split: int) -> None:
    options = replace(CLEANING, split_bytes=split)
    plan = plan_compaction(choose(logs), str(tmp_path / "out"), options, now=NOW)
    assert read(compact(ENGINE, plan)) == held(logs)


@pytest.mark.parametrize("job", [up, down, copy, some, salvage])
def test_what_was_written_is_what_lies_there(
    logs: Path, tmp_path: Path, job: Callable[[Path, str, int], OutputJob]
) -> None:
    rows = run_output_job(ENGINE, job(logs, str(tmp_path / "out"), 1 << 30))
    names = ("writtenBytes", "writtenBatches", "writtenRecords")
    written = [
        (f"{row['topic']}-{row['partition']}", *(row[name] for name in names)) for row in rows
    ]
    assert written == held(tmp_path / "out")
