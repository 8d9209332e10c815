"""What Python programs call the things that errors are about."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ottla.errors import CorruptLogError, Term, WordedError

ARGUMENTS: Final = {
    Term.TOPICS: "the topic",
    Term.PARTITIONS: "partitions=",
    Term.START: "start=",
    Term.STOP: "end=",
    Term.DROP_UNKEYED: "drop_unkeyed=True",
    Term.RENAME: "rename=",
    Term.TOPIC_IDS: "topic_ids=",
    Term.SALVAGE: "log.salvage(out)",
    Term.FINISH: "`ottla finish --help`",
    Term.RESTORE: "log.restore(out)",
    Term.ENGINE: "engine=",
    Term.MASTER: "master=",
    Term.MEMORY: "memory=",
    Term.FOLLOW_LINKS: "follow_links=True",
    Term.DUMP: "`ottla dump`",
    Term.SCHEMAS: "`ottla schemas`",
    Term.CATALOG: "catalog=",
    Term.RECREATED: "recreated=True",
}
_ADVICE: Final = (
    'mode="DROPMALFORMED" leaves broken batches out, mode="PERMISSIVE" gives a row for each,'
    " log.violations() lists them, log.salvage(out) writes a repaired copy"
)


@contextmanager
def naming_arguments() -> Iterator[None]:
    """Raise what is raised inside in the words of arguments, and say what can be done."""
    try:
        yield
    except WordedError as error:
        raise error.worded(ARGUMENTS) from None
    except CorruptLogError as error:
        if not hasattr(error, "__notes__"):
            error.add_note(_ADVICE)
        raise
