"""Read a slice: its records, its batch headers, or what is wrong with it.

A slice says which bytes and which records; `log/read` does the reading. Here is only what a plan
adds to it: files that are gone or shrank since they were listed, and where the slice ends.
"""

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from ottla.arrow.to_arrow import batches_to_arrow, wanted_flags
from ottla.catalog.limits import report_loss
from ottla.catalog.slices import Slice
from ottla.connector import chooser, leave_out_unfit, needed_columns
from ottla.errors import Violation, require_sound
from ottla.log.files.transaction_index import read_transaction_index
from ottla.log.read.index_entries import entries_of
from ottla.log.read.records import (
    Mode,
    Reading,
    RecordRequest,
    choose_batches,
    name_violations,
    read_records,
)
from ottla.log.read.windows import Ending, Window, read_windows
from ottla.options.read import SliceAccess
from ottla.storage.files import File, open_remaining
from ottla.where.evaluate import FilePlace
from ottla.where.prune import skip_batches

Watch = Callable[[Iterator[Window]], Iterator[Window]]


def read_slice(
    part: Slice, columns: Sequence[str], access: SliceAccess, watch: Watch = iter
) -> Iterator[Reading]:
    """The records of a slice and what was left out of them; the mode is for who uses them.

    All windows pass through `watch`, with the batches that will not be opened.
    """
    needed = [*columns, *needed_columns(access.where)]
    wanted = RecordRequest(wanted_flags(needed), part.bounds, part.name, access.max_batch_bytes)
    choose = chooser(access.where, FilePlace(part.name, part.log.path))
    return read_records(_windows(part, access, watch), wanted, choose)


def read_for_connector(
    part: Slice, columns: Sequence[str], access: SliceAccess, watch: Watch = iter
) -> Iterator[Reading]:
    """As `read_slice`, without records that the connector's columns have no room for."""
    return leave_out_unfit(read_slice(part, columns, access, watch), part.log.path, part.name)


def read_violations(part: Slice, access: SliceAccess) -> Iterator[Violation]:
    """What the connector's rows leave out of the slice."""
    for reading in read_for_connector(part, (), access):
        yield from reading.violations


def read_headers(part: Slice, access: SliceAccess, mode: Mode) -> Iterator[pa.RecordBatch]:
    """One row per batch with its CRC verdict; no record is opened."""
    for window in _windows(part, access):
        if window.batches.position.size:
            yield batches_to_arrow(window.batches)
        if mode is Mode.FAILFAST and window.violation is not None:
            require_sound(name_violations([window.violation], part.name))


def _windows(part: Slice, access: SliceAccess, watch: Watch = iter) -> Iterator[Window]:
    """Windows of the slice with only the batches that are wanted."""
    file = _open(part, access)
    if file is None:
        return
    aborted = read_transaction_index(part.aborted) if part.aborted else None
    with file:
        ending = part.ending
        if file.size < part.stop:
            report_loss(
                f"{file.path} shrank to {file.size} bytes while bytes up to {part.stop} "
                "were to be read",
                access,
            )
            ending = Ending.LOG  # half a batch is part of the loss
        windows = read_windows(
            file,
            start=part.start,
            end=min(part.stop, file.size),
            ending=ending,
            find_next=entries_of(file, part.index, part.base_offset, access.storage),
            max_batch_bytes=access.max_batch_bytes,
        )
        chosen = choose_batches(watch(windows), part.bounds, aborted)
        yield from skip_batches(chosen, access.where)


def _open(part: Slice, access: SliceAccess) -> File | None:
    """The file; None if it is gone and that is to be no error."""
    try:
        return open_remaining(part.log, access.storage)
    except FileNotFoundError as error:
        report_loss(str(error), access)
        return None
