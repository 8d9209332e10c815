"""`ottla dump`: batches and records of segments, as JSON lines or as kafka-dump-log has them."""

import argparse
import os

from ottla.batch.decode import DEFAULT_MAX_BATCH_BYTES
from ottla.cli.job import choice_of, limits_of, storage_of
from ottla.cli.output import Format, flush, write
from ottla.dump.files import dump_files
from ottla.dump.jsonl import JSONL
from ottla.dump.request import HeaderFilter, Request
from ottla.dump.sources import find_sources
from ottla.dump.text import TEXT


def run(arguments: argparse.Namespace) -> int:
    """Dump the files one after another."""
    chosen = choice_of(arguments), limits_of(arguments), storage_of(arguments)
    sources = find_sources(arguments.paths, *chosen)
    found_error = dump_files(sources, _request(arguments), write)
    flush()
    return int(found_error)


def _request(arguments: argparse.Namespace) -> Request:
    is_text = arguments.format is Format.TEXT
    return Request(
        style=TEXT if is_text else JSONL,
        keys=tuple(os.fsencode(key) for key in arguments.key),
        headers=tuple(_header_filter(header) for header in arguments.header),
        checks_crcs=not arguments.no_check_crcs,
        opens_records=not arguments.no_records,
        decodes=is_text if arguments.decode is None else arguments.decode,
        decoder=arguments.decoder,
        max_messages=arguments.max_messages,
        quiet=arguments.quiet,
        max_batch_bytes=arguments.max_batch_bytes or DEFAULT_MAX_BATCH_BYTES,
    )


def _header_filter(text: str) -> HeaderFilter:
    """
    >>> _header_filter("trace-id=a=b"), _header_filter("trace-id")
    (HeaderFilter(key=b'trace-id', value=b'a=b'), HeaderFilter(key=b'trace-id', value=None))
    """
    key, equals, value = os.fsencode(text).partition(b"=")
    return HeaderFilter(key, value if equals else None)
