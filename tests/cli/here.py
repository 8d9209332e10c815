"""Whole commands in this process, those of jobs too: their tasks run here, one after another.

The modules that translate jobs to Spark are replaced by ones that call the same tasks. A command
that can do so by itself (`--engine local`) needs nothing of this but `run`.
"""

import contextlib
import io
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any, NamedTuple

from jobs.plain_report import PlainRunner

from jobs.compacting import compact_plainly, explain_plainly
from jobs.plain import publish_plainly
from ottla.cli import main
from ottla.jobs.output import OutputJob
from ottla.jobs.verify.plan import VerifyOptions, judge_partitions, plan_verify, see_part
from ottla.log.files.partition import Partition
from ottla.publish.account import read_account
from ottla.publish.journal import is_published, job_name, run_job

Row = dict[str, Any]
_ORDER = ("log", "segment", "start", "window")


class Ran(NamedTuple):
    status: int
    out: str
    err: str


def run(*words: object) -> Ran:
    """What a command returns and prints; `main` raises SystemExit for flags it does not know."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
    err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
    with _engine(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main([str(word) for word in words])
        except SystemExit as stop:
            status = int(stop.code or 0)
        out.flush()
        err.flush()
    return Ran(status, _text(out), _text(err))


def _text(stream: io.TextIOWrapper) -> str:
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode("utf-8", "surrogateescape")


@contextlib.contextmanager
def _engine() -> Iterator[None]:
    before = {name: sys.modules.get(name) for name in _MODULES}
    for name, members in _MODULES.items():
        module = ModuleType(name)
        module.__dict__.update(members)
        sys.modules[name] = module
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                del sys.modules[name]
            else:
                sys.modules[name] = old


@contextlib.contextmanager
def _session(*_: object) -> Iterator[None]:
    yield None


def _run_output_job(_: None, plan: OutputJob, *, quiet: bool = False) -> list[Row]:
    with run_job(plan.out, job_name(plan.inputs, plan.options), plan.storage) as job:
        return read_account(job) if is_published(job) else publish_plainly(job, plan)


class _Frame:
    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = rows

    def toLocalIterator(self) -> Iterator[Any]:  # noqa: N802
        return iter([_SparkRow(row) for row in self.rows])


class _SparkRow:
    def __init__(self, row: Row) -> None:
        self.row = row

    def asDict(self) -> Row:  # noqa: N802
        return self.row


@contextlib.contextmanager
def _verify(
    _: None,
    partitions: Sequence[Partition],
    options: VerifyOptions,
    *,
    quiet: bool = False,
) -> Iterator[tuple[_Frame, list[Row]]]:
    parts = plan_verify(partitions, options)
    seen = [row for part in parts for each in see_part(part, options) for row in each.to_pylist()]
    seen.sort(key=lambda row: tuple(row[name] for name in _ORDER))
    verdicts = [
        row
        for each in judge_partitions(iter(seen), partitions, options)
        for row in each.to_pylist()
    ]
    accounts = [json.loads(row["account"]) for row in verdicts if row["account"] is not None]
    rows = [row for row in verdicts if row.pop("account") is None]
    yield _Frame(rows), accounts


def _now(plan: Any) -> Any:
    return plan if plan.now is not None else replace(plan, now=int(time.time() * 1000))


_MODULES: dict[str, dict[str, Any]] = {
    "ottla.spark.session": {"run_session": _session},
    "ottla.spark.run": {"run_output_job": _run_output_job},
    "ottla.spark.verify": {"verify": _verify},
    "ottla.spark.compact": {
        "compact": lambda _, plan, quiet: compact_plainly(_now(plan)),
        "explain_compaction": lambda _, plan, quiet: explain_plainly(_now(plan)),
    },
    "ottla.spark.report": {"SparkRunner": lambda *_: PlainRunner()},
}
