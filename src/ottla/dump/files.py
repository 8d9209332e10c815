"""Dump files one after another: read windows, write lines of their parts, then how a file ended."""

import os
from collections.abc import Iterable, Iterator

from ottla.batch.decode import Decoder
from ottla.batch.memory import allocate_from_pool
from ottla.batch.parts import Part, read_headers, read_parts
from ottla.dump.lines import LinePrinter, Write
from ottla.dump.request import Request
from ottla.dump.sources import DumpSource
from ottla.dump.style import FileEnd, Problem
from ottla.format.names import TopicPartition, parse_directory_name
from ottla.internal import INTERNAL_TOPICS
from ottla.kernels.tables import Wanted
from ottla.log.files.text_logs import refuse_text
from ottla.log.read.index_entries import entries_beside
from ottla.log.read.windows import Window, read_windows
from ottla.storage.files import File, open_file

_WANTED = Wanted.KEYS | Wanted.VALUES | Wanted.HEADERS | Wanted.INDEXES | Wanted.CONTROL


def dump_files(sources: Iterable[DumpSource], request: Request, write: Write) -> bool:
    """Dump files until the wanted number of records is written; return whether one has an error."""
    remaining = request.max_messages
    found_error = False
    for source in sources:
        if remaining == 0:
            break
        partition = _partition_of(source.path)
        printer = LinePrinter(
            source.path,
            request,
            write,
            bounds=source.bounds,
            partition=partition,
            decoder=_decoder_for(partition, request),
            remaining=remaining,
        )
        with open_file(source.path) as file:
            refuse_text(file)
            dump_file(file, source, printer)
        remaining = printer.remaining
        found_error |= printer.found_error
    return found_error


def _partition_of(path: str) -> TopicPartition:
    return parse_directory_name(os.path.basename(os.path.dirname(os.path.abspath(path))))[0]


def _decoder_for(partition: TopicPartition, request: Request) -> str | None:
    if request.decoder is not None:
        return request.decoder
    if request.decodes and partition.topic in INTERNAL_TOPICS:
        return partition.topic
    return None


def dump_file(file: File, source: DumpSource, printer: LinePrinter) -> None:
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
        find_next=entries_beside(file),
        max_batch_bytes=request.max_batch_bytes,
    )
    for window in windows:
        for part in _read_window(window, decoder, request):
            printer.print_part(part)
            if printer.stopped_at is not None:
                break
        if printer.stopped_at is not None:
            break
        position = window.stop
        if window.violation is not None:
            printer.print_problem(Problem(window.violation, resync=window.resync))
            position = window.stop if window.resync is None else window.resync
    _print_end(file, printer, position, stop)


def _read_window(window: Window, decoder: Decoder, request: Request) -> Iterator[Part]:
    if request.opens_records:
        return read_parts(decoder, window.region, window.batches)
    headers = read_headers(window.region, window.batches, check_crcs=request.checks_crcs)
    return iter((headers,))


def _print_end(file: File, printer: LinePrinter, position: int, stop: int) -> None:
    stopped = printer.stopped_at
    looked = stopped is None and stop == file.size
    end = FileEnd(
        position=position if stopped is None else stopped,
        size=file.size,
        trailing=file.size - position if looked else None,
        batches=printer.batches,
        records=printer.records,
        errors=printer.errors,
    )
    printer.write(printer.style.say_end(printer.path, end))
