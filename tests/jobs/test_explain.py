"""`ottla compact --explain` and the report say the same of the same logs, also of odd ones."""

import os
from pathlib import Path
from typing import Any

import pytest

from builders import Row, batch, message
from choosing import choose
from jobs.compacting import compact_plainly, explain_plainly
from jobs.reporting import build_here
from jobs.test_compact import keyed, write_segments
from ottla.jobs.compact.plan import plan_compaction
from ottla.jobs.compact.survey import CompactOptions
from ottla.jobs.report.rows import ReportOptions
from ottla.rules.cleaner.cleanable import CleanerConfig
from rules.histories import COMMIT, marker

NOW = 1_700_000_100_000
DAY = 86_400_000
TRANSACTIONAL = 0x10
HORIZON = 0x40

Rows = dict[str, dict[str, Any]]


def dying(offset: int, key: bytes, horizon: int) -> bytes:
    """A tombstone that an earlier round gave a time to go: the base timestamp of its batch."""
    row = Row(offset, horizon, key, None)
    return batch([row], attributes=HORIZON)


def write_logs(root: Path) -> None:
    """A partition for each oddity, as the command's own flags (--include-active) see it."""
    write_segments(
        root / "expired-0",
        (0, [dying(0, b"gone", NOW), dying(1, b"stays", NOW + 1), keyed(2, b"a")]),
        (3, [keyed(3, b"b", None)]),
    )
    # Their producer is idle for more than a day: nothing keeps its last sequence.
    old = Row(0, NOW - 2 * DAY, b"a", b"v")
    write_segments(
        root / "idle-0", (0, [batch([old], producer=(9, 0, 0)), keyed(1, b"a"), keyed(2, b"b")])
    )
    broken = bytearray(keyed(1, b"b"))
    broken[-1] ^= 1
    write_segments(root / "broken-0", (0, [keyed(0, b"a"), bytes(broken)]), (2, [keyed(2, b"a")]))
    begun = keyed(3, b"a", attributes=TRANSACTIONAL, producer=(7, 0, 0))
    write_segments(
        root / "open-0", (0, [keyed(0, b"a"), keyed(1, b"a")]), (2, [keyed(2, b"b"), begun])
    )
    ended = [
        keyed(0, b"a", attributes=TRANSACTIONAL, producer=(7, 0, 0)),
        marker(1, 7, 0, COMMIT, timestamp=NOW),
        keyed(2, b"a"),
    ]
    write_segments(root / "ended-0", (0, ended))
    _write_old_tombstones(root)


def _write_old_tombstones(root: Path) -> None:
    """Of magic 1: one goes by the age of its segment, the other stays."""
    segments = {
        0: [message(Row(0, 5, b"gone", None), magic=1), message(Row(1, 5, b"a"), magic=1)],
        2: [message(Row(2, 5, b"b"), magic=1)],
        3: [message(Row(3, 5, b"stays", None), magic=1), message(Row(4, 5, b"c"), magic=1)],
    }
    folder = write_segments(root / "old-0", *segments.items())
    for base, age in ((0, 3 * DAY), (2, DAY), (3, 0)):
        seconds = (NOW - age) / 1000
        os.utime(folder / f"{base:020d}.log", (seconds, seconds))
    (root / "cleaner-offset-checkpoint").write_text("0\n1\nold 0 3\n")


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explain") / "logs"
    write_logs(folder)
    return folder


@pytest.fixture(scope="module")
def explained(logs: Path) -> Rows:
    """What the command says that the report names."""
    options = CompactOptions(config=CleanerConfig(), includes_active=True)
    plan = plan_compaction(choose(logs), str(logs.parent / "out"), options, now=NOW, explains=True)
    return {row["topic"]: row for row in explain_plainly(plan)}


def causes(row: dict[str, Any]) -> list[str]:
    return [obstacle["cause"] for obstacle in row["obstacles"]]


def test_the_report_says_what_the_explanation_says(logs: Path, explained: Rows) -> None:
    options = ReportOptions(what_if=False, compacted=("*",))
    rows = build_here(choose(logs), options, [], NOW)
    found = {row["topic"]: row for row in rows if row["type"] == "compaction"}
    assert found == {topic: {"type": "compaction", **row} for topic, row in explained.items()}
    assert set(found) == {"broken", "ended", "expired", "idle", "old", "open"}


def test_tombstones_whose_time_has_come_do_not_stay(explained: Rows) -> None:
    row = explained["expired"]
    assert (row["readRecords"], row["remainingRecords"], row["tombstones"]) == (4, 3, 2)


def test_a_producer_that_was_forgotten_keeps_no_empty_batch(explained: Rows) -> None:
    assert explained["idle"]["remainingBytes"] == len(keyed(1, b"a")) + len(keyed(2, b"b"))


def test_old_tombstones_go_by_the_age_of_their_segment(explained: Rows) -> None:
    row = explained["old"]
    assert (row["readRecords"], row["remainingRecords"], row["tombstones"]) == (5, 4, 1)


def test_an_open_transaction_is_a_limit_only_where_there_is_one(explained: Rows) -> None:
    row = explained["open"]
    assert causes(row)[0] == "open transactions"
    assert (row["lastStableOffset"], row["firstUncleanableOffset"]) == (3, 2)
    assert (row["readRecords"], row["remainingRecords"]) == (2, 1)
    others = [topic for topic, row in explained.items() if "open transactions" in causes(row)]
    assert others == ["open"]


def test_a_broken_batch_stops_the_cleaning_of_its_log_alone(
    logs: Path, explained: Rows, tmp_path: Path
) -> None:
    row = explained["broken"]
    log = logs / "broken-0" / f"{0:020d}.log"
    assert f"{log} @ {len(keyed(0, b'a'))}" in row["stoppedBy"]
    assert (row["remainingBytes"], row["distinctKeys"], row["tombstones"]) == (None, None, None)
    assert row["obstacles"][-1] == {
        "cause": "the cleaner stops",
        "bytes": row["bytes"],
        "detail": row["stoppedBy"],
    }
    assert [topic for topic, row in explained.items() if row["stoppedBy"]] == ["broken"]


@pytest.mark.parametrize("topic", ["ended", "expired", "idle", "old", "open"])
def test_what_would_remain_is_what_a_compaction_leaves(
    logs: Path, explained: Rows, tmp_path: Path, topic: str
) -> None:
    options = CompactOptions(includes_active=True)
    selection = choose(logs, topics=(topic,))
    plan = plan_compaction(selection, str(tmp_path / "out"), options, now=NOW)
    [account] = compact_plainly(plan)
    row = explained[topic]
    assert account["writtenBytes"] == row["remainingBytes"] + row["otherBytes"]


def test_a_round_that_a_cleaner_can_not_end_is_said_of_its_log_alone(tmp_path: Path) -> None:
    """Nothing stays of the last batch, and its format has no empty batches."""
    logs = tmp_path / "logs"
    old = [message(Row(0, 5, b"a"), magic=1), message(Row(1, 5, None), magic=1)]
    write_segments(logs / "old-0", (0, old))
    write_segments(logs / "new-0", (0, [keyed(0, b"a"), keyed(1, b"a")]))
    options = CompactOptions(includes_active=True)
    plan = plan_compaction(choose(logs), str(tmp_path / "out"), options, now=NOW, explains=True)
    found = {row["topic"]: row for row in explain_plainly(plan)}
    assert "magic 1 has no empty batches" in found["old"]["stoppedBy"]
    assert (found["new"]["remainingRecords"], found["new"]["stoppedBy"]) == (1, None)


def test_a_broken_checkpoint_says_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    logs = tmp_path / "logs"
    write_segments(logs / "t-0", (0, [keyed(0, b"a"), keyed(1, b"a")]), (2, [keyed(2, b"z")]))
    (logs / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 two\n")
    plan = plan_compaction(
        choose(logs), str(tmp_path / "out"), CompactOptions(), now=NOW, explains=True
    )
    [row] = explain_plainly(plan)
    assert (row["firstDirtyOffset"], row["remainingRecords"]) == (0, 1)
    assert "cleaner-offset-checkpoint" in caplog.text
