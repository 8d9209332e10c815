"""`ottla verify` ends with what its findings amount to, and with the command to run next."""

import json
import re
from pathlib import Path

import pytest

from builders import Row, batch
from cli.here import run
from log.generated import write_partition

SOUND = batch([Row(0, 1000, b"k", b"v")])
BROKEN = SOUND[:-1] + b"?"
CUT_OFF = SOUND + batch([Row(1, 1000)])[:-1]


def put(folder: Path, **partitions: bytes) -> Path:
    for name, data in partitions.items():
        write_partition(folder, name.replace("_", "-"), 0, data)
    return folder


def verdict(*words: object) -> list[str]:
    """What follows the violations."""
    lines = run("verify", *words).out.splitlines()
    return [line for line in lines if not re.match("(error|warning|note): ", line)]


def test_sound_logs_are_said_to_be_sound(tmp_path: Path) -> None:
    logs = put(tmp_path, a_0=SOUND, a_1=SOUND)
    assert verdict(logs) == [
        f"No errors, no warnings in 2 partitions. {2 * len(SOUND)} B were read."
    ]
    assert verdict(logs, "--quiet") == []


def test_errors_and_warnings_are_counted_apart(tmp_path: Path) -> None:
    logs = put(tmp_path, a_0=SOUND, b_0=SOUND, payments_0=CUT_OFF, payments_1=BROKEN)
    assert verdict(logs) == [
        "1 error, 1 warning in 2 of 4 partitions (payments-0, payments-1).",
        f"Next: ottla salvage {logs} OUT --topic payments --partition 1",
    ]


def test_the_command_names_the_topics_of_several_partitions(tmp_path: Path) -> None:
    logs = put(tmp_path, a_0=SOUND, b_0=BROKEN, b_1=BROKEN, c_7=BROKEN, d_0=BROKEN)
    assert verdict(logs) == [
        "4 errors in 4 of 5 partitions (b-0, b-1, c-7 and 1 more).",
        f"Next: ottla salvage {logs} OUT --topic b --topic c --topic d",
    ]


def test_a_warning_has_a_next_command_too(tmp_path: Path) -> None:
    logs = put(tmp_path, a_0=CUT_OFF)
    assert verdict(logs) == [
        "1 warning in 1 of 1 partition (a-0).",
        f"Next: ottla salvage {logs} OUT --topic a --partition 0",
    ]


def test_what_is_wrong_with_the_log_directory_is_in_no_partition(tmp_path: Path) -> None:
    logs = put(tmp_path, a_0=SOUND)
    (logs / "lost+found").mkdir()
    assert verdict(logs) == [
        f"1 error in the log directory, none in 1 partition. {len(SOUND)} B were read."
    ]


def test_a_copy_that_is_being_moved_is_marked(tmp_path: Path) -> None:
    logs = put(tmp_path, a_0=SOUND)
    put(logs, **{"a_0.0b-future": BROKEN})
    assert verdict(logs)[0] == "1 error in 1 of 2 partitions (a-0 (future))."
    table = verdict(logs, "--account")
    assert [line.split()[:2] for line in table[1:3]] == [
        ["a-0", f"{len(SOUND)}"],
        ["a-0", "(future)"],
    ]


def test_one_partition_of_two_brokers_counts_twice(tmp_path: Path) -> None:
    one, two = put(tmp_path / "one", a_0=BROKEN), put(tmp_path / "two", a_0=BROKEN)
    assert verdict(one, two) == [
        f"2 errors in 2 of 2 partitions (a-0 in {one}, a-0 in {two}).",
        f"Next: ottla salvage {one} OUT --topic a --partition 0",  # it takes one of them
    ]


def test_the_account_follows_on_request(tmp_path: Path) -> None:
    logs = put(tmp_path, a_2=SOUND, a_10=SOUND)
    head, two, ten, total, _ = verdict(logs, "--account", "--bytes")
    assert head.split()[:4] == ["PARTITION", "READ", "RECORDS", "READ"]
    assert [line.split()[0] for line in (two, ten)] == ["a-2", "a-10"]
    assert total.split()[:3] == ["2", "partitions", str(2 * len(SOUND))]
    rows = [json.loads(line) for line in run("verify", logs, "--json").out.splitlines()]
    assert [(row["type"], row["partition"]) for row in rows] == [("account", 2), ("account", 10)]


@pytest.mark.parametrize("words", [[], ["--account"]])
def test_a_file_of_violations_leaves_the_verdict(tmp_path: Path, words: list[str]) -> None:
    logs = put(tmp_path / "logs", a_0=BROKEN)
    shown = verdict(logs, "--out", tmp_path / "found.jsonl", *words)
    assert shown[-2] == "1 error in 1 of 1 partition (a-0)."
    assert len(shown) == (5 if words else 2)
