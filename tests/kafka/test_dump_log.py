"""We say what kafka-dump-log says of every file that real brokers wrote."""

from pathlib import Path

import pytest
from broker import dump_log
from tally import compared

from dump_log import Line, dump_lines, parse_dump, say
from side_files import ENTRIES, is_unwritten

TAKEN = ("running", "stopped", "legacy")

Dumps = dict[str, dict[Path, list[Line]]]


@pytest.fixture(scope="module")
def kafka_dumps(logs: dict[str, Path], legacy_log: Path) -> Dumps:
    """What kafka-dump-log says, by how the directory was taken and by file."""
    taken = logs | {"legacy": legacy_log}
    return {
        name: {log_dir / file: lines for file, lines in parse_dump(dump_log(log_dir)).items()}
        for name, log_dir in taken.items()
    }


@pytest.mark.parametrize("taken", TAKEN)
def test_batches_and_records_are_what_kafka_dump_log_prints(kafka_dumps: Dumps, taken: str) -> None:
    dumps = {
        path: lines
        for path, lines in kafka_dumps[taken].items()
        if path.suffix in (".log", ".checkpoint")
    }
    for path, lines in dumps.items():
        assert say(dump_lines(path)) == lines, path
    records = sum(line["line"] == "record" for lines in dumps.values() for line in lines)
    assert records > 1000
    compared["files"] += len(dumps)
    compared["records"] += records


@pytest.mark.parametrize("suffix", ENTRIES)
@pytest.mark.parametrize("taken", TAKEN)
def test_index_entries_are_what_kafka_dump_log_prints(
    kafka_dumps: Dumps, taken: str, suffix: str
) -> None:
    dumps = {path: lines for path, lines in kafka_dumps[taken].items() if path.suffix == suffix}
    for path, lines in dumps.items():
        written = [line for line in lines if not is_unwritten(line, int(path.stem))]
        assert ENTRIES[suffix](path) == written, path
    compared["files"] += len(dumps)
    assert dumps or (taken, suffix) == ("legacy", ".txnindex")
