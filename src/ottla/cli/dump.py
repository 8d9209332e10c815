"""`ottla dump`: batches and records of segments, as JSON lines or as kafka-dump-log has them."""

import argparse
import os
from dataclasses import replace

from ottla.batch.decode import DEFAULT_MAX_BATCH_BYTES
from ottla.catalog.catalog import Catalog, list_catalog
from ottla.cli.job import choice_of, limits_of, storage_of, where_of
from ottla.cli.output import Format, flush, tell, write
from ottla.dump.files import dump_files
from ottla.dump.jsonl import JSONL
from ottla.dump.request import HeaderFilter, Request
from ottla.dump.sources import find_sources
from ottla.dump.text import TEXT
from ottla.errors import OptionError
from ottla.options.export import ValueAs
from ottla.schemas.plans import PayloadPlans


def run(arguments: argparse.Namespace) -> int:
    """Dump the files one after another."""
    chosen = choice_of(arguments), limits_of(arguments), storage_of(arguments)
    paths = arguments.paths + [path for word in arguments.files for path in word.split(",")]
    if not paths:
        raise OptionError("what to dump is missing: name a file or a directory, or - for stdin")
    request, catalog = _request(arguments), None
    if arguments.key_as.needs_schemas or arguments.value_as.needs_schemas:
        catalog = _catalog(paths, arguments)
        request = replace(request, payloads=_payloads(catalog, arguments))
    elif {arguments.key_as, arguments.value_as} != {ValueAs.BINARY}:
        raise OptionError("--encoding says how a dump shows bytes; --value-as is for schemas")
    sources = find_sources(paths, *chosen, request.where, catalog)
    found_error = dump_files(sources, request, write, flush)
    flush()
    return int(found_error)


def _catalog(paths: list[str], arguments: argparse.Namespace) -> Catalog:
    """What lies in the paths, when values are decoded by what lies beside them."""
    if arguments.no_payload or "-" in paths:
        raise OptionError("--value-as and --key-as need logs whose bytes may be shown")
    return list_catalog(paths, storage_of(arguments))


def _payloads(catalog: Catalog, arguments: argparse.Namespace) -> dict[str, PayloadPlans]:
    """The plans of the topics that are dumped, by the schemas beside them or elsewhere."""
    from ottla.catalog.logs import find_logs
    from ottla.format.names import UNNAMED
    from ottla.jobs.schemas.resolve import Asked, notes_of, resolve_topics

    logs = [log for log in find_logs(catalog, choice_of(arguments)) if log.name != UNNAMED]
    most = arguments.max_batch_bytes or DEFAULT_MAX_BATCH_BYTES
    asked = Asked(arguments.key_as, arguments.value_as, arguments.wire, most)
    plans = resolve_topics(catalog, logs, asked, arguments.schemas)
    for note in [] if arguments.quiet else notes_of(plans.values()):
        tell(f"ottla: {note}")
    return {topic: each for topic, each in plans.items() if each.key or each.value}


def _request(arguments: argparse.Namespace) -> Request:
    if arguments.no_payload:
        _refuse_showing(arguments)
    if arguments.where is not None and arguments.no_records:
        raise OptionError("--where chooses records, and --no-records opens none: leave one out")
    return Request(
        style=TEXT if arguments.format is Format.TEXT else JSONL,
        keys=tuple(os.fsencode(key) for key in arguments.key),
        headers=tuple(_header_filter(header) for header in arguments.header),
        where=where_of(arguments),
        checks_crcs=not arguments.no_check_crcs,
        opens_records=not arguments.no_records,
        decodes=_decodes(arguments),
        decoder=arguments.decoder,
        max_messages=arguments.max_messages,
        quiet=arguments.quiet,
        max_batch_bytes=arguments.max_batch_bytes or DEFAULT_MAX_BATCH_BYTES,
        encoding=arguments.encoding,
        hides_payload=arguments.no_payload,
    )


def _decodes(arguments: argparse.Namespace) -> bool:
    """Text is decoded by itself, unless nothing of it is to be seen."""
    if arguments.decode is not None:
        return bool(arguments.decode)
    return arguments.format is Format.TEXT and not arguments.no_payload


def _refuse_showing(arguments: argparse.Namespace) -> None:
    """Refuse what shows bytes together with what hides them."""
    for name in ("encoding", "decode", "decoder", "no_check_crcs"):
        if getattr(arguments, name):
            flag = "a decoder" if name == "decoder" else f"--{name.replace('_', '-')}"
            raise OptionError(f"--no-payload shows no byte of a record: leave out {flag}")


def _header_filter(text: str) -> HeaderFilter:
    """
    >>> _header_filter("trace-id=a=b"), _header_filter("trace-id")
    (HeaderFilter(key=b'trace-id', value=b'a=b'), HeaderFilter(key=b'trace-id', value=None))
    """
    key, equals, value = os.fsencode(text).partition(b"=")
    return HeaderFilter(key, value if equals else None)
