"""Every job that writes logs keeps what a partition is besides its batches.

Log start, log end, leader epochs and topic id, as a broker would have them that mounts the output:
`plan_recovery` says what it would do, with a clean stop and without.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from builders import Row, batch, message, wrapper
from choosing import choose
from jobs.compacting import compact_plainly
from jobs.plain import lines_of, records_of, run_plainly, tree
from jobs.test_write import save
from log.generated import TRANSACTIONAL, marker
from ottla.batch.convert import Conversion, Loss
from ottla.catalog.chosen import ChosenLogs
from ottla.errors import CorruptLogError, OptionError, Rule
from ottla.format.attributes import Codec
from ottla.jobs.compact.plan import plan_compaction
from ottla.jobs.compact.survey import CompactOptions
from ottla.jobs.output import OutputJob
from ottla.jobs.rewrite.convert import plan_convert
from ottla.jobs.rewrite.restore import Renaming, compile_filter, plan_restore
from ottla.jobs.rewrite.salvage import plan_salvage_job
from ottla.log.check.recovery import plan_recovery
from ottla.log.files.partition import read_log_directories
from ottla.options.offsets import Offset
from whole_log import check_partition

Job = Callable[[ChosenLogs, str], list[dict[str, Any]]]

TOPIC_ID = "Zk3vQ1cJS0uW0Yq2yH8n4g"
OTHER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
NOW = 1_700_000_100_000
SAME = Renaming({}, {})
SOME_KEYS = compile_filter(("k1",), None, ())
NO_KEYS = compile_filter(("nobody",), None, ())
ALL = compile_filter((), None, ())
CLEANING = CompactOptions(drops_unkeyed=True, includes_active=True)
SPLIT = 150  # a batch or two for each task


def convert(conversion: Conversion, **more: Any) -> Job:
    return lambda chosen, out: run_plainly(
        plan_convert(chosen, out, conversion, {}, split_bytes=SPLIT, **more)
    )


def restore(wanted: Any = ALL, renaming: Renaming = SAME) -> Job:
    def plan(chosen: ChosenLogs, out: str) -> OutputJob:
        return plan_restore(chosen, out, wanted, renaming, split_bytes=SPLIT)

    return lambda chosen, out: run_plainly(plan(chosen, out))


def compact(chosen: ChosenLogs, out: str) -> list[dict[str, Any]]:
    return compact_plainly(plan_compaction(chosen, out, CLEANING, now=NOW))


def salvage(chosen: ChosenLogs, out: str) -> list[dict[str, Any]]:
    return run_plainly(plan_salvage_job(chosen, out))


BOUNDED: dict[str, Job] = {
    "convert": convert(Conversion(codec=Codec.LZ4)),
    "as-it-is": convert(Conversion()),
    "rebatch": convert(Conversion(batch_bytes=200), rebatches=True),
    "restore": restore(),
    "some-keys": restore(SOME_KEYS),
    "no-keys": restore(NO_KEYS),
    "down": convert(Conversion(magic=1, codec=Codec.GZIP, allowed=frozenset(Loss))),
    "plain-down": convert(Conversion(magic=0, codec=Codec.NONE, allowed=frozenset(Loss))),
}
JOBS = BOUNDED | {"compact": compact, "salvage": salvage}
EXACT = ("convert", "as-it-is", "rebatch", "restore", "down", "plain-down")  # keep every record
each_job = pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
each_bounded = pytest.mark.parametrize("job", BOUNDED.values(), ids=BOUNDED)


class Seen(NamedTuple):
    """What a broker has of a partition after its start."""

    log_start: int
    log_end: int
    epochs: list[str]
    metadata: bytes | None


def rows(first: int, last: int) -> list[Row]:
    return [Row(at, 1000 + at, b"k%d" % (at % 7), b"v%d" % at) for at in range(first, last + 1)]


def write_log(
    logs: Path,
    segments: dict[int, bytes],
    *,
    epochs: Sequence[tuple[int, int]] | None = ((0, 0),),
    log_start: int | None = None,
    topic: str = "orders",
) -> Path:
    """A log directory with one partition."""
    folder = logs / f"{topic}-0"
    folder.mkdir(parents=True)
    for base, data in segments.items():
        (folder / f"{base:020d}.log").write_bytes(data)
    (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}")
    if epochs is not None:
        lines = [f"{epoch} {start}\n" for epoch, start in epochs]
        (folder / "leader-epoch-checkpoint").write_text("".join(["0\n", f"{len(lines)}\n", *lines]))
    if log_start is not None:
        checkpoint = f"0\n1\n{topic} 0 {log_start}\n"
        (logs / "log-start-offset-checkpoint").write_text(checkpoint)
    return logs


def see(logs: Path, name: str = "orders-0") -> Seen:
    """An output: sound by `verify`."""
    (directory,) = read_log_directories([logs])
    (partition,) = [each for each in directory.partitions if str(each.name) == name]
    found = [each for each in check_partition(partition) if each.rule.severity != "note"]
    # A producer stays known whose aborted records a cleaner took away.
    assert [each for each in found if each.rule is not Rule.SNAPSHOT_LOG] == []
    return look(logs, name)


def look(logs: Path, name: str = "orders-0") -> Seen:
    """The same to a broker after either kind of stop."""
    (directory,) = read_log_directories([logs])
    (partition,) = [each for each in directory.partitions if str(each.name) == name]
    unclean = plan_recovery(directory, partition)
    (logs / ".kafka_cleanshutdown").write_bytes(b"")
    (directory,) = read_log_directories([logs])
    clean = plan_recovery(directory, partition)
    (logs / ".kafka_cleanshutdown").unlink()
    assert clean[1:] == unclean[1:]
    checkpoint = logs / name / "leader-epoch-checkpoint"
    metadata = logs / name / "partition.metadata"
    return Seen(
        clean.log_start_offset,
        clean.log_end_offset,
        checkpoint.read_text().splitlines()[2:],
        metadata.read_bytes() if metadata.exists() else None,
    )


def log_starts(logs: Path) -> list[str]:
    checkpoint = logs / "log-start-offset-checkpoint"
    return checkpoint.read_text().splitlines()[2:] if checkpoint.exists() else []


def offsets(logs: Path, name: str = "orders-0") -> list[int]:
    """The offsets that a reader gets."""
    start = see(logs, name).log_start
    return [record[0] for record in records_of(logs / name) if record[0] >= start]


def run(job: Job, folder: Path, **which: Any) -> Path:
    before = tree(folder / "logs")
    job(choose(folder / "logs", **which), str(folder / "out"))
    assert tree(folder / "logs") == before
    return folder / "out"


def moments(start: int | None, stop: int | None) -> dict[str, Offset]:
    bounds = {"start": start, "stop": stop}
    return {name: Offset(at) for name, at in bounds.items() if at is not None}


STRADDLED = {
    "magic-2": batch(rows(0, 79)) + batch(rows(80, 119)) + batch(rows(120, 149)),
    "compressed": b"".join(
        batch(rows(*edges), codec=4, producer=(7, 0, edges[0]))
        for edges in ((0, 79), (80, 119), (120, 149))
    ),
    "magic-1": wrapper(rows(0, 79), magic=1, codec=1) + wrapper(rows(80, 149), magic=1, codec=1),
}
each_straddled = pytest.mark.parametrize("data", STRADDLED.values(), ids=STRADDLED)


@each_straddled
@each_job
def test_a_log_start_inside_a_batch_stays(tmp_path: Path, job: Job, data: bytes) -> None:
    logs = write_log(tmp_path / "logs", {0: data}, log_start=100)
    wanted = look(logs)
    assert wanted[:2] == (100, 150)
    out = run(job, tmp_path)
    assert see(out) == wanted
    assert log_starts(out) == ["orders 0 100"]
    assert min(offsets(out), default=100) >= 100
    if job in [JOBS[name] for name in EXACT]:
        assert offsets(out) == list(range(100, 150))


@each_straddled
@pytest.mark.parametrize(("start", "stop"), [(100, 140), (None, 2), (85, 90), (81, None)])
@each_bounded
def test_bounds_inside_a_batch_cut_records(
    tmp_path: Path, job: Job, data: bytes, start: int | None, stop: int | None
) -> None:
    write_log(tmp_path / "logs", {0: data})
    out = run(job, tmp_path, **moments(start, stop))
    first, end = start or 0, 150 if stop is None else stop
    assert see(out)[:2] == (first, end)
    assert set(offsets(out)) <= set(range(first, end))
    if job in [JOBS[name] for name in EXACT]:
        assert offsets(out) == list(range(first, end))


def aborted(first: int, last: int) -> bytes:
    data = batch(rows(first, last), attributes=TRANSACTIONAL, producer=(9, 2, 0))
    return data + marker(last + 1, 9, 0)


ENDS = {
    "batch-tail": {0: batch(rows(0, 19), last_offset_delta=28)},
    "aborted": {0: batch(rows(0, 3)) + aborted(4, 27)},
    "empty-batch": {0: batch(rows(0, 3)) + batch([], base_offset=4, last_offset_delta=24)},
    "empty-segment": {0: batch(rows(0, 3)), 29: b""},
    "all-of-one-segment": {0: batch(rows(0, 9)), 10: batch(rows(10, 13), last_offset_delta=18)},
    "old-format": {0: b"".join(message(row, magic=1) for row in rows(0, 19)), 29: b""},
}


@pytest.mark.parametrize("segments", ENDS.values(), ids=ENDS)
@each_job
def test_a_log_end_past_the_last_record_stays(
    tmp_path: Path, job: Job, segments: dict[int, bytes]
) -> None:
    logs = write_log(tmp_path / "logs", segments)
    wanted = look(logs)
    assert wanted[:2] == (0, 29)
    out = run(job, tmp_path)
    assert see(out) == wanted
    again = convert(Conversion(magic=2, codec=Codec.LZ4))
    again(choose(out), str(tmp_path / "again"))
    assert see(tmp_path / "again") == wanted


def test_an_open_transaction_does_not_turn_the_end_back(tmp_path: Path) -> None:
    data = batch(rows(0, 3)) + batch(rows(4, 9), attributes=TRANSACTIONAL, producer=(9, 2, 0))
    logs = write_log(tmp_path / "logs", {0: data})
    (account,) = BOUNDED["down"](choose(logs), str(tmp_path / "out"))
    assert see(tmp_path / "out")[:2] == (0, 10)
    assert offsets(tmp_path / "out") == [0, 1, 2, 3]
    assert account["lostOffsets"] == 6


def test_an_old_format_gets_no_batch_of_a_new_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_log(tmp_path / "logs", ENDS["aborted"])
    out = run(BOUNDED["down"], tmp_path)
    assert "offsets 4 to 28 are in no batch" in caplog.text
    magics = {line["magic"] for line in lines_of(out / "orders-0") if line["type"] == "batch"}
    assert magics == {1}


LINEAGE = ((0, 0), (2, 40), (5, 120), (6, 130))
LOCAL = {100: batch(rows(100, 119), leader_epoch=2), 120: batch(rows(120, 149), leader_epoch=5)}
LOCAL[120] = batch(rows(120, 129), leader_epoch=5) + batch(rows(130, 149), leader_epoch=6)
LINES = ["0 0", "2 40", "5 120", "6 130"]


@each_job
def test_epochs_below_the_local_start_stay(tmp_path: Path, job: Job) -> None:
    """Remote storage has what lies before 100: without its epochs a broker deletes it."""
    logs = write_log(tmp_path / "logs", LOCAL, epochs=LINEAGE, log_start=0)
    out = run(job, tmp_path)
    assert see(out) == look(logs)
    assert see(out).epochs == LINES
    assert log_starts(out) == ["orders 0 0"]
    first, *_ = sorted((out / "orders-0").glob("*.log"))
    assert int(first.stem) == 100


@each_job
def test_a_wholly_remote_partition_stays(tmp_path: Path, job: Job) -> None:
    logs = write_log(tmp_path / "logs", {150: b""}, epochs=LINEAGE, log_start=0)
    out = run(job, tmp_path)
    assert see(out) == look(logs)
    assert see(out)[1:3] == (150, LINES)
    assert log_starts(out) == ["orders 0 0"]
    assert [int(path.stem) for path in (out / "orders-0").glob("*.log")] == [150]


@each_job
def test_a_new_leader_that_wrote_nothing_stays(tmp_path: Path, job: Job) -> None:
    write_log(tmp_path / "logs", {0: batch(rows(0, 9))}, epochs=((0, 0), (4, 10)))
    assert see(run(job, tmp_path)).epochs == ["0 0", "4 10"]


@pytest.mark.parametrize("epochs", [None, ((0, 0),)], ids=["missing", "stale"])
@each_job
def test_batches_say_what_the_checkpoint_lacks(
    tmp_path: Path, job: Job, epochs: Sequence[tuple[int, int]] | None
) -> None:
    data = batch(rows(0, 9)) + batch(rows(10, 19), leader_epoch=3)
    write_log(tmp_path / "logs", {0: data}, epochs=epochs)
    assert see(run(job, tmp_path)).epochs == ["0 0", "3 10"]


def test_the_end_that_was_asked_for_cuts_epochs(tmp_path: Path) -> None:
    write_log(tmp_path / "logs", LOCAL, epochs=LINEAGE, log_start=0)
    out = run(restore(), tmp_path, **moments(None, 125))
    assert see(out)[1:3] == (125, LINES[:3])


@pytest.mark.parametrize("bounds", [(110, None), (50, None), (None, 60)])
@pytest.mark.parametrize("name", ["convert", "restore", "no-keys", "down"])
def test_what_would_cost_remote_data_is_refused(
    tmp_path: Path, name: str, bounds: tuple[int | None, int | None]
) -> None:
    write_log(tmp_path / "logs", LOCAL, epochs=LINEAGE, log_start=0)
    with pytest.raises(OptionError, match=r"orders-0: offsets 0 to 99 .* remote storage"):
        run(BOUNDED[name], tmp_path, **moments(*bounds))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("renaming", "name"),
    [
        (Renaming({"orders": "copy"}, {}), "copy-0"),
        (Renaming({}, {"orders": OTHER_ID}), "orders-0"),
    ],
    ids=["renamed", "other-id"],
)
@pytest.mark.parametrize(("start", "lost"), [(None, 100), (110, 0), (50, 50)])
def test_another_topic_has_no_remote_part(
    tmp_path: Path, renaming: Renaming, name: str, start: int | None, lost: int
) -> None:
    logs = write_log(tmp_path / "logs", LOCAL, epochs=LINEAGE, log_start=0)
    chosen = choose(logs, **moments(start, None))
    (account,) = restore(ALL, renaming)(chosen, str(tmp_path / "out"))
    first = max(start or 0, 100)
    assert see(tmp_path / "out", name)[:2] == (first, 150)
    assert log_starts(tmp_path / "out") == [f"{name.replace('-', ' ')} {first}"]
    assert account["lostOffsets"] == lost


@pytest.mark.parametrize("content", [None, "0\n1\n", "0\n1\n6 130\n"])
@each_job
def test_a_remote_part_without_its_epochs_is_refused(
    tmp_path: Path, job: Job, content: str | None
) -> None:
    logs = write_log(tmp_path / "logs", LOCAL, epochs=None, log_start=0)
    if content is not None:
        (logs / "orders-0" / "leader-epoch-checkpoint").write_text(content)
    with pytest.raises(CorruptLogError, match="offsets 0 to 99"):
        run(job, tmp_path)
    assert not (tmp_path / "out").exists()


def test_another_topic_needs_no_epochs_of_a_remote_part(tmp_path: Path) -> None:
    write_log(tmp_path / "logs", LOCAL, epochs=None, log_start=0)
    out = run(restore(ALL, Renaming({"orders": "copy"}, {})), tmp_path)
    assert see(out, "copy-0").epochs == ["2 100", *LINES[2:]]


@each_job
def test_an_unreadable_checkpoint_is_made_again(tmp_path: Path, job: Job) -> None:
    logs = write_log(tmp_path / "logs", {0: batch(rows(0, 9))})
    (logs / "orders-0" / "leader-epoch-checkpoint").write_text("nothing")
    assert see(run(job, tmp_path)).epochs == ["0 0"]


@pytest.mark.parametrize("start", [150, 10_000])
def test_a_start_at_or_past_the_end_gives_an_empty_log_there(tmp_path: Path, start: int) -> None:
    write_log(tmp_path / "logs", {0: STRADDLED["magic-2"]}, log_start=100)
    out = run(restore(), tmp_path, **moments(start, None))
    assert see(out)[:2] == (150, 150)
    assert log_starts(out) == ["orders 0 150"]


@each_bounded
@pytest.mark.parametrize("start", [0, 500])
def test_a_start_below_the_first_segment_is_that_of_the_segment(
    tmp_path: Path, job: Job, start: int
) -> None:
    # After retention: no checkpoint names the log start, and the epochs begin with the log.
    data = batch(rows(1000, 1004), leader_epoch=5)
    write_log(tmp_path / "logs", {1000: data}, epochs=((5, 1000),))
    out = run(job, tmp_path, **moments(start, None))
    assert see(out)[:3] == (1000, 1005, ["5 1000"])


def test_an_end_before_the_start_gives_an_empty_log_there(tmp_path: Path) -> None:
    write_log(tmp_path / "logs", {0: STRADDLED["magic-2"]}, log_start=100)
    out = run(restore(), tmp_path, **moments(None, 50))
    assert see(out)[:2] == (100, 100)


def test_what_an_output_says_of_other_logs_stays(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "log-start-offset-checkpoint").write_text("0\n2\nclicks 3 77\norders 0 4000\n")
    write_log(tmp_path / "logs", {0: STRADDLED["magic-2"]})
    run(restore(), tmp_path)
    assert log_starts(out) == ["clicks 3 77"]
    assert see(out)[:2] == (0, 150)


def test_rows_are_appended_at_the_log_end(tmp_path: Path) -> None:
    write_log(tmp_path / "logs", LOCAL, epochs=LINEAGE, log_start=0)
    for name in ("restore", "no-keys", "down"):
        out = tmp_path / name
        BOUNDED[name](choose(tmp_path / "logs"), str(out))
        row = {"key": b"k", "value": b"v", "topic": "orders", "partition": 0, "timestamp": 0}
        (account,) = save(out, [[row]])
        assert account["firstOffset"] == 150
        assert see(out) == (0, 151, LINES, look(tmp_path / "logs").metadata)  # the rest is remote
        assert log_starts(out) == ["orders 0 0"]


@pytest.mark.parametrize("segments", [{}, {0: batch(rows(0, 3))}], ids=["none", "some"])
def test_rows_are_never_appended_below_the_log_start(
    tmp_path: Path, segments: dict[int, bytes]
) -> None:
    """A broker deletes a log that ends before its start."""
    out = write_log(tmp_path / "out", segments, log_start=40)
    row = {"key": b"k", "value": b"v", "topic": "orders", "partition": 0, "timestamp": 0}
    (account,) = save(out, [[row]])
    assert account["firstOffset"] == 40
    assert see(out)[:2] == (40, 41)


def test_rows_get_the_epoch_of_the_last_batch(tmp_path: Path) -> None:
    out = write_log(tmp_path / "out", {0: batch(rows(0, 3), leader_epoch=4)}, epochs=((1, 0),))
    row = {"key": b"k", "value": b"v", "topic": "orders", "partition": 0, "timestamp": 0}
    save(out, [[row]])
    assert see(out).epochs[-1] == "4 0"


@each_job
@pytest.mark.parametrize("log_start", [None, 40], ids=["empty", "all-deleted"])
def test_an_empty_partition_has_its_indexes(
    tmp_path: Path, job: Job, log_start: int | None
) -> None:
    """A broker logs an error for each log without, and recovers it."""
    logs = write_log(tmp_path / "logs", {log_start or 0: b""}, epochs=(), log_start=log_start)
    job(choose(logs), str(tmp_path / "out"))
    folder = tmp_path / "out" / "orders-0"
    names = {path.name for path in folder.iterdir()} - {"partition.metadata"}
    base = f"{log_start or 0:020d}"
    assert {f"{base}.log", f"{base}.index", f"{base}.timeindex"} <= names
