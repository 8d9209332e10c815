"""Jobs on an engine give what they give in the plainest loop, however segments are cut."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from choosing import choose
from cli.here import run
from jobs.compacting import compact_plainly
from jobs.plain import run_plainly, tree
from jobs.test_compact import CLEANING, NOW
from ottla.batch.convert import Conversion
from ottla.errors import Row
from ottla.format.attributes import Codec
from ottla.jobs.compact.plan import plan_compaction
from ottla.jobs.compact.run import compact
from ottla.jobs.engine import Engine
from ottla.jobs.export.plan import ExportOptions, plan_export
from ottla.jobs.output import OutputJob
from ottla.jobs.rewrite.convert import plan_convert
from ottla.jobs.rewrite.restore import Renaming, compile_filter, plan_restore
from ottla.jobs.rewrite.salvage import plan_salvage_job
from ottla.jobs.run import run_output_job
from ottla.jobs.verify.plan import VerifyOptions
from ottla.jobs.verify.run import verify
from ottla.log.files.partition import find_partitions
from ottla.options.offsets import Offset
from ottla.publish.journal import open_journals
from whole_log import check_partition

SPLITS = [2000, 20_000, 1 << 30]
# LOGS and DAMAGED stand for paths; OUT is the same for both engines, one after the other.
COMMANDS = {
    "verify DAMAGED --split-bytes SPLIT": 1,
    "export LOGS OUT --split-bytes SPLIT": 0,
    "export DAMAGED OUT --split-bytes SPLIT": 1,
    "export DAMAGED OUT --mode DROPMALFORMED --split-bytes SPLIT": 1,
    "salvage DAMAGED OUT": 1,
    "convert LOGS OUT --codec lz4 --split-bytes SPLIT": 0,
    "restore LOGS OUT --where offset<300 --split-bytes SPLIT": 0,
    "compact LOGS OUT --drop-unkeyed --now @1700000100000 --split-bytes SPLIT": 0,
}


def plans(logs: Path, out: Path, split: int) -> dict[str, OutputJob]:
    selection = choose(logs)
    bounded = choose(logs, start=Offset(40), stop=Offset(900))
    return {
        "export": plan_export(selection, f"{out}/export", ExportOptions(split_bytes=split)),
        "convert": plan_convert(
            selection,
            f"{out}/convert",
            Conversion(magic=2, codec=Codec.LZ4),
            {},
            split_bytes=split,
        ),
        "restore": plan_restore(
            bounded,
            f"{out}/restore",
            compile_filter((), "key", ()),
            Renaming({"orders": "copied"}, {}),
            split_bytes=split,
        ),
    }


def without_seconds(rows: list[dict]) -> list[dict]:
    return [row | {"seconds": 0} for row in rows]


def assert_same(engine: Engine, ours: OutputJob, plain: OutputJob) -> None:
    rows = run_output_job(engine, ours)
    assert without_seconds(rows) == without_seconds(run_plainly(plain))
    assert tree(Path(ours.out)) == tree(Path(plain.out)) != {}
    assert open_journals(ours.out) == []
    assert without_seconds(run_output_job(engine, ours)) == without_seconds(rows)


def check_output_jobs(engine: Engine, logs: Path, folder: Path, split: int) -> None:
    before = tree(logs)
    ours, plain = plans(logs, folder / "spark", split), plans(logs, folder / "plain", split)
    for name in ours:
        assert_same(engine, ours[name], plain[name])
    assert tree(logs) == before


def check_salvage(engine: Engine, damaged: Path, folder: Path) -> None:
    selection = choose(damaged)
    ours, plain = (plan_salvage_job(selection, f"{folder}/{name}") for name in ("spark", "plain"))
    assert_same(engine, ours, plain)


def check_verify(engine: Engine, damaged: Path, split: int) -> None:
    partitions = find_partitions([damaged])
    account: list[Row] = []
    found = sorted(
        verify(engine, partitions, VerifyOptions(split_bytes=split), account), key=_place
    )
    expected = [each.as_row() for partition in partitions for each in check_partition(partition)]
    assert found == sorted(expected, key=_place)
    assert sum(row["violations"] for row in account) == len(expected) > 0


class Outcome(NamedTuple):
    status: int
    account: list[dict]
    files: dict[str, bytes]


def check_commands(
    logs: Path, damaged: Path, folder: Path, split: int, commands: dict[str, int] = COMMANDS
) -> None:
    """Commands end alike in this process and on the Spark that it has started."""
    for command, status in commands.items():
        places = {"LOGS": logs, "DAMAGED": damaged, "OUT": folder / "out", "SPLIT": split}
        words = [places.get(word, word) for word in command.split()]
        local, spark = (_run(words, engine, folder) for engine in ("local", "spark"))
        assert local == spark, command
        assert local.status == status, command


def _run(words: list, engine: str, folder: Path) -> Outcome:
    out = folder / "out"
    done = run(*words, "--engine", engine, "--json")
    found = Outcome(
        done.status,
        without_seconds([json.loads(line) for line in done.out.splitlines()]),
        tree(out),
    )
    shutil.rmtree(out, ignore_errors=True)
    shutil.rmtree(f"{out}.ottla", ignore_errors=True)
    return found


def _place(row: dict) -> tuple:
    return row["file"], row["position"], row["rule"]


def check_compact(engine: Engine, logs: Path, folder: Path, split: int) -> None:
    """The same files and account as in one process, once and again."""
    options = replace(CLEANING, split_bytes=split, segment_bytes=9000)
    plan = plan_compaction(choose(logs), str(folder / "ours"), options, now=NOW)
    rows = compact(engine, plan)
    plain = replace(plan, out=str(folder / "plain"))
    assert without_seconds(rows) == without_seconds(compact_plainly(plain))
    assert tree(folder / "ours") == tree(folder / "plain") != {}
    assert open_journals(plan.out) == []
    assert compact(engine, plan) == rows
