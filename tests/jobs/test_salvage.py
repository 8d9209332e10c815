"""Salvage by segments gives what the salvage of a whole partition gives."""

import json
import os
import pickle
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from builders import Row, batch, message, reseal
from choosing import choose
from jobs.plain import records_of, run_plainly, tree
from jobs.test_verify import damage
from jobs.topics import write_topic
from ottla.errors import PublishError
from ottla.jobs.rewrite.salvage import plan_salvage_job
from ottla.kernels.search.salvage import Intact
from ottla.log.files.partition import find_partitions
from ottla.log.salvage.write import write_salvage
from ottla.publish.journal import commit, publish, run_job, staged_path
from whole_log import check_partition, plan_salvage


def damaged_topic(folder: Path, seed: int = 3) -> Path:
    logs = folder / "logs"
    write_topic(logs, "orders", partitions=3)
    chance = random.Random(seed)
    for log in sorted(logs.rglob("*.log"))[::2]:
        damage(log, chance)
    return logs


def salvage_whole(logs: Path, out: Path) -> None:
    with run_job(str(out), "whole") as job:
        files = []
        for partition in find_partitions([logs]):
            plans = plan_salvage(partition)
            files += write_salvage(partition, plans, job, job.storage, None).files
        commit(job, files, [])
        publish(job)


def test_parts_give_what_the_whole_gives(tmp_path: Path) -> None:
    logs = damaged_topic(tmp_path)
    before = tree(logs)
    salvage_whole(logs, tmp_path / "whole")
    run_plainly(plan_salvage_job(choose(logs), str(tmp_path / "parts")))
    assert tree(tmp_path / "parts") == tree(tmp_path / "whole")
    assert tree(logs) == before


def test_the_size_of_pieces_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert damaged_topic(tmp_path) == unreadable_log(tmp_path)
    selection = choose(tmp_path / "logs")
    whole = run_plainly(plan_salvage_job(selection, str(tmp_path / "whole")))
    monkeypatch.setattr("ottla.log.salvage.found._PIECE_ROWS", 1)
    monkeypatch.setattr("ottla.log.salvage.found._BLOCK_BYTES", 500)
    monkeypatch.setattr("ottla.log.salvage.write._COPY_BYTES", 1)
    pieces = run_plainly(plan_salvage_job(selection, str(tmp_path / "pieces")))
    assert pieces == whole
    assert tree(tmp_path / "pieces") == tree(tmp_path / "whole")
    left_out = [next(tmp_path.glob(f"{out}.ottla/*/quarantine")) for out in ("whole", "pieces")]
    assert tree(left_out[0]) == tree(left_out[1])


def test_the_account_covers_every_byte_and_the_output_is_sound(tmp_path: Path) -> None:
    logs = damaged_topic(tmp_path)
    rows = run_plainly(plan_salvage_job(choose(logs), str(tmp_path / "out")))
    assert [row["partition"] for row in rows] == [0, 1, 2]
    for row in rows:
        size = sum(path.stat().st_size for path in logs.glob(f"orders-{row['partition']}/*.log"))
        assert row["readBytes"] == size == row["writtenBytes"] + row["quarantinedBytes"]
    for partition in find_partitions([tmp_path / "out"]):
        assert records_of(Path(partition.path))
        severities = {violation.rule.severity for violation in check_partition(partition)}
        assert "error" not in severities


class Unpickled:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (str(self.path),)


class Staged(NamedTuple):
    """What a search staged: its rows, a line for each that is unreadable, and what it says."""

    rows: np.ndarray
    lines: list[dict[str, Any]]
    account: dict[str, Any]


Plant = Callable[[Staged], tuple[bytes, bytes]]


def with_row(**fields: int) -> Plant:
    """As it was staged, but for the second row."""

    def plant(staged: Staged) -> tuple[bytes, bytes]:
        for name, value in fields.items():
            staged.rows[name][1] = value
        return staged.rows.tobytes(), as_lines(staged.lines)

    return plant


def with_line(**fields: Any) -> Plant:
    """As it was staged, but for the last line."""

    def plant(staged: Staged) -> tuple[bytes, bytes]:
        staged.lines[-1] |= fields
        return staged.rows.tobytes(), as_lines(staged.lines)

    return plant


def with_lines(change: Callable[[bytes], bytes]) -> Plant:
    return lambda staged: (staged.rows.tobytes(), change(as_lines(staged.lines)))


def with_rows(change: Callable[[bytes], bytes]) -> Plant:
    return lambda staged: (change(staged.rows.tobytes()), as_lines(staged.lines))


def with_account(**fields: Any) -> Plant:
    def plant(staged: Staged) -> tuple[bytes, bytes]:
        staged.account.update(fields)
        return staged.rows.tobytes(), as_lines(staged.lines)

    return plant


def as_lines(rows: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


PLANTED: dict[str, Plant] = {
    "no-rows": with_rows(lambda _: b""),
    "half-a-row": with_rows(lambda data: data[:-9]),
    "one-row-more": with_rows(lambda data: data + data[-30:]),
    "before-the-file": with_row(position=-1),
    "inside-the-row-before": with_row(position=1),
    "past-the-file": with_row(size=2**31 - 1),
    "past-all-files": with_row(position=2**63 - 1),
    "no-size": with_row(size=0),
    "size-below-zero": with_row(size=-61),
    "magic-unknown": with_row(magic=3),
    "verdict-unknown": with_row(verdict=5),
    "unreadable-without-a-line": with_row(verdict=3),
    "no-lines": with_lines(lambda _: b""),
    "half-a-line": with_lines(lambda data: data[:-9]),
    "one-line-more": with_lines(lambda data: data * 2),
    "behind-the-last-line": with_lines(lambda data: data + b"x"),
    "one-long-line": with_lines(lambda _: b"1" * (5 << 20)),
    "not-json": with_lines(lambda _: b"{\n"),
    "not-utf-8": with_lines(lambda _: b'"\xff"\n'),
    "nested": with_lines(lambda _: b"[" * 100_000 + b"\n"),
    "many-digits": with_lines(lambda _: b"9" * 5000 + b"\n"),
    "a-list": with_lines(lambda _: b"[]\n"),
    "no-fields": with_lines(lambda _: b"{}\n"),
    "no-rule": with_line(rule="no-such-rule"),
    "rule-is-a-list": with_line(rule=[]),
    "detail-is-a-number": with_line(detail=7),
    "offset-is-a-text": with_line(offset="7"),
    "field-unknown": with_line(mode=1),
    "another-file": with_line(file="/etc/passwd"),
    "another-position": with_line(position=-1),
    "another-size": with_line(size=2**62),
    "count-of-another": with_account(intact=1),
    "count-below-zero": with_account(intact=-1),
    "none-unreadable": with_account(unreadable=0),
}
NO_COUNT: dict[str, Plant] = {
    "count-is-a-text": with_account(intact="3"),
    "count-is-true": with_account(intact=True),
    "count-is-nothing": with_account(unreadable=None),
}
ROW = np.dtype("<i8,<i4,<i8,<i8,u1,u1")


def unreadable_log(folder: Path) -> Path:
    """Two batches around a message, and two that are sealed as they are: inside a record."""
    good = [batch([Row(0)]), message(Row(1), magic=1), batch([Row(2)])]
    cut = [batch([Row(at, at, b"k", b"value")])[:-3] for at in (3, 4)]
    bad = [reseal(data[:8] + struct.pack(">i", len(data) - 12) + data[12:]) for data in cut]
    log = folder / "logs" / "t-0" / f"{0:020d}.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"".join(good + bad))
    return folder / "logs"


def rescue_planted(folder: Path, plant: Plant) -> None:
    """Search a log, put something else where its findings were staged, and go on."""
    plan = plan_salvage_job(choose(str(unreadable_log(folder))), str(folder / "out"))
    with run_job(plan.out, "j") as job:
        finished = {key: plan.stage(job, part) for key, part in plan.parts.items()}
        (searched,) = finished.values()
        rows = Path(staged_path(job, searched.account["found"]))
        lines = rows.with_name(f"{rows.name}.jsonl")
        table = np.frombuffer(rows.read_bytes(), dtype=ROW).copy()
        table.dtype.names = Intact._fields
        assert table["verdict"].tolist() == [0, 0, 0, 3, 3]
        known = [json.loads(line) for line in lines.read_text().splitlines()]
        data, text = plant(Staged(table, known, searched.account))
        rows.write_bytes(data)
        lines.write_bytes(text)
        (part,) = plan.closing(finished).values()
        plan.close(job, part)


def test_what_was_found_is_taken_as_it_was_staged(tmp_path: Path) -> None:
    rescue_planted(tmp_path, with_account())


@pytest.mark.parametrize("planted", PLANTED.values(), ids=PLANTED)
def test_what_was_found_is_read_as_if_a_stranger_had_written_it(
    tmp_path: Path, planted: Plant
) -> None:
    with pytest.raises(PublishError, match="is not what was found in"):
        rescue_planted(tmp_path, planted)


def test_a_batch_is_copied_only_if_it_is_the_one_that_was_found(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="is not the one that was found there"):
        rescue_planted(tmp_path, with_row(base_offset=5))


@pytest.mark.parametrize("planted", NO_COUNT.values(), ids=NO_COUNT)
def test_how_much_was_found_must_be_a_number(tmp_path: Path, planted: Plant) -> None:
    with pytest.raises(PublishError, match="nothing says how much was found in"):
        rescue_planted(tmp_path, planted)


@pytest.mark.parametrize("where", [with_rows, with_lines])
def test_what_was_found_is_not_unpickled(
    tmp_path: Path, where: Callable[[Callable[[bytes], bytes]], Plant]
) -> None:
    """It used to be: whoever could write to the staging could run code."""
    pickled = pickle.dumps(Unpickled(tmp_path / "ran"))
    with pytest.raises(PublishError, match="is not what was found in"):
        rescue_planted(tmp_path, where(lambda _: pickled))
    assert not (tmp_path / "ran").exists()


def test_what_was_found_is_named_inside_of_the_staging(tmp_path: Path) -> None:
    logs, out = damaged_topic(tmp_path), str(tmp_path / "out")
    plan = plan_salvage_job(choose(logs), out)
    with run_job(out, "j") as job:
        finished = {key: plan.stage(job, part) for key, part in plan.parts.items()}
        for part in finished.values():
            part.account["found"] = "../../../elsewhere"
        for part in plan.closing(finished).values():
            with pytest.raises(PublishError, match="no name of a file"):
                plan.close(job, part)


def test_a_segment_that_changes_after_its_search_is_an_error_and_nothing_is_published(
    tmp_path: Path,
) -> None:
    logs = damaged_topic(tmp_path)
    plan = plan_salvage_job(choose(logs), str(tmp_path / "out"))
    with run_job(plan.out, "j") as job:
        searched = {key: plan.stage(job, part) for key, part in plan.parts.items()}
        log = sorted(logs.rglob("*.log"))[1]  # a sound one
        data = bytearray(log.read_bytes())
        data[-1] ^= 1
        log.write_bytes(data)
        rescue = plan.closing(searched)[log.parent.name]
        with pytest.raises(OSError, match=f"{log.name} changed while it was salvaged"):
            plan.close(job, rescue)
    assert not (tmp_path / "out").exists()


def test_a_log_end_that_only_a_name_says_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "in" / "t-0"
    folder.mkdir(parents=True)
    sound = b"".join(message(Row(at, 5), magic=1) for at in range(4))
    (folder / f"{0:020d}.log").write_bytes(sound)
    (folder / f"{10:020d}.log").write_bytes(message(Row(10, 5), magic=1)[:-1] + b"?")
    run_plainly(plan_salvage_job(choose(tmp_path / "in"), str(tmp_path / "out")))
    assert (tmp_path / "out" / "t-0" / f"{10:020d}.log").read_bytes() == b""
    assert "t-0: offsets 4 to 9 are in no batch, and magic 0 and 1 have none" in caplog.text
