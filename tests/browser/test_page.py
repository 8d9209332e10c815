"""The page of a report in Chromium: quiet, fitting, and with the values of the JSON lines."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from browser.chromium import show, start_browser
from choosing import choose
from jobs.reporting import build_here
from ottla.cli.output import json_line
from ottla.cli.report_commands import add_commands
from ottla.html.page import render_page
from ottla.jobs.demo import make_logs
from ottla.jobs.report.rows import ReportOptions
from ottla.jobs.report.what_if import all_settings

pytestmark = pytest.mark.browser

NOW = 1_760_100_000_000
WIDTHS = [400, 1400]
# Elements that reach out of the window, but for what lies in a box that scrolls by itself.
STICKING_OUT = """
return [...document.querySelectorAll('body *')].filter((element) =>
  !element.closest('.scroll, nav, svg, script')
  && element.getBoundingClientRect().right > innerWidth + 1
).map((element) => element.outerHTML.slice(0, 120));
"""
CELLS = """
return [...document.querySelectorAll(`#${arguments[0]} tbody tr`)].map((row) =>
  Object.fromEntries([...row.cells].map(
    (cell) => [cell.dataset.name, [cell.dataset.value, cell.textContent]])));
"""
# The widths of plots; a legend is a small picture beside its plot.
PLOTS = """
return [...document.querySelectorAll('.plot')].map((box) =>
  Math.max(...[...box.querySelectorAll('svg')].map((svg) => svg.getBoundingClientRect().width)));
"""
# Tables of the page, the rows that they show, and the columns that are values of these rows.
TABLES = {
    "topics": ("topic", "topic bytes partitions segments batches records producers"),
    "findings": ("finding", "severity rule count bytes meaning command"),
    "open-transactions": ("openTransaction", "producerId firstOffset heldBack lastTimestamp"),
    "savings": ("savings", "topic currentBytes bytes savedPerMonth rebatchedBytes compactedBytes"),
    "settings": ("whatIf", "batchBytes bytes low high perMonth savedPerMonth command"),
    "overheads": ("overhead", "topic records recordBytes bytes perRecord"),
    "cleaning": (
        "compaction",
        "bytes cleanedBytes remainingBytes dirtyRatio distinctKeys tombstones unkeyedRecords",
    ),
}


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The report of the demo's logs as its JSON lines say it, with settings that are quick."""
    folder = tmp_path_factory.mktemp("report")
    make_logs(str(folder / "kafka-logs"))
    settings = [each for each in all_settings() if each.level in (None, 1, 3)]
    selection = choose(folder / "kafka-logs")
    options = ReportOptions(price=7.5)
    found = build_here(selection, options, settings, NOW)
    told = add_commands(found, selection, options, NOW)
    return [json.loads(json_line(row)) for row in told]


@pytest.fixture(scope="module")
def page(rows: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(render_page(rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    with start_browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_logged_and_nothing_sticks_out(
    driver: Chrome, page: Path, width: int, scheme: str
) -> None:
    show(driver, page, width, scheme)
    assert driver.get_log("browser") == []
    assert driver.execute_script("return innerWidth") == width
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    assert driver.execute_script(STICKING_OUT) == []
    plots = driver.execute_script(PLOTS)
    assert len(plots) == 7
    assert min(plots) > 100


def test_light_and_dark_are_two_pages(driver: Chrome, page: Path) -> None:
    grounds = []
    for scheme in ("light", "dark"):
        show(driver, page, 1400, scheme)
        grounds.append(
            driver.execute_script("return getComputedStyle(document.body).backgroundColor")
        )
    assert len(set(grounds)) == 2


def as_shown(value: Any) -> str:
    """A value as the attribute of a cell holds it."""
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value) if isinstance(value, bool) else str(value)


def savings(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """What each topic can save: the table that is no row's, but worked out from rows."""
    for topic in sorted({row["topic"] for row in rows if row["type"] == "whatIf"}):
        tried = [row for row in rows if row["type"] == "whatIf" and row["topic"] == topic]
        best = min((row for row in tried if row["magic"] == 2), key=lambda row: row["bytes"])
        rebatched = min(row["bytes"] for row in tried if row["kind"] == "rebatch")
        parts = [row for row in rows if row["type"] == "compaction" and row["topic"] == topic]
        left = [row["remainingBytes"] for row in parts]
        cleaned = [
            row["bytes"]
            if row["remainingBytes"] is None
            else row["remainingBytes"] + row["otherBytes"]
            for row in parts
        ]
        compacted = None if set(left) == {None} else sum(cleaned)
        yield {**best, "type": "savings", "rebatchedBytes": rebatched, "compactedBytes": compacted}


@pytest.mark.parametrize("table", TABLES)
def test_values_on_the_page_are_those_of_the_lines(
    driver: Chrome, page: Path, rows: list[dict[str, Any]], table: str
) -> None:
    show(driver, page, 1400)
    kind, names = TABLES[table]
    expected = [row for row in [*rows, *savings(rows)] if row["type"] == kind]
    if table == "settings":
        largest = max((row for row in rows if row["type"] == "topic"), key=lambda row: row["bytes"])
        expected = [row for row in expected if row["topic"] == largest["topic"]]
    assert expected

    def number(text: str) -> Any:
        try:
            return float(text)
        except ValueError:
            return text

    shown = [
        tuple(number(cells[name][0]) for name in names.split())
        for cells in driver.execute_script(CELLS, table)
    ]
    wanted = [tuple(number(as_shown(row[name])) for name in names.split()) for row in expected]
    assert sorted(map(str, shown)) == sorted(map(str, wanted))


def test_numbers_are_written_for_people(
    driver: Chrome, page: Path, rows: list[dict[str, Any]]
) -> None:
    show(driver, page, 1400)
    [payments] = [row for row in rows if row["type"] == "topic" and row["topic"] == "payments"]
    assert payments["bytes"] == 182018
    assert payments["records"] == 6960
    [cells] = [
        cells for cells in driver.execute_script(CELLS, "topics") if cells["topic"][1] == "payments"
    ]
    assert (cells["bytes"][1], cells["records"][1]) == ("182 kB", "6,960")
    assert cells["firstTimestamp"][1] == "2025-10-09 08:53"  # 1760000000000


def test_a_click_on_a_title_sorts_and_another_turns_the_order(driver: Chrome, page: Path) -> None:
    show(driver, page, 1400)

    def column(name: str) -> list[str]:
        return [cells[name][0] for cells in driver.execute_script(CELLS, "topics")]

    def click(number: int) -> None:
        driver.find_elements(By.CSS_SELECTOR, "#topics th button")[number].click()

    click(5)  # records
    falling = [int(value) for value in column("records")]
    click(5)
    rising = [int(value) for value in column("records")]
    assert falling == sorted(rising, reverse=True) != rising
    assert rising == sorted(rising)
    click(0)
    assert column("topic") == ["clicks", "orders", "payments", "users"]
    click(0)
    assert column("topic") == ["users", "payments", "orders", "clicks"]


def test_another_topic_can_be_chosen(
    driver: Chrome, page: Path, rows: list[dict[str, Any]]
) -> None:
    show(driver, page, 1400)
    driver.execute_script(
        "const select = document.querySelector('#what-if select'); select.value = 'users';"
        "select.dispatchEvent(new Event('change'));"
    )
    wanted = [row["bytes"] for row in rows if row["type"] == "whatIf" and row["topic"] == "users"]
    shown = [int(cells["bytes"][0]) for cells in driver.execute_script(CELLS, "settings")]
    assert shown == wanted


def test_a_partition_that_no_cleaner_gets_through_stays_as_large_as_it_is(
    driver: Chrome, rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    [users] = [row for row in rows if row["type"] == "compaction" and row["topic"] == "users"]
    damaged = {**users, "partition": 1, "bytes": 1_000_000, "remainingBytes": None}
    page = tmp_path / "report.html"
    page.write_text(render_page([*rows, damaged]), encoding="utf-8")
    show(driver, page, 1400)
    shown = {
        cells["topic"][0]: cells["compactedBytes"][0]
        for cells in driver.execute_script(CELLS, "savings")
    }
    assert int(shown["users"]) == users["remainingBytes"] + users["otherBytes"] + 1_000_000
    assert shown["clicks"] == ""  # no record has a key


def test_a_topic_of_which_nothing_could_be_tried_is_no_choice(
    driver: Chrome, rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    sizes = {row["topic"]: row["bytes"] for row in rows if row["type"] == "topic"}
    largest = max(sizes, key=lambda topic: sizes[topic])
    left = [row for row in rows if row["type"] != "whatIf" or row["topic"] != largest]
    page = tmp_path / "report.html"
    page.write_text(render_page(left), encoding="utf-8")
    show(driver, page, 1400)
    assert driver.get_log("browser") == []
    [topics, _, _] = driver.find_elements(By.CSS_SELECTOR, "#what-if select")
    offered = {each.text for each in topics.find_elements(By.TAG_NAME, "option")}
    assert offered == set(sizes) - {largest}
    assert driver.execute_script(CELLS, "settings")


@pytest.mark.parametrize(
    ("severity", "text"),
    [
        ("warning", "0 kinds of errors, 1 kind of warnings and 0 open transactions;"),
        ("note", "Every batch, record and index is as it should be."),
    ],
)
def test_health_is_good_only_without_warnings(
    driver: Chrome, rows: list[dict[str, Any]], tmp_path: Path, severity: str, text: str
) -> None:
    finding = next(row for row in rows if row["type"] == "finding")
    left = [row for row in rows if row["type"] not in ("finding", "openTransaction")]
    page = tmp_path / "report.html"
    page.write_text(render_page([*left, {**finding, "severity": severity}]), encoding="utf-8")
    show(driver, page, 1400)
    assert text in driver.find_element(By.ID, "health").text


def test_every_section_names_its_command(driver: Chrome, page: Path) -> None:
    show(driver, page, 1400)
    for section, command in {
        "contents": "ottla ls ",
        "health": "ottla verify ",
        "what-if": "ottla report ",
        "compaction": "ottla compact ",
    }.items():
        code = driver.find_element(By.CSS_SELECTOR, f"#{section} .command code")
        assert code.text.startswith(command)


def test_what_files_are_called_stays_text(
    driver: Chrome, rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    name = "</script><script>document.title = 'taken'</script>&<b>"
    page = tmp_path / "report.html"
    page.write_text(render_page([{**rows[0], "paths": [name]}, *rows[1:]]), encoding="utf-8")
    show(driver, page, 1400)
    assert driver.title == "Ottla report"
    assert name in driver.find_element(By.TAG_NAME, "h1").text


def test_a_report_without_what_if_says_so(
    driver: Chrome, rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    left = [row for row in rows if row["type"] not in ("whatIf", "finding", "openTransaction")]
    page.write_text(render_page(left), encoding="utf-8")
    show(driver, page, 400)
    assert driver.get_log("browser") == []
    assert "made without it" in driver.find_element(By.ID, "what-if").text
