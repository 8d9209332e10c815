"""What old brokers wrote: read as their own consumers read it, found sound, and converted to v2."""

import json
from pathlib import Path

import pytest

import ottla
from cli.here import run
from golden import OLD_BROKERS, Answer, unpack_old


def read(logs: Path, topic: str) -> list[Answer]:
    """What a read_committed reader gets, with Kafka's own numbers."""
    table = ottla.open(str(logs)).scan(topic, isolation="read_committed", raw=True).to_arrow()
    rows = table.select(["offset", "timestamp", "key", "value", "headers"]).to_pylist()
    return [
        Answer(
            row["offset"],
            row["timestamp"],
            row["key"],
            row["value"],
            tuple((each["key"], each["value"]) for each in row["headers"] or ()),
        )
        for row in rows
    ]


@pytest.mark.parametrize("version", OLD_BROKERS)
def test_an_old_log_is_read_sound_and_converted(version: str, tmp_path: Path) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    answers = unpack_old(version, logs)
    assert {topic: read(logs, topic) for topic in answers} == answers
    verified = run("verify", logs)
    assert verified.status == 0, verified
    converted = run("convert", logs, out, "--magic", "2", "--quiet")
    assert converted.status == 0, converted
    assert {topic: read(out, topic) for topic in answers} == answers
    assert run("verify", out).status == 0
    rows = map(json.loads, run("ls", out, "--json").out.splitlines())
    magics = {magic for row in rows for magic in row["magics"]}
    assert magics == {2}


@pytest.mark.parametrize("version", OLD_BROKERS)
def test_its_cleaner_left_holes(version: str, tmp_path: Path) -> None:
    """Else nothing here would be compacted."""
    offsets = [answer.offset for answer in unpack_old(version, tmp_path)["compacted"]]
    assert len(offsets) < offsets[-1] - offsets[0] + 1
