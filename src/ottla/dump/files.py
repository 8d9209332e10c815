"""Dump files one after another: read windows, write lines of their parts, then how a file ended."""

import os
import posixpath
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from typing import Final, NamedTuple

from ottla.batch.decode import Decoder
from ottla.batch.memory import allocate_from_pool
from ottla.batch.parts import Part, read_headers, read_parts
from ottla.dump.lines import LinePrinter, Write
from ottla.dump.request import Request
from ottla.dump.side_files import dump_side_file
from ottla.dump.sources import STDIN, DumpSource
from ottla.dump.style import FileEnd, Problem
from ottla.format.names import Kind, TopicPartition, parse_directory_name
from ottla.internal import INTERNAL_TOPICS
from ottla.kernels.tables import Wanted
from ottla.log.files.foreign import require_segment, side_file
from ottla.log.read.ahead import decode_ahead
from ottla.log.read.index_entries import FindEntry, entries_beside, entries_of
from ottla.log.read.windows import Window, read_windows
from ottla.storage.files import File, open_file, open_stream

_STDIN: Final = 0  # the descriptor
_WANTED = Wanted.KEYS | Wanted.VALUES | Wanted.HEADERS | Wanted.INDEXES | Wanted.CONTROL


Flush = Callable[[], None]


def _keep() -> None:
    """Leave to the writer when it lets go of lines."""


def dump_files(
    sources: Iterable[DumpSource], request: Request, write: Write, flush: Flush = _keep
) -> bool:
    """Dump files until the wanted number of records is written; return whether one has an error.

    What was written of a stream is flushed before more of it is waited for.
    """
    remaining = request.max_messages
    found_error = False
    for source in sources:
        if remaining == 0:
            break
        partition = _partition_of(source)
        if side_file(posixpath.basename(source.path)) is not None:
            found_error |= dump_side_file(source.path, partition, request, write)
            continue
        printer = LinePrinter(
            source.path,
            request,
            write,
            bounds=source.bounds,
            partition=partition,
            decoder=_decoder_for(partition, request),
            remaining=remaining,
        )
        with _open(source) as file:
            if source.segment is None:
                require_segment(file)
            dump_file(file, source, printer, flush if file.is_stream else _keep)
        remaining = printer.remaining
        found_error |= printer.found_error
    return found_error


def _open(source: DumpSource) -> File:
    if source.segment is not None:
        return open_file(source.segment.log)
    path = source.path
    return open_stream(_STDIN, path) if path == STDIN else open_file(path)


def _partition_of(source: DumpSource) -> TopicPartition:
    if source.path == STDIN or source.segment is not None:
        return source.name
    folder = os.path.dirname(os.path.abspath(source.path))
    return parse_directory_name(os.path.basename(folder))[0]


def _find_next(file: File, source: DumpSource) -> FindEntry:
    segment = source.segment
    if segment is None:
        return entries_beside(file)
    return entries_of(file, segment.side_files.get(Kind.OFFSET_INDEX), segment.base_offset)


def _decoder_for(partition: TopicPartition, request: Request) -> str | None:
    if request.decoder is not None:
        return request.decoder
    if request.decodes and partition.topic in INTERNAL_TOPICS:
        return partition.topic
    return None


def dump_file(file: File, source: DumpSource, printer: LinePrinter, flush: Flush) -> None:
    """Print the wanted part of one file, from its first batch to where reading ends."""
    request = printer.request
    printer.write(printer.style.open_file(printer.path))
    decoder = Decoder(
        _WANTED,
        check_crcs=request.checks_crcs,
        max_batch_bytes=request.max_batch_bytes,
        allocate=allocate_from_pool,
    )
    position = source.start
    stop = file.size if source.stop is None else source.stop
    windows = read_windows(
        file,
        start=position,
        end=stop,
        ending=source.ending(file.size),
        find_next=_find_next(file, source),
        max_batch_bytes=request.max_batch_bytes,
    )
    if request.where is not None:
        from ottla.where.prune import skip_batches  # as in `lines.py`

        windows = skip_batches(windows, request.where)
    parts = _read_all(windows, decoder, request)
    # Not for a stream: it may give nothing for hours, and Ctrl-C would wait for the thread.
    with closing(parts if file.is_stream else decode_ahead(parts)) as met:
        for part in met:
            if isinstance(part, _WindowEnd):
                position = part.position
                if part.problem is not None:
                    printer.print_problem(part.problem)
                flush()
                continue
            printer.print_part(part)
            if printer.stopped_at is not None:
                break
    _print_end(file, printer, position, stop)


class _WindowEnd(NamedTuple):
    """Where reading goes on, and what is wrong before that."""

    position: int
    problem: Problem | None


def _read_all(
    windows: Iterator[Window], decoder: Decoder, request: Request
) -> Generator[Part | _WindowEnd]:
    """Parts, which need nothing of their window any more, and where windows end."""
    for window in windows:
        if request.opens_records:
            yield from read_parts(decoder, window.region, window.batches)
        else:
            yield read_headers(window.region, window.batches, check_crcs=request.checks_crcs)
        if window.violation is None:
            yield _WindowEnd(window.stop, None)
        else:
            problem = Problem(window.violation, resync=window.resync)
            yield _WindowEnd(window.stop if window.resync is None else window.resync, problem)


def _print_end(file: File, printer: LinePrinter, position: int, stop: int) -> None:
    stopped = printer.stopped_at
    looked = stopped is None and stop == file.size
    size = file.measure() if looked else None if file.is_stream else file.size
    if size is not None:
        position = min(position, size)  # the end of a stream may have come before a batch's
    end = FileEnd(
        position=position if stopped is None else stopped,
        size=size,
        trailing=size - position if looked and size is not None else None,
        batches=printer.batches,
        records=printer.records,
        errors=printer.errors,
    )
    printer.write(printer.style.say_end(printer.path, end))
