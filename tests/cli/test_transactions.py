"""`ottla transactions` on partitions with open, hanging and ended transactions."""

import json
from pathlib import Path

import pytest

from ottla.cli import main
from ottla.log.files.producer_snapshot import write_producer_snapshot
from ottla.rules.producers.snapshots import to_snapshot
from ottla.rules.producers.transactions import Transactions
from rules.histories import ABORT, COMMIT, data_batch, marker, tables

MINUTE = 60_000
NOW = 100 * MINUTE

FIRST = [
    data_batch(0, 2, producer=(1, 0, 0), transactional=True, timestamp=10 * MINUTE),
    marker(2, 1, 0, COMMIT, timestamp=11 * MINUTE),
    data_batch(3, producer=(2, 0, 0), transactional=True, timestamp=20 * MINUTE),
]
SECOND = [
    data_batch(4, 3, producer=(1, 0, 2), transactional=True, timestamp=30 * MINUTE),
    marker(7, 1, 0, ABORT, timestamp=32 * MINUTE),
    marker(8, 9, 0, COMMIT, timestamp=33 * MINUTE),
    data_batch(9, 4, producer=(3, 5, 0), transactional=True, timestamp=95 * MINUTE),
]


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    partition = tmp_path / "orders-3"
    partition.mkdir()
    (partition / "00000000000000000000.log").write_bytes(b"".join(FIRST))
    (partition / "00000000000000000004.log").write_bytes(b"".join(SECOND))
    plain = tmp_path / "plain-0"
    plain.mkdir()
    (plain / "00000000000000000000.log").write_bytes(data_batch(0, 5))
    return tmp_path


def rows(capfdbinary: pytest.CaptureFixture[bytes]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]


def test_open_transactions_say_what_they_hold_back_and_how_to_end_them(
    logs: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    code = main(["transactions", str(logs), "--format", "jsonl", "--now", str(NOW)])
    partition, first, second, plain = rows(capfdbinary)
    assert code == 1
    assert (partition["lastStableOffset"], partition["endOffset"]) == (3, 13)
    counts = [partition[name] for name in ("committed", "aborted", "empty", "open", "hanging")]
    assert counts == [1, 1, 1, 2, 1]
    assert partition["durationMs"] == {"median": 90_000, "p99": 119_400, "max": 120_000}
    assert (first["producerId"], first["firstOffset"], first["hanging"]) == (2, 3, True)
    assert (first["heldBack"], first["silentMs"]) == (10, 80 * MINUTE)
    assert first["blocksLastStableOffset"]
    assert str(first["abortCommand"]).endswith(
        "abort --topic orders --partition 3 --start-offset 3"
    )
    assert (second["producerId"], second["hanging"], second["records"]) == (3, False, 4)
    assert (plain["topic"], plain["lastStableOffset"], plain["open"]) == ("plain", 5, 0)


def test_a_patient_operator_sees_nothing_hanging(
    logs: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    patience = ["--max-transaction-timeout-ms", str(90 * MINUTE)]
    code = main(["transactions", str(logs), "--format", "jsonl", "--now", str(NOW), *patience])
    assert code == 0
    assert rows(capfdbinary)[0]["hanging"] == 0


def test_the_high_watermark_limits_what_is_stable(
    logs: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    (logs / "replication-offset-checkpoint").write_text("0\n2\norders 3 2\nplain 0 4\n")
    main(["transactions", str(logs), "--format", "jsonl", "--now", str(NOW)])
    found = {row["topic"]: row for row in rows(capfdbinary) if row["type"] == "partition"}
    assert (found["orders"]["highWatermark"], found["orders"]["lastStableOffset"]) == (2, 0)
    assert found["plain"]["lastStableOffset"] == 4


def test_ended_transactions_are_listed_on_request(
    logs: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    wanted = ["--completed", "--topic", "orders", "--partition", "3"]
    main(["transactions", str(logs), "--format", "jsonl", "--now", str(NOW), *wanted])
    ended = [row for row in rows(capfdbinary) if row["type"] not in ("partition", "open")]
    assert [(row["type"], row["firstOffset"], row["lastOffset"]) for row in ended] == [
        ("committed", 0, 2),
        ("aborted", 4, 7),
        ("empty", -1, 8),
    ]


def test_reading_can_begin_at_a_snapshot(
    logs: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    before = Transactions()
    _, batches, markers = tables(FIRST)
    before.add(batches, markers)
    snapshot = write_producer_snapshot(to_snapshot(before.state))
    partition = logs / "orders-3"
    (partition / "00000000000000000004.snapshot").write_bytes(snapshot)
    # What the snapshot stands for is not read.
    (partition / "00000000000000000000.log").write_bytes(b"\xff" * 100)
    arguments = ["--format", "jsonl", "--now", str(NOW), "--from", "5", "--topic", "orders"]
    main(["transactions", str(logs), *arguments])
    found, first, *_ = rows(capfdbinary)
    assert (found["startOffset"], found["lastStableOffset"]) == (4, 3)
    assert (first["producerId"], first["firstOffset"]) == (2, 3)


def test_a_damaged_marker_is_passed_over_and_named(
    logs: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    segment = logs / "orders-3" / "00000000000000000000.log"
    data = bytearray(b"".join(FIRST))
    at = len(FIRST[0]) + 70
    data[at] ^= 1
    segment.write_bytes(data)
    code = main(["transactions", str(segment), "--format", "jsonl", "--now", "0"])
    captured = capfdbinary.readouterr()
    assert code == 1
    assert b"crc-matches" in captured.err
    assert json.loads(captured.out.splitlines()[0])["open"] == 2


def test_text_names_the_partition_and_the_command(
    logs: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    main(["transactions", str(logs), "--format", "text", "--now", str(NOW)])
    text = capfdbinary.readouterr().out.decode()
    assert "orders-3: last stable offset 3 of 13 (10 held back)" in text
    assert "HANGING  producer 2 epoch 0, from offset 3, 1 record, " in text
    assert "silent for 1:20:00 (since 1970-01-01 00:20), holds the rest back" in text
    assert "abort \\\n             --topic orders --partition 3 --start-offset 3\n" in text


def test_text_shows_what_is_open_and_counts_the_rest(
    logs: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    main(["transactions", str(logs), "--now", str(NOW)])
    text = capfdbinary.readouterr().out.decode()
    assert "plain-0" not in text
    assert text.endswith(
        "1 hanging, 1 open in 1 of 2 partitions (orders-3).\n"
        "Ended: 1 committed, 1 aborted, 1 empty.\n"
    )
    assert text.count("kafka-transactions.sh") == 1  # one that is merely open will end by itself
    assert max(map(len, text.splitlines())) <= 80
    main(["transactions", str(logs), "--now", str(NOW), "--all"])
    assert "plain-0: last stable offset 5 of 5\n" in capfdbinary.readouterr().out.decode()
    main(["transactions", str(logs), "--topic", "plain"])
    text = capfdbinary.readouterr().out.decode()
    assert text.startswith("No open transactions in 1 partition.\n")


def test_a_directory_that_is_being_deleted_is_marked(
    logs: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    (logs / "plain-0").rename(logs / "plain-0.0a1b-delete")
    main(["transactions", str(logs), "--topic", "plain", "--all"])
    assert capfdbinary.readouterr().out.startswith(b"plain-0 (delete): ")


def test_the_log_directory_is_named_where_a_partition_is_in_two(
    logs: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    for broker in ("one", "two"):
        (logs / broker / "t-0").mkdir(parents=True)
        (logs / broker / "t-0" / f"{0:020d}.log").write_bytes(b"".join(FIRST))
    one, two = logs / "one", logs / "two"
    main(["transactions", str(one), str(two), "--now", str(NOW)])
    text = capfdbinary.readouterr().out.decode()
    assert f"2 hanging in 2 of 2 partitions (t-0 in {one}, t-0 in {two}).\n" in text


def test_a_name_that_is_no_utf_8_is_escaped(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    log = tmp_path / "\udcff" / "00000000000000000000.log"
    log.parent.mkdir()
    log.write_bytes(data_batch(0))
    assert main(["transactions", str(log), "--all"]) == 0
    assert rb"/\udcff" in capfdbinary.readouterr().out


def test_an_empty_last_segment_says_where_the_log_ends(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020d}.log").write_bytes(data_batch(0, 3))
    (tmp_path / "t-0" / f"{40:020d}.log").touch()
    assert main(["transactions", str(tmp_path), "--format", "jsonl"]) == 0
    (row,) = rows(capfdbinary)
    assert (row["endOffset"], row["lastStableOffset"]) == (40, 40)


def test_a_stale_high_watermark_is_named_as_what_holds_back(
    logs: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    (logs / "replication-offset-checkpoint").write_text("0\n2\nplain 0 2\norders 3 13\n")
    main(["transactions", str(logs), "--format", "jsonl", "--now", str(NOW)])
    reasons = {row["topic"]: row["heldBackBy"] for row in rows(capfdbinary) if "heldBackBy" in row}
    assert reasons == {"orders": "transaction", "plain": "highWatermark"}
    main(["transactions", str(logs), "--topic", "plain"])
    said = capfdbinary.readouterr().out.decode()
    assert "3 offsets of 1 partition are above the checkpoint of the high watermark." in said
    main(["transactions", str(logs), "--topic", "plain", "--all"])
    said = capfdbinary.readouterr().out.decode()
    assert "(3 held back by the high watermark 2 in replication-offset-checkpoint" in said
    assert "0 open" in said


def test_a_watermark_before_an_open_transaction_holds_more_back(
    logs: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    (logs / "replication-offset-checkpoint").write_text("0\n1\norders 3 2\n")
    main(["transactions", str(logs), "--topic", "orders", "--format", "jsonl", "--now", str(NOW)])
    partition, *_ = rows(capfdbinary)
    assert (partition["lastStableOffset"], partition["heldBackBy"]) == (0, "highWatermark")
