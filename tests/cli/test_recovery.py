"""`ottla verify --recovery`, and what commands do about a job that was killed."""

from pathlib import Path

import pytest

from builders import Row, batch
from cli.command import run, run_json
from jobs.plain import tree
from ottla.publish.checked import StagedFile
from ottla.publish.job import Job
from ottla.publish.journal import commit, new_staged_name, open_journals, run_job, staged_path
from ottla.publish.locks import locked
from ottla.storage.writing import write_file

GOOD = [batch([Row(at)]) for at in range(3)]
BAD = GOOD[1][:-1] + b"\xff"


def lay_out(folder: Path, data: bytes) -> Path:
    (folder / "orders-0").mkdir()
    for kind, content in ((".log", data), (".index", b""), (".timeindex", b"")):
        (folder / "orders-0" / f"{0:020d}{kind}").write_bytes(content)
    return folder


def test_what_a_broker_would_cut_is_told(tmp_path: Path) -> None:
    done = run_json("verify", "--recovery", lay_out(tmp_path, GOOD[0] + BAD + GOOD[2]))
    assert done.status == 1
    (cut,) = [row for row in done.of("step") if row["step"] == "truncate"]
    assert (cut["topic"], cut["partition"], cut["position"]) == ("orders", 0, len(GOOD[0]))
    assert cut["why"] == f"{len(BAD + GOOD[2])} bytes from the first invalid batch on"
    (log,) = done.of("log")
    assert (log["logStartOffset"], log["logEndOffset"]) == (0, 1)


def test_rebuilt_indexes_are_no_loss(tmp_path: Path) -> None:
    done = run_json("verify", "--recovery", lay_out(tmp_path, b"".join(GOOD)))
    assert done.status == 0
    assert {row["step"] for row in done.of("step")} == {"rebuild"}


def test_a_swap_that_is_finished_is_no_loss(tmp_path: Path) -> None:
    logs = lay_out(tmp_path, b"".join(GOOD))
    for kind, content in ((".log", GOOD[0] + GOOD[2]), (".index", b""), (".timeindex", b"")):
        (logs / "orders-0" / f"{0:020d}{kind}.swap").write_bytes(content)
    done = run_json("verify", "--recovery", logs)
    assert done.status == 0
    (log,) = done.of("log")
    assert (log["logStartOffset"], log["logEndOffset"]) == (0, 3)
    later = [row["file"] for row in done.of("step") if row["step"] not in ("delete", "rename")]
    assert later
    assert not [name for name in later if name.endswith(".swap")]


def test_people_get_a_table(tmp_path: Path) -> None:
    done = run("verify", "--recovery", "--all", lay_out(tmp_path, b"".join(GOOD)))
    head, step, *_, log, last = done.out.splitlines()
    assert head.split() == ["PARTITION", "STEP", "FILE", "WHY"]
    assert step.split()[:3] == ["orders-0", "rebuild", f"{0:020d}.index"]
    assert log.split()[:2] == ["orders-0", "log"]
    assert log.endswith("offsets 0 to 3 remain")
    assert last == "None of 1 partition would lose records."


def test_people_see_what_is_lost_and_how_much_else_there_is(tmp_path: Path) -> None:
    folder = lay_out(tmp_path, GOOD[0] + BAD + GOOD[2])
    assert run("verify", "--recovery", folder).out.splitlines() == [
        "PARTITION  STEP      FILE                      POSITION  WHY",
        f"orders-0   truncate  {0:020d}.log  {len(GOOD[0]):8}"
        f"  {len(BAD + GOOD[2])} bytes from the first invalid batch on",
        "orders-0   log                                           offsets 0 to 1 remain",
        "1 of 1 partition would lose records.",
        "Steps that lose nothing: 2 rebuild (--all shows them).",
    ]


def test_a_plan_is_not_written_to_a_file(tmp_path: Path) -> None:
    out = tmp_path / "violations.jsonl"
    assert run("verify", "--recovery", "--out", out, lay_out(tmp_path, GOOD[0])).status == 2


def half_published(out: Path) -> list[str]:
    """Two files, of which a kill left one in staging; their names."""
    names = [f"orders-0/{0:020d}.log", f"orders-1/{0:020d}.log"]
    with run_job(str(out), "j") as job:
        files = []
        for target in names:
            staged = new_staged_name(target)
            write_file(staged_path(job, staged), GOOD[0])
            files.append(StagedFile(staged, target, len(GOOD[0])))
        commit(job, files, [])
        # Published by half, as a kill leaves it.
        (out / "orders-0").mkdir(parents=True)
        Path(staged_path(job, files[0].staged)).rename(out / names[0])
    return names


@pytest.mark.parametrize("named", ["out", "out/orders-0", f"out/orders-0/{0:020d}.log"])
def test_a_listing_tells_of_what_was_committed_and_leaves_it(
    tmp_path: Path, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It used to publish it: whoever could write beside a log could write anywhere."""
    out = tmp_path / "out"
    half_published(out)
    before = tree(tmp_path)
    listed = run_json("ls", tmp_path / named)
    assert tree(tmp_path) == before
    assert len(listed.of("partition")) == 1
    told = capsys.readouterr().err
    assert f"a commit is waiting in {out}.ottla/j" in told
    assert f"`ottla finish {out}`" in told


def test_what_was_committed_is_finished_when_asked_for(tmp_path: Path) -> None:
    out = tmp_path / "out"
    names = half_published(out)
    finished = run_json("finish", out)
    assert (finished.status, open_journals(str(out))) == (0, [])
    row = {"type": "journal", "job": "j", "action": "published", "files": 2}
    assert finished.lines == [row | {"bytes": 2 * len(GOOD[0])}]
    assert [(out / name).read_bytes() for name in names] == [GOOD[0]] * 2
    assert run_json("finish", out).lines == []


def test_what_was_not_committed_is_discarded_when_asked_for(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with run_job(str(out), "j") as job:
        write_file(staged_path(job, "f"), b"1234")
        assert run_json("finish", out).of("journal")[0]["action"] == "held"
    (row,) = run_json("finish", out).of("journal")
    assert (row["action"], row["files"], row["bytes"]) == ("discarded", 1, 4)
    assert not out.exists()


def test_a_commit_that_can_not_be_finished_is_given_up_when_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    names = half_published(out)
    (out / "orders-1").mkdir()
    (out / names[1]).write_bytes(b"in the way")
    refused = run_json("finish", out)
    assert (refused.status, refused.of("journal")[0]["action"]) == (2, "refused")
    assert "is in the way" in capsys.readouterr().err
    given_up = run_json("finish", out, "--discard", "j")
    assert given_up.status == 0
    (lost,) = given_up.of("lost")
    assert (lost["file"], lost["bytes"]) == (names[1], len(GOOD[0]))
    assert "may hold a part of what was meant" in capsys.readouterr().err
    assert (out / names[1]).read_bytes() == b"in the way"
    assert open_journals(str(out)) == []


def test_only_an_open_journal_is_given_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    half_published(tmp_path / "out")
    for name in ("k", "../out.ottla/j", ""):
        assert run("finish", tmp_path / "out", "--discard", name).status == 2
        assert "there is: j" in capsys.readouterr().err


def test_people_are_told_what_was_finished(tmp_path: Path) -> None:
    half_published(tmp_path / "out")
    shown = run("finish", tmp_path / "out", "--format", "text").out
    assert shown == f"published j: 2 files, {2 * len(GOOD[0])} bytes\n"


def test_a_journal_that_the_machine_fails_at_does_not_keep_others_from_being_finished(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    for name in ("a", "b"):
        with locked(Job(str(out), name)):
            write_file(staged_path(Job(str(out), name), "f"), b"log")
            commit(Job(str(out), name), [StagedFile("f", f"{name}-0/0.log", 3)], [])
    out.mkdir()
    (out / "a-0").write_bytes(b"a file where a folder is wanted")
    finished = run_json("finish", out)
    assert finished.status == 2
    assert [row["action"] for row in finished.lines] == ["refused", "published"]
    assert (out / "b-0" / "0.log").read_bytes() == b"log"
    assert "Not a directory; a part of this path is a file" in capsys.readouterr().err
