"""A window that expands to more than is held at once: jobs give what its records ask for."""

from pathlib import Path

import pytest

from builders import Row, batch
from choosing import choose
from jobs import peak
from jobs.compacting import compact_plainly
from jobs.plain import lines_of, records_of, run_plainly
from ottla.batch.convert import Conversion, Loss
from ottla.batch.records import GROUP_BYTES
from ottla.catalog.chosen import ChosenLogs
from ottla.format.attributes import Codec
from ottla.jobs.compact.plan import plan_compaction
from ottla.jobs.compact.survey import CompactOptions
from ottla.jobs.rewrite.convert import plan_convert
from ottla.jobs.rewrite.restore import Renaming, compile_filter, plan_restore

MIB = 1 << 20
ROWS = [Row(n, n, b"key %d" % (n % 7), bytes([n]) * MIB) for n in range(72)]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> ChosenLogs:
    folder = tmp_path_factory.mktemp("expanding") / "logs"
    path = folder / "t-0" / f"{0:020d}.log"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"".join(batch([row], codec=4) for row in ROWS))
    assert path.stat().st_size < MIB < 2 * GROUP_BYTES < len(ROWS) * MIB
    return choose(folder)


def test_compaction_keeps_the_newest_of_each_key(logs: ChosenLogs, tmp_path: Path) -> None:
    options = CompactOptions(includes_active=True)
    compact_plainly(plan_compaction(logs, str(tmp_path / "out"), options, now=10**12))
    assert records_of(tmp_path / "out" / "t-0") == ROWS[-7:]


def test_a_restore_takes_what_is_wanted(logs: ChosenLogs, tmp_path: Path) -> None:
    wanted = compile_filter(("key 3",), None, ())
    [row] = run_plainly(plan_restore(logs, str(tmp_path / "out"), wanted, Renaming({}, {})))
    assert records_of(tmp_path / "out" / "t-0") == ROWS[3::7]
    counts = [row[name] for name in ("readBatches", "writtenBatches", "skippedBatches")]
    assert counts == [len(ROWS), len(ROWS[3::7]), len(ROWS) - len(ROWS[3::7])]


def test_small_batches_become_large_ones(logs: ChosenLogs, tmp_path: Path) -> None:
    wanted = Conversion(codec=Codec.GZIP, batch_bytes=4 * MIB)
    run_plainly(plan_convert(logs, str(tmp_path / "out"), wanted, {}, rebatches=True))
    assert records_of(tmp_path / "out" / "t-0") == ROWS
    batches = [line for line in lines_of(tmp_path / "out" / "t-0") if line["type"] == "batch"]
    assert len(ROWS) / 4 < len(batches) < len(ROWS) / 2


def test_an_older_format_gets_every_record(logs: ChosenLogs, tmp_path: Path) -> None:
    wanted = Conversion(magic=1, codec=Codec.GZIP, allowed=frozenset(Loss))
    [row] = run_plainly(plan_convert(logs, str(tmp_path / "out"), wanted, {}))
    assert records_of(tmp_path / "out" / "t-0") == ROWS
    assert (row["copiedBatches"], row["skippedBatches"]) == (0, 0)


def test_a_survey_counts_every_record(logs: ChosenLogs) -> None:
    assert peak.survey(logs, "") == len(ROWS)
