"""`ottla dump` against what Apache Kafka's own classes say of 745 segments."""

import contextlib
import copy
import io
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from corpus import CASES, difference, expected_lines, read_lines
from ottla.cli import main

Line = dict[str, Any]

UNCHECKED = "--no-check-crcs"


@cache
def dump(*arguments: str) -> tuple[int, bytes]:
    out = io.TextIOWrapper(io.BytesIO())
    with contextlib.redirect_stdout(out):
        status = main(["dump", "--format", "jsonl", *arguments])
        out.flush()
    return status, out.buffer.getvalue()


def dumped(corpus: Path, case: str, *flags: str) -> list[Line]:
    path = str(corpus / "segments" / f"{case}.log")
    lines = read_lines(dump(*flags, path)[1])
    assert {line.pop("file") for line in lines} == {path}
    return lines


def disagreement(corpus: Path, case: str, *flags: str) -> str | None:
    expected = expected_lines(corpus, case, check_crcs=UNCHECKED not in flags)
    return difference(dumped(corpus, case, *flags), expected)


@pytest.mark.parametrize("case", CASES)
def test_a_dump_says_what_kafka_says(corpus: Path, case: str) -> None:
    assert disagreement(corpus, case) is None


@pytest.mark.parametrize("case", CASES)
def test_a_dump_without_crc_checks_says_what_kafka_says(corpus: Path, case: str) -> None:
    assert disagreement(corpus, case, UNCHECKED) is None


@pytest.mark.parametrize("flags", [(), (UNCHECKED,)], ids=["crcs", "no-crcs"])
def test_all_cases_agree(
    corpus: Path, flags: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    agreeing = [case for case in CASES if disagreement(corpus, case, *flags) is None]
    with capsys.disabled():
        print(f"\n{len(agreeing)} of {len(CASES)} corpus cases agree", *flags)
    assert len(agreeing) == 745


def test_the_list_of_cases_is_what_the_archive_holds(corpus: Path) -> None:
    assert sorted(path.stem for path in (corpus / "segments").iterdir()) == sorted(CASES)


@pytest.mark.parametrize(
    ("case", "status"),
    [("ok-v2-zstd-multi", 0), ("trunc-v2-none-half", 0), ("bad-v0-none-crcflip", 1)],
)
def test_the_exit_status_says_whether_problems_were_found(
    corpus: Path, case: str, status: int
) -> None:
    assert dump(str(corpus / "segments" / f"{case}.log"))[0] == status


def test_many_files_in_one_call_are_dumped_one_after_another(corpus: Path) -> None:
    paths = [str(corpus / "segments" / f"{case}.log") for case in CASES[::50]]
    assert dump(*paths)[1] == b"".join(dump(path)[1] for path in paths)


@pytest.mark.parametrize("case", ["ok-v012-mixed-file", "bad-v2-lz4-bitflips-crcfixed"])
def test_the_installed_command_prints_the_same(corpus: Path, case: str) -> None:
    path = str(corpus / "segments" / f"{case}.log")
    command = [str(Path(sys.executable).with_name("ottla")), "dump", "--json", path]
    run = subprocess.run(command, capture_output=True, check=False, timeout=120)
    assert (run.returncode, run.stdout) == dump(path)


def _with(change: Callable[[list[Line]], object]) -> Callable[[list[Line]], list[Line]]:
    def apply(lines: list[Line]) -> list[Line]:
        changed = copy.deepcopy(lines)
        change(changed)
        return changed

    return apply


# The case has, in order: two batches of one record, a batch with a good record, an error and a
# good record, two more batches of one record, the end.
ALTERATIONS = [
    pytest.param(_with(lambda lines: lines[0].update(count=1)), id="a-batch-field"),
    pytest.param(_with(lambda lines: lines[0].pop("crc")), id="a-batch-field-missing"),
    pytest.param(_with(lambda lines: lines[0].update(more=1)), id="a-batch-field-too-many"),
    pytest.param(_with(lambda lines: lines[0].update(crcValid=1)), id="a-number-for-a-boolean"),
    pytest.param(_with(lambda lines: lines[1].update(offset=91.0)), id="a-float"),
    pytest.param(_with(lambda lines: lines[1].update(key=None)), id="null-for-empty"),
    pytest.param(_with(lambda lines: lines.pop(1)), id="a-record-missing"),
    pytest.param(_with(lambda lines: lines.insert(1, lines[1])), id="a-record-twice"),
    pytest.param(_with(lambda lines: lines[6].update(stage="records")), id="an-error-stage"),
    pytest.param(_with(lambda lines: lines[6].update(position=141)), id="an-error-position"),
    pytest.param(_with(lambda lines: lines.pop(6)), id="an-error-missing"),
    pytest.param(_with(lambda lines: lines[-1].update(records=5)), id="the-count-of-records"),
    pytest.param(_with(lambda lines: lines.pop()), id="no-end"),
]


@pytest.mark.parametrize("alter", ALTERATIONS)
def test_the_comparison_sees(corpus: Path, alter: Callable[[list[Line]], list[Line]]) -> None:
    expected = expected_lines(corpus, "bad-v1-gzip-innercrc")
    assert difference(expected, expected) is None
    assert difference(alter(expected), expected) is not None


def test_the_comparison_allows_other_words_for_an_error(corpus: Path) -> None:
    expected = expected_lines(corpus, "bad-v1-gzip-innercrc")
    worded = _with(lambda lines: lines[6].update(exception="ours", message="otherwise"))(expected)
    assert difference(worded, expected) is None


def test_the_comparison_allows_a_broken_batch_to_be_rejected_whole(corpus: Path) -> None:
    expected = expected_lines(corpus, "bad-v1-lz4-nested")
    rejected = [line for line in expected if (line["type"], line["position"]) != ("record", 109)]
    assert len(rejected) == len(expected) - 1
    rejected[-1] = rejected[-1] | {"records": rejected[-1]["records"] - 1}
    assert difference(rejected, expected) is None
    rejected[-1] |= {"records": rejected[-1]["records"] - 1}
    assert difference(rejected, expected) is not None
