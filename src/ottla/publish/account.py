"""The account that every job ends with: one row for each topic-partition."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ottla.errors import PublishError, Row
from ottla.format.names import natural_order
from ottla.publish.checked import encode_json, read_json
from ottla.publish.job import Job
from ottla.storage.writing import write_file

REQUESTS: Final = ("requests", "requestBytes")  # journals of older versions have none
_COUNTS: Final = (
    "readBytes",
    "readBatches",
    "readRecords",
    "writtenBytes",
    "writtenBatches",
    "writtenRecords",
    "copiedBatches",
    "skippedBatches",
    "quarantinedBytes",
    "lostOffsets",
    *REQUESTS,
)
FILE: Final = "account.json"


def account_row(topic: str | None, partition: int | None, **known: Any) -> Row:
    """A row in the order of the columns; a count that nobody gave is 0.

    >>> row = account_row("orders", 3, readBytes=10, seconds=0.5)
    >>> row["readBytes"], row["writtenBytes"], row["lastOffset"]
    (10, 0, None)
    """
    row: Row = {"topic": topic, "partition": partition}
    row |= {name: known.pop(name, 0) for name in _COUNTS}
    row["firstOffset"] = known.pop("firstOffset", None)
    row["lastOffset"] = known.pop("lastOffset", None)
    row["violations"] = known.pop("violations", 0)
    row["seconds"] = round(known.pop("seconds", 0.0), 3)
    assert not known, f"no columns {sorted(known)}"
    return row


def add_rows(rows: Iterable[Mapping[str, Any]]) -> Row:
    """The row of a partition from those of its parts: at least one."""
    parts = list(rows)
    first = [part["firstOffset"] for part in parts if part["firstOffset"] is not None]
    last = [part["lastOffset"] for part in parts if part["lastOffset"] is not None]
    row = account_row(
        parts[0]["topic"],
        parts[0]["partition"],
        **{
            name: sum(part.get(name, 0) for part in parts)
            for name in (*_COUNTS, "violations", "seconds")
        },
        firstOffset=min(first, default=None),
        lastOffset=max(last, default=None),
    )
    inputs = [one for part in parts for one in part.get("inputs", ())]
    row |= {"inputs": inputs} if inputs else {}
    payloads = _add_payloads(part.get("payloads") for part in parts)
    return row | ({"payloads": payloads} if payloads else {})


def _add_payloads(counted: Iterable[Any]) -> dict[str, dict[str, dict[str, int]]]:
    """How many keys and values were decoded by which schema, and how many not, and why."""
    total: dict[str, dict[str, dict[str, int]]] = {}
    for part in counted:
        for side, outcomes in _items(part):
            for outcome, counts in _items(outcomes):
                sums = total.setdefault(side, {}).setdefault(outcome, {})
                for name, count in _items(counts):
                    sums[name] = sums.get(name, 0) + (count if type(count) is int else 0)
    return total


def _items(given: Any) -> Iterable[tuple[str, Any]]:
    return given.items() if isinstance(given, Mapping) else ()


def combine_accounts(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """The rows of partitions from those of all parts, in order of name."""
    by_name: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for row in rows:
        if not _is_row(row):
            raise PublishError(f"a journal holds an account that no job wrote: {str(row)[:200]}")
        by_name.setdefault(natural_order(row["topic"], row["partition"]), []).append(row)
    return [add_rows(by_name[name]) for name in sorted(by_name)]


def write_account(
    job: Job, rows: Sequence[Row], options: Mapping[str, Any], sources: Sequence[Any] = ()
) -> None:
    """Leave the account beside the output, with the options of the job and what it remembers."""
    told = json.loads(json.dumps(dict(options), default=str))
    content = {"options": told, "account": list(rows), "sources": list(sources)}
    write_file(job.path(FILE), encode_json(content), job.storage)


def read_account(job: Job) -> list[Row]:
    """The account of a job that was done before."""
    rows = read_json(job.path(FILE), job.storage).get("account")
    if not isinstance(rows, list) or not all(map(_is_row, rows)):
        raise PublishError(f"{job.path(FILE)} holds no account: choose another OUT")
    return rows


def _is_row(row: Any) -> bool:
    """Whether a row that was read has what `account_row` gives."""
    if not isinstance(row, Mapping):
        return False
    numbers = [
        row.get(name) for name in (*_COUNTS, "violations", "seconds") if name not in REQUESTS
    ]
    numbers += [row.get(name, 0) for name in REQUESTS]
    optional = [row.get(name, "") for name in ("partition", "firstOffset", "lastOffset")]
    return (
        isinstance(row.get("topic", 0), str | None)
        and all(type(number) in (int, float) for number in numbers)
        and all(number is None or type(number) is int for number in optional)
    )
