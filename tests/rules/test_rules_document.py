"""`docs/rules.md` names tests that exist, and each rule is named by a test."""

import re
from functools import cache
from pathlib import Path

import pytest

from ottla.errors import Rule

TESTS = Path(__file__).parent.parent
DOCUMENT = TESTS.parent / "docs" / "rules.md"
# `tests/batch/test_convert` (copied; zstd): a file, and words of names of tests in it.
NAMED = re.compile(r"`((?:tests/\w+/)?test_\w+)`(?: \(([^)]*)\))?")


@cache
def names_in(name: str) -> str:
    path = TESTS.parent / name if "/" in name else TESTS / "rules" / name
    if not path.with_suffix(".py").exists():
        path = TESTS / "kafka" / name  # those that ask a broker
    return " ".join(re.findall(r"def (test_\w+)", path.with_suffix(".py").read_text()))


def named_tests() -> list[tuple[str, str]]:
    return [
        (name, words.strip().replace(" ", "_"))
        for name, listed in NAMED.findall(DOCUMENT.read_text())
        for words in listed.split(";")
    ]


@pytest.mark.parametrize(("name", "words"), sorted(set(named_tests())))
def test_a_named_test_exists(name: str, words: str) -> None:
    assert words in names_in(name)


def test_every_rule_is_named_by_a_test() -> None:
    every = "\n".join(path.read_text() for path in TESTS.rglob("*.py"))
    unnamed = [
        rule.value
        for rule in Rule
        if not re.search(rf'Rule\.{rule.name}\b|["\']{rule.value}["\']', every)
    ]
    assert unnamed == []
