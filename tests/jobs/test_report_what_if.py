"""What-if figures are what `convert` writes: exactly where all was tried, else within bounds."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from choosing import choose
from jobs.plain import run_plainly
from jobs.reporting import build_here
from jobs.topics import write_topic
from ottla.batch.convert import DEFAULT_BATCH_BYTES, Conversion, Loss
from ottla.batch.encode import encode
from ottla.batch.new_batch import NewBatch
from ottla.batch.rows import NewRecord, pack_rows
from ottla.catalog.slices import Slice
from ottla.format.attributes import Codec
from ottla.jobs.report.rows import ReportOptions
from ottla.jobs.report.survey import Unit
from ottla.jobs.report.what_if import (
    AS_IT_IS,
    Floats,
    Setting,
    all_settings,
    draw_units,
    estimate,
    known_of,
)
from ottla.jobs.rewrite.convert import plan_convert
from ottla.storage.listing import Entry

NOW = 1_800_000_000_000
SETTINGS = [
    Setting(2, Codec.ZSTD, 3, None),
    Setting(2, Codec.NONE, None, 16 << 10),
    Setting(2, Codec.ZSTD, 3, 128 << 10),
    Setting(2, Codec.LZ4, 1, 16 << 10),
    Setting(2, Codec.GZIP, 1, 512 << 10),
    Setting(1, Codec.SNAPPY, None, None),
]


def predicted(root: Path, **options: Any) -> dict[tuple[str, Setting], dict[str, Any]]:
    rows = build_here(
        choose(root),
        ReportOptions(compaction=False, **options),
        SETTINGS,
        NOW,
    )
    found = [row for row in rows if row["type"] == "whatIf"]
    return dict(
        zip(
            [(row["topic"], setting) for row, setting in zip(found, SETTINGS * 9, strict=False)],
            found,
            strict=True,
        )
    )


def converted(root: Path, out: Path, setting: Setting) -> dict[str, int]:
    magic, codec, level, size = setting
    conversion = Conversion(magic, codec, level, frozenset(Loss), size or DEFAULT_BATCH_BYTES)
    plan = plan_convert(choose(root), str(out), conversion, {}, rebatches=size is not None)
    sizes: dict[str, int] = {}
    for row in run_plainly(plan):
        sizes[row["topic"]] = sizes.get(row["topic"], 0) + row["writtenBytes"]
    return sizes


def test_a_small_topic_is_tried_whole_and_exact(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    write_topic(logs, "orders", partitions=3)
    write_topic(logs, "clicks", partitions=1, segments=7)
    rows = predicted(logs)
    for number, setting in enumerate(SETTINGS):
        sizes = converted(logs, tmp_path / f"out-{number}", setting)
        for topic, size in sizes.items():
            row = rows[topic, setting]
            assert (row["bytes"], row["low"], row["high"]) == (size, size, size), (topic, setting)
            assert row["measured"] == "whole"


def text(chance: random.Random, size: int) -> bytes:
    words = [b"order", b"paid", b"customer", b"berlin", b"status", b"amount", b"retry", b"cart"]
    parts = []
    while size > 0:
        parts.append(chance.choice(words) + b"%d" % chance.randrange(10_000))
        size -= len(parts[-1])
    return b" ".join(parts)


def write_skewed(folder: Path, seed: int, kind: str, size: int) -> None:
    """A log of records whose sizes are far apart, in batches of every codec or of none."""
    chance = random.Random(seed)
    folder.mkdir(parents=True)
    offset, written = 0, 0
    with open(folder / f"{0:020d}.log", "wb") as log:
        while written < size:
            rows = []
            for _ in range(chance.randint(5, 400)):
                length = min(60_000, int(chance.lognormvariate(5, 1.2)))
                value = chance.randbytes(length) if kind == "noise" else text(chance, length)
                if kind == "mixed" and chance.random() < 0.3:
                    value = chance.randbytes(length)
                rows.append(NewRecord(offset, NOW - 10**9 + offset, b"k%d" % (offset % 999), value))
                offset += 1
            codec = Codec.NONE if kind == "text" else chance.choice([*Codec])
            data = encode(pack_rows(rows), NewBatch(codec=codec))
            log.write(data)
            written += len(data)


@pytest.mark.spark_long
def test_samples_of_skewed_topics_predict_what_convert_writes(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    kinds = {"text": 40 << 20, "mixed": 28 << 20, "noise": 40 << 20}
    for seed, (kind, size) in enumerate(kinds.items()):
        write_skewed(logs / f"{kind}-0", seed, kind, size)
    rows = predicted(logs)
    assert {row["measured"] for row in rows.values()} == {"sample"}
    for number, setting in enumerate(SETTINGS):
        for topic, size in converted(logs, tmp_path / f"out-{number}", setting).items():
            row = rows[topic, setting]
            assert abs(row["bytes"] - size) <= 0.03 * size, (topic, setting, row["bytes"], size)
            assert row["low"] <= size <= row["high"], (topic, setting, row, size)


def units_of(raw: Floats, packed: Floats) -> list[Unit]:
    part = Slice(Entry("", 0, 0), None, 0, 0)
    sizes = zip(raw.tolist(), packed.tolist(), strict=True)
    return [Unit(part, 0, 0, 2 << 20, round(size), round(least)) for size, least in sizes]


@pytest.mark.parametrize("kind", ["alike", "two-kinds", "drifting", "rare", "probe-says-nothing"])
@pytest.mark.parametrize("count", [8, 16])
def test_the_bounds_hold_as_often_as_they_say(kind: str, count: int) -> None:
    chance = np.random.default_rng(7)
    windows = 400
    raw = chance.lognormal(15.5, 0.3, windows)
    other = chance.random(windows)
    ratio = {
        "alike": chance.normal(0.3, 0.02, windows),
        "two-kinds": np.where(other < 0.3, 1.0, 0.2) + chance.normal(0, 0.01, windows),
        "drifting": np.linspace(0.2, 0.6, windows) + chance.normal(0, 0.02, windows),
        "rare": np.where(other < 0.03, 1.0, 0.2) + chance.normal(0, 0.01, windows),
        "probe-says-nothing": chance.normal(0.4, 0.1, windows),
    }[kind]
    seen = 1.2 * ratio if kind != "probe-says-nothing" else chance.normal(0.5, 0.1, windows)
    units = units_of(raw, raw * (seen + chance.normal(0, 0.02, windows)))
    truth = raw * ratio
    held, trials = 0, 500
    for seed in range(trials):
        draw = draw_units(units, count * (2 << 20), seed)
        assert count - 3 <= draw.chosen.size <= count + 3
        found = estimate(draw, known_of(units), truth[draw.chosen])
        held += found.low <= truth.sum() <= found.high
    # 99 in 100 are promised; of 500 trials one in twenty thousand such tests has below 482.
    assert held >= 482


def test_a_sample_takes_from_every_stratum_and_nothing_twice() -> None:
    chance = np.random.default_rng(1)
    raw = chance.integers(1 << 20, 2 << 20, 100).astype(np.float64)
    draw = draw_units(units_of(raw, raw * chance.random(100)), 48 << 20, 5)
    taken = np.bincount(draw.stratum[draw.chosen])
    assert np.unique(draw.chosen).size == draw.chosen.size
    assert 24 - 3 <= draw.chosen.size <= 24 + 3
    assert (taken >= np.minimum(4, np.bincount(draw.stratum))).all()


def test_settings_are_those_that_people_use_and_zstd_comes_first() -> None:
    tried = all_settings()
    assert len(set(tried)) == len(tried)
    assert tried[0] == Setting(2, Codec.ZSTD, 3, None)
    # Defaults of CompressionType; of zstd one level that is quicker and one that is smaller.
    current = {(each.codec, each.level) for each in tried if each.magic == 2}
    usual = {(Codec.NONE, None), (Codec.SNAPPY, None), (Codec.GZIP, -1), (Codec.LZ4, 9)}
    assert current == usual | {(Codec.ZSTD, level) for level in (1, 3, 9)}
    old = {(each.codec, each.level, each.batch_bytes) for each in tried if each.magic == 0}
    assert old == {(*each, None) for each in usual}
    assert {each.batch_bytes for each in tried} == {None, 16 << 10, 128 << 10, 512 << 10}


def test_what_takes_longer_to_write_says_so(tmp_path: Path) -> None:
    write_skewed(tmp_path / "words-0", 3, "text", 3 << 20)
    settings = [AS_IT_IS, *(Setting(2, Codec.ZSTD, level, None) for level in (1, 9))]
    rows = build_here(choose(tmp_path), ReportOptions(compaction=False), settings, NOW)
    found = {row["level"]: row for row in rows if row["type"] == "whatIf"}
    assert found[None]["kind"] == "today"
    assert found[None]["bytes"] == found[None]["currentBytes"]
    assert (found[None]["writeSeconds"], found[None]["readSeconds"]) == (0, 0)  # no codec
    assert found[9]["writeSeconds"] > found[1]["writeSeconds"] > 0
    assert found[9]["writeSeconds"] > found[9]["readSeconds"] > 0


def test_old_formats_have_no_cpu_time(tmp_path: Path) -> None:
    write_topic(tmp_path, "orders", partitions=1)
    rows = build_here(choose(tmp_path), ReportOptions(), [Setting(1, Codec.GZIP, -1, None)], NOW)
    [row] = [row for row in rows if row["type"] == "whatIf"]
    assert (row["writeSeconds"], row["readSeconds"]) == (None, None)
