"""What Spark calls the things that errors are about; for the methods that Spark calls."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from ottla.errors import Term, WordedError
from ottla.options.read import ReadOptions
from ottla.schemas.plans import PayloadPlans

OPTIONS: Final = {
    Term.FAIL_ON_DATA_LOSS: "option failOnDataLoss",
    Term.FOLLOW_LINKS: "option followLinks=true",
    Term.NO_MATCH: "option startingOffsetsByTimestampStrategy",
    Term.TOPIC: "the topic option",
    Term.TOPIC_IDS: "option topicIds",
    Term.PARTITION_COUNT: "option numPartitions",
    Term.LEADER_EPOCH: "option leaderEpoch",
    Term.KEEP_OFFSETS: "option keepOffsets",
    Term.SALVAGE: "`ottla salvage`",
    Term.SCHEMAS: "`ottla schemas`",
    Term.FINISH: "`ottla finish --help`",
}


@contextmanager
def naming_options() -> Iterator[None]:
    """Raise what is raised inside in the words of Spark's options."""
    try:
        yield
    except WordedError as error:
        raise error.worded(OPTIONS) from None


@naming_options()
def with_schemas(options: ReadOptions, known: PayloadPlans | None = None) -> ReadOptions:
    """Options whose typed columns are known; what is read for that is read here, on the driver.

    What a query was told of its columns stays so, whatever is registered since.
    """
    if known is not None:
        return replace(options, payloads=known)
    from ottla.jobs.schemas.resolve import resolve_payloads

    return resolve_payloads(options)
