"""Same verdicts: the corpus through Kafka's own classes, at the version of the brokers here."""

import json
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
from benchmarks.maven import class_path, java
from broker import KAFKA

from corpus import CASES, Line, difference, expected_lines
from dump_log import dump_lines

FLAGS = [pytest.param((), id="crcs"), pytest.param(("--no-check-crcs",), id="no-crcs")]


def kafka_verdicts(segments: list[Path], *flags: str) -> dict[Path, list[Line]]:
    """What Kafka's classes say of each file, in the objects of `ottla dump`."""
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    # Some cases make Kafka allocate 2 GiB: the machine must not decide whether it falls over.
    command = java("questions.Verdicts", class_path(KAFKA), "-Xmx512m", quiet)
    names = "\n".join(str(path) for path in segments)
    run = subprocess.run([*command, *flags], input=names, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    verdicts: dict[Path, list[Line]] = defaultdict(list)
    for text in run.stdout.splitlines():
        line = json.loads(text)
        verdicts[Path(line.pop("file"))].append(line)
    return verdicts


@pytest.mark.parametrize("flags", FLAGS)
def test_kafka_ottla_and_the_corpus_agree(
    corpus: Path, flags: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    segments = {case: corpus / "segments" / f"{case}.log" for case in CASES}
    verdicts = kafka_verdicts(list(segments.values()), *flags)
    for case, path in segments.items():
        expected = expected_lines(corpus, case, check_crcs=not flags)
        assert difference(verdicts[path], expected) is None, f"Kafka, {case}"
        assert difference(dump_lines(path, *flags), verdicts[path]) is None, f"Ottla, {case}"
    with capsys.disabled():
        print(f"\n{len(segments)} corpus cases: Kafka here, the corpus and Ottla agree", *flags)
