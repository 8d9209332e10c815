"""`ottla verify --recovery`, and that a listing repairs what a killed job left."""

from pathlib import Path

import pytest

from builders import Row, batch
from cli.command import run
from ottla.log.publish import (
    StagedFile,
    commit,
    new_staged_name,
    open_journals,
    run_job,
    staged_path,
)
from ottla.storage import write_file

GOOD = [batch([Row(at)]) for at in range(3)]
BAD = GOOD[1][:-1] + b"\xff"


def lay_out(folder: Path, data: bytes) -> Path:
    (folder / "orders-0").mkdir()
    for kind, content in ((".log", data), (".index", b""), (".timeindex", b"")):
        (folder / "orders-0" / f"{0:020d}{kind}").write_bytes(content)
    return folder


def test_what_a_broker_would_cut_is_told(tmp_path: Path) -> None:
    done = run("verify", "--recovery", lay_out(tmp_path, GOOD[0] + BAD + GOOD[2]))
    assert done.status == 1
    (cut,) = [row for row in done.of("step") if row["step"] == "truncate"]
    assert (cut["topic"], cut["partition"], cut["position"]) == ("orders", 0, len(GOOD[0]))
    assert cut["why"] == f"{len(BAD + GOOD[2])} bytes from the first invalid batch on"
    (log,) = done.of("log")
    assert (log["logStartOffset"], log["logEndOffset"]) == (0, 1)


def test_rebuilt_indexes_are_no_loss(tmp_path: Path) -> None:
    done = run("verify", "--recovery", lay_out(tmp_path, b"".join(GOOD)))
    assert done.status == 0
    assert {row["step"] for row in done.of("step")} == {"rebuild"}


def test_people_get_a_table(tmp_path: Path) -> None:
    done = run("verify", "--recovery", "--format", "text", lay_out(tmp_path, b"".join(GOOD)))
    head, *_, last = done.out.splitlines()
    assert head.split() == ["PARTITION", "STEP", "FILE", "POSITION", "WHY"]
    assert last.split()[:2] == ["orders-0", "log"]
    assert last.rstrip().endswith("offsets 0 to 3 remain")


def test_a_plan_is_not_written_to_a_file(tmp_path: Path) -> None:
    out = tmp_path / "violations.jsonl"
    assert run("verify", "--recovery", "--out", out, lay_out(tmp_path, GOOD[0])).status == 2


@pytest.mark.parametrize("named", ["out", "out/orders-0"])
def test_a_listing_finishes_what_was_committed(tmp_path: Path, named: str) -> None:
    out = tmp_path / "out"
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
    listed = run("ls", tmp_path / named)
    assert open_journals(str(out)) == []
    assert (out / names[1]).read_bytes() == GOOD[0]
    assert len(listed.of("partition")) == (2 if named == "out" else 1)
