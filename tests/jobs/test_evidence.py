"""The evidence of a job is what `sha256sum` says of its input."""

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from builders import batch
from choosing import choose
from jobs.compacting import compact_plainly
from jobs.plain import run_plainly
from jobs.test_extent import ALL, CLEANING, NOW, SAME, rows, write_log
from ottla.batch.convert import Conversion
from ottla.catalog.chosen import ChosenLogs
from ottla.cli.job import print_account
from ottla.cli.output import Format
from ottla.jobs import evidence
from ottla.jobs.compact.plan import plan_compaction
from ottla.jobs.evidence import with_evidence
from ottla.jobs.export.plan import ExportOptions, plan_export
from ottla.jobs.rewrite.convert import plan_convert
from ottla.jobs.rewrite.restore import plan_restore
from ottla.jobs.rewrite.salvage import plan_salvage_job

Account = list[dict[str, Any]]
Run = Callable[[ChosenLogs, str], Account]


def compact(chosen: ChosenLogs, out: str) -> Account:
    plan = plan_compaction(chosen, out, CLEANING, now=NOW)
    return compact_plainly(replace(plan, gives_evidence=True))


JOBS: dict[str, Run] = {
    "convert": lambda chosen, out: run_plainly(
        with_evidence(plan_convert(chosen, out, Conversion(), {}))
    ),
    "restore": lambda chosen, out: run_plainly(with_evidence(plan_restore(chosen, out, ALL, SAME))),
    "salvage": lambda chosen, out: run_plainly(with_evidence(plan_salvage_job(chosen, out))),
    "export": lambda chosen, out: run_plainly(
        with_evidence(plan_export(chosen, out, ExportOptions()))
    ),
    "compact": compact,
}


def sha256sum(folder: Path) -> list[tuple[str, int, str]]:
    files = sorted(str(path) for path in folder.rglob("*") if path.is_file())
    told = subprocess.run(["sha256sum", *files], check=True, capture_output=True, text=True)
    pairs = [line.split("  ") for line in told.stdout.splitlines()]
    return [(path, Path(path).stat().st_size, digest) for digest, path in pairs]


@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
def test_every_account_lists_what_was_read(
    tmp_path: Path, job: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "_CHUNK_BYTES", 100)
    monkeypatch.setattr(evidence, "_PART_BYTES", 500)
    logs = write_log(tmp_path / "logs", {0: batch(rows(0, 9)), 10: batch(rows(10, 99))})
    write_log(tmp_path / "logs", {0: batch(rows(0, 4))}, topic="clicks")
    account = job(choose(logs), str(tmp_path / "out"))
    assert [row["topic"] for row in account] == ["clicks", "orders"]
    for row in account:
        listed = sorted((one["file"], one["bytes"], one["sha256"]) for one in row["inputs"])
        assert listed == sha256sum(logs / f"{row['topic']}-0")
    (kept,) = (tmp_path / "out.ottla").glob("*/account.json")
    assert json.loads(kept.read_text())["account"] == account
    again = job(choose(logs), str(tmp_path / "out"))
    assert [row["inputs"] for row in again] == [row["inputs"] for row in account]


def test_checkpoints_of_a_log_directory_are_listed_once(tmp_path: Path) -> None:
    logs = write_log(tmp_path / "logs", {0: batch(rows(0, 9))})
    write_log(tmp_path / "logs", {0: batch(rows(0, 4))}, topic="clicks")
    (logs / "log-start-offset-checkpoint").write_text("0\n1\nclicks 0 0\n")
    (logs / "meta.properties").write_text("version=1\n")
    account = JOBS["convert"](choose(logs), str(tmp_path / "out"))
    inputs = [one for row in account for one in row["inputs"]]
    listed = [(one["file"], one["bytes"], one["sha256"]) for one in inputs]
    assert sorted(listed) == sha256sum(logs)


def test_without_evidence_nothing_is_listed(tmp_path: Path) -> None:
    logs = write_log(tmp_path / "logs", {0: batch(rows(0, 9))})
    (row,) = run_plainly(plan_convert(choose(logs), str(tmp_path / "out"), Conversion(), {}))
    assert "inputs" not in row


def test_people_get_a_table_of_inputs(tmp_path: Path, capsysbinary: Any) -> None:
    logs = write_log(tmp_path / "logs", {0: batch(rows(0, 9))})
    print_account(JOBS["convert"](choose(logs), str(tmp_path / "out")), Format.TEXT)
    lines = [line.split() for line in capsysbinary.readouterr().out.decode().splitlines()]
    at = lines.index(["INPUT", "BYTES", "SHA-256"])
    assert sorted(lines[at + 1 :]) == [
        [path, str(size), digest] for path, size, digest in sha256sum(logs / "orders-0")
    ]
