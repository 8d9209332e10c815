"""A job's output appears whole or not at all, whatever happens on the way."""

import json
import os
import zlib
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from ottla.errors import PublishError
from ottla.publish import checked
from ottla.publish.checked import FinishedPartition, StagedFile, encode_json, read_json
from ottla.publish.job import Job, job_name, journal_folder
from ottla.publish.journal import (
    commit,
    discard,
    finished_partitions,
    is_published,
    mark_finished,
    new_staged_name,
    open_journals,
    publish,
    run_job,
    settle,
    staged_path,
)
from ottla.storage.listing import Entry
from ottla.storage.object_store import DEFAULT_OPTIONS
from ottla.storage.writing import write_file


def stage(job: Job, target: str, data: bytes) -> StagedFile:
    name = new_staged_name(target)
    write_file(staged_path(job, name), data)
    return StagedFile(name, target, len(data))


def content(out: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {
        str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()
    }


def test_published_files_are_in_place_and_nothing_else_is(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with run_job(str(out), "j") as job:
        files = [stage(job, "t-0/0.log", b"log"), stage(job, "t-1/0.log", b"")]
        stage(job, "t-0/0.log", b"of an attempt that lost")
        commit(job, files, [])
        assert not out.exists()
        publish(job)
        assert is_published(job)
    assert content(out) == {"t-0/0.log": b"log", "t-1/0.log": b""}
    assert sorted(os.listdir(tmp_path / "out.ottla" / "j")) == ["lock", "published.json"]
    assert open_journals(str(out)) == []


def test_out_may_be_named_by_a_uri(tmp_path: Path) -> None:
    out = f"file://{tmp_path}/out"
    with run_job(out, "j") as job:
        commit(job, [stage(job, "t-0/0.log", b"log")], [])
        assert open_journals(out) == ["j"]
        publish(job)
    assert content(tmp_path / "out") == {"t-0/0.log": b"log"}
    assert open_journals(out) == []


def test_a_committed_journal_is_finished_by_whoever_meets_it(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    with run_job(out, "j") as job:
        commit(job, [stage(job, "t-0/0.log", b"log"), stage(job, "t-0/0.index", b"i")], [])
    assert open_journals(out) == ["j"]
    settle(out)
    assert content(tmp_path / "out") == {"t-0/0.log": b"log", "t-0/0.index": b"i"}
    assert open_journals(out) == []


def test_an_uncommitted_journal_is_discarded_by_whoever_meets_it(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    with run_job(out, "j") as job:
        stage(job, "t-0/0.log", b"log")
    settle(out)
    assert content(tmp_path) == {"out.ottla/lock": b""}


def test_a_half_published_journal_is_finished(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    with run_job(out, "j") as job:
        files = [stage(job, f"t-{n}/0.log", b"%d" % n) for n in range(3)]
        commit(job, files, [])
    (tmp_path / "out" / "t-1").mkdir(parents=True)
    os.rename(staged_path(job, files[1].staged), tmp_path / "out" / "t-1" / "0.log")
    settle(out)
    assert content(tmp_path / "out") == {f"t-{n}/0.log": b"%d" % n for n in range(3)}


def test_a_job_that_is_running_is_left_alone_by_others(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    with run_job(out, "j") as job:
        file = stage(job, "t-0/0.log", b"log")
        settle(out)
        with (
            pytest.raises(PublishError, match="another process is running this job"),
            run_job(out, "j"),
        ):
            pass
        commit(job, [file], [])
        publish(job)
    assert content(tmp_path / "out") == {"t-0/0.log": b"log"}


def test_the_same_job_goes_on_where_it_was_and_another_begins_anew(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    with run_job(out, "j") as job:
        finished = FinishedPartition([stage(job, "t-0/0.log", b"log")], {"readBytes": 3})
        mark_finished(job, "t-0", finished)
        stage(job, "t-1/0.log", b"cut off")
    with run_job(out, "j") as job:
        assert finished_partitions(job) == {"t-0": finished}
    with run_job(out, "other"):
        pass
    with run_job(out, "j") as job:
        assert finished_partitions(job) == {}


def test_a_job_that_was_published_is_known_until_its_output_is_taken_away(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    with run_job(out, "j") as job:
        commit(job, [stage(job, "t-0/0.log", b"log")], [])
        publish(job)
    with run_job(out, "j") as job:
        assert is_published(job)
    (tmp_path / "out" / "t-0" / "0.log").unlink()
    with run_job(out, "j") as job:
        assert not is_published(job)


def test_what_is_in_out_is_never_touched(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    write_file(f"{out}/t-0/0.log", b"old")
    with run_job(out, "j") as job:
        with pytest.raises(PublishError, match="is in the way"):
            commit(job, [stage(job, "t-0/0.log", b"new")], [])
        discard(job)
    assert content(tmp_path) == {"out/t-0/0.log": b"old", "out.ottla/lock": b""}


def test_more_files_than_a_journal_may_name_are_refused_before_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would publish what was committed then."""
    monkeypatch.setattr(checked, "_MAX_BYTES", 270)
    with run_job(str(tmp_path / "out"), "j") as job:
        files = [stage(job, f"t-{number}/0.log", b"log") for number in range(2)]
        with pytest.raises(PublishError, match="too many files"):
            commit(job, files, [])
        commit(job, files[:1], [])
        publish(job)
    assert content(tmp_path / "out") == {"t-0/0.log": b"log"}


WRITTEN = {
    "without-checksum": ({"version": 1, "files": []}, None),
    "indented": ({"version": 1, "files": [], "account": [{"topic": "\u00fc"}]}, 1),
}


@pytest.mark.parametrize(("journal", "indent"), WRITTEN.values(), ids=WRITTEN)
def test_what_other_versions_wrote_is_read(
    tmp_path: Path, journal: dict[str, Any], indent: int | None
) -> None:
    """Those with a checksum computed it of the text that they wrote without it."""
    text = json.dumps(journal, indent=indent).encode()
    told = {} if indent is None else {"checksum": zlib.crc32(text)}
    path = tmp_path / "commit.json"
    write_file(path, json.dumps({**journal, **told}, indent=indent).encode())
    assert read_json(str(path), DEFAULT_OPTIONS) == journal


def test_no_changed_bit_of_a_journal_is_believed(tmp_path: Path) -> None:
    journal = {"files": [StagedFile("a-0.log", "t-0/0.log", 3)._asdict()], "account": []}
    written = encode_json(journal)
    path = tmp_path / "commit.json"
    for at, bit in product(range(len(written)), range(8)):
        changed = bytearray(written)
        changed[at] ^= 1 << bit
        path.write_bytes(changed)
        with suppress(PublishError):
            believed = read_json(str(path), DEFAULT_OPTIONS)
            assert believed.items() >= journal.items()  # only the word checksum was another
    write_file(path, written)
    assert read_json(str(path), DEFAULT_OPTIONS) == {"version": 1, **journal}


def test_a_file_that_says_so_replaces_an_older_version(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    write_file(f"{out}/t-0/leader-epoch-checkpoint", b"old")
    with run_job(out, "j") as job:
        file = stage(job, "t-0/leader-epoch-checkpoint", b"new")
        commit(job, [file._replace(replaces=True)], [])
        publish(job)
    assert content(tmp_path / "out") == {"t-0/leader-epoch-checkpoint": b"new"}


def test_a_staged_file_that_is_not_what_the_task_wrote_is_not_committed(tmp_path: Path) -> None:
    with run_job(str(tmp_path / "out"), "j") as job:
        file = stage(job, "t-0/0.log", b"log")
        with pytest.raises(PublishError, match="4 bytes when it was staged, now 3"):
            commit(job, [file._replace(size=4)], [])
        with pytest.raises(PublishError, match="now nothing"):
            commit(job, [file._replace(staged="x")], [])
        with pytest.raises(PublishError, match="two staged files for one place"):
            commit(job, [file, file], [])


def test_the_first_of_two_commits_counts(tmp_path: Path) -> None:
    with run_job(str(tmp_path / "out"), "j") as job:
        commit(job, [stage(job, "t-0/0.log", b"first")], [])
        commit(job, [stage(job, "t-0/0.log", b"second")], [])
        publish(job)
    assert content(tmp_path / "out") == {"t-0/0.log": b"first"}


def test_a_commit_is_not_discarded(tmp_path: Path) -> None:
    with run_job(str(tmp_path / "out"), "j") as job:
        commit(job, [stage(job, "t-0/0.log", b"log")], [])
        with pytest.raises(PublishError, match="was committed"):
            discard(job)


def test_a_lost_staged_file_stops_publishing_before_anything_moves(tmp_path: Path) -> None:
    with run_job(str(tmp_path / "out"), "j") as job:
        files = [stage(job, f"t-{n}/0.log", b"%d" % n) for n in range(3)]
        commit(job, files, [])
        os.unlink(staged_path(job, files[2].staged))
        with pytest.raises(PublishError, match=r"t-2/0.log is neither staged nor published"):
            publish(job)
    assert not (tmp_path / "out").exists()


def test_what_came_into_the_way_since_the_commit_is_not_replaced(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with run_job(str(out), "j") as job:
        commit(job, [stage(job, "t-0/0.log", b"log"), stage(job, "t-1/0.log", b"log")], [])
        write_file(f"{out}/t-1/0.log", b"of another")
        with pytest.raises(PublishError, match=r"t-1/0.log is in the way"):
            publish(job)
    assert content(out) == {"t-1/0.log": b"of another"}


def test_what_nobody_would_publish_is_not_committed(tmp_path: Path) -> None:
    with run_job(str(tmp_path / "out"), "j") as job:
        with pytest.raises(PublishError, match="is no place in"):
            commit(job, [stage(job, "t-0/notes.txt", b"log")], [])
        with pytest.raises(PublishError, match="no name of a file in"):
            staged_path(job, "../commit.json")


def test_a_quarantine_is_never_deleted(tmp_path: Path) -> None:
    """Of a job that was never committed, too: who knows whether its input is still there."""
    out = str(tmp_path / "out")
    with run_job(out, "j") as job:
        stage(job, "t-0/0.log", b"log")
        mark_finished(job, "t-0", FinishedPartition([], {}))
        write_file(job.path("quarantine", "t-0", "0.log"), b"left out")
    settle(out)
    kept = {"out.ottla/j/quarantine/t-0/0.log": b"left out", "out.ottla/lock": b""}
    assert content(tmp_path) == kept
    assert open_journals(out) == []


def test_folders_of_journals_are_ours_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with run_job(str(tmp_path / "out"), "j") as job:
            mark_finished(job, "t-0", FinishedPartition([stage(job, "t-0/0.log", b"log")], {}))
            assert finished_partitions(job)
    finally:
        os.umask(before)
    folders = [path for path in (tmp_path / "out.ottla").rglob("*") if path.is_dir()]
    assert len(folders) == 3
    assert {path.stat().st_mode & 0o777 for path in folders} == {0o755}


def test_what_others_may_add_to_a_journal_is_not_read(tmp_path: Path) -> None:
    """The sticky bit keeps what is ours; what is not ours is refused by its owner."""
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    with run_job(str(tmp_path / "out"), "j") as job:
        mark_finished(job, "t-0", FinishedPartition([], {}))
        folder = Path(job.path("finished"))
        folder.chmod(0o1777)
        assert finished_partitions(job)
        (folder / "t-1.json").write_bytes((folder / "t-0.json").read_bytes())
        os.chown(folder / "t-1.json", 65534, 65534)
        with pytest.raises(PublishError, match=r"t-1.json belongs to user"):
            finished_partitions(job)


def test_a_job_is_named_by_its_input_and_options() -> None:
    entries = [Entry("a", 1, 10), Entry("b", 2, 20)]
    name = job_name(entries, {"codec": "zstd", "level": 3})
    assert name == job_name(entries[::-1], {"level": 3, "codec": "zstd"})
    others = [
        job_name(entries[:1], {"codec": "zstd", "level": 3}),
        job_name([entries[0], Entry("b", 2, 21)], {"codec": "zstd", "level": 3}),
        job_name([entries[0], Entry("b", 3, 20)], {"codec": "zstd", "level": 3}),
        job_name(entries, {"codec": "zstd", "level": 4}),
    ]
    assert len({name, *others}) == 5


def test_the_journal_is_a_sibling_of_out(tmp_path: Path) -> None:
    assert journal_folder("s3://bucket/out/") == "s3://bucket/out.ottla"
