"""Draw the page of the demo's logs for the documents: `python tests/browser/screenshots.py`.

The pictures in the repository went through `pngquant 200` afterwards.
"""

import base64
import os
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS))

from browser.chromium import show, start_browser  # noqa: E402
from choosing import choose  # noqa: E402
from jobs.reporting import build_here  # noqa: E402
from ottla.cli.report_commands import add_commands  # noqa: E402
from ottla.html.page import render_page  # noqa: E402
from ottla.jobs.demo import make_logs  # noqa: E402
from ottla.jobs.report.rows import ReportOptions  # noqa: E402
from ottla.jobs.report.what_if import all_settings  # noqa: E402

NOW = 1_760_100_000_000
TALLEST = 4600
TOP = 860


def main() -> None:
    with tempfile.TemporaryDirectory() as held:
        folder = Path(held)
        os.chdir(folder)
        make_logs("kafka-logs")
        selection, options = choose("kafka-logs"), ReportOptions(compacted=("users",))
        found = build_here(selection, options, all_settings(), NOW)
        rows = add_commands(found, selection, options, NOW)
        page = folder / "report.html"
        page.write_text(render_page(rows), encoding="utf-8")
        with start_browser(folder / "profile") as driver:
            for width in (1400, 400):
                show(driver, page, width)
                height = driver.execute_script("return document.documentElement.scrollHeight")
                show(driver, page, width, height=min(height, TALLEST))
                picture = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
                out = TESTS.parent / "docs" / f"report-{width}.png"
                out.write_bytes(base64.b64decode(picture["data"]))
            show(driver, page, 1400, height=TOP)  # for the README, which is one screen
            picture = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
            (TESTS.parent / "docs" / "report-top.png").write_bytes(
                base64.b64decode(picture["data"])
            )


if __name__ == "__main__":
    main()
