"""Every example of the documents runs, in order, in a folder of its own for each document.

A ```python block is executed; names last to the end of the document. In a ```console block the
lines after `$ ` are commands, and the lines below a command are what it prints, where `...` stands
for anything. In a ```bash block every line is a command.
"""

import doctest
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

from ottla.errors import Rule
from ottla.jobs.demo import make_logs

ROOT = Path(__file__).parent.parent
RULES = ROOT / "docs" / "rules.md"
FENCE = re.compile(r"^```(python|console|bash)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Commands that build the very environment that this test runs in.
SETTING_UP = ("make", "git", "pip", "cd", ".ci/run", "pre-commit")
# The how-to guides, in the order in which the first of them lists them.
HOW_TO = ROOT / "docs" / "howto"
GUIDES = [
    HOW_TO / name
    for name in ["index.md", *re.findall(r"\]\(([\w-]+\.md)\)", (HOW_TO / "index.md").read_text())]
]
SHOWN = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Block(NamedTuple):
    """One fenced example and the line it begins on."""

    language: str
    text: str
    line: int


def blocks_of(document: Path) -> list[Block]:
    text = document.read_text()
    return [
        Block(found[1], found[2], text.count("\n", 0, found.start()) + 2)
        for found in FENCE.finditer(text)
    ]


def documents() -> Iterable[object]:
    """The documents with examples; those that start Spark are marked so."""
    found = []
    for path in sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]):
        if path in GUIDES:  # which share a folder
            continue
        blocks = blocks_of(path)
        marks = [pytest.mark.spark] if any("spark" in block.text for block in blocks) else []
        if blocks:
            found.append(pytest.param(path, marks=marks, id=str(path.relative_to(ROOT))))
    return found


def commands_of(block: Block) -> list[tuple[str, str]]:
    """Each command with what is shown below it."""
    if block.language == "bash":
        lines = block.text.replace("\\\n", " ").splitlines()
        return [(line, "") for line in lines if line and not line.startswith("#")]
    parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]
    return [(command, shown) for command, _, shown in (part.partition("\n") for part in parts)]


def run_python(block: Block, document: Path, names: dict[str, object]) -> None:
    # Blank lines in front make the lines of a traceback those of the document.
    source = "\n" * (block.line - 1) + block.text
    exec(compile(source, str(document), "exec"), names)


def run_console(block: Block, document: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for command, shown in commands_of(block):
        if command.startswith(SETTING_UP):
            continue
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
            env={**os.environ, "PATH": path},
        )
        # 1 is the answer of a command that found problems in the data.
        assert done.returncode in (0, 1), f"{document}: {command}: {done.stderr}"
        agrees = not shown.strip() or doctest.OutputChecker().check_output(
            shown, done.stdout, SHOWN
        )
        assert agrees, f"{document}: {command} printed\n{done.stdout}"


@pytest.mark.parametrize("document", documents())
def test_the_examples_run(document: Path, tmp_path: Path) -> None:
    if document.name == "README.md":  # which begins with `make demo`
        make_logs(str(tmp_path / "demo-out" / "kafka-logs"))
    run_document(document, tmp_path)


@pytest.mark.spark
def test_the_how_to_guides_run_one_after_another_in_an_empty_folder(tmp_path: Path) -> None:
    assert {*GUIDES} == {*HOW_TO.glob("*.md")}
    for guide in GUIDES:
        run_document(guide, tmp_path)


def run_document(document: Path, folder: Path) -> None:
    """In a process of its own: a Spark session that other tests left has another folder."""
    done = subprocess.run(
        [sys.executable, __file__, str(document)],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"},
        capture_output=True,
        text=True,
        check=False,
        timeout=1500,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_example_without_spark_names_the_damage_and_reads_the_rest() -> None:
    script = ROOT / "examples" / "read_segment.py"
    shown = subprocess.check_output([sys.executable, script], text=True).splitlines()
    assert "offset 1: crc-matches" in shown[0]
    assert "b'tea'" in shown[1]
    assert "crc-matches" in shown[2]


def run_examples(document: Path) -> None:
    """Run the blocks of a document in order, here."""
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks_of(document):
        if block.language == "python":
            run_python(block, document, names)
        else:
            run_console(block, document)


def test_every_make_target_that_a_document_names_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"(?:`|\$ )make ([a-z-]+)", path.read_text()):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{path}: make {target}"


def test_every_rule_has_its_row() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \|", RULES.read_text(), re.MULTILINE)
    assert set(rows) == {rule.value for rule in Rule}


def test_links_between_documents_lead_somewhere() -> None:
    from manual.reference import pages  # not where this file runs examples, as a program

    made = {ROOT / "docs" / place for place in pages(ROOT / "docs")}
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text()):
            to = (path.parent / target).resolve()
            assert to.exists() or to in made, f"{path}: {target}"


if __name__ == "__main__":
    run_examples(Path(sys.argv[1]))


def test_every_promise_names_a_test() -> None:
    text = (ROOT / "docs" / "reliability.md").read_text()
    promises = text.partition("## The promises")[2].partition("\n## ")[0]
    rows = [line for line in promises.splitlines() if line.startswith("| ")][1:]
    named = [re.search(r"`(tests/[\w/]+\.py)::(test_\w+)` \|$", row) for row in rows]
    assert len(named) > 20
    for row, found in zip(rows, named, strict=True):
        assert found is not None, row
        assert f"def {found[2]}(" in (ROOT / found[1]).read_text(), row
