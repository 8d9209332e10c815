"""`ottla verify --recovery`: what a broker would do with logs when it starts, as rows."""

from collections.abc import Iterator
from typing import Any, Final

from ottla.catalog.chosen import ChosenLogs
from ottla.cli.output import Format, flush, json_line, print_table, write
from ottla.errors import Row
from ottla.format.names import Kind
from ottla.log.check.recovery import Recovery, Step, plan_recovery
from ottla.log.files.partition import Partition
from ottla.log.files.swaps import Reason

_COLUMNS: Final = ("PARTITION", "STEP", "FILE", "POSITION", "WHY")


def print_recovery(chosen: ChosenLogs, style: Format) -> int:
    """Print every step and the log that remains; 1 if a log would be cut or deleted."""
    lost = False
    rows: list[Row] = []
    for directory in chosen.catalog.directories:
        for partition in chosen.of(directory):
            plan = plan_recovery(directory, partition, chosen.storage)
            lost |= _loses_bytes(plan)
            rows += _rows(partition, plan)
    if style is Format.JSONL:
        for row in rows:
            write(json_line(row))
        flush()
    else:
        print_table(_COLUMNS, map(_line, rows))
    return int(lost)


def _loses_bytes(plan: Recovery) -> bool:
    return any(
        action.step is Step.TRUNCATE
        or (
            action.step is Step.DELETE
            and action.file.endswith(Kind.LOG)
            and action.why != Reason.REPLACED
        )
        for action in plan.actions
    )


def _rows(partition: Partition, plan: Recovery) -> Iterator[Row]:
    names = {
        "topic": partition.name.topic,
        "partition": partition.name.partition,
        "path": partition.path,
    }
    for action in plan.actions:
        yield {
            "type": "step",
            **names,
            "step": str(action.step),
            "file": action.file,
            "position": action.position,
            "why": action.why,
        }
    yield {
        "type": "log",
        **names,
        "logStartOffset": plan.log_start_offset,
        "logEndOffset": plan.log_end_offset,
    }


def _line(row: Row) -> tuple[Any, ...]:
    known = row["topic"] is not None
    name = f"{row['topic']}-{row['partition']}" if known else row["path"]
    if row["type"] == "log":
        offsets = f"offsets {row['logStartOffset']} to {row['logEndOffset']} remain"
        return name, "log", None, None, offsets
    return name, row["step"], row["file"], row["position"], row["why"]
