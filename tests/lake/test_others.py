"""DuckDB and Spark read what we write, in environments of the versions that know such tables."""

import json
import subprocess
import venv
from itertools import product
from pathlib import Path

import pytest

import ottla
from jobs.topics import Written, write_topic
from lake.others import plain
from lake.readers import FORMATS, written
from schemas.registries import framed, record, registered, write_registry, write_values

pytestmark = pytest.mark.newcomer
SCRIPT = Path(__file__).with_name("others.py")
NEEDS = {
    "duckdb": [
        "duckdb==1.5.5",
        "duckdb-extension-avro==1.5.5",
        "duckdb-extension-delta==1.5.5",
        "duckdb-extension-iceberg==1.5.5",
        "pytz==2026.6",
    ],
    "spark": ["pyspark==4.1.4"],
}
LAYOUTS = list(
    product(
        ("spark", "kafka"),
        ("partition", "day(timestamp)"),
        ("read_uncommitted", "read_committed"),
    )
)


@pytest.fixture(scope="module")
def topic(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Written]]:
    """Every magic and codec, transactions, gaps."""
    folder = tmp_path_factory.mktemp("others")
    return folder, write_topic(folder / "logs", "orders", partitions=3)


@pytest.fixture(scope="module", params=NEEDS)
def reader(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The Python of another environment, and what it reads with."""
    folder = tmp_path_factory.mktemp(request.param)
    venv.create(folder, with_pip=True)
    python = str(folder / "bin/python")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *NEEDS[request.param]], check=True)
    return [python, str(SCRIPT), request.param]


@pytest.mark.parametrize("form", FORMATS)
def test_others_read_every_record_once(
    topic: tuple[Path, list[Written]], reader: list[str], form: str
) -> None:
    folder, parts = topic
    log = ottla.open(folder / "logs")
    tables = [folder / f"{form}-{number}" for number in range(len(LAYOUTS))]
    for table, (columns, by, isolation) in zip(tables, LAYOUTS, strict=True):
        for end in (300, None):
            log.export(
                table,
                "orders",
                end=end,
                format=form,
                columns=columns,
                partition_by=by,
                isolation=isolation,
            )
    done = subprocess.run([*reader, form, *map(str, tables)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    for line, layout in zip(done.stdout.splitlines(), LAYOUTS, strict=True):
        rows = written(parts, committed=layout[-1] == "read_committed")
        assert json.loads(line) == [[plain(value) for value in row] for row in rows], layout


@pytest.mark.parametrize("form", FORMATS)
def test_others_read_columns_that_came_later(reader: list[str], tmp_path: Path, form: str) -> None:
    first = record("Order", ("id", "int"))
    second = record("Order", ("id", "int"), ("note", "string", "-"))
    schemas = [registered("orders-value", 1, 1, first), registered("orders-value", 2, 2, second)]
    values = [framed(1, first, {"id": 1}), framed(2, second, {"id": 2, "note": "b"})]
    for count in (1, 2):
        write_registry(tmp_path / "logs", schemas[:count])
        write_values(tmp_path / "logs", "orders", values[:count])
        log = ottla.open(tmp_path / "logs")
        log.export(tmp_path / "t", "orders", format=form, value_as="avro")
    done = subprocess.run([*reader, form, tmp_path / "t"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert [row[5] for row in json.loads(done.stdout)] == [[1, None], [2, "b"]]
