"""What versions of Spark lack is said once, and the documents say the same."""

import re
from pathlib import Path

from ottla.extras import EXTRAS
from ottla.spark.versions import MINIMUM, Feature, format_version, minor_version

ROOT = Path(__file__).parents[2]


def test_the_document_has_the_table() -> None:
    text = (ROOT / "docs" / "clusters.md").read_text()
    table = text.partition("| feature | since Spark | before |\n|---|---|---|\n")[2]
    rows = [
        tuple(line.strip("| ").split(" | ")) for line in table.partition("\n\n")[0].splitlines()
    ]
    assert rows == [(one.title, format_version(one.since), one.before) for one in Feature]


def test_each_version_that_can_be_installed_is_tested() -> None:
    found = re.search(r"^SPARKS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert found is not None
    tested = [minor_version(version) for version in found[1].split()]
    assert tested[0] == MINIMUM
    assert tested == [(4, minor) for minor in range(len(tested))]
    assert {one.since for one in Feature} <= {*tested[1:]}
    assert f"pyspark>={format_version(MINIMUM)}" in EXTRAS["spark"]
    pinned = re.search(r"^pyspark==(.*)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert pinned is not None
    assert pinned[1] == found[1].split()[-1]
