"""Every kernel on little data, where an index out of bounds raises instead of reading on.

Each work is one that other tests do at length with compiled kernels. All of them together must call
every kernel, so that a new one is not forgotten here. `make test-nojit` runs them interpreted,
where an index below 0 is one from the end, and `make test-bounds` compiled, where it raises too.
"""

import ast
import json
import struct
import sys
import tempfile
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FrameType

import pytest
from numba import config

import builders
import naive
import ottla
import ottla.kernels
from builders import Row
from choosing import choose
from cli.command import run
from internal.streams import commit_key, commit_value
from jobs.compacting import compact_plainly
from jobs.plain import records_of, run_plainly
from jobs.test_report import report as build
from jobs.test_write import assert_sound, expected, save, some_rows
from jobs.topics import write_partition
from log import hostile
from ottla.api import read_segment
from ottla.batch.encode import encode_batches, split
from ottla.batch.new_batch import NewBatch
from ottla.batch.rows import NewRecord, pack_rows
from ottla.errors import Rule
from ottla.format.attributes import Codec, TimestampType
from ottla.jobs.compact.plan import plan_compaction
from ottla.jobs.compact.survey import CompactOptions
from ottla.jobs.export.plan import plan_export
from ottla.jobs.rewrite.salvage import plan_salvage_job
from ottla.kernels._jit import INTERPRETED
from ottla.log.files.partition import find_partitions
from ottla.log.read.records import Mode
from ottla.options.export import ExportOptions, FileFormat
from ottla.rules.append.checks import AppendPolicy
from ottla.rules.cleaner.cleanable import CleanerConfig
from ottla.rules.producers.producer import Origin
from rules.histories import ABORT, COMMIT, data_batch, marker
from rules.test_append_each import NOW, both
from schemas.small_avro import avro
from whole_log import check_partition, plan_salvage

pytestmark = pytest.mark.skipif(not (INTERPRETED or config.BOUNDSCHECK), reason="nothing raises")

KERNELS = Path(ottla.kernels.__file__).parent
LOG = f"{0:020d}.log"
# A commit of version 4: offset 8, epoch, no metadata, time, and tag 0 with an id of a topic.
FLEXIBLE = (
    struct.pack(">hqi", 4, 8, 4) + b"\x01" + struct.pack(">q", 99) + b"\x01\x00\x10" + bytes(16)
)
Kernel = tuple[str, str]  # the module and the function


def read(folder: Path) -> None:
    """All magics and codecs, read as written."""
    written = write_partition(folder / "t-0", seed=0, segments=10, batches=2, records=3)
    logs = sorted((folder / "t-0").glob("*.log"))
    batches = [batch for log in logs for batch in read_segment(str(log), columns=["offset", "key"])]
    found = [offset for batch in batches for offset in batch.column("offset").to_pylist()]
    assert found == [row.offset for row in written.rows]


def encode(folder: Path) -> None:
    """Our own bytes, by the naive reader and by ours."""
    for magic, codec in [(0, 0), (1, 1), (1, 3), (2, 0), (2, 2), (2, 3), (2, 4)]:
        headers = ((b"name", b"value"), (b"name", None)) if magic == 2 else ()
        rows = [
            NewRecord(at, 1000 + at if magic else -1, b"k%d" % at, b"value" * at, headers)
            for at in range(8)
        ]
        new, records = NewBatch(magic=magic, codec=Codec(codec)), pack_rows(rows)
        data = bytes(encode_batches(records, split(records, new, 200), new).data)
        lines = [line for line in naive.decode(data) if line["type"] == "record"]
        assert [line["value"] for line in lines] == [row.value for row in rows]
        (folder / LOG).write_bytes(data)
        values = [
            value
            for batch in read_segment(str(folder / LOG), columns=["value"])
            for value in batch.column("value").to_pylist()
        ]
        assert values == [row.value for row in rows]


def skip(folder: Path) -> None:
    """A broken record costs its batch; a long field has a long length."""
    rows = [Row(0, 0, b"k", b"long" * 2100), Row(1, 1, b"k")]
    good, bad = (builders.record(row) for row in rows)
    broken = builders.batch_of(good + b"\x0e" + bad, count=2, last_offset_delta=1)
    (folder / LOG).write_bytes(broken + builders.batch(rows))
    found = read_segment(str(folder / LOG), columns=["value"], mode=Mode.DROPMALFORMED)
    values = [value for batch in found for value in batch.column("value").to_pylist()]
    assert values == [row.value for row in rows]


def dump(folder: Path) -> None:
    """Text, JSON, what they make of bytes, and the records that a key or a header chooses."""
    value = b'"\n\xff' * 5 + b"plain" * 8
    rows = [Row(at, at, b"k%d" % at, value, ((b"h", b"%d" % at),)) for at in range(4)]
    path = folder / LOG
    path.write_bytes(builders.batch(rows) + builders.message(Row(4, 4, b"old"), magic=1))
    assert run("dump", "--format", "text", path).out.count("| offset: ") == 5
    lines = run("dump", "--format", "jsonl", path).of("record")
    assert [line["offset"] for line in lines] == [0, 1, 2, 3, 4]
    forms = (["--encoding", "utf8"], ["--encoding", "base64"], ["--encoding", "hex"])
    for form in (*forms, ["--no-payload"]):
        assert run("dump", "--format", "text", *form, path).out.count("| offset: ") == 5
        assert len(run("dump", "--format", "jsonl", *form, path).of("record")) == 5
    for chosen in (["--key", "k2"], ["--header", "h=2"]):
        lines = run("dump", "--format", "jsonl", *chosen, path).of("record")
        assert [line["offset"] for line in lines] == [2]


def verify(folder: Path) -> None:
    """Transactions: one aborted, one committed by a compressed marker, one open."""
    log = [
        data_batch(0, 2, producer=(1, 0, 0), transactional=True),
        marker(2, 1, 0, ABORT),
        data_batch(3, 2, producer=(1, 0, 2), transactional=True),
        marker(5, 1, 0, COMMIT, codec=1),
        data_batch(6, producer=(2, 0, 0), transactional=True),
    ]
    (folder / "t-0").mkdir()
    (folder / "t-0" / LOG).write_bytes(b"".join(log))
    (partition,) = find_partitions([folder])
    found = [violation.rule for violation in check_partition(partition)]
    assert found == [Rule.TRANSACTION_INDEX_LOG]  # there is none
    out = run("transactions", "--format", "jsonl", folder)
    assert [json.loads(line)["type"] for line in out.out.splitlines()]
    lines = run("ls", "--format", "jsonl", folder)
    assert lines.status == 0


def salvage(folder: Path) -> None:
    """Batches before and behind broken bytes."""
    whole = [builders.batch([Row(at, at, b"k", bytes(20))]) for at in range(4)]
    broken = bytearray(whole[1])
    broken[-1] ^= 1
    (folder / "t-0").mkdir()
    (folder / "t-0" / LOG).write_bytes(whole[0] + bytes(broken) + b"noise" + whole[2] + whole[3])
    (partition,) = find_partitions([folder])
    (plan,) = plan_salvage(partition)
    assert plan.kept.base_offset.tolist() == [0, 2, 3]
    old = [builders.message(Row(at, at, b"k", bytes(20)), magic=at % 2) for at in range(4)]
    broken = bytearray(old[0])
    broken[-1] ^= 1
    (folder / "t-0" / LOG).write_bytes(bytes(broken) + b"".join(old[1:]))
    (partition,) = find_partitions([folder])
    (plan,) = plan_salvage(partition)
    assert plan.kept.last_offset.tolist() == [1, 2, 3]


def salvage_embedded(folder: Path) -> None:
    """A whole batch inside the value of a broken one is no part of the log."""
    inner = builders.batch([Row(7, 7, b"inner")])
    outer = bytearray(builders.batch([Row(0, 0, b"k" * 20, inner)]))
    outer[65] ^= 1
    (folder / "t-0").mkdir()
    (folder / "t-0" / LOG).write_bytes(bytes(outer) + builders.batch([Row(1, 1)]))
    (partition,) = find_partitions([folder])
    (plan,) = plan_salvage(partition)
    assert plan.kept.base_offset.tolist() == [1]


def salvage_hostile(folder: Path) -> None:
    """Claims that overlap, whole batches among them and out of order, copied and checked again."""
    ahead = builders.batch([Row(90, 1)])
    whole = [builders.batch([Row(at, at)]) for at in (50, 51)]
    old = [builders.message(Row(at, at, b"k", bytes(20)), magic=1) for at in (52, 53)]
    hostile_bytes = b"".join(shape(1500) for shape in hostile.SHAPES)
    (folder / "logs" / "t-0").mkdir(parents=True)
    data = hostile_bytes + ahead + b"".join(whole + old)
    (folder / "logs" / "t-0" / LOG).write_bytes(data)
    plan = plan_salvage_job(choose(folder / "logs"), str(folder / "out"))
    (row,) = run_plainly(plan)
    assert row["lastOffset"] == 53
    assert row["writtenBytes"] + row["quarantinedBytes"] == len(data)


def compact(folder: Path) -> None:
    """The newest of each key stays."""
    names = [b"a", b"b", b"long" * 5000]  # more than the first table of keys has room for
    rows = [Row(at, at, names[at % 3], b"v%d" % at) for at in range(9)]
    (folder / "logs" / "t-0").mkdir(parents=True)
    data = [builders.batch(rows[at : at + 3], codec=3 * (at % 2)) for at in range(0, 9, 3)]
    data.append(data_batch(9, producer=(1, 0, 0), transactional=True))
    data.append(marker(10, 1, 0, ABORT))
    (folder / "logs" / "t-0" / LOG).write_bytes(b"".join(data))
    options = CompactOptions(config=CleanerConfig(0.0), includes_active=True, drops_unkeyed=True)
    plan = plan_compaction(choose(folder / "logs"), str(folder / "out"), options, now=10**12)
    compact_plainly(plan)
    assert records_of(folder / "out" / "t-0") == [tuple(row) for row in rows[-3:]]


def write(folder: Path) -> None:
    """Rows of two tasks become logs with all files beside them."""
    given = some_rows(1, 8)
    loose = [row | {"partition": None} for row in some_rows(2, 6)]
    save(folder / "out", [given[:5], given[5:]], numpartitions="2", codec="lz4", leaderepoch="3")
    for partition in range(2):
        assert records_of(folder / "out" / f"t-{partition}") == expected(given, partition)
    assert_sound(folder / "out")
    save(folder / "out", [loose], numpartitions="2")
    found = [*records_of(folder / "out" / "t-0"), *records_of(folder / "out" / "t-1")]
    assert len(found) == len(given) + len(loose)


def append(_: Path) -> None:
    """Appends together are appends one after another."""
    parts = [
        builders.batch([Row(0, NOW, b"k"), Row(1, NOW)], producer=(7, 1, 0)),
        builders.batch([Row(0, NOW + 10**9, b"k")], codec=1),
        builders.wrapper([Row(0, NOW, b"k")], magic=1, codec=1),
        marker(0, 7, 1, COMMIT),
    ]
    policies = [
        AppendPolicy(),
        AppendPolicy(compression_type=Codec.GZIP, is_compacted=True),
        AppendPolicy(timestamp_type=TimestampType.LOG_APPEND_TIME),
        AppendPolicy(timestamp_type=TimestampType.LOG_APPEND_TIME, magic=1),
    ]
    for policy in policies:
        for window in (parts, parts[:2] * 2, [builders.message(Row(0, NOW, b"k"), magic=1)]):
            _, together, apart = both(window, Origin.CLIENT, policy)
            assert together == apart


def groups(folder: Path) -> None:
    """Offsets of a group, of which one is a tombstone."""
    rows = [
        Row(0, 0, commit_key("g", "t", 0), commit_value(5, "here")),
        Row(1, 1, commit_key("g", "t", 1), commit_value(6)),
        Row(2, 2, commit_key("g", "t", 0), None),
        Row(3, 3, commit_key("g", "t", 2), FLEXIBLE),
    ]
    (folder / "__consumer_offsets-0").mkdir()
    (folder / "__consumer_offsets-0" / LOG).write_bytes(builders.batch(rows))
    lines = run("groups", "--format", "jsonl", folder).lines
    assert [(line["group"], line["partition"], line["offset"]) for line in lines] == [
        ("g", 1, 6),
        ("g", 2, 8),
    ]


def report(folder: Path) -> None:
    """What is in a log, and what cleaning it would leave."""
    rows = [Row(at, at, b"k%d" % (at % 3), b"v") for at in range(6)]
    (folder / "t-0").mkdir()
    (folder / "t-0" / LOG).write_bytes(builders.batch(rows[:3]) + builders.batch(rows[3:]))
    (folder / "t-0" / f"{6:020d}.log").write_bytes(builders.batch([Row(6, 6, b"k")]))
    assert {row["type"] for row in build(folder)} >= {"topic"}


def export(folder: Path) -> None:
    """JSON lines."""
    written = write_partition(folder / "logs" / "t-0", seed=4, segments=1, batches=2, records=3)
    options = ExportOptions(format=FileFormat.JSONL)
    run_plainly(plan_export(choose(folder / "logs"), str(folder / "out"), options))
    found = [line for path in (folder / "out").rglob("*.jsonl*") for line in _lines(path)]
    assert len(found) == len(written.rows)


def where(folder: Path) -> None:
    """One record of many, with its headers."""
    rows = [Row(at, 1000, b"k%d" % at, b"v", ((b"h", b"1"), (b"n", None))) for at in range(20)]
    log = folder / "t-0" / LOG
    log.parent.mkdir()
    log.write_bytes(builders.batch(rows))
    scan = ottla.open(str(folder)).scan(
        "t", columns=["offset", "key", "headers"], where="key = 'k7'"
    )
    (found,) = scan.to_arrow().to_pylist()
    assert found["offset"] == 7
    assert len(found["headers"]) == 2


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


WORKS: dict[str, Callable[[Path], None]] = {
    work.__name__: work
    for work in (
        read,
        encode,
        skip,
        dump,
        verify,
        salvage,
        salvage_embedded,
        salvage_hostile,
        compact,
        write,
        append,
        groups,
        report,
        export,
        where,
        avro,
    )
}


@cache
def called_by(work: str) -> frozenset[Kernel]:
    """Do it, and tell which functions of kernels were called."""
    found: set[Kernel] = set()
    folder = str(KERNELS)

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(folder):
            path = Path(frame.f_code.co_filename).relative_to(folder)
            found.add((str(path), frame.f_code.co_name))

    with tempfile.TemporaryDirectory() as temporary:
        threading.setprofile(note)
        sys.setprofile(note)
        try:
            WORKS[work](Path(temporary))
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    return frozenset(found)


def all_kernels() -> set[Kernel]:
    """Every function that is compiled, by itself or as a part of others."""
    found = set()
    for path in sorted(KERNELS.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and any(
                isinstance(mark, ast.Name) and mark.id in ("kernel", "called", "inlined")
                for mark in node.decorator_list
            ):
                found.add((str(path.relative_to(KERNELS)), node.name))
    return found


@pytest.mark.parametrize("work", WORKS)
def test_kernels_stay_in_bounds(work: str) -> None:
    assert called_by(work) or not INTERPRETED, "compiled kernels call no Python"


@pytest.mark.skipif(not INTERPRETED, reason="compiled kernels call no Python")
def test_every_kernel_is_called() -> None:
    called = frozenset().union(*(called_by(work) for work in WORKS))
    assert all_kernels() - called == set()
