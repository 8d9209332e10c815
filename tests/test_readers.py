"""Every public way of reading gives the same records and violations of the same damaged segments.

Forty segments of 60 batches each: five kinds of damage, four formats, with an index and without.
Each is a partition of `__consumer_offsets` whose records are commits of a group of their own, so
that `ottla groups` says which of them it has read, as all others do.
"""

import json
import struct
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest

import ottla
from builders import Row, batch, message, wrapper
from choosing import choose
from cli.command import run
from internal.streams import commit_key, commit_value
from jobs.plain import run_plainly
from ottla.catalog.slices import plan_tasks
from ottla.errors import Rule, Violation
from ottla.jobs.export.plan import ExportOptions, plan_export
from ottla.jobs.read.records import read_violations
from ottla.log.read.records import Mode
from ottla.options.read import ReadOptions, for_batch, parse_read_options
from ottla.spark.reader import LogReadError, read_task
from ottla.spark.schema import arrow_schema, schema_of

TOPIC = "__consumer_offsets"
BATCHES, PER_BATCH, INDEXED = 60, 3, 7
DAMAGED = 17
SPLITS = ["300", "2k", "64m"]

FORMATS: dict[str, Callable[[list[Row]], list[bytes]]] = {
    "v2": lambda rows: [batch(rows)],
    "v2-zstd": lambda rows: [batch(rows, codec=4)],
    "v1-gzip": lambda rows: [wrapper(rows, magic=1, codec=1)],
    "v0": lambda rows: [message(row, magic=0) for row in rows],
}


def lengthen(data: bytearray, starts: list[int]) -> range:
    """A length that reaches into a batch some batches on."""
    at, end = starts[DAMAGED], starts[DAMAGED + 4] + 7
    struct.pack_into(">i", data, at + 8, end - at - 12)
    return range(at, at + 12)


def flip(data: bytearray, starts: list[int]) -> range:
    data[starts[DAMAGED + 1] - 1] ^= 1
    return range(starts[DAMAGED + 1] - 1, starts[DAMAGED + 1])


def zero(data: bytearray, starts: list[int]) -> range:
    """As if the file had been preallocated and the last batches never written."""
    at = starts[-3]
    data[at:] = bytes(len(data) - at + 5000)
    return range(at, len(data))


def cut(data: bytearray, starts: list[int]) -> range:
    del data[starts[-2] + 20 :]
    return range(starts[-2], starts[-1])


def swap(data: bytearray, starts: list[int]) -> range:
    """Blocks of a disk in the wrong order; batches neither begin nor end with them."""
    one, other, size = starts[DAMAGED] + 5, starts[DAMAGED + 9] + 31, 100
    data[one : one + size], data[other : other + size] = (
        data[other : other + size],
        data[one : one + size],
    )
    return range(one, other + size)


DAMAGES = {"length": lengthen, "crc": flip, "zeros": zero, "cut": cut, "swapped": swap}
CASES = list(product(DAMAGES, FORMATS, [True, False]))


class Found(NamedTuple):
    """What a reader gave of a partition: offsets in order, and violations as they are worded."""

    offsets: list[int]
    violations: list[str]


class Segment(NamedTuple):
    """A damaged segment, and offsets that every reader must give, and must not."""

    path: Path
    sound: set[int]
    lost: set[int]


def write(folder: Path, number: int) -> Segment:
    damage, form, indexed = CASES[number]
    parts, lasts = [], []
    for base in range(0, BATCHES * PER_BATCH, PER_BATCH):
        rows = [
            Row(at, 5, commit_key(f"{number}.{at}", "t", 0), commit_value(at, "m" * 20))
            for at in range(base, base + PER_BATCH)
        ]
        made = FORMATS[form](rows)
        parts += made
        lasts += [base + PER_BATCH - 1] if len(made) == 1 else [row.offset for row in rows]
    starts = [sum(map(len, parts[:n])) for n in range(len(parts) + 1)]
    data = bytearray(b"".join(parts))
    touched = DAMAGES[damage](data, starts)
    folder = folder / f"{TOPIC}-{number}"
    folder.mkdir(parents=True)
    path = folder / f"{0:020d}.log"
    path.write_bytes(data)
    known = range(INDEXED, len(parts), INDEXED) if indexed else range(0)
    entries = [struct.pack(">ii", lasts[n], starts[n]) for n in known]
    if indexed:
        path.with_suffix(".index").write_bytes(b"".join(entries))
    return Segment(path, *judge(touched, starts, lasts, [starts[n] for n in known]))


def judge(
    touched: range, starts: list[int], lasts: list[int], known: list[int]
) -> tuple[set[int], set[int]]:
    """Offsets before the damage, and from the next batch that the index knows; those inside it."""
    sound, lost = set(), set()
    again = next((at for at in known if at >= touched.stop), starts[-1])
    offsets = [range(first + 1, last + 1) for first, last in pairwise([-1, *lasts])]
    for (start, stop), its in zip(pairwise(starts), offsets, strict=True):
        if stop <= touched.start or start >= again:
            sound.update(its)
        elif start <= touched.start < stop:
            lost.update(its)
    return sound, lost


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("readers")


@pytest.fixture(scope="module")
def segments(logs: Path) -> list[Segment]:
    return [write(logs, number) for number in range(len(CASES))]


@pytest.fixture(scope="module")
def by_api(segments: list[Segment]) -> list[Found]:
    """What `ottla.read_segment` gives, with which all others are compared."""
    return [read_by_api(segment.path) for segment in segments]


def read_by_api(path: Path) -> Found:
    tables = list(ottla.read_segment(path, columns=["offset"], mode="PERMISSIVE"))
    return found_in(row for table in tables for row in table.to_pylist())


def found_in(rows: Iterable[dict[str, Any]]) -> Found:
    """Rows of PERMISSIVE."""
    rows = list(rows)
    offsets = [row["offset"] for row in rows if row["_corrupt"] is None]
    return Found(offsets, [row["_corrupt"] for row in rows if row["_corrupt"] is not None])


def names(number: int) -> str:
    damage, form, indexed = CASES[number]
    return f"{damage} {form} {'with' if indexed else 'without'} index"


def compare(found: list[Found], expected: list[Found]) -> None:
    for number, pair in enumerate(zip(found, expected, strict=True)):
        assert pair[0] == pair[1], names(number)


def test_the_index_beside_a_file_leads_behind_the_damage(
    segments: list[Segment], by_api: list[Found]
) -> None:
    assert len(segments) == 40
    for number, (segment, found) in enumerate(zip(segments, by_api, strict=True)):
        given = set(found.offsets)
        assert given >= segment.sound, names(number)
        assert not given & segment.lost, names(number)
        damage, _, indexed = CASES[number]
        if indexed or damage != "swapped":  # else its length may reach past the end: half a batch
            assert bool(found.violations) == (damage not in ("zeros", "cut")), names(number)


def options(logs: Path, **given: str) -> ReadOptions:
    texts = {"path": str(logs), "subscribe": TOPIC, "mode": "permissive"} | given
    return for_batch(parse_read_options(texts))


@pytest.mark.parametrize("split", SPLITS)
def test_spark_reads_what_the_api_reads(logs: Path, by_api: list[Found], split: str) -> None:
    chosen = options(logs, splitbytes=split)
    target = arrow_schema(schema_of(chosen))
    rows: list[list[dict[str, Any]]] = [[] for _ in CASES]
    listed: list[list[str]] = [[] for _ in CASES]
    for task in plan_tasks(chosen):
        for part in task:
            number = part.name.partition
            for table in read_task((part,), chosen, target):
                rows[number] += table.select(["offset", "_corrupt"]).to_pylist()
            listed[number] += map(str, read_violations(part, chosen.access))
    compare([found_in(each) for each in rows], by_api)
    assert listed == [found.violations for found in by_api]


def test_dump_prints_what_the_api_reads(logs: Path, by_api: list[Found]) -> None:
    offsets, violations = defaultdict(list), defaultdict(list)
    for line in run("dump", logs, "--format", "jsonl").lines:
        if line["type"] == "record":
            offsets[line["file"]].append(line["offset"])
        elif line["type"] == "error" and line["severity"] == "error":
            violations[line["file"]].append(str(violation_of(line)))
    paths = [str(logs / f"{TOPIC}-{number}" / f"{0:020d}.log") for number in range(len(CASES))]
    compare([Found(offsets[path], violations[path]) for path in paths], by_api)


def violation_of(line: dict[str, Any]) -> Violation:
    same = {name: line[name] for name in ("detail", "file", "position", "size", "offset", "found")}
    return Violation(
        Rule(line["rule"]), last_offset=line["lastOffset"], expected=line["expected"], **same
    )


def test_groups_shows_what_the_api_reads(
    logs: Path, by_api: list[Found], capsys: pytest.CaptureFixture[str]
) -> None:
    done = run("groups", logs, "--format", "jsonl")
    offsets: dict[int, list[int]] = defaultdict(list)
    for line in map(json.loads, done.out.splitlines()):
        number, _, offset = line["group"].partition(".")
        offsets[int(number)].append(int(offset))
    said = capsys.readouterr().err.splitlines()
    found = [
        Found(sorted(offsets[number]), [line for line in said if f"/{TOPIC}-{number}/" in line])
        for number in range(len(CASES))
    ]
    expected = [
        Found(sorted(each.offsets), [f"ottla: {text}" for text in each.violations])
        for each in by_api
    ]
    compare(found, expected)


@pytest.mark.parametrize("split", [700, 1 << 26])
def test_export_writes_what_the_api_reads(
    logs: Path, by_api: list[Found], tmp_path: Path, split: int
) -> None:
    selection = choose(logs, topics=(TOPIC,))
    how = ExportOptions(mode=Mode.DROPMALFORMED, split_bytes=split)
    accounts = run_plainly(plan_export(selection, str(tmp_path / "out"), how))
    written = {account["partition"]: account["violations"] for account in accounts}
    for number, found in enumerate(by_api):
        files = (tmp_path / "out").rglob(f"partition={number}/*.parquet")
        tables = [pq.ParquetFile(path).read(["offset"]) for path in files]
        offsets = [offset for table in tables for offset in table["offset"].to_pylist()]
        assert sorted(offsets) == sorted(found.offsets), names(number)
        assert written[number] == len(found.violations), names(number)


def test_strict_readers_stop_at_the_same_violation(
    logs: Path, segments: list[Segment], by_api: list[Found]
) -> None:
    chosen = options(logs, mode="failfast")
    target = arrow_schema(schema_of(chosen))
    parts = {part.name: part for task in plan_tasks(chosen) for part in task}
    for (_, number), part in parts.items():
        if not by_api[number].violations:
            list(ottla.read_segment(segments[number].path))
            list(read_task((part,), chosen, target))
            continue
        with pytest.raises(ottla.CorruptLogError) as by_file:
            list(ottla.read_segment(segments[number].path))
        with pytest.raises(LogReadError) as by_spark:
            list(read_task((part,), chosen, target))
        assert str(by_file.value) == by_api[number].violations[0], names(number)
        assert str(by_spark.value).startswith(by_api[number].violations[0]), names(number)
