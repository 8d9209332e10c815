"""A report in this process."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ottla.catalog.chosen import ChosenLogs
from ottla.engine.local import LocalEngine
from ottla.jobs.report.rows import ReportOptions
from ottla.jobs.report.steps import build_report
from ottla.jobs.report.what_if import Setting


def build_here(
    chosen: ChosenLogs, options: ReportOptions, settings: Sequence[Setting], now: int
) -> list[dict[str, Any]]:
    """The rows of a report whose tasks run on threads."""
    with TemporaryDirectory() as folder:
        scratch = str(Path(folder) / "report")
        return build_report(LocalEngine(), scratch, chosen, options, settings, now)
