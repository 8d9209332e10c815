"""`ottla convert`: logs in another magic, codec or batch size, at the offsets they had."""

import argparse

from ottla.batch.convert import DEFAULT_BATCH_BYTES, Conversion, Loss
from ottla.cli.job import chosen_logs, run_plan
from ottla.cli.parsers.convert import CODECS, parse_settings
from ottla.jobs.output import has_errors
from ottla.jobs.rewrite.convert import plan_convert
from ottla.log.write.index_builder import SegmentConfig


def run(arguments: argparse.Namespace) -> int:
    """Convert; a broken batch stops it. 1 if remote storage has not all of a log."""
    conversion = Conversion(
        magic=arguments.magic,
        codec=None if arguments.codec is None else CODECS[arguments.codec],
        level=arguments.level,
        allowed=frozenset(map(Loss, arguments.allow_loss)),
        batch_bytes=arguments.batch_bytes or DEFAULT_BATCH_BYTES,
    )
    plan = plan_convert(
        chosen_logs(arguments),
        arguments.out,
        conversion,
        parse_settings(arguments.set),
        rebatches=arguments.batch_bytes is not None,
        split_bytes=arguments.split_bytes,
        config=SegmentConfig(segment_bytes=arguments.segment_bytes),
    )
    run_plan(plan, arguments, arguments.format)
    return int(has_errors(plan.logs))
