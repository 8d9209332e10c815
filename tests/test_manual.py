"""The manual: the site is complete, needs no network, and is written in plain sentences."""

import argparse
import ast
import html
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla
from ottla.arrow.schema import BATCH_SCHEMA, RECORD_COLUMNS, VIOLATION_SCHEMA
from ottla.cli import COMMANDS, main
from ottla.connector import BATCH_COLUMNS, CONNECTOR_COLUMNS
from ottla.errors import Rule
from ottla.internal.views import VIEWS
from ottla.options import read, write
from ottla.options.fields import STORAGE_FIELDS
from ottla.publish.account import account_row

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MOST_WORDS = 35
# What people had to read twice, in documents and messages.
PHRASES = (
    "not those that were sealed",
    "no batch can be cut",
    "is no offset, and no",
    "that are not go to",
    "named one by one",
    "as little as those",
    "our own fault",
    "acts on it",
    "unlucky",
    "can not",
)
# Flags of Kafka's own tools that help texts mention.
FOREIGN = {"--from-file"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it, where any warning is an error."""
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def codes_of(page: Path) -> set[str]:
    """What a page shows as code: the words in it, and each code whole."""
    found = re.findall(r"<code[^>]*>(.*?)</code>", page.read_text(), re.DOTALL)
    texts = [html.unescape(re.sub(r"<[^>]+>", "", each)) for each in found]
    return {*texts, *(word for text in texts for word in text.split())}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_flag_of_every_command_is_in_the_reference(
    site: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    shown = re.sub(r"-\n\s+", "-", capsys.readouterr().out.partition("example")[0])
    flags = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", shown))
    page = site / "reference" / "commands" / f"{command}.html"
    assert "--help" in flags
    assert flags - FOREIGN <= codes_of(page)


def test_every_command_is_in_the_index_of_commands(site: Path) -> None:
    page = site / "reference" / "commands" / "index.html"
    assert {f"ottla {command}" for command in COMMANDS} <= codes_of(page)


def test_every_option_of_spark_is_in_the_reference(site: Path) -> None:
    options = {*read._FIELDS, *write._FIELDS, *STORAGE_FIELDS}
    assert len(options) > 40
    assert options <= codes_of(site / "reference" / "spark-options.html")


def test_every_rule_is_in_the_reference_and_can_be_linked_to(site: Path) -> None:
    page = site / "reference" / "rules.html"
    assert {rule.value for rule in Rule} <= codes_of(page)
    assert all(f'id="{rule.value}"' in page.read_text() for rule in Rule)


def test_every_column_is_in_the_reference(site: Path) -> None:
    columns = {
        *CONNECTOR_COLUMNS.names,
        *BATCH_COLUMNS.names,
        *BATCH_SCHEMA.names,
        *VIOLATION_SCHEMA.names,
        *RECORD_COLUMNS,
        *account_row("orders", 0),
        *(name for view in VIEWS.values() for name in view.schema.names),
        "_corrupt",
    }
    assert columns <= codes_of(site / "reference" / "columns.html")


def test_every_exit_code_that_a_command_gives_is_in_the_reference(site: Path) -> None:
    source = (Path(ottla.__file__).parent / "cli" / "__init__.py").read_text()
    usage = (Path(ottla.__file__).parent / "cli" / "usage.py").read_text()
    codes = set(re.findall(r"^[A-Z_]+ = (\d+)\b", source + usage, re.MULTILINE))
    assert codes == {"0", "1", "2", "3", "130"}
    assert codes <= codes_of(site / "reference" / "exit-codes.html")


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    text = (site / "reference" / "python.html").read_text()
    for name in set(ottla.__all__) - {"__version__"}:
        home = getattr(ottla, name)
        assert f'id="{home.__module__}.{home.__qualname__}"' in text, name


def test_the_site_asks_nothing_of_a_network(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(
            r"<(?:script|link|img|iframe)[^>]*?(?:src|href)=\"([^\"]*)", page.read_text()
        )
        assert [one for one in loaded if re.match(r"(https?:)?//", one)] == [], page


def test_every_picture_has_words_for_those_who_do_not_see_it(site: Path) -> None:
    for page in site.rglob("*.html"):
        for picture in re.findall(r"<img[^>]*>", page.read_text()):
            assert re.search(r'alt="[^"]{10,}"', picture), f"{page}: {picture}"


def sentences_of(text: str) -> Iterator[str]:
    """The sentences of a document, without code, tables and headings; code in them is one word."""
    text = re.sub(r"^```.*?^```$", "\n\n", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^(\||#|    \S|<).*$", "\n", text, flags=re.MULTILINE)
    text = re.sub(r"^\s*([-*]|\d+\.)\s+", "\n\n", text, flags=re.MULTILINE)
    for paragraph in re.split(r"\n\s*\n", text):
        words = " ".join(paragraph.split())
        words = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", words)
        words = re.sub(r"`[^`]*`", "Code", words)
        yield from re.split(r"(?<=[.!?])[)\"*]*\s+(?=[A-Z*(\"0-9])", words)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_sentence_is_too_long(document: Path) -> None:
    long = [one for one in sentences_of(document.read_text()) if len(one.split()) > MOST_WORDS]
    assert long == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_document_has_a_phrase_that_must_be_read_twice(document: Path) -> None:
    text = " ".join(document.read_text().split())
    assert [phrase for phrase in PHRASES if phrase in text] == []


def messages_of(path: Path) -> Iterator[str]:
    """The texts of a module that are no docstrings."""
    tree = ast.parse(path.read_text())
    quiet = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in quiet:
            yield node.value


def test_no_message_has_a_phrase_that_must_be_read_twice() -> None:
    found = [
        (path.name, text)
        for path in Path(ottla.__file__).parent.rglob("*.py")
        for text in messages_of(path)
        if any(phrase in text for phrase in PHRASES)
    ]
    assert found == []


def test_codespell_finds_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "codespell_lib"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == ""


def test_the_flags_that_help_hides_are_the_ones_of_kafka_dump_log() -> None:
    """What the reference leaves out is only what `dump` answers with advice."""
    from manual.reference import parser_of, shown_actions

    for command in COMMANDS:
        parser = parser_of(command)
        hidden = set(parser._actions) - set(shown_actions(parser))
        assert command == "dump" or not hidden, command
        assert all(isinstance(one, argparse.Action) for one in hidden)
