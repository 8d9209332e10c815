"""The texts mean what SQL says: SQLite gives the same rows for them."""

import sqlite3
from pathlib import Path

import pytest

from builders import Row, batch
from where.logs import read

KEYS = [None, "", "a", "b", "ab", "Ab", "a%b", "a_b", "a!b", "Zoë", "日本", "it's"]

TEXTS = [
    "key = 'a'",
    "not key = 'a'",
    "key <> 'a'",
    "key != 'a' or key is null",
    "not (key = 'a' and value = 'b')",
    "not (key = 'a' or value is null)",
    "key = 'a' or value = 'b' and offset > 20",
    "(key = 'a' or value = 'b') and offset > 20",
    "not key = 'a' and not value = 'b'",
    "key is null and value is not null",
    "key in ('a', 'b', 'it''s')",
    "key not in ('a', 'b')",
    "not key in ('a', 'b') or value in ('')",
    "key between 'a' and 'b'",
    "key not between 'a' and 'b'",
    "offset between 3 and 7 or offset between 9 and 8",
    "offset not between 3 and 139",
    "key < 'a'",
    "'a' < key",
    "key >= 'Zoë'",
    "key like 'a%'",
    "key not like 'a%'",
    "key like '%b'",
    "key like '_'",
    "key like '__'",
    "key like 'Zo_'",
    "key like '%'",
    "key like ''",
    "key like 'a!%b' escape '!'",
    "key like 'a!_b' escape '!'",
    "key like '%!!%' escape '!'",
    "key like 'a%' and not value like '_%'",
    "topic = 'orders' and partition = 0 and magic = 2",
    "producerId = -1 and 5 >= offset",
    "not not not offset = 5",
]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sql")
    (folder / "orders-0").mkdir()
    pairs = [(key, value) for key in KEYS for value in KEYS]
    rows = [
        Row(n, 1000 + n, *(None if text is None else text.encode() for text in pair))
        for n, pair in enumerate(pairs)
    ]
    (folder / "orders-0" / f"{0:020d}.log").write_bytes(batch(rows))
    return folder


@pytest.fixture(scope="module")
def table(logs: Path) -> sqlite3.Connection:
    columns = ("key", "value", "topic", "partition", "offset", "magic", "producerId")
    connection = sqlite3.connect(":memory:")
    connection.execute("pragma case_sensitive_like = on")
    connection.execute(f"create table rows ({', '.join(columns)})")
    for row in read(logs):
        values = [row[name] for name in columns]
        texts = [value.decode() if isinstance(value, bytes) else value for value in values]
        connection.execute("insert into rows values (?, ?, ?, ?, ?, ?, ?)", texts)
    return connection


@pytest.mark.parametrize("text", TEXTS)
def test_sqlite_gives_the_same_rows(logs: Path, table: sqlite3.Connection, text: str) -> None:
    found = table.execute(f"select offset from rows where {text} order by rowid").fetchall()
    assert [row["offset"] for row in read(logs, where=text)] == [offset for (offset,) in found]
