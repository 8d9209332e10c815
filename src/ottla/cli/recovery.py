"""`ottla verify --recovery`: what a broker would do with logs when it starts, as rows."""

import argparse
import posixpath
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from ottla.catalog.chosen import ChosenLogs
from ottla.cli.colours import Emphasis, Styled
from ottla.cli.output import Format, flush, json_line, print_table, write, write_line
from ottla.cli.partitions import directories_of, name_of
from ottla.cli.table import Cell, Column, number
from ottla.errors import Row
from ottla.format.names import Kind
from ottla.log.check.recovery import Action, Recovery, Step, plan_recovery
from ottla.log.files.partition import Partition
from ottla.log.files.swaps import Reason
from ottla.options.texts import counted

_COLUMNS: Final = (
    Column("PARTITION"),
    Column("LOG DIRECTORY"),
    Column("STEP"),
    Column("FILE"),
    number("POSITION"),
    Column("WHY"),
)


class Planned(NamedTuple):
    """A partition with what a broker would do to it."""

    partition: Partition
    plan: Recovery

    @property
    def loses_bytes(self) -> bool:
        return any(map(_loses_bytes, self.plan.actions))

    def losses(self) -> "Planned":
        """The same with no other steps than those that lose something."""
        actions = [action for action in self.plan.actions if _loses_bytes(action)]
        return self._replace(plan=self.plan._replace(actions=actions))


def print_recovery(chosen: ChosenLogs, arguments: argparse.Namespace) -> int:
    """Print the steps and the logs that remain; 1 if a log would be cut or deleted."""
    planned = [
        Planned(partition, plan_recovery(directory, partition, chosen.storage))
        for directory in chosen.catalog.directories
        for partition in chosen.of(directory)
    ]
    lossy = [each for each in planned if each.loses_bytes]
    if arguments.format is Format.JSONL:
        for row in _rows(planned):
            write(json_line(row))
    else:
        _print_text(planned if arguments.all else [each.losses() for each in lossy])
        if not arguments.quiet:
            _summarize(planned, lossy, arguments)
    flush()
    return int(bool(lossy))


def _print_text(shown: Sequence[Planned]) -> None:
    rows = list(_rows(shown))
    directory = directories_of(rows)
    if rows:
        print_table(_COLUMNS, [[name_of(row), directory(row), *_cells(row)] for row in rows])


def _summarize(
    planned: Sequence[Planned], lossy: Sequence[Planned], arguments: argparse.Namespace
) -> None:
    """How many logs lose something, and what happens to the others."""
    whole = counted(len(planned), "partition")
    if lossy:
        write_line(Styled(f"{len(lossy)} of {whole} would lose records.", Emphasis.ERROR))
    else:
        write_line(f"None of {whole} would lose records.")
    actions = [action for each in planned for action in each.plan.actions]
    steps = Counter(action.step for action in actions if not _loses_bytes(action))
    if steps and not arguments.all:
        told = ", ".join(f"{count} {step}" for step, count in sorted(steps.items()))
        write_line(f"Steps that lose nothing: {told} (--all shows them).")


def _loses_bytes(action: Action) -> bool:
    return action.step is Step.TRUNCATE or (
        action.step is Step.DELETE
        and action.file.endswith(Kind.LOG)
        and action.why != Reason.REPLACED
    )


def _rows(planned: Sequence[Planned]) -> Iterator[Row]:
    for partition, plan in planned:
        yield from _partition_rows(partition, plan)


def _partition_rows(partition: Partition, plan: Recovery) -> Iterator[Row]:
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


def _cells(row: Row) -> list[Cell]:
    if row["type"] == "log":
        kept = f"offsets {row['logStartOffset']} to {row['logEndOffset']} remain"
        return ["log", "", "", kept]
    # A partition's files are known by their names, and the partition itself stands in front.
    file = "" if row["file"] == row["path"] else posixpath.basename(row["file"])
    step: Cell = row["step"]
    if row["step"] == Step.TRUNCATE:
        step = Styled(row["step"], Emphasis.ERROR)
    return [step, file, "" if row["position"] is None else row["position"], row["why"]]
