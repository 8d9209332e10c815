"""Where a stream begins."""

from pathlib import Path

from jobs.topics import write_partition
from ottla.format.names import TopicPartition
from ottla.jobs.read.tail import LATEST, first_positions, last_positions, list_logs, plan_between
from ottla.options.read import ReadOptions, for_stream, parse_read_options

NAME = TopicPartition("t", 0)


def options(path: Path, **given: str) -> ReadOptions:
    return for_stream(parse_read_options({"path": str(path)} | given))


def test_a_timestamp_that_nothing_matches_is_latest_until_a_batch_has_resolved_it(
    tmp_path: Path,
) -> None:
    """A resolved offset would be another one after a crash in the first batch."""
    written = write_partition(tmp_path / "t-0", seed=4, segments=2)
    chosen = options(
        tmp_path,
        startingtimestamp="9999999999999",
        startingoffsetsbytimestampstrategy="latest",
    )
    first = first_positions(list_logs(chosen), chosen)
    assert first == {NAME: LATEST}
    last = last_positions(list_logs(chosen), chosen)
    assert last[NAME] >= written.end
    assert plan_between(first, last, chosen) == []


def test_a_timestamp_that_matches_is_an_offset(tmp_path: Path) -> None:
    written = write_partition(tmp_path / "t-0", seed=4, segments=2, transactions=False)
    newest = max(row.timestamp for row in written.rows)
    expected = next(row.offset for row in written.rows if row.timestamp >= newest)
    chosen = options(tmp_path, startingtimestamp=str(newest))
    assert first_positions(list_logs(chosen), chosen) == {NAME: expected}
