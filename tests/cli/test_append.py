"""`ottla append --dry-run`: verdicts without writing anything."""

import json
from pathlib import Path

import pytest

import builders
from builders import Row
from ottla.cli import main
from rules.histories import COMMIT, data_batch, marker

NOW = 1_000_000


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """A partition whose producer 7 wrote sequences 0 to 2; its leader has epoch 4."""
    folder = tmp_path / "orders-0"
    folder.mkdir()
    written = data_batch(10, 3, producer=(7, 1, 0), timestamp=NOW)
    (folder / "00000000000000000010.log").write_bytes(written)
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n4 10\n")
    return folder


def dry_run(
    segment: bytes,
    partition: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
    *flags: str,
) -> tuple[int, list[dict[str, object]]]:
    path = partition.parent / "batches.log"
    path.write_bytes(segment)
    before = {file: file.read_bytes() for file in partition.iterdir()}
    arguments = ["append", str(path), "--to", str(partition), "--dry-run", "--now", str(NOW)]
    code = main([*arguments, "--format", "jsonl", *flags])
    assert {file: file.read_bytes() for file in partition.iterdir()} == before
    return code, [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]


def test_batches_of_a_segment_are_judged_one_by_one(
    partition: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    segment = [
        data_batch(500, 2, producer=(7, 1, 3), timestamp=NOW),
        data_batch(502, 2, producer=(7, 1, 3), timestamp=NOW),
        data_batch(504, 2, producer=(7, 1, 9), timestamp=NOW),
        data_batch(506, 2, producer=(7, 0, 5), timestamp=NOW),
        marker(508, 7, 1, COMMIT, timestamp=NOW),
        data_batch(509, timestamp=NOW),
    ]
    code, rows = dry_run(b"".join(segment), partition, capfdbinary)
    assert code == 1
    assert [row.get("rule", row.get("verdict")) for row in rows[:-1]] == [
        "accepted",
        "duplicate",
        "sequence-in-order",
        "producer-epoch-fenced",
        "append-control",
        "accepted",
    ]
    assert (rows[0]["firstOffset"], rows[1]["firstOffset"], rows[5]["firstOffset"]) == (13, 13, 15)
    assert rows[-1] == {
        "type": "end",
        "accepted": 2,
        "duplicate": 1,
        "refused": 3,
        "nextOffset": 16,
    }


def test_the_topics_settings_decide_what_is_stored(
    partition: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    segment = builders.batch([Row(at, NOW, b"k", b"v" * 50) for at in range(20)])
    code, rows = dry_run(segment, partition, capfdbinary, "--compression-type", "zstd")
    assert code == 0
    assert (rows[0]["stored"], rows[0]["storedCodec"]) == ("encoded", "zstd")
    assert int(str(rows[0]["storedSize"])) < int(str(rows[0]["size"]))
    _, rows = dry_run(segment, partition, capfdbinary, "--message-timestamp-type", "LogAppendTime")
    assert (rows[0]["stored"], rows[0]["logAppendTime"]) == ("in-place", NOW)


def test_every_record_that_breaks_a_rule_is_named(
    partition: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    segment = builders.batch([Row(0, NOW, b"k"), Row(1, NOW, None), Row(2, NOW, None)])
    code, rows = dry_run(segment, partition, capfdbinary, "--cleanup-policy", "compact")
    violations = rows[0]["violations"]
    assert code == 1
    assert isinstance(violations, list)
    assert [each["detail"].split(":")[0] for each in violations] == ["record 1", "record 2"]


def test_a_replica_takes_what_its_leader_has(
    partition: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    segment = data_batch(500, 2, timestamp=NOW) + marker(508, 7, 1, COMMIT, timestamp=NOW)
    code, rows = dry_run(segment, partition, capfdbinary, "--origin", "replication")
    assert code == 0
    assert [row.get("firstOffset") for row in rows[:-1]] == [500, 508]
    assert rows[-1]["nextOffset"] == 509


@pytest.mark.parametrize("magic", [0, 1])
def test_clients_no_longer_write_old_formats(
    partition: Path, capfdbinary: pytest.CaptureFixture[bytes], magic: int
) -> None:
    segment = builders.message(Row(0, NOW, b"k", b"v"), magic=magic)
    code, rows = dry_run(segment, partition, capfdbinary)
    assert (code, rows[0]["verdict"], rows[0]["rule"]) == (1, "refused", "append-magic")


def test_nothing_is_written_so_it_must_be_said(
    partition: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = partition / "00000000000000000010.log"
    assert main(["append", str(path), "--to", str(partition)]) == 2
    assert "--dry-run" in capfd.readouterr().err


def test_text_says_the_same(partition: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    path = partition.parent / "batches.log"
    path.write_bytes(data_batch(500, 2, timestamp=NOW) + marker(502, 7, 1, COMMIT, timestamp=NOW))
    arguments = ["append", str(path), "--to", str(partition), "--dry-run", "--format", "text"]
    assert main([*arguments, "--now", str(NOW)]) == 1
    text = capfdbinary.readouterr().out.decode()
    assert "accepted at offsets 13 to 14, in-place" in text
    assert "refused: append-control: clients do not write control batches" in text
    assert "1 accepted, 0 duplicate, 1 refused; the log would end at offset 15" in text


def test_a_name_that_is_no_utf_8_is_escaped(
    partition: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = f"{partition.parent}/\udcff.log"
    Path(path).write_bytes(data_batch(500, timestamp=NOW))
    arguments = ["append", path, "--to", str(partition), "--dry-run", "--format", "text"]
    assert main([*arguments, "--now", str(NOW)]) == 0
    assert rb"/\udcff.log @ 0: accepted" in capfdbinary.readouterr().out


def test_nothing_is_stored_of_a_coordinators_batch_without_records(
    partition: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    flags = ("--origin", "coordinator", "--compression-type", "gzip")
    code, rows = dry_run(builders.batch_of(b"", count=0), partition, capfdbinary, *flags)
    assert (code, rows[0]["verdict"], rows[0]["storedSize"]) == (0, "accepted", 0)
    assert rows[0]["storedCodec"] is None
    assert rows[-1]["nextOffset"] == 13


def test_old_produce_requests_bring_no_zstd_and_the_others_are_judged(
    partition: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    segment = b"".join(
        data_batch(500 + at, codec=codec, timestamp=NOW) for at, codec in enumerate([0, 4, 4, 3, 4])
    )
    code, rows = dry_run(segment, partition, capfdbinary, "--produce-version", "6")
    assert code == 1
    assert [row.get("rule", row.get("firstOffset")) for row in rows[:-1]] == [
        13,
        "append-codec",
        "append-codec",
        14,
        "append-codec",
    ]


def test_an_empty_last_segment_says_where_the_log_ends(
    partition: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    (partition / "00000000000000000040.log").touch()
    code, rows = dry_run(data_batch(0, 2, timestamp=NOW), partition, capfdbinary)
    assert (code, rows[0]["firstOffset"], rows[-1]["nextOffset"]) == (0, 40, 42)
