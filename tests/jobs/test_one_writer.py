"""One job at a time writes to an OUT, into what it does not read, on one disk."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from builders import Row, batch
from choosing import choose
from cli.command import run, run_json
from jobs.plain import run_plainly, tree
from jobs.test_extent import JOBS, rows, write_log
from jobs.test_write import begin, save, some_rows, stage
from ottla import write_segment
from ottla.batch.convert import Conversion
from ottla.catalog.catalog import Catalog
from ottla.catalog.chosen import ChosenLogs
from ottla.errors import OptionError, PublishError
from ottla.jobs.demo import make_logs
from ottla.jobs.export.plan import ExportOptions, plan_export
from ottla.jobs.rewrite.convert import plan_convert
from ottla.jobs.write.commit import commit_rows, save_job
from ottla.log.files.partition import read_log_directories
from ottla.options.read import parse_read_options
from ottla.publish.checked import StagedFile
from ottla.publish.job import Job, journal_folder
from ottla.publish.journal import commit, open_journals, publish, run_job, scratch_job, staged_path
from ottla.publish.locks import claim_output, hold
from ottla.spark.reader import KafkaLogReader
from ottla.spark.schema import schema_of
from ottla.storage.object_store import DEFAULT_OPTIONS
from ottla.storage.writing import write_file

Writer = Callable[[Path, Path], object]
COMMANDS = ("convert", "restore", "salvage", "compact", "export", "clone")
CLAIM = """
import sys
from ottla.publish.locks import claim_output
with claim_output(sys.argv[1]):
    print("claimed", flush=True)
    sys.stdin.read()
"""


def export(logs: Path, out: Path) -> object:
    return run_plainly(plan_export(choose(logs), str(out), ExportOptions()))


WRITERS: dict[str, Writer] = {
    name: lambda logs, out, job=JOBS[name]: job(choose(logs), str(out))  # type: ignore[misc]
    for name in ("convert", "restore", "salvage", "compact")
}
WRITERS |= {
    "export": export,
    "demo": lambda _, out: make_logs(str(out)),
    "save": lambda _, out: save(out, [some_rows(1, 5)]),
}
each_writer = pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
each_command = pytest.mark.parametrize("command", COMMANDS)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return write_log(tmp_path / "logs", {0: batch(rows(0, 9))})


def commit_file(out: Path, name: str, target: str) -> Job:
    """A job that is killed after its commit."""
    with run_job(str(out), name) as job:
        write_file(staged_path(job, "f"), b"")
        commit(job, [StagedFile("f", target, 0)], [])
    return job


@contextmanager
def claimed(out: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that writes to OUT."""
    command = [sys.executable, "-c", CLAIM, str(out)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"claimed\n"
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@each_writer
def test_what_waits_is_published_before_another_begins(
    tmp_path: Path, logs: Path, write: Writer
) -> None:
    out = tmp_path / "out"
    commit_file(out, "a", f"first-0/{0:020d}.log")
    write(logs, out)
    assert (out / "first-0" / f"{0:020d}.log").exists()
    assert len([name for name in os.listdir(out) if not name.startswith("first")]) >= 1
    assert open_journals(str(out)) == []


@each_writer
def test_a_second_writer_fails_at_once(tmp_path: Path, logs: Path, write: Writer) -> None:
    out = tmp_path / "out"
    with claimed(out), pytest.raises(PublishError, match="another process is writing to"):
        write(logs, out)
    assert not out.exists()
    assert os.listdir(f"{out}.ottla") == ["writer"]


@each_command
def test_a_command_fails_before_it_looks_at_its_input(
    tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with claimed(tmp_path / "out"):
        assert run(command, tmp_path / "no-logs", tmp_path / "out").status == 2
    told = capsys.readouterr().err
    assert told == (
        f"ottla: another process is writing to {tmp_path}/out: wait until it has ended, or choose"
        " another OUT\n"
    )


def test_a_claim_ends_with_its_process(tmp_path: Path, logs: Path) -> None:
    with claimed(tmp_path / "out") as process:
        process.kill()
        process.wait()
        WRITERS["convert"](logs, tmp_path / "out")
    assert "writer" not in os.listdir(tmp_path / "out.ottla")


def test_a_command_that_fails_leaves_no_claim(tmp_path: Path) -> None:
    assert run("convert", tmp_path / "no-logs", tmp_path / "out").status == 2
    assert os.listdir(tmp_path) == []


def test_a_job_and_a_save_do_not_mix(tmp_path: Path, logs: Path) -> None:
    """A save is many processes: it is seen by what its tasks hold."""
    out = tmp_path / "out"
    writing = begin(out)
    job = save_job(writing.options)
    hold(job)
    staged = stage(job, writing, [some_rows(1, 5)])
    with pytest.raises(PublishError, match="another process is writing to"):
        WRITERS["convert"](logs, out)
    with claimed(out), pytest.raises(PublishError, match="another process is writing to"):
        commit_rows(job, writing, staged)
    assert not out.exists()
    assert commit_rows(job, writing, staged)


def test_a_segment_is_not_put_where_a_job_writes(tmp_path: Path) -> None:
    path = tmp_path / "out" / "t-0" / f"{0:020d}.log"
    records = pa.RecordBatch.from_pylist([{"value": b"v"}])
    with claimed(tmp_path / "out"), pytest.raises(PublishError, match="another process is writing"):
        write_segment([records], path)
    assert not (tmp_path / "out").exists()
    assert write_segment([records], path)


def test_who_only_explains_is_in_nobodys_way(tmp_path: Path, logs: Path) -> None:
    with scratch_job(str(tmp_path / "out")):
        WRITERS["convert"](logs, tmp_path / "out")
    assert (tmp_path / "out" / "orders-0").exists()


def test_another_name_of_out_has_the_same_claim(tmp_path: Path, logs: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with claimed(tmp_path / "real"), pytest.raises(PublishError, match="another process"):
        WRITERS["convert"](logs, tmp_path / "link")
    assert journal_folder(f"{tmp_path}/link/") == f"{tmp_path}/real.ottla"


@pytest.mark.parametrize("name", ["convert", "restore", "salvage", "compact"])
def test_a_log_that_is_there_stops_a_job_before_any_work(
    tmp_path: Path, logs: Path, name: str
) -> None:
    out = tmp_path / "out"
    write_log(out, {20: batch(rows(20, 29))})
    before = tree(out)
    with pytest.raises(PublishError, match="orders-0 is in the way: choose another OUT"):
        WRITERS[name](logs, out)
    assert tree(out) == before
    assert open_journals(str(out)) == []


PLACES: dict[str, Callable[[Path, Path], Path]] = {
    "the-same": lambda _, logs: logs,
    "inside": lambda _, logs: logs / "out",
    "a-partition": lambda _, logs: logs / "orders-0",
    "in-a-partition": lambda _, logs: logs / "orders-0" / "out",
    "around": lambda folder, _: folder,
    "with-dots": lambda _, logs: logs / "orders-0" / ".." / "out",
    "a-link": lambda folder, logs: link(folder / "linked", logs),
    "in-a-link": lambda folder, logs: link(folder / "linked", logs) / "out",
    "around-a-linked-partition": lambda folder, logs: moved(folder / "disk", logs / "orders-0"),
}


def link(path: Path, target: Path) -> Path:
    path.symlink_to(target)
    return path


def moved(disk: Path, partition: Path) -> Path:
    """A partition that lies elsewhere, with a link in its place."""
    disk.mkdir()
    partition.rename(disk / partition.name)
    partition.symlink_to(disk / partition.name)
    return disk


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
@each_command
def test_nothing_is_written_into_or_around_what_is_read(
    tmp_path: Path,
    command: str,
    place: Callable[[Path, Path], Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "all"
    logs = write_log(folder / "logs", {0: batch(rows(0, 9))})
    out = place(folder, logs)
    before = tree(tmp_path)
    assert run(command, logs, out).status == 2
    told = capsys.readouterr().err
    assert "are the same place, or one is inside of the other" in told
    assert str(out) in told
    assert tree(tmp_path) == before


def test_stores_have_one_name_for_each_place(tmp_path: Path) -> None:
    (directory,) = read_log_directories([write_log(tmp_path / "logs", {0: batch(rows(0, 3))})])
    chosen = ChosenLogs(Catalog(("s3a://bucket/logs/",), (directory,), DEFAULT_OPTIONS))
    with pytest.raises(OptionError, match="one is inside of the other"):
        plan_convert(chosen, "s3://bucket//logs/out", Conversion(), {})


@pytest.fixture
def other_disk() -> Iterator[Path]:
    """A folder on a file system that is not that of the tests."""
    folder = Path("/dev/shm") / f"ottla-test-{os.getpid()}"
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("no /dev/shm to write to")
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


@contextmanager
def mounted(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no right to mount a tmpfs")
    try:
        yield
    finally:
        # Lazily: a save in this process holds its lock until the next one.
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@each_writer
def test_out_may_be_a_link_to_another_disk(
    tmp_path: Path, logs: Path, other_disk: Path, write: Writer
) -> None:
    assert os.stat(tmp_path).st_dev != os.stat(other_disk).st_dev
    (other_disk / "out").mkdir()
    out = link(tmp_path / "out", other_disk / "out")
    write(logs, out)
    assert tree(other_disk / "out")
    assert sorted(os.listdir(other_disk)) == ["out", "out.ottla"]
    assert sorted(os.listdir(tmp_path)) == ["logs", "out"]


@each_writer
def test_an_out_that_is_a_mount_is_refused_before_any_work(
    tmp_path: Path, logs: Path, write: Writer
) -> None:
    with mounted(tmp_path / "out"):
        with pytest.raises(PublishError, match=r"on another file system than .*: name a folder"):
            write(logs, tmp_path / "out")
        assert not os.listdir(tmp_path / "out")
        assert not (tmp_path / "out.ottla").exists()
        write(logs, tmp_path / "out" / "logs")


def test_a_commit_that_a_mount_keeps_back_is_finished_or_given_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    for name in ("a", "b"):
        commit_file(tmp_path / name, name, f"{name}-0/{0:020d}.log")
        os.makedirs(tmp_path / "out.ottla", mode=0o755, exist_ok=True)
        shutil.move(tmp_path / f"{name}.ottla" / name, tmp_path / "out.ottla" / name)
    with mounted(out / "a-0"), mounted(out / "b-0"):
        assert run("finish", out).status == 2
        told = capsys.readouterr().err.splitlines()
        assert [line.partition(" is on another file system")[0] for line in told] == [
            f"ottla: {out}/a-0",
            f"ottla: {out}/b-0",
        ]
        for line in told:
            assert line.endswith(
                "unmount it and finish the journal, or give it up: see `ottla finish --help`"
            )
        assert run("finish", out, "--discard", "a").status == 0
    assert run_json("finish", out).of("journal")[0]["action"] == "published"
    assert list(tree(out)) == [f"b-0/{0:020d}.log"]
    assert open_journals(str(out)) == []


def test_a_disk_inside_of_out_is_found_before_the_commit(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with (
        mounted(out / "a-0"),
        pytest.raises(PublishError, match="a-0 is on another file system"),
    ):
        commit_file(out, "a", f"a-0/{0:020d}.log")
    job = commit_file(out, "a", f"a-0/{0:020d}.log")
    publish(job)
    assert list(tree(out)) == [f"a-0/{0:020d}.log"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda log: os.truncate(log, 10), "has 10 bytes, but had"),
        (os.unlink, "is gone, but had"),
    ],
    ids=["cut", "gone"],
)
@pytest.mark.parametrize("name", ["convert", "restore", "salvage", "compact"])
def test_a_job_whose_output_was_cut_is_not_done(
    tmp_path: Path, logs: Path, name: str, change: Callable[[Path], None], why: str
) -> None:
    out = tmp_path / "out"
    WRITERS[name](logs, out)
    before = tree(out)
    change(out / "orders-0" / f"{0:020d}.log")
    with pytest.raises(PublishError, match=f"{why} .* take all of {out} away to do it again"):
        WRITERS[name](logs, out)
    shutil.rmtree(out)
    WRITERS[name](logs, out)
    assert tree(out) == before


def test_a_log_that_grew_since_is_still_the_output_of_its_job(tmp_path: Path, logs: Path) -> None:
    out = tmp_path / "out"
    WRITERS["convert"](logs, out)
    with (out / "orders-0" / f"{0:020d}.log").open("ab") as log:
        log.write(batch([Row(10, 1000, b"k", b"v")]))
    (out / "orders-0" / "leader-epoch-checkpoint").write_text("0\n0\n")
    WRITERS["convert"](logs, out)


def test_claims_nest(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    with claim_output(out), claim_output(out):
        assert (tmp_path / "out.ottla" / "writer").exists()
    assert not (tmp_path / "out.ottla").exists()


def test_a_claim_that_fails_leaves_no_folder_behind(tmp_path: Path) -> None:
    with (
        pytest.raises(OSError, match="too long"),
        claim_output(str(tmp_path / "a/b" / ("n" * 252))),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_query_says_that_a_commit_waits_and_reads_what_is_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An error would end queries that tail a log while a sink publishes to it."""
    out = write_log(tmp_path / "out", {0: batch(rows(0, 9))})
    commit_file(out, "a", f"first-0/{0:020d}.log")
    before = tree(tmp_path)
    options = parse_read_options({"path": str(out)})
    assert KafkaLogReader(options, schema_of(options)).partitions()
    assert f"a commit is waiting in {out}.ottla/a" in caplog.text
    assert f"`ottla finish {out}`" in caplog.text
    assert tree(tmp_path) == before


@each_command
def test_a_refused_command_leaves_nothing_in_its_input(tmp_path: Path, command: str) -> None:
    """A broker does not start beside a folder that is no partition."""
    logs = write_log(tmp_path / "logs", {0: batch(rows(0, 3))})
    before = sorted(tmp_path.rglob("*"))
    assert run(command, logs, logs / "a" / "b" / "out").status == 2
    assert run(command, tmp_path / "nothing", tmp_path / "a" / "b" / "out").status == 2
    assert sorted(tmp_path.rglob("*")) == before


def test_a_job_that_is_refused_before_any_work_leaves_no_journal(tmp_path: Path) -> None:
    logs, out = write_log(tmp_path / "logs", {0: batch(rows(0, 3))}), tmp_path / "out"
    assert run("convert", logs, out, "--codec", "lz4").status == 0
    before = sorted(tmp_path.rglob("*"))
    assert run("convert", logs, out, "--codec", "zstd").status == 2
    assert open_journals(str(out)) == []
    assert sorted(tmp_path.rglob("*")) == before


def test_what_is_not_taken_by_itself_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = write_log(tmp_path / "logs", {0: batch(rows(0, 3))}, topic="__consumer_offsets")
    assert run("export", logs, tmp_path / "out").status == 2
    told = capsys.readouterr().err
    assert (
        "__consumer_offsets-0: internal topics are taken when they are named with --topic" in told
    )
