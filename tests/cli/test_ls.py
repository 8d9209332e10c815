"""`ottla ls`: what is in a log directory at a glance."""

import json
from pathlib import Path
from typing import Any

import pytest

from builders import Row, batch, wrapper
from ottla.cli import main


def put(folder: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def ls(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[dict[str, Any]], str]:
    code = main(["ls", *words, "--format", "jsonl"])
    out, err = capfd.readouterr()
    return code, [json.loads(line) for line in out.splitlines()], err


LOG = {
    "a.b-c-0/00000000000000000005.log": batch([Row(5, 1000), Row(6, 3000)], codec=4)
    + batch([Row(7, 2000)]),
    "a.b-c-0/00000000000000000008.log": batch([Row(8, 4000)]),
    "a.b-c-0/00000000000000000008.index": b"",
    "orders-3.0a1b-delete/00000000000000000000.log": b"",
}


def test_partitions_and_segments_are_listed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path, LOG)
    code, rows, err = ls(capfd, str(tmp_path), "--segments")
    assert (code, err) == (0, "")
    assert [(row["type"], row["topic"], row["partition"], row["state"]) for row in rows] == [
        ("partition", "a.b-c", 0, "live"),
        ("segment", "a.b-c", 0, "live"),
        ("segment", "a.b-c", 0, "live"),
        ("partition", "orders", 3, "delete"),
        ("segment", "orders", 3, "delete"),
    ]
    whole, first, second = rows[:3]
    assert (whole["firstOffset"], whole["lastOffset"], whole["segments"]) == (5, 8, 2)
    assert (whole["firstTimestamp"], whole["lastTimestamp"]) == (2000, 4000)
    assert (whole["batches"], whole["records"], whole["bytes"]) == (
        3,
        4,
        sum(map(len, LOG.values())),
    )
    assert (whole["magics"], whole["codecs"]) == ([2], ["none", "zstd"])
    assert (first["baseOffset"], first["lastOffset"], first["sideFiles"]) == (5, 7, [])
    assert second["sideFiles"] == ["index"]


@pytest.mark.parametrize("path", ["", "a.b-c-0"])
def test_a_directory_that_a_broker_would_not_use_is_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], path: str
) -> None:
    put(tmp_path, LOG | {"meta.properties": b"version=1\nnode.id=one\ncluster.id=c\n"})
    code, _, err = ls(capfd, str(tmp_path / path))
    assert code == 1
    assert "meta-properties-readable: a node id that is no number" in err


def test_only_what_was_asked_for_is_listed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path, LOG)
    assert [row["topic"] for row in ls(capfd, str(tmp_path), "--topic", "orders")[1]] == ["orders"]
    assert [row["topic"] for row in ls(capfd, str(tmp_path), "--partition", "0")[1]] == ["a.b-c"]


@pytest.mark.parametrize("path", ["a.b-c-0", "a.b-c-0/00000000000000000008.log"])
def test_a_partition_or_a_segment_is_listed_by_itself(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], path: str
) -> None:
    put(tmp_path, LOG)
    _, rows, _ = ls(capfd, str(tmp_path / path))
    assert [(row["topic"], row["partition"], row["lastOffset"]) for row in rows] == [
        ("a.b-c", 0, 8)
    ]


def test_problems_are_listed_and_give_exit_code_one(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path, LOG | {"a.b-c-0/00000000000000000009.log": batch([Row(2)]), "lost+found/x": b""})
    code, rows, err = ls(capfd, str(tmp_path))
    assert code == 1
    assert [one["rule"] for one in rows[0]["problems"]] == ["offsets-rise", "offset-in-segment"]
    assert "directory-name" in err
    assert ls(capfd, str(tmp_path), "--quiet")[2] == ""


def test_a_cut_off_tail_is_no_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    put(tmp_path, {"t-0/00000000000000000000.log": batch([Row(0)]) + batch([Row(1)])[:-1]})
    code, rows, err = ls(capfd, str(tmp_path))
    assert code == 0
    assert [one["rule"] for one in rows[0]["problems"]] == ["log-tail"]
    assert "warning" in err


def test_a_compressed_message_does_not_say_where_it_begins(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data = wrapper([Row(0, 1), Row(1, 2)], magic=1, codec=1)
    put(tmp_path, {"t-0/00000000000000000000.log": data})
    _, rows, _ = ls(capfd, str(tmp_path))
    assert (rows[0]["firstOffset"], rows[0]["lastOffset"], rows[0]["records"]) == (None, 1, None)


def test_text_has_a_line_for_each(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    put(tmp_path, LOG)
    assert main(["ls", str(tmp_path), "--segments", "--format", "text"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines == [
        "PARTITION               SEGMENTS   SIZE  OFFSETS  LAST (UTC)        CODECS",
        "a.b-c-0                        2  241 B  5..8     1970-01-01 00:00  none,zstd",
        "  00000000000000000005            168 B  5..7     1970-01-01 00:00  none,zstd",
        "  00000000000000000008             73 B  8..8     1970-01-01 00:00  none",
        "orders-3 (delete)              1    0 B",
        "  00000000000000000000              0 B",
        "2 partitions                   3  241 B",
    ]


def test_sizes_are_exact_and_a_wide_terminal_has_every_column_on_request(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, {"t-0/00000000000000000000.log": batch([Row(0, 1000, b"", bytes(2000))])})
    monkeypatch.setenv("COLUMNS", "200")
    main(["ls", str(tmp_path)])
    main(["ls", str(tmp_path), "--bytes"])
    head, human, _, _, exact, _ = [line.split() for line in capfd.readouterr().out.splitlines()]
    assert " ".join(head) == (
        "PARTITION SEGMENTS SIZE OFFSETS FIRST (UTC) LAST (UTC) BATCHES MAGIC CODECS"
    )
    assert (human[2:4], exact[2]) == (["2.0", "KiB"], "2070")


def test_partitions_are_listed_in_the_order_of_their_numbers(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path, {f"t-{number}/{0:020d}.log": batch([Row(0)]) for number in (10, 2, 1)})
    assert [row["partition"] for row in ls(capfd, str(tmp_path))[1]] == [1, 2, 10]


def test_the_log_directory_is_named_where_a_partition_is_in_two(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = batch([Row(0)])
    put(tmp_path, {f"one/t-0/{0:020d}.log": log, f"two/t-0.a-future/{0:020d}.log": log})
    main(["ls", str(tmp_path / "one"), str(tmp_path / "two")])
    head, one, two, _ = capfd.readouterr().out.splitlines()
    assert head.split()[:3] == ["PARTITION", "LOG", "DIRECTORY"]
    assert one.split()[:2] == ["t-0", str(tmp_path / "one")]
    assert two.split()[:3] == ["t-0", "(future)", str(tmp_path / "two")]
    main(["ls", str(tmp_path / "one")])
    assert "DIRECTORY" not in capfd.readouterr().out


def test_nothing_there_is_wrong_usage(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["ls", str(tmp_path / "nothing")]) == 2


def test_a_name_that_is_no_utf_8_is_escaped(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    put(tmp_path, {"\udcff/00000000000000000000.log": batch([Row(0)])})
    log = tmp_path / "\udcff" / "00000000000000000000.log"
    main(["ls", str(log), "--format", "text"])
    assert rb"/\udcff" in capfdbinary.readouterr().out


REMOTE = {
    "all-0/00000000000000000150.log": b"",
    "inside-0/00000000000000000005.log": LOG["a.b-c-0/00000000000000000005.log"],
    "some-0/00000000000000000005.log": LOG["a.b-c-0/00000000000000000005.log"],
    "log-start-offset-checkpoint": b"0\n3\nall 0 10\ninside 0 6\nsome 0 0\n",
}


def test_a_log_may_start_elsewhere(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What is in remote storage only is part of the log."""
    put(tmp_path, REMOTE)
    _, rows, _ = ls(capfd, str(tmp_path))
    assert [(row["logStartOffset"], row["remoteOffsets"]) for row in rows] == [
        (10, 140),
        (6, 0),
        (0, 5),
    ]
    assert main(["ls", str(tmp_path), "--format", "text"]) == 0
    out, _ = capfd.readouterr()
    assert [line.split()[4:6] for line in out.splitlines()[:4]] == [
        ["REMOTE", "LAST"],
        ["10..149"],
        ["6..7", "1970-01-01"],
        ["5..7", "0..4"],
    ]


def test_records_that_were_deleted_are_not_shown(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """kafka-delete-records moves the log start inside of a segment, or behind the last record."""
    log = LOG["a.b-c-0/00000000000000000005.log"]
    put(tmp_path, {f"{name}-0/{5:020d}.log": log for name in ("some", "all")})
    put(tmp_path, {"log-start-offset-checkpoint": b"0\n2\nsome 0 6\nall 0 8\n"})
    main(["ls", str(tmp_path)])
    out, _ = capfd.readouterr()
    assert ("  6..7  " in out, "none from 8" in out, "5..7" in out) == (True, True, False)


def test_a_broken_checkpoint_of_log_starts_is_a_problem(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path, LOG | {"log-start-offset-checkpoint": b"broken"})
    code, _, err = ls(capfd, str(tmp_path))
    assert (code, "checkpoint-readable" in err) == (1, True)
