"""`ottla restore`: a copy that a broker can mount, of some records, at the offsets they had."""

import argparse
from dataclasses import replace

from ottla.cli.flags import parse_pairs
from ottla.cli.job import chosen_logs, run_plan, where_of
from ottla.jobs.output import has_errors
from ottla.jobs.rewrite.restore import Renaming, compile_filter, plan_restore
from ottla.log.write.index_builder import SegmentConfig


def run(arguments: argparse.Namespace) -> int:
    """Restore; a broken batch stops it. 1 if remote storage has not all of a log."""
    plan = plan_restore(
        chosen_logs(arguments),
        arguments.out,
        replace(
            compile_filter(tuple(arguments.key), arguments.key_pattern, tuple(arguments.header)),
            where=where_of(arguments),
        ),
        Renaming(
            parse_pairs(arguments.rename, "TOPIC=NEW"),
            parse_pairs(arguments.topic_id, "TOPIC=ID"),
        ),
        split_bytes=arguments.split_bytes,
        config=SegmentConfig(segment_bytes=arguments.segment_bytes),
    )
    run_plan(plan, arguments, arguments.format)
    return int(has_errors(plan.logs))
