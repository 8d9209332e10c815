"""The command lines of a report: what shows more of a section, and what acts on a row."""

import shlex
from collections.abc import Iterable
from typing import Final

from ottla.batch.convert import Loss
from ottla.catalog.selection import Selection
from ottla.errors import Row
from ottla.format.attributes import CODEC_NAMES, Codec
from ottla.jobs.report.rows import ReportOptions
from ottla.jobs.verify.findings import Remedy

_FLAGS: Final = {  # of `ottla report`, beside what chooses logs
    "--price-per-gb-month": "price",
    "--sample-bytes": "sample_bytes",
    "--split-bytes": "split_bytes",
    "--seed": "seed",
}
_WITHOUT_LEVELS: Final = (CODEC_NAMES[Codec.NONE], CODEC_NAMES[Codec.SNAPPY])


def add_commands(
    rows: Iterable[Row], selection: Selection, options: ReportOptions, now: int
) -> list[Row]:
    """The rows of a report with the commands that go with them; OUT is for the reader to name."""
    return [_with_command(row, selection, options, now) for row in rows]


def _with_command(row: Row, selection: Selection, options: ReportOptions, now: int) -> Row:
    if row["type"] == "report":
        return row | {"commands": _section_commands(selection, options, now)}
    if row["type"] == "finding":
        rest = {name: value for name, value in row.items() if name != "remedy"}
        return rest | {"command": _remedy_command(row, selection)}
    if row["type"] == "whatIf":
        return row | {"command": _convert_command(row, selection)}
    return row


def _section_commands(selection: Selection, options: ReportOptions, now: int) -> dict[str, str]:
    """What shows the same of the same logs, as of the same time."""
    paths, chosen = selection.paths, _choosing(selection)
    words = {
        "contents": ["ls", *paths, *chosen],
        "health": ["verify", *paths, *chosen],
        "transactions": ["transactions", *paths, *chosen, "--now", str(now)],
        "whatIf": ["report", *paths, "-o", "report.html", *chosen, *_differing(options)],
        "compaction": ["compact", *paths, "OUT", "--include-active", "--explain", *chosen],
    }
    words["whatIf"] += ["--now", str(now)]
    words["compaction"] += ["--now", f"@{now}"]
    return {section: shlex.join(["ottla", *each]) for section, each in words.items()}


def _choosing(selection: Selection) -> list[str]:
    """The flags that choose the same partitions."""
    words = [word for topic in selection.topics for word in ("--topic", topic)]
    return words + _choosing_partitions(selection)


def _choosing_partitions(selection: Selection) -> list[str]:
    return [word for number in selection.partitions for word in ("--partition", str(number))]


def _differing(options: ReportOptions) -> list[str]:
    """The flags of a report that are not as usual; its what-if is what the command is to show."""
    usual = ReportOptions()
    words = [
        word
        for flag, name in _FLAGS.items()
        if getattr(options, name) != getattr(usual, name)
        for word in (flag, str(getattr(options, name)))
    ]
    return words if options.compaction else [*words, "--without", "compaction"]


def _remedy_command(finding: Row, selection: Selection) -> str:
    remedy = finding["remedy"]
    if remedy is Remedy.DUMP:
        return shlex.join(["ottla", remedy, finding["file"]])
    writes = remedy in (Remedy.SALVAGE, Remedy.RESTORE)
    words = ["ottla", remedy, *selection.paths, *(["OUT"] if writes else [])]
    if finding["topic"] is not None:
        words += ["--topic", finding["topic"], "--partition", str(finding["partition"])]
    return shlex.join(words)


def _convert_command(tried: Row, selection: Selection) -> str | None:
    if tried["codec"] is None:
        return None  # a setting of producers
    words = ["ottla", "convert", *selection.paths, "OUT", "--topic", tried["topic"]]
    words += _choosing_partitions(selection)
    words += ["--magic", str(tried["magic"]), "--codec", tried["codec"]]
    if tried["codec"] not in _WITHOUT_LEVELS:
        words += ["--level", str(tried["level"])]
    words += ["--batch-bytes", str(tried["batchBytes"])]
    if tried["magic"] in (0, 1):
        words += [word for loss in Loss for word in ("--allow-loss", loss)]
    return shlex.join(words)
