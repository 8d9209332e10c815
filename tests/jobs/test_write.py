"""Rows of several tasks become logs: read by the naive reader, and sound by `verify`'s rules."""

import json
import random
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from builders import Row, batch
from choosing import choose
from jobs.plain import lines_of, records_of, run_plainly, tree
from jobs.test_salvage import damaged_topic
from ottla.errors import OptionError, PublishError
from ottla.jobs.rewrite.salvage import plan_salvage_job
from ottla.jobs.write import commit as write_commit
from ottla.jobs.write import stage as write
from ottla.jobs.write.commit import (
    abandon_rows,
    begin_writing,
    commit_rows,
    is_done,
    save_job,
    stream_job,
)
from ottla.jobs.write.stage import StagedPart, Writing, stage_rows
from ottla.log.files.partition import find_partitions
from ottla.options.write import parse_write_options
from ottla.publish import journal as publish
from ottla.publish.job import Job
from ottla.publish.journal import open_journals, settle
from ottla.publish.locks import hold
from ottla.spark.words import naming_options
from whole_log import check_partition

TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
Rows = list[dict[str, Any]]
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("timestamp", pa.timestamp("us", "UTC")),
        (
            "headers",
            pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
        ),
        ("offset", pa.int64()),
    ]
)


def some_rows(seed: int, count: int, partitions: int = 2) -> Rows:
    """Rows of topic t, with every kind of null."""
    chance = random.Random(seed)
    return [
        {
            "key": chance.choice([None, b"", chance.randbytes(5)]),
            "value": chance.choice([None, chance.randbytes(chance.randrange(200))]),
            "topic": "t",
            "partition": chance.randrange(partitions),
            "timestamp": 1_700_000_000_000_000 + at * 1000,
            "headers": chance.choice([None, [], [{"key": "h", "value": None}]]),
        }
        for at in range(count)
    ]


def table(rows: Rows) -> list[pa.RecordBatch]:
    """As Spark hands rows over: in several batches."""
    whole = pa.RecordBatch.from_pylist(rows, SCHEMA)
    return [whole.slice(at, 30) for at in range(0, len(rows), 30)] or [whole]


def begin(out: Path, **options: str) -> Writing:
    return begin_writing(parse_write_options({"path": str(out)} | options))


def stage(job: Job, writing: Writing, tasks: list[Rows]) -> list[list[StagedPart]]:
    return [stage_rows(job, writing, task, table(rows)) for task, rows in enumerate(tasks)]


def save(out: Path, tasks: list[Rows], **options: str) -> list[dict[str, Any]]:
    writing = begin(out, **options)
    job = save_job(writing.options)
    return commit_rows(job, writing, stage(job, writing, tasks))


def expected(rows: Rows, partition: int, first: int = 0) -> list[tuple[Any, ...]]:
    """What a partition holds, in the terms of the naive reader."""
    wanted = [row for row in rows if row["partition"] == partition]
    return [
        (
            first + at,
            row["timestamp"] // 1000,
            row["key"],
            row["value"],
            tuple((each["key"].encode(), each["value"]) for each in row["headers"] or ()),
        )
        for at, row in enumerate(wanted)
    ]


def assert_sound(out: Path) -> None:
    """Nothing that a broker or `ottla verify` minds, and nothing that is not published."""
    found = [each for one in find_partitions([out]) for each in check_partition(one)]
    assert [each for each in found if each.rule.severity != "note"] == []
    assert open_journals(str(out)) == []


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_rows_of_parallel_tasks_follow_each_other(tmp_path: Path, codec: str) -> None:
    tasks = [some_rows(1, 200), [], some_rows(2, 100), some_rows(3, 1)]
    save(tmp_path / "out", tasks, numpartitions="2", codec=codec, batchbytes="1000")
    rows = [row for task in tasks for row in task]
    for partition in range(2):
        assert records_of(tmp_path / "out" / f"t-{partition}") == expected(rows, partition)
    assert_sound(tmp_path / "out")


@pytest.mark.parametrize(("magic", "codec"), [("0", "none"), ("1", "none"), ("1", "gzip")])
def test_older_magics_are_written_too(tmp_path: Path, magic: str, codec: str) -> None:
    rows = [row | {"headers": None} for row in some_rows(1, 100)]
    tasks = [rows[:60], rows[60:]]
    save(tmp_path / "out", tasks, magic=magic, codec=codec)
    times = magic != "0"
    for partition in range(2):
        wanted = [(row[0], row[1] if times else -1, *row[2:]) for row in expected(rows, partition)]
        assert records_of(tmp_path / "out" / f"t-{partition}") == wanted


def test_a_partition_has_all_that_a_broker_needs(tmp_path: Path) -> None:
    rows = [row | {"partition": 0} for row in some_rows(1, 90)]
    options = {"numpartitions": "2", "topicids": json.dumps({"t": TOPIC_ID}), "leaderepoch": "7"}
    save(tmp_path / "out", [rows[:50], rows[50:]], **options)
    written = tree(tmp_path / "out")
    segments = {
        f"t-0/{base:020d}{kind}" for base in (0, 50) for kind in (".log", ".index", ".timeindex")
    }
    snapshots = {f"t-0/{at:020d}.snapshot" for at in (50, 90)}
    empty = {f"t-1/{0:020d}{kind}" for kind in (".log", ".index", ".timeindex")}
    identity = {
        f"t-{n}/{name}"
        for n in (0, 1)
        for name in ("leader-epoch-checkpoint", "partition.metadata")
    }
    assert set(written) == segments | snapshots | empty | identity
    assert written["t-0/leader-epoch-checkpoint"] == b"0\n1\n7 0\n"
    assert written["t-1/leader-epoch-checkpoint"] == b"0\n0\n"
    metadata = f"version: 0\ntopic_id: {TOPIC_ID}".encode()
    assert written["t-0/partition.metadata"] == written["t-1/partition.metadata"] == metadata
    # Version 1, the CRC-32C of what follows, and no producer.
    assert struct.unpack(">hIi", written["t-0/00000000000000000050.snapshot"])[::2] == (1, 0)
    batches = [line for line in lines_of(tmp_path / "out" / "t-0") if line["type"] == "batch"]
    assert {line["partitionLeaderEpoch"] for line in batches} == {7}
    assert_sound(tmp_path / "out")


def test_index_entries_point_at_batches_wherever_a_task_was_placed(tmp_path: Path) -> None:
    rows = [row | {"partition": 0, "value": bytes(300)} for row in some_rows(1, 300)]
    save(tmp_path / "out", [rows[:100], rows[100:]], batchbytes="2000")
    data = tree(tmp_path / "out")
    index = struct.iter_unpack(">ii", data["t-0/00000000000000000100.index"])
    lines = lines_of(tmp_path / "out" / "t-0")
    ends = {
        line["position"]: line["lastOffset"]
        for line in lines
        if line["type"] == "batch" and line["baseOffset"] >= 100
    }
    found = [(position, 100 + relative) for relative, position in index]
    assert len(found) > 5
    assert all(ends[position] == offset for position, offset in found)


def test_a_log_is_rolled_by_size(tmp_path: Path) -> None:
    rows = [row | {"partition": 0} for row in some_rows(1, 500)]
    save(tmp_path / "out", [rows], segmentbytes="10000", batchbytes="1000")
    logs = sorted((tmp_path / "out" / "t-0").glob("*.log"))
    assert len(logs) > 3
    assert all(log.stat().st_size <= 10000 for log in logs)
    assert records_of(tmp_path / "out" / "t-0") == expected(rows, 0)
    assert_sound(tmp_path / "out")


def test_a_second_save_goes_on_where_the_first_ended(tmp_path: Path) -> None:
    first, second = some_rows(1, 100), some_rows(2, 100)
    out = tmp_path / "out"
    save(out, [first], topicids=json.dumps({"t": TOPIC_ID}))
    before = tree(out)
    save(out, [second[:40], second[40:]], leaderepoch="3")
    after = tree(out)
    for partition in range(2):
        assert records_of(out / f"t-{partition}") == expected(first + second, partition)
        began = len(expected(first, partition))
        checkpoint = after[f"t-{partition}/leader-epoch-checkpoint"]
        assert checkpoint == f"0\n2\n0 0\n3 {began}\n".encode()
    kept = {name: data for name, data in before.items() if not name.endswith("checkpoint")}
    assert {name: after[name] for name in kept} == kept
    assert_sound(out)


def test_rows_are_appended_to_the_log_of_a_broker(tmp_path: Path) -> None:
    """With a producer, an empty segment to be written next, and zeros in its index."""
    folder = tmp_path / "out" / "t-0"
    folder.mkdir(parents=True)
    old = batch([Row(0, 5), Row(1, 6)], producer=(9, 1, 0))
    (folder / f"{0:020d}.log").write_bytes(old)
    (folder / f"{2:020d}.log").write_bytes(b"")
    (folder / f"{2:020d}.index").write_bytes(bytes(1 << 20))
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n4 0\n")
    (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}")
    rows = [row | {"partition": 0} for row in some_rows(1, 10)]
    save(tmp_path / "out", [rows])
    assert records_of(folder)[2:] == expected(rows, 0, first=2)
    assert (folder / f"{0:020d}.log").read_bytes() == old
    assert (folder / "leader-epoch-checkpoint").read_text() == "0\n1\n4 0\n"
    snapshot = (folder / f"{12:020d}.snapshot").read_bytes()
    assert struct.unpack_from(">iqhi", snapshot, 6) == (1, 9, 1, 1)
    batches = [line for line in lines_of(folder) if line["type"] == "batch"]
    assert [line["partitionLeaderEpoch"] for line in batches[1:]] == [4]


def test_rows_without_time_were_made_when_the_save_began(tmp_path: Path) -> None:
    writing = begin(tmp_path / "out")
    job = save_job(writing.options)
    rows = [row | {"partition": 0, "timestamp": None} for row in some_rows(1, 3)]
    commit_rows(job, writing, stage(job, writing, [rows]))
    assert {row[1] for row in records_of(tmp_path / "out" / "t-0")} == {writing.now}


def test_offsets_are_kept_on_demand(tmp_path: Path) -> None:
    rows = [
        row | {"partition": 0, "offset": 100 + 3 * at} for at, row in enumerate(some_rows(1, 50))
    ]
    out = tmp_path / "out"
    save(out, [rows[20:40], rows[:20]], keepoffsets="true")
    save(out, [rows[40:]], keepoffsets="true")
    assert [row[0] for row in records_of(out / "t-0")] == [row["offset"] for row in rows]
    assert_sound(out)
    told = "option keepOffsets: offset 100 of t-0"
    with pytest.raises(OptionError, match=told), naming_options():
        save(out, [rows[:1]], keepoffsets="true")
    with pytest.raises(OptionError, match="do not rise in a task"):
        save(out, [[rows[1], rows[0]]], keepoffsets="true")


def test_the_last_offset_of_all_is_refused(tmp_path: Path) -> None:
    rows = [row | {"partition": 0, "offset": 2**63 - 1} for row in some_rows(1, 1)]
    with pytest.raises(PublishError, match="no offsets left"):
        save(tmp_path / "out", [rows], keepoffsets="true")
    assert not (tmp_path / "out").exists()


def test_the_option_wins_over_the_column_topic(tmp_path: Path) -> None:
    rows = some_rows(1, 10)
    save(tmp_path / "out", [rows], topic="other", numpartitions='{"other": 4}')
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        f"other-{partition}" for partition in range(4)
    ]


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({"topic": None}, {}, "null topic present in the data. Use the topic option for setting"),
        ({"topic": "a/b"}, {}, "is no name for a topic"),
        ({"partition": None}, {}, "topic t is new: option numPartitions"),
        ({"partition": -1}, {}, "partition -1 in the data"),
        ({"partition": 2}, {"numpartitions": "2"}, "partition 2 of topic t is not in the range"),
        ({"headers": [{"key": None, "value": b""}]}, {}, "a header without a key"),
        ({"offset": None}, {"keepoffsets": "true"}, "column offset has nulls"),
    ],
)
def test_rows_that_are_no_records_are_refused(
    tmp_path: Path, changes: dict[str, Any], options: dict[str, str], message: str
) -> None:
    rows = [some_rows(1, 1)[0] | changes]
    with pytest.raises(OptionError, match=message), naming_options():
        save(tmp_path / "out", [rows], **options)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"numpartitions": "1"}, "option numPartitions: topic t has 2 partitions, not 1"),
        ({"leaderepoch": "3"}, "option leaderEpoch 3 is below 5"),
        ({"topicids": json.dumps({"t": "BBBBBBBBBBBBBBBBBBBBBQ"})}, "option topicIds: topic t has"),
    ],
)
def test_a_save_can_not_contradict_what_is_there(
    tmp_path: Path, options: dict[str, str], message: str
) -> None:
    out = tmp_path / "out"
    save(out, [some_rows(1, 20)], leaderepoch="5")
    before = tree(out)
    with pytest.raises(OptionError, match=message), naming_options():
        save(out, [some_rows(2, 20)], **options)
    assert tree(out) == before


def test_nothing_is_appended_behind_half_a_batch(tmp_path: Path) -> None:
    out = tmp_path / "out"
    save(out, [[row | {"partition": 0} for row in some_rows(1, 20)]])
    with (out / "t-0" / f"{0:020d}.log").open("ab") as log:
        log.write(bytes(7))
    told = "7 bytes that are no batch: append to a copy that `ottla salvage` made"
    with pytest.raises(PublishError, match=told), naming_options():
        save(out, [[row | {"partition": 0} for row in some_rows(2, 20)]])


def test_only_what_the_commit_names_is_published(tmp_path: Path) -> None:
    """A task that ran twice, and one that nobody waited for."""
    out, rows = tmp_path / "out", some_rows(1, 100)
    writing = begin(out)
    job = save_job(writing.options)
    stage(job, writing, [rows])
    stage(job, writing, [rows, rows])
    commit_rows(job, writing, stage(job, writing, [rows]))
    stage(job, writing, [rows])
    save(out, [rows])
    for partition in range(2):
        assert records_of(out / f"t-{partition}") == expected(rows + rows, partition)
    assert_sound(out)


def test_the_same_task_of_the_same_job_stages_the_same_bytes(tmp_path: Path) -> None:
    rows = [row | {"partition": None} for row in some_rows(1, 500)]
    for number in range(2):
        save(
            tmp_path / f"{number}",
            [rows],
            numpartitions="5",
            writeid="x",
            batchbytes="500",
            topicids=json.dumps({"t": TOPIC_ID}),
        )
    assert tree(tmp_path / "0") == tree(tmp_path / "1")


def test_a_save_that_was_given_up_leaves_nothing(tmp_path: Path) -> None:
    writing = begin(tmp_path / "out")
    job = save_job(writing.options)
    stage(job, writing, [some_rows(1, 10)])
    abandon_rows(job)
    assert not (tmp_path / "out").exists()
    assert open_journals(str(tmp_path / "out")) == []


def test_a_save_with_an_id_is_done_once(tmp_path: Path) -> None:
    out, rows = tmp_path / "out", some_rows(1, 50)
    save(out, [rows], writeid="nightly")
    before = tree(out)
    assert save(out, [rows], writeid="nightly") == []
    assert tree(out) == before
    save(out, [rows], writeid="another")
    assert tree(out) != before


def test_a_save_with_an_id_is_done_again_when_out_was_taken_away(tmp_path: Path) -> None:
    out, rows = tmp_path / "out", some_rows(1, 40)
    save(out, [rows], writeId="nightly")
    before = {path: size for path, size in tree(out).items() if path.endswith(".log")}
    shutil.rmtree(out)
    save(out, [rows], writeId="nightly")
    assert {path: size for path, size in tree(out).items() if path.endswith(".log")} == before


def test_a_save_leaves_the_quarantine_of_a_salvage_alone(tmp_path: Path) -> None:
    """What salvage left out may be all that is left of it when the damaged logs are gone."""
    out, logs = tmp_path / "out", damaged_topic(tmp_path)
    run_plainly(plan_salvage_job(choose(logs), str(out)))
    (quarantine,) = Path(f"{out}.ottla").glob("*/quarantine")
    before = tree(quarantine.parent)
    assert [name for name in before if name.startswith("quarantine/")]
    shutil.rmtree(out)
    save(out, [some_rows(1, 20)])
    assert tree(quarantine.parent) == before


def test_an_id_is_not_empty(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="writeId is empty"):
        begin(tmp_path / "out", writeId="")


def test_leader_epochs_do_not_go_back_without_their_checkpoint(tmp_path: Path) -> None:
    out, first, second = tmp_path / "out", some_rows(1, 40), some_rows(2, 40)
    save(out, [first], leaderEpoch="7")
    for partition in range(2):
        (out / f"t-{partition}" / "leader-epoch-checkpoint").unlink()
    save(out, [second])
    for partition in range(2):
        text = (out / f"t-{partition}" / "leader-epoch-checkpoint").read_text()
        assert text.split() == ["0", "1", "7", "0"]
    assert_sound(out)


def test_a_save_is_held_while_it_is_committed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    writing = begin(out)
    job = save_job(writing.options)
    tasks = stage(job, writing, [some_rows(1, 10)])
    commit_rows(job, writing, tasks)
    writing, job = begin(out), save_job(begin(out).options)
    tasks = stage(job, writing, [some_rows(2, 10)])
    placing = write_commit._place

    def meanwhile(*arguments: Any) -> Any:
        another = "from ottla.publish.journal import settle; import sys; settle(sys.argv[1])"
        subprocess.run([sys.executable, "-c", another, str(out)], check=True)
        return placing(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(write_commit, "_place", meanwhile)
        commit_rows(job, writing, tasks)
    assert open_journals(str(out)) == []
    assert_sound(out)


def test_a_wrong_partition_does_not_make_millions(tmp_path: Path) -> None:
    rows = [{**some_rows(1, 1)[0], "partition": 2_000_000_000}]
    with pytest.raises(OptionError, match="would make 2000000001 partitions"):
        save(tmp_path / "out", [rows])


def commit_batch(out: Path, number: int, rows: Rows, query: str = "q") -> None:
    writing = begin(out)
    job = stream_job(writing.options, query, number)
    commit_rows(job, writing, stage(job, writing, [rows]))


def test_a_batch_of_a_stream_that_comes_again_adds_nothing(tmp_path: Path) -> None:
    out, batches = tmp_path / "out", [some_rows(number, 30) for number in range(3)]
    for number, rows in enumerate(batches):
        commit_batch(out, number, rows)
        commit_batch(out, number, rows)
    before = tree(out)
    commit_batch(out, 1, batches[1])
    assert tree(out) == before
    commit_batch(out, 2, batches[2], query="another")
    whole = [row for rows in (*batches, batches[2]) for row in rows]
    for partition in range(2):
        assert records_of(out / f"t-{partition}") == expected(whole, partition)
    assert_sound(out)
    # One journal for each query, however many batches there were, and the lock of all.
    assert len(list(Path(f"{out}.ottla").iterdir())) == 3


@pytest.mark.parametrize("moment", ["before", "during", "after"])
def test_a_save_that_was_interrupted_is_whole_or_gone(
    tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped at the commit point, halfway through publishing, or before its journal closes."""

    class Killed(BaseException):
        pass

    def die(*_: object) -> None:
        raise Killed

    move = publish.move_below

    def move_some(out: str, moves: Any, storage: Any) -> None:
        move(out, list(moves)[: len(moves) // 2], storage)
        raise Killed

    out, first, second = tmp_path / "out", some_rows(1, 60), some_rows(2, 60)
    save(out, [first])
    with monkeypatch.context() as patch:
        steps = {"before": "create_file", "during": "move_below", "after": "move_files"}
        patch.setattr(publish, steps[moment], move_some if moment == "during" else die)
        with pytest.raises(Killed):
            save(out, [second], writeid="second")
    settled = tmp_path / "settled"
    shutil.copytree(out, settled)
    shutil.copytree(f"{out}.ottla", f"{settled}.ottla")
    settle(str(settled))
    kept = first if moment == "before" else first + second
    for partition in range(2):
        assert records_of(settled / f"t-{partition}") == expected(kept, partition)
    assert_sound(settled)
    save(out, [second], writeid="second")
    for partition in range(2):
        assert records_of(out / f"t-{partition}") == expected(first + second, partition)
    assert_sound(out)


def test_large_tasks_are_written_in_rounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "_ROUND_BYTES", 1000)
    rows = some_rows(1, 300)
    save(tmp_path / "out", [rows])
    for partition in range(2):
        assert records_of(tmp_path / "out" / f"t-{partition}") == expected(rows, partition)


def test_a_task_learns_that_its_job_is_done(tmp_path: Path) -> None:
    writing = begin(tmp_path / "out")
    job = stream_job(writing.options, "q", 4)
    assert not is_done(job)
    commit_batch(tmp_path / "out", 4, some_rows(1, 5))
    assert is_done(job)
    assert is_done(stream_job(writing.options, "q", 3))
    assert not is_done(stream_job(writing.options, "q", 5))


def test_staged_rows_outlive_whoever_looks_before_they_are_committed(tmp_path: Path) -> None:
    """Spark asks for a new writer to commit a batch of a stream."""
    out, rows = tmp_path / "out", some_rows(1, 20)
    writing = begin(out)
    job = stream_job(writing.options, "q", 0)
    staged = stage(job, writing, [rows])
    commit_rows(job, begin(out), staged)
    for partition in range(2):
        assert records_of(out / f"t-{partition}") == expected(rows, partition)


def test_what_a_dead_driver_staged_is_swept_away_by_the_next_save(tmp_path: Path) -> None:
    out, writing = tmp_path / "out", begin(tmp_path / "out")
    stage(save_job(writing.options), writing, [some_rows(1, 20)])
    assert len(open_journals(str(out))) == 1
    save(out, [some_rows(2, 20)])
    assert open_journals(str(out)) == []


def test_of_saves_without_an_id_only_the_last_leaves_a_journal(tmp_path: Path) -> None:
    for seed in range(3):
        save(tmp_path / "out", [some_rows(seed, 20)])
        assert len(published(tmp_path / "out.ottla")) == 1
    save(tmp_path / "out", [some_rows(3, 20)], writeid="nightly")
    save(tmp_path / "out", [some_rows(4, 20)])
    assert len(published(tmp_path / "out.ottla")) == 2
    assert_sound(tmp_path / "out")


def published(folder: Path) -> list[str]:
    return [name for name in tree(folder) if name.endswith("published.json")]


def test_a_task_that_comes_late_learns_that_its_save_is_done(tmp_path: Path) -> None:
    out = tmp_path / "out"
    writing = begin(out)
    job = save_job(writing.options)
    staged = stage(job, writing, [some_rows(1, 20)])
    commit_rows(job, writing, staged)
    assert is_done(job)


def test_a_commit_looks_at_no_partition_but_its_own(tmp_path: Path) -> None:
    out, looked, watching = tmp_path / "out", set(), [True]
    save(out, [some_rows(1, 20, partitions=5)])
    writing = begin(out)
    job = save_job(writing.options)
    staged = stage(job, writing, [some_rows(2, 20, partitions=2)])

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        if watching and event in ("os.listdir", "os.scandir", "open"):
            looked.add(str(arguments[0]))

    sys.addaudithook(note)  # it can not be taken away again
    commit_rows(job, writing, staged)
    watching.clear()
    seen = {number for number in range(5) if any(f"/out/t-{number}" in path for path in looked)}
    assert seen == {0, 1}


def test_what_was_committed_is_published_though_workers_of_a_dead_driver_hold_it(
    tmp_path: Path,
) -> None:
    out, rows = tmp_path / "out", some_rows(1, 20)
    writing = begin(out)
    job = save_job(writing.options)
    hold(job)
    staged = stage(job, writing, [rows])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(write_commit, "publish", lambda _: None)
        commit_rows(job, writing, staged)
    assert not out.exists()
    save(out, [some_rows(2, 20)])
    for partition in range(2):
        both = rows + some_rows(2, 20)
        assert records_of(out / f"t-{partition}") == expected(both, partition)
    assert_sound(out)


def test_a_save_that_somebody_works_on_is_left_alone(tmp_path: Path) -> None:
    out, rows = tmp_path / "out", some_rows(1, 20)
    writing = begin(out)
    job = save_job(writing.options)
    hold(job)
    staged = stage(job, writing, [rows])
    settle(str(out))
    save(out, [some_rows(2, 20)])
    commit_rows(job, writing, staged)
    for partition in range(2):
        both = some_rows(2, 20) + rows
        assert records_of(out / f"t-{partition}") == expected(both, partition)
    assert_sound(out)


def test_a_directory_of_a_running_broker_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    # As LogManager.lockLogDirs does, in another process.
    lock = "f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX)"
    code = f"import fcntl, sys; {lock}; print(flush=True); input()"
    command = [sys.executable, "-c", code, str(out / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as broker:
        assert broker.stdout is not None
        broker.stdout.readline()
        with pytest.raises(PublishError, match="a broker is running on"):
            begin(out)
        broker.communicate(b"\n")
    begin(out)
