"""A log directory with all that a predicate can ask about, and its rows by a read of everything."""

from pathlib import Path
from typing import Any

from builders import Row, batch, message, wrapper
from jobs.topics import Segment, write_partition
from ottla.catalog.slices import Task, plan_tasks
from ottla.connector import BATCH_COLUMNS, codec_names
from ottla.jobs.read.records import read_for_connector
from ottla.log.read.records import obey
from ottla.options.read import ReadOptions, for_batch, parse_read_options

CORE = [
    *("key", "value", "offset", "timestamp", "timestampType", "rawHeaders"),
    *(name for name in BATCH_COLUMNS.names if name != "file"),
]
APPEND_TIME, TRANSACTIONAL = 8, 16
CLOCK = 1_700_000_000_000


def write_logs(folder: Path) -> None:
    """Every magic and codec, with and without indexes, and records that are odd."""
    write_partition(folder / "orders-0", seed=7, segments=4, batches=5, records=9)
    write_partition(folder / "orders-1", seed=4, segments=4, batches=5, records=9, indexes=False)
    _write_odd(folder / "odd-3")


def _write_odd(folder: Path) -> None:
    """Keys and headers that are no UTF-8 or many of a name; times that are not what they seem."""
    folder.mkdir(parents=True)
    headers = [
        ((b"trace", b"a"), (b"trace", b"b"), (b"trace", None)),
        ((b"trace", None),),
        (("é".encode(), "Zoë".encode()), (b"trace", b"\xff\xc3")),
        ((b"\xff", b"x"), (b"", b"")),
        (),
    ]
    keys = [b"\xff\xfe", "Zoë".encode(), "日本".encode(), b"100%_!", b"it's", b"\xc3", None, b""]
    rows = [
        Row(n, CLOCK + (n * 37) % 90, keys[n % 8], keys[(n + 3) % 8], headers[n % 5])
        for n in range(60)
    ]
    first, second = Segment(0), Segment(40)
    for start, attributes, producer in [
        (0, 0, (-1, -1, -1)),
        (8, APPEND_TIME, (7, 1, 5)),
        (16, TRANSACTIONAL, (2**40, 3, 2**31 - 2)),
        (24, 0, (9, 0, 0)),
        (40, APPEND_TIME | TRANSACTIONAL, (7, 2, 0)),
    ]:
        some = rows[start : start + 8]
        data = batch(
            some,
            codec=start % 5,
            attributes=attributes,
            producer=producer,
            leader_epoch=start // 8,
        )
        newest = max(row.timestamp for row in some)
        (first if start < 40 else second).append(data, some[-1].offset, newest)
    plain = [row._replace(headers=()) for row in rows[32:40]]
    first.append(wrapper(plain, magic=1, codec=2), 39, max(row.timestamp for row in plain))
    plain = [row._replace(headers=(), timestamp=-1) for row in rows[48:60]]
    second.append(wrapper(plain[:6], magic=0, codec=1), 53, -1)
    for row in plain[6:]:
        second.append(message(row, magic=0), row.offset, -1)
    first.write(folder, indexes=True)
    second.write(folder, indexes=True)


def options(path: Path, **given: str) -> ReadOptions:
    named = {name.replace("_", "."): text for name, text in given.items()}
    return for_batch(parse_read_options({"path": str(path)} | named))


def read(path: Path, **given: str) -> list[dict[str, Any]]:
    """The rows of a read with these options, as predicates see them."""
    chosen = options(path, **given)
    return read_tasks([*plan_tasks(chosen)], chosen)


def read_tasks(tasks: list[Task], chosen: ReadOptions) -> list[dict[str, Any]]:
    rows = []
    for part in (part for task in tasks for part in task):
        place = {
            "topic": part.name.topic.encode(),
            "partition": part.name.partition,
            "file": part.log.path.encode(),
        }
        for reading in obey(chosen.mode, read_for_connector(part, CORE, chosen.access)):
            records = reading.to_arrow(CORE)
            if records is None:
                continue
            codecs = codec_names(records["codec"]).to_pylist()
            for row, codec in zip(records.to_pylist(), codecs, strict=True):
                headers = [(each["key"], each["value"]) for each in row.pop("rawHeaders")]
                rows.append(row | place | {"headers": headers, "codec": codec.encode()})
    return rows
