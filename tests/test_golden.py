"""The files of real brokers that tests/golden keeps, against what kafka-dump-log said of them."""

from pathlib import Path

import pytest

from dump_log import Line, dump_lines, say
from golden import BROKERS, GOLDEN, kafka_dump
from ottla.errors import Severity
from ottla.log.files.partition import find_partitions
from replay import differences
from side_files import ENTRIES
from whole_log import check_partition

DUMPS = {path: lines for broker in BROKERS for path, lines in kafka_dump(broker).items()}


def files(*suffixes: str) -> list[object]:
    return [
        pytest.param(path, lines, id=str(path.relative_to(GOLDEN)))
        for path, lines in DUMPS.items()
        if path.suffix in suffixes
    ]


@pytest.mark.parametrize(("path", "said"), files(".log", ".checkpoint"))
def test_a_log_holds_what_kafka_dump_log_prints(path: Path, said: list[Line]) -> None:
    assert say(dump_lines(path)) == said


@pytest.mark.parametrize(("path", "said"), files(*ENTRIES))
def test_a_side_file_holds_what_kafka_dump_log_prints(path: Path, said: list[Line]) -> None:
    assert ENTRIES[path.suffix](path) == said


@pytest.mark.parametrize("broker", BROKERS)
def test_every_kept_file_was_dumped(broker: str) -> None:
    kept = {
        path
        for path in (GOLDEN / broker).glob("*-*/*")
        if path.suffix in {*ENTRIES, ".log", ".checkpoint"}
    }
    assert kept == kafka_dump(broker).keys()


# A cleaned segment keeps the entry of a transaction whose records it lost, so no replay finds it.
PARTITIONS = [
    pytest.param(path, id=str(path.relative_to(GOLDEN)))
    for path in sorted(GOLDEN.glob("kafka-*/*-*/"))
    if not path.name.startswith("compacted-")
]


@pytest.mark.parametrize("partition", PARTITIONS)
def test_a_replay_ends_with_the_producers_and_aborts_of_the_broker(partition: Path) -> None:
    assert differences(partition) == []


@pytest.mark.parametrize("broker", BROKERS)
def test_a_check_of_what_a_broker_left_finds_nothing_wrong(broker: str) -> None:
    partitions = find_partitions([GOLDEN / broker])
    assert len(partitions) >= 10
    violations = [found for one in partitions for found in check_partition(one)]
    wrong = [found for found in violations if found.rule.severity is not Severity.NOTE]
    assert [str(found) for found in wrong] == []
