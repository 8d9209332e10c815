"""Restored logs hold the wanted records at their offsets, and a broker's files beside them."""

from pathlib import Path

import pytest

from choosing import choose
from jobs.plain import lines_of, records_of, run_plainly, tree
from jobs.test_convert import assert_sound
from jobs.topics import Written, write_topic
from ottla.errors import CorruptLogError, OptionError
from ottla.jobs.rewrite.restore import Renaming, compile_filter, plan_restore
from ottla.options.offsets import Offset, Timestamp

NO_RENAMING = Renaming({}, {})
EVERYTHING = compile_filter((), None, ())
TOPIC_ID = "Zk3vQ1cJS0uW0Yq2yH8n4g"


@pytest.fixture
def topic(tmp_path: Path) -> list[Written]:
    return write_topic(tmp_path / "logs", "orders", partitions=3)


def restore(folder: Path, wanted=EVERYTHING, renaming=NO_RENAMING, split=1 << 30, **which) -> Path:
    out = folder / "out"
    plan = plan_restore(
        choose(folder / "logs", **which), str(out), wanted, renaming, split_bytes=split
    )
    run_plainly(plan)
    return out


def keys_and_values(rows: list) -> list:
    return [(row[0], row[2], row[3]) for row in rows]


def expected(written: Written, wanted) -> list:
    return [(row.offset, row.key, row.value) for row in written.rows if wanted(row)]


def assert_holds(out: Path, topic: list[Written], wanted, name: str = "orders") -> None:
    for written in topic:
        found = records_of(out / f"{name}-{written.partition}")
        assert keys_and_values(found) == expected(written, wanted)
    assert_sound(out)


def test_a_copy_of_everything_has_the_same_logs(tmp_path: Path, topic: list[Written]) -> None:
    before = tree(tmp_path / "logs")
    out = restore(tmp_path)
    logs = {name: data for name, data in before.items() if name.endswith(".log")}
    assert {name: data for name, data in tree(out).items() if name.endswith(".log")} == logs
    assert_sound(out)
    assert tree(tmp_path / "logs") == before


@pytest.mark.parametrize("split", [700, 20_000, 1 << 30])
def test_offsets_bound_what_is_kept(tmp_path: Path, topic: list[Written], split: int) -> None:
    start, stop = 137, topic[0].rows[-30].offset
    out = restore(tmp_path, split=split, start=Offset(start), stop=Offset(stop))
    assert_holds(out, topic, lambda row: start <= row.offset < stop)
    for folder in out.iterdir():
        names = sorted(path.name for path in folder.glob("*.log"))
        assert int(names[0].removesuffix(".log")) >= start
        last = [line["lastOffset"] for line in lines_of(folder) if line["type"] == "batch"][-1]
        assert last < stop


def test_a_time_is_the_first_record_that_is_not_older(tmp_path: Path) -> None:
    topic = write_topic(tmp_path / "logs", "orders", partitions=3)
    timed = [row.timestamp for row in topic[1].rows if row.timestamp >= 0]
    time = timed[len(timed) // 2]
    out = restore(tmp_path, stop=Timestamp(time))
    for written in topic:
        later = [row.offset for row in written.rows if row.timestamp >= time]
        stop = later[0] if later else written.end
        found = records_of(out / f"orders-{written.partition}")
        assert keys_and_values(found) == expected(written, lambda row, s=stop: row.offset < s)
    assert_sound(out)


@pytest.mark.parametrize("split", [700, 1 << 30])
def test_keys_choose_records(tmp_path: Path, topic: list[Written], split: int) -> None:
    out = restore(tmp_path, compile_filter(("key-3", "key-5"), None, ()), split=split)
    assert_holds(out, topic, lambda row: row.key in (b"key-3", b"key-5"))


def test_a_pattern_chooses_records(tmp_path: Path, topic: list[Written]) -> None:
    out = restore(tmp_path, compile_filter((), "-1[0-9]$", ()))
    wanted = {b"key-%d" % number for number in range(10, 17)}
    assert_holds(out, topic, lambda row: row.key in wanted)


def test_headers_choose_records(tmp_path: Path, topic: list[Written]) -> None:
    some = next(row for written in topic for row in written.rows if row.headers)
    value = some.headers[0][1].decode()
    out = restore(tmp_path, compile_filter((), None, (f"name={value}",)))
    assert_holds(out, topic, lambda row: (b"name", value.encode()) in row.headers)


def test_markers_stay_when_records_are_chosen(tmp_path: Path, topic: list[Written]) -> None:
    out = restore(tmp_path, compile_filter(("key-3",), None, ()))

    def markers(folder: Path) -> list[int]:
        lines = lines_of(folder)
        return [
            line["baseOffset"] for line in lines if line["type"] == "batch" and line["isControl"]
        ]

    for folder in out.iterdir():
        assert markers(folder) == markers(tmp_path / "logs" / folder.name)


def test_topics_are_renamed_and_get_ids(tmp_path: Path, topic: list[Written]) -> None:
    renaming = Renaming({"orders": "orders.copy"}, {"orders.copy": TOPIC_ID})
    out = restore(tmp_path, renaming=renaming)
    assert_holds(out, topic, lambda row: True, name="orders.copy")
    for folder in out.iterdir():
        metadata = (folder / "partition.metadata").read_bytes()
        assert metadata == f"version: 0\ntopic_id: {TOPIC_ID}".encode()


def test_an_empty_log_keeps_its_end(tmp_path: Path) -> None:
    folder = tmp_path / "logs" / "orders-0"
    folder.mkdir(parents=True)
    (folder / f"{5000:020d}.log").write_bytes(b"")
    out = restore(tmp_path)
    assert (out / "orders-0" / f"{5000:020d}.log").read_bytes() == b""


@pytest.mark.parametrize(
    ("renaming", "message"),
    [
        pytest.param(Renaming({"nobody": "x"}, {}), "no such topic", id="unknown"),
        pytest.param(Renaming({"orders": "a b"}, {}), "no name for a topic", id="bad-name"),
        pytest.param(Renaming({}, {"orders": "zero"}), "no topic id", id="bad-id"),
    ],
)
def test_a_renaming_that_makes_no_sense_is_refused(
    tmp_path: Path, topic: list[Written], renaming: Renaming, message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        restore(tmp_path, renaming=renaming)


@pytest.mark.parametrize("wanted", [EVERYTHING, compile_filter((), "k", ())], ids=["all", "some"])
def test_a_broken_batch_stops_the_job(tmp_path: Path, topic: list[Written], wanted) -> None:
    log = sorted((tmp_path / "logs").rglob("*.log"))[3]
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    with pytest.raises(CorruptLogError):
        restore(tmp_path, wanted)
    assert not (tmp_path / "out").exists()
