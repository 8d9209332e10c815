"""A report says of logs what was written into them, and where they are damaged."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from builders import Row as Record
from builders import batch
from choosing import choose
from internal.test_metadata import config
from jobs.reporting import build_here
from jobs.topics import write_partition
from ottla.cli.report_commands import add_commands
from ottla.errors import OptionError
from ottla.format.attributes import Codec
from ottla.jobs.report.rows import ReportOptions
from ottla.jobs.report.verdict import sum_up
from ottla.jobs.report.what_if import BATCH_SIZES, Setting
from schemas.test_export import write_orders

NOW = 1_800_000_000_000
START = 1_700_000_000_000
REBATCHED = [Setting(None, None, None, BATCH_SIZES[0])]


def report(root: Path, **options: Any) -> list[dict[str, Any]]:
    chosen, selection = ReportOptions(**options), choose(root)
    rows = build_here(selection, chosen, REBATCHED, NOW)
    return add_commands(rows, selection, chosen, NOW)


def of(rows: list[dict[str, Any]], kind: str, **wanted: Any) -> list[dict[str, Any]]:
    return [row for row in rows if row["type"] == kind and wanted.items() <= row.items()]


def write_log(folder: Path, data: bytes, base: int = 0) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{base:020d}.log"
    log.write_bytes(data)
    return log


def test_what_was_written_is_what_is_there(tmp_path: Path) -> None:
    written = [
        write_partition(tmp_path / f"orders-{number}", seed=number + 3) for number in range(2)
    ]
    records = [row for each in written for row in each.rows]
    rows = report(tmp_path)
    [topic] = of(rows, "topic")
    logs = list(tmp_path.rglob("*.log"))
    assert topic["bytes"] == sum(log.stat().st_size for log in logs)
    assert topic["segments"] == len(logs)
    assert topic["partitions"] == 2
    assert topic["records"] == len(records)
    assert topic["unreadableBytes"] == 0
    dated = [row.timestamp for row in records if row.timestamp >= 0]
    assert (topic["firstTimestamp"], topic["lastTimestamp"]) == (min(dated), max(dated))
    assert sum(topic["formats"].values()) == sum(topic["codecs"].values()) == topic["bytes"]
    assert rows[0]["bytes"] == topic["bytes"]


def test_sizes_of_records_fall_into_bins_of_powers_of_two(tmp_path: Path) -> None:
    written = write_partition(tmp_path / "orders-0", seed=5)
    expected: Counter[int] = Counter()
    for row in written.rows:
        headers = sum(len(key) + len(value or b"") for key, value in row.headers)
        expected[(len(row.key or b"") + len(row.value or b"") + headers).bit_length()] += 1
    found = of(report(tmp_path), "distribution", measure="recordBytes")
    assert {row["from"].bit_length(): row["count"] for row in found} == expected
    assert all(row["to"] == max(1, 2 * row["from"]) for row in found)


def test_lateness_is_the_way_back_to_the_newest_record_before(tmp_path: Path) -> None:
    times = [0, 50, 20, 50, 49, 300]
    records = [Record(offset, START + time, None, b"x") for offset, time in enumerate(times)]
    write_log(tmp_path / "late-0", batch(records))
    found = of(report(tmp_path), "distribution", measure="latenessMs")
    # 0, 0, 30 ms late, 0, 1 ms late, 0
    assert [(row["from"], row["count"]) for row in found] == [(0, 4), (1, 1), (16, 1)]


def test_topics_share_the_buckets_of_the_timeline(tmp_path: Path) -> None:
    # One plot draws them on top of each other: 300 minutes in at most 120 buckets are 3 each.
    minute = 60_000
    begin = START // minute * minute
    for topic, minutes in {"long": (0, 299), "short": (4, 5, 100)}.items():
        batches = [
            batch([Record(offset, begin + at * minute, b"k", b"v")])
            for offset, at in enumerate(minutes)
        ]
        write_log(tmp_path / f"{topic}-0", b"".join(batches))
    size = len(batches[0])
    rows = of(report(tmp_path, what_if=False, compaction=False), "timeline")
    assert {row["to"] - row["from"] for row in rows} == {3 * minute}
    assert [(row["topic"], (row["from"] - begin) // minute, row["bytes"]) for row in rows] == [
        ("long", 0, size),
        ("long", 297, size),
        ("short", 3, 2 * size),
        ("short", 99, size),
    ]


def test_bytes_of_producers_beyond_those_named_are_counted_once(tmp_path: Path) -> None:
    # 10,000 are named. The rest share a line with batches of no producer, here the smallest.
    named = b"".join(
        batch([Record(number, START, None, b"value")], producer=(number, 0, 0))
        for number in range(10_050)
    )
    unnamed = batch([Record(10_050, START, None, b"")])
    write_log(tmp_path / "many-0", named + unnamed)
    rows = report(tmp_path, what_if=False, compaction=False)
    [rest] = of(rows, "producer", producerId=None)
    assert rest["bytes"] == 50 * len(named) // 10_050 + len(unnamed)


def test_commands_choose_what_the_report_was_asked_for(tmp_path: Path) -> None:
    for name in ("a-0", "a-1", "b c-1"):
        write_log(tmp_path / name, batch([Record(0, START, b"k", b"v")]))
    root = str(tmp_path)
    chosen = choose(root, topics=("a", "b c"), partitions=(1,))
    options = ReportOptions(
        price=0.5, sample_bytes=1 << 20, split_bytes=1 << 21, seed=4, compaction=False
    )
    settings = [Setting(2, Codec.ZSTD, 9, BATCH_SIZES[0]), Setting(2, Codec.ZSTD, 3, None)]
    found = build_here(chosen, options, settings, NOW)
    rows = add_commands(found, chosen, options, NOW)
    which = "--topic a --topic 'b c' --partition 1"
    assert rows[0]["commands"] == {
        "contents": f"ottla ls {root} {which}",
        "schemas": f"ottla schemas {root} --topic a --topic 'b c'",
        "health": f"ottla verify {root} {which}",
        "transactions": f"ottla transactions {root} {which} --now @{NOW}",
        "whatIf": f"ottla report {root} -o report.html {which} --price-per-gb-month 0.5"
        " --sample-bytes 1048576 --split-bytes 2097152 --seed 4 --without compaction"
        f" --now @{NOW}",
        "compaction": f"ottla report {root} -o report.html {which} --compacted TOPIC",
    }
    assert [row["command"] for row in of(rows, "whatIf", topic="a")] == [
        f"ottla convert {root} OUT --topic a --partition 1 --magic 2 --codec zstd --level 9"
        " --batch-bytes 16384",
        f"ottla convert {root} OUT --topic a --partition 1 --magic 2 --codec zstd",
    ]


def test_commands_name_no_flag_that_is_as_usual(tmp_path: Path) -> None:
    write_log(tmp_path / "a-0", batch([Record(0, START, b"k", b"v")]))
    commands = report(tmp_path, what_if=False)[0]["commands"]
    assert commands["contents"] == f"ottla ls {tmp_path}"
    # The section would show nothing again with --without what-if.
    assert commands["whatIf"] == f"ottla report {tmp_path} -o report.html --now @{NOW}"


def test_a_damaged_batch_is_placed_and_left_out(tmp_path: Path) -> None:
    batches = [batch([Record(offset, START, b"k", b"value")]) for offset in range(6)]
    log = write_log(tmp_path / "broken-0", b"".join(batches))
    at = sum(map(len, batches[:2]))
    data = bytearray(log.read_bytes())
    data[at + len(batches[2]) - 3] ^= 0x10
    log.write_bytes(data)
    write_log(tmp_path / "broken-0", batch([Record(6, START, b"k", b"v")]), base=6)
    rows = report(tmp_path)
    [finding] = of(rows, "finding", rule="crc-matches")
    assert (finding["severity"], finding["kind"]) == ("error", "damage")
    command = f"ottla salvage {tmp_path} OUT --topic broken --partition 0"
    assert finding["command"] == command
    assert finding["places"] == [[at, len(batches[2])]]
    assert finding["offset"] == 2
    [topic] = of(rows, "topic")
    assert (topic["records"], topic["unreadableBytes"]) == (6, len(batches[2]))
    assert rows[0]["errors"] == len(of(rows, "finding", severity="error"))


def test_damage_in_a_later_segment_is_placed_behind_the_earlier_ones(tmp_path: Path) -> None:
    first = batch([Record(0, START, b"k", b"v")])
    second = bytearray(batch([Record(1, START, b"k", b"v")]))
    second[-1] ^= 1
    write_log(tmp_path / "broken-0", first)
    write_log(tmp_path / "broken-0", bytes(second), base=1)
    [finding] = of(report(tmp_path), "finding", rule="crc-matches")
    assert finding["places"] == [[len(first), len(second)]]


def test_an_open_transaction_is_named_where_it_begins(tmp_path: Path) -> None:
    seeds = range(40)
    written = {
        seed: write_partition(tmp_path / f"orders-{seed}", seed=seed, segments=2) for seed in seeds
    }
    rows = report(tmp_path, what_if=False, compaction=False)
    for seed, each in written.items():
        found = of(rows, "openTransaction", partition=seed)
        firsts = [row["firstOffset"] for row in found]
        assert min(firsts, default=None) == each.open_from
        assert all(row["hanging"] for row in found)  # nobody was heard of for years
    assert any(each.open_from is not None for each in written.values())


def test_compaction_leaves_the_newest_record_of_each_key(tmp_path: Path) -> None:
    records = [
        Record(
            offset, START + offset, b"key-%d" % (offset % 7), None if offset % 50 == 20 else b"v"
        )
        for offset in range(200)
    ]
    for base in range(0, 200, 50):
        its = records[base : base + 50]
        write_log(tmp_path / "users-0", b"".join(batch([row]) for row in its), base=base)
    [row] = of(report(tmp_path, compacted=("users",)), "compaction")
    assert (row["distinctKeys"], row["tombstones"], row["unkeyedRecords"]) == (7, 0, 0)
    # The newest of each key are the last seven, all of the same size, and each its own batch.
    assert row["remainingBytes"] == sum(len(batch([record])) for record in records[-7:])
    # Nothing was ever cleaned, and the last segment is included: nothing stands in the way.
    assert row["dirtyRatio"] == 1.0
    assert row["wouldClean"] is True
    assert row["obstacles"] == []


def test_a_log_goes_as_far_as_its_empty_last_segment_says(tmp_path: Path) -> None:
    """A cleaner that got to offset 8 of a log that ends at 10 was not outside of it."""
    records = [Record(offset, START, b"key", b"v") for offset in range(5)]
    write_log(tmp_path / "users-0", b"".join(batch([row]) for row in records))
    write_log(tmp_path / "users-0", b"", base=10)
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nusers 0 8\n")
    [row] = of(report(tmp_path), "compaction")
    assert "cleaner-offset-checkpoint" not in [each["cause"] for each in row["obstacles"]]


def test_records_without_a_key_stand_in_the_way_of_compaction(tmp_path: Path) -> None:
    write_log(tmp_path / "clicks-0", batch([Record(n, START, None, b"x") for n in range(3)]))
    write_log(tmp_path / "users-0", batch([Record(0, START, b"k", b"x")]))
    row, _ = of(report(tmp_path, compacted=("cli*,users",)), "compaction")
    assert (row["unkeyedRecords"], row["remainingBytes"]) == (3, None)
    assert "records without a key" in [each["cause"] for each in row["obstacles"]]


def test_compaction_is_shown_of_topics_that_are_compacted_as_far_as_anyone_knows(
    tmp_path: Path,
) -> None:
    for name in ("asked-0", "cleaned-0", "policy-0", "both-0", "deleted-0", "plain-0"):
        write_log(tmp_path / name, batch([Record(0, START, b"k", b"v")]))
    write_log(tmp_path / "__consumer_offsets-7", batch([Record(0, START, b"k", b"v")]))
    policies = {"policy": "compact", "both": "compact,delete", "deleted": "delete"}
    records = [
        Record(offset, START, None, config(2, topic, "cleanup.policy", policy))
        for offset, (topic, policy) in enumerate(policies.items())
    ]
    write_log(tmp_path / "__cluster_metadata-0", batch(records))
    # What was compacted once has a checkpoint; the policy of today decides.
    checkpoint = "0\n2\ncleaned 0 0\ndeleted 0 0\n"
    (tmp_path / "cleaner-offset-checkpoint").write_text(checkpoint)
    rows = report(tmp_path, what_if=False, compacted=("ask*",))
    shown = ["__consumer_offsets", "asked", "both", "cleaned", "policy"]
    assert sorted(row["topic"] for row in of(rows, "compaction")) == shown
    assert rows[0]["compacted"] == shown
    assert " ".join(f"--topic {topic}" for topic in shown) in rows[0]["commands"]["compaction"]
    assert not of(report(tmp_path, what_if=False, compaction=False), "compaction")


def finding(topic: str | None, partition: int | None, severity: str) -> dict[str, Any]:
    return {"type": "finding", "topic": topic, "partition": partition, "severity": severity}


def test_the_verdict_names_what_is_worst_of_each_partition() -> None:
    partitions = [{"type": "partition", "topic": "a", "partition": number} for number in range(5)]
    transactions = [
        {"type": "openTransaction", "topic": "a", "partition": number, "hanging": number == 3}
        for number in (2, 3)
    ]
    found = [finding("a", 1, "warning"), finding("a", 0, "warning"), finding("a", 0, "error")]
    found += [finding("a", 4, "note"), *transactions]
    verdict = sum_up([*partitions, *found])
    assert verdict["healthyPartitions"] == 2  # a note is usual, and so is a running transaction
    assert verdict["health"] == (
        "3 of 5 partitions need attention:"
        " a-0 (errors), a-1 (warnings), a-3 (a hanging transaction)."
    )
    assert (verdict["saving"], verdict["savedShare"]) == (None, None)
    beside = sum_up([*partitions, finding(None, None, "error")])
    assert beside["health"] == "All 5 partitions are healthy. The log directory has errors."


def test_what_zstd_would_save_is_of_all_topics_together() -> None:
    lead = {"type": "whatIf", "magic": 2, "codec": "zstd", "level": 3, "batchBytes": None}
    rows = [
        lead | {"topic": "a", "currentBytes": 900, "savedBytes": 300},
        lead | {"topic": "b", "currentBytes": 100, "savedBytes": -50},
        lead | {"topic": "b", "currentBytes": 100, "savedBytes": 99, "batchBytes": 16384},
    ]
    verdict = sum_up(rows)
    assert (verdict["savedShare"], verdict["saving"]) == (0.25, "zstd would save 25 %.")


def test_a_topic_to_compact_that_is_not_there_is_refused(tmp_path: Path) -> None:
    write_log(tmp_path / "users-0", batch([Record(0, START, b"k", b"v")]))
    with pytest.raises(OptionError, match="usres"):
        report(tmp_path, what_if=False, compacted=("usres",))


def test_money_is_bytes_times_the_price(tmp_path: Path) -> None:
    write_log(tmp_path / "clicks-0", batch([Record(n, START, None, b"x" * 500) for n in range(99)]))
    [row] = of(report(tmp_path, price=1e9), "whatIf")
    assert row["perMonth"] == row["bytes"]
    assert row["savedPerMonth"] == row["currentBytes"] - row["bytes"]


def test_the_overhead_of_formats_is_what_their_layouts_say(tmp_path: Path) -> None:
    # 1000 messages of 100 bytes, a millisecond apart, in one batch: v0 has 26 bytes beside each,
    # v1 34; v2 has 61 for all, and 10 or 11 for each by the varints of its deltas.
    records = [Record(offset, START + offset, None, b"x" * 100) for offset in range(1000)]
    data = batch(records)
    write_log(tmp_path / "seeds-0", data)
    sizes = {0: None, 1: None, 2: max(BATCH_SIZES)}
    settings = [Setting(magic, Codec.NONE, None, size) for magic, size in sizes.items()]
    chosen = choose(tmp_path)
    rows = build_here(chosen, ReportOptions(), settings, NOW)
    found = {row["magic"]: (row["bytes"], row["perRecord"]) for row in of(rows, "overhead")}
    assert found == {0: (126_000, 26.0), 1: (134_000, 34.0), 2: (len(data), 10.93)}


@pytest.mark.parametrize("wrong", [{"price": -1.0}, {"price": float("nan")}, {"sample_bytes": 0}])
def test_options_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        ReportOptions(**wrong)


def test_which_schemas_a_topic_uses_and_what_they_do_not_explain(tmp_path: Path) -> None:
    write_orders(tmp_path)
    rows = report(tmp_path, what_if=False)
    found = {row["schema"]: row for row in rows if row["type"] == "schema"}
    assert list(found) == ["id 11", "id 12", "id 13", "id 14", "id 99", "no schema named"]
    assert [row["version"] for row in found.values()] == [1, 2, 3, 4, None, None]
    assert [row["records"] for row in found.values()] == [1, 1, 1, 2, 1, 3]
    assert found["id 14"] == {
        "type": "schema",
        "topic": "orders",
        "of": "value",
        "schema": "id 14",
        "subject": "orders-value",
        "version": 4,
        "schemaType": "AVRO",
        "records": 2,
        "undecodable": 1,
        "reasons": {"broken payload (truncated)": 1},
        "firstTimestamp": 1000,
        "lastTimestamp": 1000,
    }
    assert found["id 99"]["reasons"] == {"no such schema": 1}
    assert found["no schema named"]["undecodable"] == 3
    assert rows[0]["commands"]["schemas"] == f"ottla schemas {tmp_path}"
