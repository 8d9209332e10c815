"""The command lines of a report: what shows more of a section, and what to run about a row."""

import shlex
from collections.abc import Iterable, Sequence
from typing import Final

from ottla.batch.convert import Loss
from ottla.catalog.chosen import ChosenLogs
from ottla.cli.verdict import remedy_command
from ottla.codec.levels import LEVELS
from ottla.errors import Row
from ottla.format.attributes import CODEC_NAMES
from ottla.format.names import TopicPartition
from ottla.jobs.report.rows import ReportOptions
from ottla.jobs.verify.findings import Remedy

_FLAGS: Final = {  # of `ottla report`, beside what chooses logs
    "--price-per-gb-month": "price",
    "--sample-bytes": "sample_bytes",
    "--split-bytes": "split_bytes",
    "--seed": "seed",
}
_DEFAULT_LEVELS: Final = {CODEC_NAMES[codec]: each.default for codec, each in LEVELS.items()}


def add_commands(
    rows: Iterable[Row], logs: ChosenLogs, options: ReportOptions, now: int
) -> list[Row]:
    """The rows of a report with the commands that go with them; OUT is for the reader to name."""
    rows = _with_one_remedy([*rows])
    return [_with_command(row, logs, options, now) for row in rows]


def _with_one_remedy(rows: list[Row]) -> list[Row]:
    """What is to be salvaged can not be restored as it is: a restore stops at its damage."""
    findings = [row for row in rows if row["type"] == "finding"]
    damaged = {_place(row) for row in findings if row["remedy"] is Remedy.SALVAGE}
    return [
        row | {"remedy": Remedy.SALVAGE}
        if row["type"] == "finding" and row["remedy"] is Remedy.RESTORE and _place(row) in damaged
        else row
        for row in rows
    ]


def _place(finding: Row) -> TopicPartition:
    return TopicPartition(finding["topic"], finding["partition"])


def _with_command(row: Row, logs: ChosenLogs, options: ReportOptions, now: int) -> Row:
    if row["type"] == "report":
        return row | {"commands": _section_commands(logs, options, now, row["compacted"])}
    if row["type"] == "finding":
        rest = {name: value for name, value in row.items() if name != "remedy"}
        return rest | {"command": _remedy_command(row, logs)}
    if row["type"] == "whatIf":
        return row | {"command": _convert_command(row, logs)}
    return row


def _section_commands(
    logs: ChosenLogs, options: ReportOptions, now: int, compacted: Sequence[str]
) -> dict[str, str]:
    """What shows the same of the same logs, as of the same time."""
    paths, chosen = logs.paths, _choosing(logs)
    words = {
        "contents": ["ls", *paths, *chosen],
        "schemas": ["schemas", *paths, *_choosing_topics(logs)],
        "health": ["verify", *paths, *chosen],
        "transactions": ["transactions", *paths, *chosen, "--now", f"@{now}"],
        "whatIf": ["report", *paths, "-o", "report.html", *chosen, *_differing(options)],
        "compaction": ["report", *paths, "-o", "report.html", *chosen, "--compacted", "TOPIC"],
    }
    words["whatIf"] += ["--now", f"@{now}"]
    if compacted:
        its = [word for topic in compacted for word in ("--topic", topic)]
        its += _choosing_partitions(logs)
        words["compaction"] = ["compact", *paths, "--include-active", "--explain", *its]
        words["compaction"] += ["--now", f"@{now}"]
    return {section: shlex.join(["ottla", *each]) for section, each in words.items()}


def _choosing(logs: ChosenLogs) -> list[str]:
    """The flags that choose the same partitions."""
    return _choosing_topics(logs) + _choosing_partitions(logs)


def _choosing_topics(logs: ChosenLogs) -> list[str]:
    topics = logs.choice.topics + logs.choice.globs
    return [word for topic in topics for word in ("--topic", topic)]


def _choosing_partitions(logs: ChosenLogs) -> list[str]:
    return [word for number in logs.choice.partitions for word in ("--partition", str(number))]


def _differing(options: ReportOptions) -> list[str]:
    """The flags of a report that are not as usual; its what-if is what the command is to show."""
    usual = ReportOptions()
    words = [
        word
        for flag, name in _FLAGS.items()
        if getattr(options, name) != getattr(usual, name)
        for word in (flag, str(getattr(options, name)))
    ]
    words += [word for topic in options.compacted for word in ("--compacted", topic)]
    return words if options.compaction else [*words, "--without", "compaction"]


def _remedy_command(finding: Row, logs: ChosenLogs) -> str:
    return remedy_command(finding["remedy"], logs.paths, [_place(finding)], finding["file"])


def _convert_command(tried: Row, logs: ChosenLogs) -> str | None:
    if tried["codec"] is None:
        return None  # a setting of producers
    words = ["ottla", "convert", *logs.paths, "OUT", "--topic", tried["topic"]]
    words += _choosing_partitions(logs)
    words += ["--magic", str(tried["magic"]), "--codec", tried["codec"]]
    if tried["level"] != _DEFAULT_LEVELS.get(tried["codec"]):
        words += ["--level", str(tried["level"])]
    if tried["batchBytes"] is not None:
        words += ["--batch-bytes", str(tried["batchBytes"])]
    if tried["magic"] in (0, 1):
        words += [word for loss in Loss for word in ("--allow-loss", loss)]
    return shlex.join(words)
