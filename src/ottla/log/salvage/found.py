"""What the first reading of a segment finds, and how it is kept until the second.

A row for each intact batch, in order of position, and a violation for each row that is UNREADABLE,
in the same order. Both come in pieces and are read in pieces, so that memory does not grow with a
segment. In the staging of a job they are files: rows as they are, violations as lines of JSON.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from ottla.batch.new_batch import CURRENT_MAGIC
from ottla.errors import PublishError, Rule, Violation
from ottla.format.arrays import Bools, Int64s
from ottla.format.sentinels import NO_OFFSET
from ottla.kernels.search.salvage import Intact
from ottla.storage.files import File, open_file
from ottla.storage.listing import Entry
from ottla.storage.object_store import StorageOptions
from ottla.storage.writing import open_output

# Verdicts: what the search alone says of a batch.
USABLE: Final = 0
EMBEDDED: Final = 1  # it lies in the value of a record
OUTSIDE: Final = 2  # its offsets are below the base of its segment, or leave none for the log end
UNREADABLE: Final = 3  # its records do not decode
BACKWARDS: Final = 4  # it is a wrapper that ends, as it says, before its messages begin

_ROW: Final = np.dtype(
    [
        ("position", "<i8"),
        ("size", "<i4"),
        ("base_offset", "<i8"),
        ("last_offset", "<i8"),
        ("magic", "u1"),
        ("verdict", "u1"),
    ]
)
_RULES: Final = {str(rule): rule for rule in Rule}
_KINDS: Final = {
    "rule": str,
    "severity": str,
    "stage": str,
    "topic": str | None,
    "partition": int | None,
    "file": str,
    "position": int,
    "size": int,
    "offset": int | None,
    "lastOffset": int | None,
    "found": str | None,
    "expected": str | None,
    "detail": str,
}
_SAME_NAMES: Final = [field.name for field in fields(Violation) if field.name in _KINDS][1:]
_PIECE_ROWS: Final = 1 << 16
_BLOCK_BYTES: Final = 1 << 20


class FoundPiece(NamedTuple):
    """Some rows, and the violations of those that are UNREADABLE."""

    rows: Intact
    violations: Sequence[Violation]


class FoundBatches(Protocol):
    """What was found in a segment; it can be read more than once."""

    def rows(self) -> Iterator[Intact]:
        """The rows, piece by piece."""
        ...

    def pieces(self) -> Iterator[FoundPiece]:
        """The same pieces, with their violations."""
        ...


@dataclass(frozen=True, slots=True)
class StagedFound:
    """What was found in a log, in files; the one of violations is there if there are any.

    The files are believed no further than they fit the log: somebody else may have written them.
    """

    path: str
    lines_path: str
    count: int
    unreadable: int
    storage: StorageOptions
    log: Entry

    def rows(self) -> Iterator[Intact]:
        reached = unreadable = 0
        with open_file(self.path, self.storage) as file:
            if file.size != self.count * _ROW.itemsize:
                raise self._unfit(self.path)
            for start in range(0, self.count, _PIECE_ROWS):
                table = np.empty(min(_PIECE_ROWS, self.count - start), dtype=_ROW)
                file.fill(table.view(np.uint8), start * _ROW.itemsize, table.nbytes)
                rows = Intact(*(np.ascontiguousarray(table[name]) for name in Intact._fields))
                if not _fit(rows, reached, self.log.size):
                    raise self._unfit(self.path)
                reached = int(rows.position[-1]) + int(rows.size[-1])
                unreadable += int(np.count_nonzero(rows.verdict == UNREADABLE))
                yield rows
        if unreadable != self.unreadable:
            raise self._unfit(self.path)

    def pieces(self) -> Iterator[FoundPiece]:
        with ExitStack() as stack:
            lines: Iterator[bytes] = iter(())
            if self.unreadable:
                lines = _lines(stack.enter_context(open_file(self.lines_path, self.storage)))
            for rows in self.rows():
                yield FoundPiece(rows, self._violations(rows, lines))
            if next(lines, None) is not None:
                raise self._unfit(self.lines_path)

    def _violations(self, rows: Intact, lines: Iterator[bytes]) -> list[Violation]:
        """The violations of rows from as many lines; each must be of its row."""
        violations = []
        for row in np.flatnonzero(rows.verdict == UNREADABLE).tolist():
            violation = _parse_violation(next(lines, b""))
            span = (self.log.path, int(rows.position[row]), int(rows.size[row]))
            if violation is None or (violation.file, violation.position, violation.size) != span:
                raise self._unfit(self.lines_path)
            violations.append(violation)
        return violations

    def _unfit(self, path: str) -> PublishError:
        return PublishError(
            f"{path} is not what was found in {self.log.path}: delete its job, and salvage again"
        )


def _fit(rows: Intact, reached: int, log_size: int) -> bool:
    """Whether rows can be batches of a log, one behind another, from position `reached` on."""
    size = rows.size.astype(np.int64)
    fits = (size > 0) & (size <= log_size) & (rows.position >= reached)
    fits &= rows.position <= log_size - size
    fits &= (rows.magic <= CURRENT_MAGIC) & (rows.verdict <= BACKWARDS)
    return bool(fits.all() and (rows.position[1:] >= rows.position[:-1] + size[:-1]).all())


def stage_found(
    pieces: Iterable[FoundPiece],
    path: str,
    lines_path: str,
    storage: StorageOptions,
    log: Entry,
) -> StagedFound:
    """Write what comes, piece by piece."""
    count = unreadable = 0
    with ExitStack() as stack:
        rows = stack.enter_context(open_output(path, storage))
        lines: Any = None
        for piece in pieces:
            table = np.empty(piece.rows.position.size, dtype=_ROW)
            for name, column in zip(Intact._fields, piece.rows, strict=True):
                table[name] = column
            rows.write(table.tobytes())
            if piece.violations and lines is None:
                lines = stack.enter_context(open_output(lines_path, storage))
            for violation in piece.violations:
                lines.write(json.dumps(violation.as_row()).encode() + b"\n")
            count += table.size
            unreadable += len(piece.violations)
    return StagedFound(path, lines_path, count, unreadable, storage, log)


def _lines(file: File) -> Iterator[bytes]:
    """The lines of a file; at the end, or behind what is too long for one, whatever is left."""
    rest = b""
    for start in range(0, file.size, _BLOCK_BYTES):
        block = np.empty(min(_BLOCK_BYTES, file.size - start), dtype=np.uint8)
        file.fill(block, start, block.size)
        *whole, rest = (rest + block.tobytes()).split(b"\n")
        yield from whole
        if len(rest) > _BLOCK_BYTES:
            break
    if rest:
        yield rest


def _parse_violation(line: bytes) -> Violation | None:
    """What `Violation.as_row` made a line of; None if it made nothing like it."""
    try:
        row = json.loads(line)
        if row.keys() != _KINDS.keys():
            return None
        if not all(isinstance(row[name], kind) for name, kind in _KINDS.items()):
            return None
        return Violation(
            rule=_RULES[row["rule"]],
            last_offset=row["lastOffset"],
            **{name: row[name] for name in _SAME_NAMES},
        )
    except (AttributeError, KeyError, ValueError, RecursionError):
        return None


def take_rows(rows: Intact, chosen: Bools | slice) -> Intact:
    """The chosen rows of every column."""
    columns: list[Any] = [column[chosen] for column in rows]
    return Intact(*columns)


def concat_rows(pieces: Sequence[Intact]) -> Intact:
    """Rows one after another."""
    empty = np.empty(0, dtype=_ROW)
    columns: list[Any] = [
        np.concatenate([empty[name], *(piece[at] for piece in pieces)])
        for at, name in enumerate(Intact._fields)
    ]
    return Intact(*columns)


def starts_of(rows: Intact) -> Int64s:
    """Where batches begin; a compressed v0 or v1 message that was not opened has only an end."""
    unknown = (rows.base_offset == NO_OFFSET) & (rows.magic < 2)
    return np.where(unknown, rows.last_offset, rows.base_offset)
