"""Each rule of docs/rules.md about a partition, broken once in an otherwise sound directory."""

import struct
from pathlib import Path

import numpy as np
import pytest

import builders
from builders import Row, batch
from log.generated import TRANSACTIONAL, marker, random_log
from log.test_segment_writer import write
from ottla.errors import Rule, Severity, Violation
from ottla.log.files.partition import find_partitions
from ottla.log.files.producer_snapshot import write_producer_snapshot
from ottla.log.files.transaction_index import aborted_transactions, write_transaction_index
from ottla.log.write.index_builder import SegmentConfig
from ottla.rules.producers.snapshots import PRODUCER_SNAPSHOT_ENTRY
from whole_log import check_partition


def check(folder: Path) -> list[Violation]:
    (partition,) = find_partitions([folder])
    return list(check_partition(partition))


def rules_of(folder: Path) -> list[Rule]:
    return [violation.rule for violation in check(folder)]


def put(folder: Path, files: dict[str, bytes]) -> Path:
    directory = folder / "t-0"
    directory.mkdir()
    for name, data in files.items():
        (directory / name).write_bytes(data)
    return directory


def log(name: str, *batches: bytes) -> dict[str, bytes]:
    """A segment file."""
    return {named(name): b"".join(batches)}


def named(name: str) -> str:
    offset, _, suffix = name.partition(".")
    return f"{int(offset):020d}.{suffix}"


def test_a_log_with_its_indexes_has_no_violations(tmp_path: Path) -> None:
    data = b"".join(random_log(8, count=500, gaps=False))
    write(tmp_path, data, 0, SegmentConfig(segment_bytes=60_000, index_interval_bytes=700))
    assert rules_of(tmp_path / "out") == []


def test_a_log_with_gaps_has_one_note_for_each_segment(tmp_path: Path) -> None:
    write(tmp_path, b"".join(random_log(8, count=500)), 0, SegmentConfig())
    (found,) = check(tmp_path / "out")
    assert (found.rule, found.rule.severity) == (Rule.OFFSET_GAP, Severity.NOTE)
    assert (found.topic, found.partition) == ("t", 0)


@pytest.mark.parametrize(
    ("batches", "rules"),
    [
        pytest.param([batch([Row(0)]), batch([Row(0)])], [Rule.OFFSETS_RISE], id="repeated"),
        pytest.param(
            [batch([Row(0), Row(5)]), batch([Row(3)]), batch([Row(6)])],
            [Rule.OFFSETS_RISE, Rule.OFFSET_GAP],
            id="falls",
        ),
        pytest.param(
            [batch([Row(0), Row(1), Row(2)], last_offset_delta=1)],
            [Rule.COUNT_FITS_OFFSETS],
            id="crowded",
        ),
        pytest.param(
            [batch([Row(0)], leader_epoch=4), batch([Row(1)], leader_epoch=3), batch([Row(2)])],
            [Rule.LEADER_EPOCHS_RISE, Rule.LEADER_EPOCHS_RISE],
            id="leader-epochs-fall",
        ),
        pytest.param(
            [
                batch([Row(0)], producer=(7, 1, 0)),
                batch([Row(1)], producer=(7, 1, 4)),
                batch([Row(2)], producer=(7, 1, 5)),
            ],
            [Rule.SEQUENCE_GAP],
            id="sequence-gap",
        ),
        pytest.param(
            [batch([Row(n)], producer=(7, 1, sequence)) for n, sequence in enumerate((0, 1, 1, 2))],
            [Rule.SEQUENCE_REPEAT],
            id="sequence-repeats",
        ),
        pytest.param(
            [batch([Row(0)], producer=(7, 3, 0)), batch([Row(1)], producer=(7, 2, 0))],
            [Rule.PRODUCER_EPOCHS_RISE],
            id="producer-epoch-falls",
        ),
        pytest.param([batch([Row(0)]), batch([Row(1)])[:-2]], [Rule.LOG_TAIL], id="cut-off"),
        pytest.param([batch([Row(0)]), bytes(100)], [Rule.ZERO_TAIL], id="preallocated"),
        pytest.param(
            [batch([Row(0)]), bytes(11) + b"\x05" + bytes(100)],
            [Rule.BATCH_SIZE_MINIMUM],
            id="no-batch",
        ),
        pytest.param(
            [batch([Row(0)]), batch([Row(1)])[:-1] + b"\xff", batch([Row(2)])],
            [Rule.CRC_MATCHES, Rule.OFFSET_GAP],
            id="crc",
        ),
    ],
)
def test_a_broken_log_is_named(tmp_path: Path, batches: list[bytes], rules: list[Rule]) -> None:
    put(tmp_path, log("0.log", *batches))
    assert rules_of(tmp_path) == rules


def test_a_greatest_timestamp_that_no_record_has_is_named(tmp_path: Path) -> None:
    data = batch([Row(0, 5), Row(1, 9)])
    data = builders.reseal(data[:35] + struct.pack(">q", 10) + data[43:])
    put(tmp_path, log("0.log", data))
    (found,) = check(tmp_path)
    assert (found.rule, found.found, found.expected) == (Rule.MAX_TIMESTAMP, "10", "9")


CONTROL = 0x20
BAD_KEY = Row(0, 5, b"\0\0\0", bytes(6))
BAD_VALUE = Row(0, 5, struct.pack(">hh", 0, 1), bytes(5))
KRAFT = [
    Row(0, 5, struct.pack(">hh", 0, 3), bytes(11)),  # a snapshot header
    Row(1, 5, struct.pack(">hh", 0, 5), bytes(5)),  # a KRaft version
    Row(2, 5, struct.pack(">hh", 0, 77), None),  # a type that readers must ignore
]


@pytest.mark.parametrize("codec", [0, 1])
@pytest.mark.parametrize(
    ("rows", "offsets"),
    [
        pytest.param([BAD_KEY], [0], id="key"),
        pytest.param([BAD_VALUE], [0], id="marker"),
        pytest.param([*KRAFT], [], id="kraft"),
        pytest.param([*KRAFT, BAD_VALUE._replace(offset=3)], [3], id="the-last-of-many"),
        pytest.param([Row(0, 5, struct.pack(">hh", 0, 2), bytes(6))], [0], id="leader-change"),
    ],
)
def test_control_records_that_kafka_can_not_read_are_named(
    tmp_path: Path, rows: list[Row], offsets: list[int], codec: int
) -> None:
    data = batch(rows, attributes=CONTROL, codec=codec)
    put(tmp_path, log("0.log", batch([Row(100, 5)]), data))
    (partition,) = find_partitions([tmp_path])
    found = [each for each in check_partition(partition) if each.rule is Rule.CONTROL_RECORD]
    assert [each.offset for each in found] == offsets
    assert {(each.position, each.size) for each in found} <= {(len(batch()), len(data))}


def test_a_control_batch_that_the_cleaner_emptied_is_sound(tmp_path: Path) -> None:
    put(tmp_path, log("0.log", builders.batch_of(b"", count=0, attributes=CONTROL)))
    assert rules_of(tmp_path) == []


def test_batches_outside_their_segment_are_named(tmp_path: Path) -> None:
    files = log("10.log", batch([Row(9)]), batch([Row(10), Row(20)])) | log("20.log")
    put(tmp_path, files)
    assert rules_of(tmp_path) == [Rule.OFFSET_IN_SEGMENT, Rule.OFFSET_IN_SEGMENT]


def test_an_index_is_judged_by_the_log(tmp_path: Path) -> None:
    parts = [batch([Row(n, n)]) for n in range(6)]
    size = len(parts[0])
    cases = {
        ((1, size), (3, 3 * size)): [],
        ((3, size),): [],  # a follower's: several batches in one append
        ((1, size + 1),): [Rule.INDEX_POSITION],
        ((1, 600_000),): [Rule.INDEX_POSITION],
        ((1, 3 * size),): [Rule.INDEX_SKIPS],
        ((70, 3 * size),): [Rule.INDEX_OFFSET],
    }
    for number, (entries, rules) in enumerate(cases.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        data = b"".join(struct.pack(">ii", *entry) for entry in entries)
        put(folder, log("0.log", *parts) | {named("0.index"): data})
        assert rules_of(folder) == rules, entries


def test_a_time_index_is_judged_by_the_log(tmp_path: Path) -> None:
    stamps = [100, 300, 200, 300, 400]
    parts = [batch([Row(n, stamp)]) for n, stamp in enumerate(stamps)]
    cases = {
        ((100, 0), (300, 1), (400, 4)): [],
        ((200, 2),): [Rule.TIME_INDEX_TIMESTAMP],  # 300 was before
        ((300, 3),): [Rule.TIME_INDEX_TIMESTAMP],  # not the first with 300
        ((400, 9),): [Rule.TIME_INDEX_OFFSET],
    }
    for number, (entries, rules) in enumerate(cases.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        data = b"".join(struct.pack(">qi", *entry) for entry in entries)
        put(folder, log("0.log", *parts) | {named("0.timeindex"): data})
        assert rules_of(folder) == rules, entries


ABORTED = [
    batch([Row(0)], attributes=TRANSACTIONAL, producer=(7, 0, 0)),
    batch([Row(1)], attributes=TRANSACTIONAL, producer=(8, 0, 0)),
    marker(2, 7, 0),
    marker(3, 8, 1),
]


@pytest.mark.parametrize(
    ("rows", "count"),
    [([(7, 0, 2, 1)], 0), ([], 1), ([(7, 0, 2, 1), (8, 1, 3, 4)], 1), ([(7, 1, 2, 1)], 1)],
    ids=["right", "missing", "committed-one", "wrong-start"],
)
def test_a_transaction_index_is_judged_by_the_log(
    tmp_path: Path, rows: list[tuple[int, int, int, int]], count: int
) -> None:
    index = write_transaction_index(aborted_transactions(rows))
    put(tmp_path, log("0.log", *ABORTED) | {named("0.txnindex"): index})
    assert rules_of(tmp_path) == [Rule.TRANSACTION_INDEX_LOG] * count


def test_a_transaction_index_that_is_gone_is_named_though_a_broker_misses_nothing(
    tmp_path: Path,
) -> None:
    """TransactionIndex makes its file with the first abort, so that a lost one looks like none."""
    put(tmp_path, log("0.log", *ABORTED) | {named("0.index"): b"", named("0.timeindex"): b""})
    (told,) = [each for each in check(tmp_path) if each.rule is Rule.TRANSACTION_INDEX_LOG]
    assert told.file.endswith(named("0.txnindex"))
    assert told.detail.endswith("consumers that read committed records get its records")


def snapshot(last_sequence: int, last_offset: int) -> bytes:
    row = (7, 0, last_sequence, last_offset, 1, 5, -1, -1)
    return write_producer_snapshot(np.array([row], dtype=PRODUCER_SNAPSHOT_ENTRY))


@pytest.mark.parametrize(
    ("data", "rules"),
    [
        (snapshot(1, 1), []),
        (snapshot(5, 1), [Rule.SNAPSHOT_LOG]),
        (snapshot(1, 0), [Rule.SNAPSHOT_LOG]),
        (b"", [Rule.SNAPSHOT_READABLE]),
    ],
)
def test_a_snapshot_is_judged_by_the_log(tmp_path: Path, data: bytes, rules: list[Rule]) -> None:
    files = log("0.log", batch([Row(0), Row(1)], producer=(7, 0, 0)))
    put(tmp_path, files | log("2.log", batch([Row(2)])) | {named("2.snapshot"): data})
    assert rules_of(tmp_path) == rules


def test_the_snapshot_of_a_clean_stop_is_judged_too(tmp_path: Path) -> None:
    files = log("0.log", batch([Row(0), Row(1)], producer=(7, 0, 0)))
    put(tmp_path, files | {named("2.snapshot"): snapshot(0, 0)})
    assert rules_of(tmp_path) == [Rule.SNAPSHOT_LOG]


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        (b"0\n2\n0 0\n4 1\n", []),
        (b"0\n1\n0 0\n", [Rule.LEADER_EPOCH_CHECKPOINT_LOG]),
        (b"0\n1\n4 1\n", []),  # truncated from the start
        (b"0\n0\n", [Rule.LEADER_EPOCH_CHECKPOINT_LOG, Rule.LEADER_EPOCH_CHECKPOINT_LOG]),
        (b"0\n2\n4 1\n0 0\n", None),
        (b"9\n", [Rule.CHECKPOINT_READABLE]),
    ],
)
def test_leader_epochs_are_judged_by_the_log(
    tmp_path: Path, text: bytes, rules: list[Rule] | None
) -> None:
    files = log("0.log", batch([Row(0)], leader_epoch=0), batch([Row(1)], leader_epoch=4))
    put(tmp_path, files | {"leader-epoch-checkpoint": text})
    found = rules_of(tmp_path)
    assert found == rules if rules is not None else Rule.LEADER_EPOCH_CHECKPOINT_ORDER in found


def test_an_index_without_a_log_and_unreadable_metadata_are_named(tmp_path: Path) -> None:
    put(tmp_path, {named("5.index"): b"", "partition.metadata": b"x"})
    assert rules_of(tmp_path) == [Rule.PARTITION_METADATA_READABLE, Rule.SIDE_FILE_HAS_LOG]
