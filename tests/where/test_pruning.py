"""What a predicate rules out is not opened; what it does not, is, and is judged as ever."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from builders import Row, batch, batch_of, message, record, wrapper
from jobs.topics import Segment
from ottla.catalog.slices import plan_tasks
from ottla.errors import CorruptLogError, OptionError
from ottla.jobs.read.records import read_for_connector, read_violations
from ottla.log.read.windows import Window
from ottla.options.read import ReadOptions
from ottla.where.parse import as_where
from where.logs import options, read, read_tasks

CLOCK = 1_700_000_000_000


def write_segments(folder: Path, *, codec: int = 3) -> None:
    """Three segments of ten batches of ten records, a second apart; producers take turns."""
    folder.mkdir(parents=True)
    for number in range(3):
        segment = Segment(number * 100)
        for base in range(number * 100, number * 100 + 100, 10):
            rows = [
                Row(n, CLOCK + n * 1000, b"key-%d" % n, b"v" * 40) for n in range(base, base + 10)
            ]
            producer = (base // 10 % 2, 0, 0)
            data = batch(rows, codec=codec, producer=producer)
            segment.append(data, base + 9, rows[-1].timestamp)
        segment.write(folder, indexes=True)


def spied(chosen: ReadOptions) -> tuple[list[int], list[str], int]:
    """Offsets that a read gives, files that it plans to open, and bytes that it looks at."""
    seen: list[int] = []

    def spy(windows: Iterator[Window]) -> Iterator[Window]:
        for window in windows:
            seen.append(int(window.batches.size.sum()))
            yield window

    offsets, files = [], []
    for part in (part for task in plan_tasks(chosen) for part in task):
        files.append(Path(part.log.path).name[17:20])
        for reading in read_for_connector(part, ["offset"], chosen.access, spy):
            records = reading.to_arrow(["offset"])
            offsets += [] if records is None else records["offset"].to_pylist()
    return offsets, files, sum(seen)


# A predicate, the offsets it gives, the segments that are opened, and how many of 30 batches.
PRUNED = [
    ("offset between 105 and 107", range(105, 108), ["100"], 1),
    ("offset = 250", [250], ["200"], 1),
    ("offset >= 285", range(285, 300), ["200"], 2),
    ("295 <= offset", range(295, 300), ["200"], 1),
    ("not offset < 285", range(285, 300), ["200"], 2),
    ("offset in (5, 12)", [5, 12], ["000"], 2),
    ("offset < 3 or offset = 104", [0, 1, 2, 104], ["000", "100"], 11),
    ("offset < 3 and key = 'key-1'", [1], ["000"], 1),
    ("offset < 3 and offset > 5", [], [], 0),
    ("topic = 'other'", [], [], 0),
    ("not (topic = 'orders' and partition = 0)", [], [], 0),
    ("topic <> 'orders' or offset = 250", [250], ["200"], 1),
    (f"timestamp >= {CLOCK + 210_000}", range(210, 300), ["200"], 10),
    (f"timestamp > {CLOCK + 199_000}", range(200, 300), ["200"], 10),
    (f"timestamp < {CLOCK + 3000}", range(3), ["000", "100", "200"], 30),
    ("key = 'key-7'", [7], ["000", "100", "200"], 30),
]


@pytest.mark.parametrize(
    ("text", "wanted", "opened", "batches"), PRUNED, ids=[p[0] for p in PRUNED]
)
def test_bounds_in_a_predicate_prune_logs_and_segments(
    tmp_path: Path, text: str, wanted: Any, opened: list[str], batches: int
) -> None:
    write_segments(tmp_path / "orders-0")
    size = sum(path.stat().st_size for path in tmp_path.rglob("*.log"))
    offsets, files, looked = spied(options(tmp_path, where=text))
    assert offsets == list(wanted)
    assert files == opened
    assert looked <= size * (batches + 1) / 30


def break_payloads(path: Path) -> None:
    """Let no batch decompress, though all of them have the CRC of their bytes."""
    segment = Segment(0)
    for base in range(0, 100, 10):
        producer = (base // 10 % 2, 0, 0)
        times = (CLOCK + base * 1000, CLOCK + (base + 9) * 1000)
        segment.append(
            batch_of(
                b"no lz4 frame",
                count=10,
                attributes=3,
                base_offset=base,
                last_offset_delta=9,
                timestamps=times,
                producer=producer,
            ),
            base + 9,
            times[1],
        )
    segment.write(path, indexes=False)


UNOPENED = [
    "producerId = 2",
    "producerId in (7, 8) or magic = 1",
    "codec <> 'lz4'",
    "codec like 'z%'",
    "isTransactional = true",
    "timestampType = 1",
    "position is null",
    f"timestamp > {CLOCK + 99_000}",
    f"not timestamp <= {CLOCK + 99_000} and key is not null",
    "partitionLeaderEpoch > 0",
]
OPENED = [
    "producerId = 1",
    "producerId = 2 or key = 'x'",
    "codec = 'lz4'",
    f"timestamp < {CLOCK - 1}",
    f"timestamp > {CLOCK + 98_999}",
    "header('a') is null",
    "sequence = 70",
    "not key = 'x'",
]


@pytest.mark.parametrize("text", UNOPENED)
def test_a_batch_that_its_header_rules_out_is_not_opened(tmp_path: Path, text: str) -> None:
    (tmp_path / "orders-0").mkdir()
    break_payloads(tmp_path / "orders-0")
    assert read(tmp_path, where=text) == []


@pytest.mark.parametrize("text", OPENED)
def test_a_broken_batch_that_could_hold_wanted_records_is_an_error(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / "orders-0").mkdir()
    break_payloads(tmp_path / "orders-0")
    with pytest.raises(CorruptLogError, match="decompresses"):
        read(tmp_path, where=text)


def test_a_wrong_crc_is_ruled_out_by_offsets_alone(tmp_path: Path) -> None:
    write_segments(tmp_path / "orders-0", codec=0)
    path = tmp_path / "orders-0" / f"{200:020d}.log"  # no time index is believed of the last
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    for text in (f"timestamp > {CLOCK + 10**9}", "producerId = 77"):
        with pytest.raises(CorruptLogError, match="crc-matches"):
            read(tmp_path, where=text)
    assert [row["offset"] for row in read(tmp_path, where="offset in (199, 210)")] == [199, 210]


def test_as_much_is_left_out_as_the_violations_show(tmp_path: Path) -> None:
    write_segments(tmp_path / "orders-0", codec=0)
    for path in tmp_path.rglob("*.log"):
        data = bytearray(path.read_bytes())
        data[70] ^= 1
        path.write_bytes(data)
    for text, count in [("key = 'x'", 3), ("offset < 150", 2), ("offset = 150", 0)]:
        chosen = options(tmp_path, where=text, mode="dropmalformed")
        parts = [part for task in plan_tasks(chosen) for part in task]
        left_out = [
            violation
            for part in parts
            for reading in read_for_connector(part, ["key"], chosen.access)
            for violation in reading.violations
        ]
        listed = [v for part in parts for v in read_violations(part, chosen.access)]
        assert left_out == listed
        assert len(listed) == count, text


def test_wrappers_do_not_say_when_their_messages_are(tmp_path: Path) -> None:
    """Their own time may be older than that of a message; an inner message may be of any time."""
    folder = tmp_path / "orders-0"
    folder.mkdir()
    rows = [Row(n, CLOCK + n, b"k", b"v") for n in range(6)]
    inner = wrapper(rows[:3], magic=1, codec=1)
    aged = message(Row(2, 5, None, payload_of(inner)), magic=1, attributes=1)
    plain = b"".join(message(row, magic=1) for row in rows[3:])
    (folder / f"{0:020d}.log").write_bytes(aged + plain)
    found = read(tmp_path, where=f"timestamp >= {CLOCK + 1}")
    assert [row["offset"] for row in found] == [1, 2, 3, 4, 5]
    assert [row["offset"] for row in read(tmp_path, where="offset < 2")] == [0, 1]


@pytest.mark.parametrize("attributes", [0, 8])
def test_a_batch_without_a_newest_time_is_opened(tmp_path: Path, attributes: int) -> None:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    data = record(Row(0, CLOCK), base_timestamp=CLOCK)
    times = (CLOCK, -1)
    log = batch_of(data, count=1, timestamps=times, attributes=attributes)
    (folder / f"{0:020d}.log").write_bytes(log)
    found = CLOCK if attributes == 0 else -1  # when the broker's clock counts, it has the max
    assert len(read(tmp_path, where=f"timestamp = {found}")) == 1


def payload_of(data: bytes) -> bytes:
    """The value of a v1 message without a key."""
    return data[12 + 4 + 2 + 8 + 4 + 4 :]


def test_a_record_without_room_for_its_time_is_named_if_it_is_wanted(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    rows = [Row(0, CLOCK), Row(1, 2**62, b"far"), Row(2, CLOCK)]
    (folder / f"{0:020d}.log").write_bytes(batch(rows))
    assert [row["offset"] for row in read(tmp_path, where="offset <> 1")] == [0, 2]
    with pytest.raises(CorruptLogError, match="timestamp-range"):
        read(tmp_path, where="key = 'far'")
    with pytest.raises(CorruptLogError, match="timestamp-range"):
        read(tmp_path, where=f"timestamp > {CLOCK}")


def filtered(path: Path, expression: pc.Expression) -> list[dict[str, Any]]:
    chosen = replace(options(path), where=as_where(expression))
    return read_tasks([*plan_tasks(chosen)], chosen)


def test_an_expression_of_pyarrow_filters(tmp_path: Path) -> None:
    write_segments(tmp_path / "orders-0")
    rows = read(tmp_path)
    time = pa.scalar((CLOCK + 5000) * 1000, pa.timestamp("us", tz="UTC"))
    field = pc.field
    for expression, text in [
        (field("offset") < 5, "offset < 5"),
        (field("key") == b"key-7", "key = 'key-7'"),
        (field("timestamp") <= time, f"timestamp <= {CLOCK + 5000}"),
        (
            (field("codec") == "lz4") & (field("producerId") == 1),
            "codec = 'lz4' and producerId = 1",
        ),
        (field("headers").is_null(), "headers is null"),
        (field("topic") == "orders", "topic = 'orders'"),
        (field("partition") == 1, "partition = 1"),
        (pc.scalar(True), "offset >= 0"),
    ]:
        assert filtered(tmp_path, expression) == read(tmp_path, where=text), text
    assert len(filtered(tmp_path, field("file").is_valid())) == len(rows)
    with pytest.raises(OptionError, match="columns are key, value"):
        filtered(tmp_path, field("offsett") == 1)


def test_a_time_index_that_was_never_closed_rules_nothing_out(tmp_path: Path) -> None:
    """A broker that died leaves room behind the entries; newer records may have none."""
    write_segments(tmp_path / "orders-0")
    index = sorted((tmp_path / "orders-0").glob("*.timeindex"))[0]
    index.write_bytes(index.read_bytes()[:12] + bytes(120))
    _, opened, _ = spied(options(tmp_path, where=f"timestamp >= {CLOCK + 95_000}"))
    assert opened == ["000", "100", "200"]


def test_the_file_of_a_record_is_a_column(tmp_path: Path) -> None:
    write_segments(tmp_path / "orders-0")
    chosen = options(tmp_path, where="file like '%00000100.log' and offset < 105")
    assert spied(chosen)[0] == [100, 101, 102, 103, 104]
