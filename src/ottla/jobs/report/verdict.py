"""A report in two sentences: how healthy the logs are, and what zstd would save."""

from collections.abc import Sequence
from typing import Final

from ottla.errors import Row
from ottla.format.attributes import CODEC_NAMES, Codec
from ottla.jobs.report.what_if import LEAD
from ottla.options.texts import few

_CODEC: Final = CODEC_NAMES[Codec.ZSTD]  # of LEAD
_WORTH: Final = 0.01  # of the bytes: less is no reason to change anything
_TROUBLES: Final = {"error": "errors", "warning": "warnings"}


def sum_up(rows: Sequence[Row]) -> Row:
    """What the first row of a report says of all others."""
    names = {(row["topic"], row["partition"]) for row in rows if row["type"] == "partition"}
    troubles = _troubles(rows)
    beside = troubles.pop((None, None), None)
    count = len(names | troubles.keys())
    share = _saved_share(rows)
    return {
        "healthyPartitions": count - len(troubles),
        "health": _health(count, [f"{name[0]}-{name[1]} ({troubles[name]})" for name in troubles])
        + ("" if beside is None else f" The log directory has {beside}."),
        "savedShare": share,
        "saving": None if share is None else _saving(share),
    }


def leading_rows(rows: Sequence[Row]) -> dict[str, Row]:
    """By topic what the setting would bring that most people would choose."""
    wanted = (LEAD.magic, _CODEC, LEAD.level, LEAD.batch_bytes)
    found = [row for row in rows if row["type"] == "whatIf"]
    return {
        row["topic"]: row
        for row in found
        if tuple(row[name] for name in ("magic", "codec", "level", "batchBytes")) == wanted
    }


def _troubles(rows: Sequence[Row]) -> dict[tuple[str | None, int | None], str]:
    """What is wrong with partitions, errors first; notes and running transactions are usual."""
    found: dict[tuple[str | None, int | None], str] = {}
    for severity, trouble in _TROUBLES.items():
        for row in rows:
            if row["type"] == "finding" and row["severity"] == severity:
                found.setdefault((row["topic"], row["partition"]), trouble)
    for row in rows:
        if row["type"] == "openTransaction" and row["hanging"]:
            found.setdefault((row["topic"], row["partition"]), "a hanging transaction")
    return found


def _health(count: int, troubled: Sequence[str]) -> str:
    """
    >>> _health(6, [])
    'All 6 partitions are healthy.'
    >>> _health(6, ["a-0 (errors)"])
    '1 of 6 partitions needs attention: a-0 (errors).'
    >>> _health(9, ["a-0 (errors)", "a-1 (errors)", "b-0 (warnings)", "b-1 (warnings)"])
    '4 of 9 partitions need attention: a-0 (errors), a-1 (errors), b-0 (warnings) and 1 more.'
    """
    if not troubled:
        return f"All {count} partitions are healthy." if count != 1 else "1 partition, and healthy."
    verb = "needs" if len(troubled) == 1 else "need"
    return f"{len(troubled)} of {count} partitions {verb} attention: {few(troubled)}."


def _saved_share(rows: Sequence[Row]) -> float | None:
    leading = leading_rows(rows).values()
    current = sum(row["currentBytes"] for row in leading)
    return round(sum(row["savedBytes"] for row in leading) / current, 4) if current else None


def _saving(share: float) -> str:
    """
    >>> _saving(0.263), _saving(0.004), _saving(-0.2)
    ('zstd would save 26 %.', 'zstd would change little.', 'zstd would take 20 % more.')
    """
    if abs(share) < _WORTH:
        return f"{_CODEC} would change little."
    percent = f"{100 * abs(share):.0f} %"
    return (
        f"{_CODEC} would save {percent}." if share > 0 else f"{_CODEC} would take {percent} more."
    )
