"""Compaction cut into tasks leaves the bytes that one cleaner leaves, whom a broker agreed with."""

import json
import os
import struct
from dataclasses import replace
from pathlib import Path

import pytest

import naive
from builders import Row, batch, message
from choosing import choose
from jobs.compacting import clean_alone, compact_plainly, logs_below
from jobs.plain import lines_of, records_of, tree
from jobs.topics import Written, write_partition, write_topic
from ottla.errors import CorruptLogError, OptionError
from ottla.jobs.compact.plan import Compaction, plan_compaction
from ottla.jobs.compact.survey import CompactOptions
from ottla.log.files.partition import find_partitions
from ottla.log.files.transaction_index import read_transaction_index
from ottla.rules.cleaner.cleanable import CleanerConfig
from rules.histories import ABORT, COMMIT, marker
from whole_log import check_partition

NOW = 1_700_000_100_000  # soon after the newest record of the generated logs
RETENTION = 5000
SPLITS = [700, 20_000, 1 << 30]
CLEANING = CompactOptions(
    config=CleanerConfig(0.0, delete_retention_ms=RETENTION), drops_unkeyed=True
)


def compaction(
    logs: Path, out: Path, options: CompactOptions = CLEANING, now: int = NOW
) -> Compaction:
    return plan_compaction(choose(logs), str(out), options, now=now)


def bases(folder: Path) -> list[int]:
    return sorted(int(path.stem) for path in folder.glob("*.log"))


def bound_of(written: Written, folder: Path) -> int:
    """The segment with the first undecided record, or the active one."""
    *_, active = bases(folder)
    limit = active if written.open_from is None else min(active, written.open_from)
    return max(base for base in bases(folder) if base <= limit)


def assert_sound(out: Path) -> None:
    for partition in find_partitions([out]):
        found = [each for each in check_partition(partition) if each.rule.severity == "error"]
        assert found == []


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("segment_bytes", [1, 9000, 1 << 30])
def test_tasks_leave_what_one_cleaner_leaves(
    tmp_path: Path, split: int, segment_bytes: int
) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    topic = write_topic(logs, "orders", partitions=5, segments=8)
    before = tree(logs)
    options = replace(CLEANING, split_bytes=split, segment_bytes=segment_bytes)
    compact_plainly(compaction(logs, out, options))
    assert tree(logs) == before
    cleaned = 0
    for written in topic:
        source, target = (each / f"orders-{written.partition}" for each in (logs, out))
        bound = bound_of(written, source)
        cleaned += bound > 0
        assert logs_below(target, bound) == clean_alone(source, bound, NOW, RETENTION)
        for base in [each for each in bases(source) if each >= bound]:
            name = f"{base:020d}.log"
            assert (target / name).read_bytes() == (source / name).read_bytes()
        if segment_bytes == 1:
            assert bases(target) == bases(source)
        elif segment_bytes == 1 << 30 and bound:
            assert bases(target) == [0, *(each for each in bases(source) if each >= bound)]
    assert cleaned >= 3
    assert_sound(out)


def newest_by_key(written: Written) -> dict[bytes, Row]:
    return {row.key: row for row in written.committed() if row.key is not None}


def test_the_naive_reader_finds_the_newest_record_of_every_key_and_no_other(
    tmp_path: Path,
) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    options = replace(CLEANING, includes_active=True, split_bytes=3000)
    for seed in range(4):
        write_partition(logs / f"orders-{seed}", seed=seed * 5 + 4, segments=7, transactions=False)
    compact_plainly(compaction(logs, out, options))
    for seed in range(4):
        again = write_partition(
            tmp_path / "again" / f"orders-{seed}",
            seed=seed * 5 + 4,
            segments=7,
            transactions=False,
        )
        expected = sorted(newest_by_key(again).values(), key=lambda row: row.offset)
        found = records_of(out / f"orders-{seed}")
        assert [(each[0], *each[2:4]) for each in found] == [
            (row.offset, row.key, row.value) for row in expected
        ]


def write_segments(folder: Path, *segments: tuple[int, list[bytes]]) -> Path:
    folder.mkdir(parents=True)
    for base, batches in segments:
        (folder / f"{base:020d}.log").write_bytes(b"".join(batches))
    return folder


def keyed(offset: int, key: bytes | None, value: bytes | None = b"v", **rest: object) -> bytes:
    return batch([Row(offset, NOW - 1000, key, value)], **rest)  # type: ignore[arg-type]


def offsets_in(folder: Path) -> list[int]:
    return [line["offset"] for line in lines_of(folder) if line["type"] == "record"]


def test_tombstones_go_in_the_round_after_their_horizon(tmp_path: Path) -> None:
    logs = tmp_path / "first"
    write_segments(
        logs / "t-0",
        (0, [keyed(0, b"a"), keyed(1, b"b")]),
        (2, [keyed(2, b"a", None), keyed(3, b"c")]),
        (4, [keyed(4, b"z")]),
    )
    compact_plainly(compaction(logs, tmp_path / "second"))
    assert offsets_in(tmp_path / "second" / "t-0") == [1, 2, 3, 4]
    late = compaction(tmp_path / "second", tmp_path / "third", now=NOW + RETENTION - 1)
    compact_plainly(late)
    assert tree(tmp_path / "third") == tree(tmp_path / "second")
    later = compaction(tmp_path / "second", tmp_path / "fourth", now=NOW + RETENTION)
    compact_plainly(later)
    assert offsets_in(tmp_path / "fourth" / "t-0") == [1, 3, 4]


def transactional(offset: int, key: bytes, sequence: int) -> bytes:
    return keyed(offset, key, attributes=0x10, producer=(5, 0, sequence))


def test_a_transaction_that_crosses_segments_is_judged_as_a_whole(tmp_path: Path) -> None:
    """Its data, its marker and the entry that the index still needs lie in three parts."""
    logs, out = tmp_path / "logs", tmp_path / "out"
    write_segments(
        logs / "t-0",
        (0, [transactional(0, b"a", 0), keyed(1, b"b")]),
        (2, [transactional(2, b"c", 1), keyed(3, b"d")]),
        (4, [marker(4, 5, 0, ABORT, timestamp=NOW), keyed(5, b"e")]),
        (6, [transactional(6, b"f", 2), marker(7, 5, 0, COMMIT, timestamp=NOW)]),
        (8, [keyed(8, b"z")]),
    )
    options = replace(CLEANING, segment_bytes=1)
    compact_plainly(compaction(logs, out, options))
    assert logs_below(out / "t-0", 8) == clean_alone(logs / "t-0", 8, NOW, RETENTION)
    assert offsets_in(out / "t-0") == [1, 3, 4, 5, 6, 7, 8]
    index = (out / "t-0" / f"{4:020d}.txnindex").read_bytes()
    assert [tuple(row)[1:4] for row in read_transaction_index(index).tolist()] == [(5, 0, 4)]
    assert_sound(out)


def write_checkpoint(logs: Path, name: str, offset: int) -> None:
    (logs / name).write_text(f"0\n1\nt 0 {offset}\n")


def test_the_part_that_was_cleaned_before_loses_only_against_the_dirty_part(
    tmp_path: Path,
) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    write_segments(
        logs / "t-0",
        (0, [keyed(0, b"a"), keyed(1, b"a"), keyed(2, b"b")]),
        (3, [keyed(3, b"b"), keyed(4, b"c"), keyed(5, b"c")]),
        (6, [keyed(6, b"z")]),
    )
    write_checkpoint(logs, "cleaner-offset-checkpoint", 3)
    compact_plainly(compaction(logs, out))
    assert offsets_in(out / "t-0") == [0, 1, 3, 5, 6]
    assert logs_below(out / "t-0", 6) == clean_alone(logs / "t-0", 6, NOW, RETENTION, dirty=3)


def test_what_was_deleted_below_the_log_start_stays_deleted(tmp_path: Path) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    write_segments(
        logs / "t-0",
        (0, [keyed(0, b"a"), keyed(1, b"b")]),
        (2, [batch([Row(2, 0, b"c"), Row(3, 0, b"d")]), keyed(4, b"e")]),
        (5, [keyed(5, b"z")]),
    )
    write_checkpoint(logs, "log-start-offset-checkpoint", 3)
    compact_plainly(compaction(logs, out))
    assert offsets_in(out / "t-0") == [3, 4, 5]


def test_offsets_that_nobody_wrote_are_no_open_transaction(tmp_path: Path) -> None:
    """The empty last segment says that the log ends at 10, though its last batch is at 1."""
    logs, out = tmp_path / "logs", tmp_path / "out"
    write_segments(logs / "t-0", (0, [keyed(0, b"a"), keyed(1, b"a")]), (10, []))
    compact_plainly(compaction(logs, out))
    assert offsets_in(out / "t-0") == [1]


def test_a_log_below_the_dirty_ratio_is_copied(tmp_path: Path) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    write_segments(
        logs / "t-0",
        (0, [keyed(0, b"a"), keyed(1, b"a"), keyed(2, b"a")]),
        (3, [keyed(3, b"a")]),
        (4, [keyed(4, b"z")]),
    )
    write_checkpoint(logs, "cleaner-offset-checkpoint", 3)
    options = replace(CLEANING, config=CleanerConfig(0.5))
    (row,) = compact_plainly(compaction(logs, out, options))
    assert offsets_in(out / "t-0") == [0, 1, 2, 3, 4]
    assert row["copiedBatches"] == row["readBatches"] == 5


def test_a_segment_of_which_nothing_stays_is_empty(tmp_path: Path) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    write_segments(
        logs / "t-0", (0, [keyed(0, b"a")]), (1, [keyed(1, b"a")]), (2, [keyed(2, b"z")])
    )
    (row,) = compact_plainly(compaction(logs, out, replace(CLEANING, segment_bytes=1)))
    assert (out / "t-0" / f"{0:020d}.log").read_bytes() == b""
    assert offsets_in(out / "t-0") == [1, 2]
    assert (row["readRecords"], row["writtenRecords"], row["skippedBatches"]) == (3, 2, 1)
    assert_sound(out)


@pytest.mark.parametrize("bits", [1, 3, 64])
def test_keys_with_the_same_hash_stay_two_keys(tmp_path: Path, bits: int) -> None:
    logs = tmp_path / "logs"
    write_topic(logs, "orders", partitions=2, segments=6, transactions=False)
    options = replace(CLEANING, hash_bits=bits, split_bytes=900)
    compact_plainly(compaction(logs, tmp_path / "out", options))
    for folder in logs.iterdir():
        bound = bases(folder)[-1]
        found = logs_below(tmp_path / "out" / folder.name, bound)
        assert found == clean_alone(folder, bound, NOW, RETENTION)
        kept = [line for line in naive.decode(found) if line["type"] == "record"]
        assert len({line["key"] for line in kept}) > 2


def test_a_key_that_most_records_have_keeps_one(tmp_path: Path) -> None:
    hot = [
        batch([Row(at + n, 0, b"hot" if n % 50 else b"k%d" % (at + n)) for n in range(100)])
        for at in range(0, 5000, 100)
    ]
    logs, out = tmp_path / "logs", tmp_path / "out"
    write_segments(logs / "t-0", (0, hot), (5000, [keyed(5000, b"z")]))
    compact_plainly(compaction(logs, out, replace(CLEANING, split_bytes=2000)))
    assert offsets_in(out / "t-0") == [*range(0, 5000, 50), 4999, 5000]


def test_records_without_a_key_are_an_error_unless_they_may_go(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    write_segments(logs / "t-0", (0, [keyed(0, None), keyed(1, b"a")]), (2, [keyed(2, b"z")]))
    with pytest.raises(OptionError, match="records without a key"):
        compact_plainly(compaction(logs, tmp_path / "out", replace(CLEANING, drops_unkeyed=False)))
    assert not (tmp_path / "out").exists()
    assert not list((tmp_path / "out.ottla").glob("*/staging/*"))  # the first pass said no
    compact_plainly(compaction(logs, tmp_path / "out"))
    assert offsets_in(tmp_path / "out" / "t-0") == [1, 2]


def test_records_that_were_aborted_need_no_key(tmp_path: Path) -> None:
    begun = {"attributes": 0x10, "producer": (7, 0, 0)}
    logs, out = tmp_path / "logs", tmp_path / "out"
    batches = [keyed(0, None, **begun), marker(1, 7, 0, ABORT), keyed(2, b"a")]
    write_segments(logs / "t-0", (0, batches), (3, [keyed(3, b"z")]))
    compact_plainly(compaction(logs, out, replace(CLEANING, drops_unkeyed=False)))
    assert offsets_in(out / "t-0")[-2:] == [2, 3]


def test_segments_keep_the_time_of_the_last_that_they_were_made_of(tmp_path: Path) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    folder = write_segments(
        logs / "t-0", *((base, [keyed(base, b"k%d" % base)]) for base in range(4))
    )
    for base in range(4):
        os.utime(folder / f"{base:020d}.log", (0, 1_600_000_000 + base))
    size = len(keyed(0, b"k0"))
    compact_plainly(compaction(logs, out, replace(CLEANING, segment_bytes=2 * size)))
    times = {
        path.name: path.stat().st_mtime for path in (out / "t-0").iterdir() if path.stem.isdigit()
    }
    expected = {0: 1_600_000_001, 2: 1_600_000_002, 3: 1_600_000_003}
    kept = [(times[f"{base:020d}.log"], times[f"{base:020d}.index"]) for base in expected]
    assert kept == [(time, time) for time in expected.values()]


@pytest.mark.parametrize("place", ["cleaned", "copied"])
def test_a_broken_batch_stops_the_job_and_is_named(tmp_path: Path, place: str) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    folder = write_segments(
        logs / "t-0", (0, [keyed(0, b"a"), keyed(1, b"b")]), (2, [keyed(2, b"z"), keyed(3, b"z")])
    )
    log = folder / f"{0 if place == 'cleaned' else 2:020d}.log"
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)
    with pytest.raises(CorruptLogError) as raised:
        compact_plainly(compaction(logs, out))
    violation = raised.value.violation
    first = len(keyed(0, b"a"))
    assert (violation.rule.value, violation.file) == ("crc-matches", str(log))
    assert (violation.position, violation.offset) == (first, 1 if place == "cleaned" else 3)
    assert not out.exists()


def test_half_a_batch_before_another_segment_is_an_error(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    half = keyed(1, b"b")[:40]
    write_segments(logs / "t-0", (0, [keyed(0, b"a"), half]), (2, [keyed(2, b"z")]))
    with pytest.raises(CorruptLogError) as raised:
        compact_plainly(compaction(logs, tmp_path / "out"))
    assert raised.value.violation.position == len(keyed(0, b"a"))
    assert not (tmp_path / "out").exists()


def test_old_formats_are_cleaned_and_copied_as_they_are(tmp_path: Path) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    old = [message(Row(at, 5, b"k%d" % (at % 2)), magic=at % 2) for at in range(6)]
    write_segments(logs / "t-0", (0, old), (6, [message(Row(6, 5, b"z"), magic=1)]))
    compact_plainly(compaction(logs, out))
    assert offsets_in(out / "t-0") == [4, 5, 6]
    assert [line["magic"] for line in lines_of(out / "t-0") if line["type"] == "batch"] == [0, 1, 1]


def test_side_files_say_what_the_log_said_before(tmp_path: Path) -> None:
    """The epochs of leaders and producers outlive the batches that told of them."""
    logs, out = tmp_path / "logs", tmp_path / "out"
    folder = write_segments(
        logs / "t-0",
        (0, [keyed(0, b"a", leader_epoch=3), keyed(1, b"a", leader_epoch=4, producer=(9, 2, 0))]),
        (2, [keyed(2, b"a", leader_epoch=4)]),
    )
    (folder / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    compact_plainly(compaction(logs, out))
    target = out / "t-0"
    assert (target / "leader-epoch-checkpoint").read_text() == "0\n2\n3 0\n4 1\n"
    assert (target / "partition.metadata").read_text() == (
        folder / "partition.metadata"
    ).read_text()
    snapshot = (target / f"{3:020d}.snapshot").read_bytes()
    # version, CRC, count, then producer id and epoch of the first entry
    assert struct.unpack_from(">hIiqh", snapshot)[2:] == (1, 9, 2)


def test_a_run_without_a_time_keeps_that_of_the_first_one(tmp_path: Path) -> None:
    from ottla.jobs.compact.plan import settle_now
    from ottla.publish.journal import run_job

    logs = tmp_path / "logs"
    write_segments(logs / "t-0", (0, [keyed(0, b"a")]))
    plan = plan_compaction(choose(logs), str(tmp_path / "out"), CLEANING)
    for clock in (NOW, NOW + 1000):
        with run_job(plan.out, plan.name) as job:
            assert settle_now(job, plan, clock) == NOW
    assert json.loads((Path(job.folder) / "now.json").read_text()) == NOW
