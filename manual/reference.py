"""The reference pages, made from the parsers, the options, the rules and the schemas themselves.

Names, choices, defaults and types come from the code. What only people can say, the meaning of an
option or of a rule, is taken from the tables of docs/spark.md and docs/rules.md: a name that has no
row there stops the build.
"""

import argparse
import importlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from enum import Enum
from pathlib import Path
from typing import Any, Final

import ottla
from manual import meanings
from ottla.arrow.schema import BATCH_SCHEMA, RECORD_COLUMNS, RECORD_SCHEMA, VIOLATION_SCHEMA
from ottla.cli import COMMANDS, EXIT_CODES, GROUPS
from ottla.connector import BATCH_COLUMNS, BATCHES_COLUMNS, CONNECTOR_COLUMNS, HEADERS_COLUMN
from ottla.errors import Rule
from ottla.format.attributes import CODEC_NAMES
from ottla.internal.views import VIEWS
from ottla.options import read, write
from ottla.options.fields import STORAGE_FIELDS
from ottla.publish.account import account_row
from ottla.storage.object_store import StorageOptions

_MADE: Final = "<!-- made by manual/reference.py -->\n"
_HIDDEN_HELP: Final = "show the flags and an example"
_CELL: Final = re.compile(r"(?<!\\)\|")


def pages(docs: Path) -> dict[str, str]:
    """Every generated page by its place in the site."""
    made = {
        "reference/index.md": _index(),
        "reference/exit-codes.md": _exit_codes(),
        "reference/spark-options.md": _spark_options((docs / "spark.md").read_text()),
        "reference/python.md": _python(),
        "reference/rules.md": _rules((docs / "rules.md").read_text()),
        "reference/columns.md": _columns(),
        "reference/captures.md": _captures(docs / "captures"),
        "reference/commands/index.md": _commands(),
    }
    made |= {f"reference/commands/{name}.md": _command(name) for name in command_names()}
    return {place: _MADE + text for place, text in made.items()}


def command_names() -> list[str]:
    """The commands in the order of `ottla --help`."""
    return [name for names in GROUPS.values() for name in names]


def parser_of(command: str) -> argparse.ArgumentParser:
    """The parser that runs the command."""
    subparsers = argparse.ArgumentParser(prog="ottla").add_subparsers(prog="ottla")
    module = importlib.import_module(f"ottla.cli.parsers.{command}")
    module.add_parser(subparsers, COMMANDS[command])
    found: argparse.ArgumentParser = subparsers.choices[command]
    return found


def shown_actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Arguments and flags that `--help` shows."""
    return [action for action in parser._actions if action.help is not argparse.SUPPRESS]


def _index() -> str:
    return """# Reference

These pages are made from the code each time the site is built.

| page | what it is made from |
|---|---|
| [Commands](commands/index.md) | the parsers of the command line |
| [Exit codes](exit-codes.md) | the codes that `ottla` returns |
| [Spark options](spark-options.md) | the options of the source and the sink `kafka-log` |
| [Python API](python.md) | the docstrings of the public names |
| [Rules](rules.md) | the rules that a violation can name |
| [Columns](columns.md) | the schemas of records, batches, violations, accounts and views |
| [Captures](captures.md) | what commands print on a terminal |
"""


def _commands() -> str:
    lines = ["# Commands\n", "`ottla COMMAND --help` shows the same on a terminal.\n"]
    for title, names in GROUPS.items():
        rows = [(f"[`ottla {name}`]({name}.md)", COMMANDS[name]) for name in names]
        lines += [f"## {title}\n", _table(("command", ""), rows)]
    return "\n".join(lines)


def _command(name: str) -> str:
    parser = parser_of(name)
    lines = [f"# ottla {name}\n", f"{_sentence(parser.description or COMMANDS[name])}\n"]
    arguments = [one for one in shown_actions(parser) if not one.option_strings]
    usage = [f"ottla {name} [OPTION]...", *map(_usage, arguments)]
    lines += ["```text", " ".join(usage), "```\n"]
    flags = [one for one in shown_actions(parser) if one.option_strings]
    if arguments:
        rows = [(f"`{one.metavar or one.dest}`", _help(one, parser)) for one in arguments]
        lines += ["## Arguments\n", _table(("argument", "meaning"), rows)]
    rows = [(_flag(one), _help(one, parser) + _choices(one)) for one in flags]
    lines += ["## Options\n", _table(("option", "meaning"), rows)]
    if parser.epilog:
        lines += ["## Examples\n", "```text", parser.epilog.rstrip(), "```\n"]
    return "\n".join(lines)


def _flag(action: argparse.Action) -> str:
    takes = action.nargs != 0 and not isinstance(action, argparse.BooleanOptionalAction)
    word = f" {action.metavar or action.dest.upper()}" if takes and not action.choices else ""
    return ", ".join(f"`{name}{word}`" for name in action.option_strings)


def _usage(argument: argparse.Action) -> str:
    word = str(argument.metavar or argument.dest)
    forms = {"None": word, "+": f"{word}...", "*": f"[{word}]...", "?": f"[{word}]"}
    return forms[str(argument.nargs)]


def _choices(action: argparse.Action) -> str:
    choices = ", ".join(f"`{one}`" for one in action.choices or ())
    return f". One of {choices}" if choices else ""


def _help(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    if isinstance(action, argparse._HelpAction):
        return _HIDDEN_HELP
    words = vars(action) | {"prog": parser.prog}
    return (action.help or "") % {name: _plain(value) for name, value in words.items()}


def _captures(folder: Path) -> str:
    lines = [
        "# Captures\n",
        "What a terminal of 80 columns shows of commands on the demo's logs. A test compares them,"
        " and those of 200 columns.\n",
    ]
    for path in sorted(folder.glob("*-80.txt")):
        name = path.stem.removesuffix("-80")
        lines += [f"## ottla {name}\n", "```console", path.read_text().rstrip(), "```\n"]
    return "\n".join(lines)


def _exit_codes() -> str:
    rows = [(f"`{code}`", meaning) for code, meaning in EXIT_CODES.items()]
    return "# Exit codes\n\nEvery command ends with one of these.\n\n" + _table(
        ("code", "meaning"), rows
    )


def _spark_options(guide: str) -> str:
    meaning, default = _rows_by_name(guide, "option"), _rows_by_name(guide, "option", "default")
    written = guide.partition("\n## Writing\n")[2]  # whose options may share names with others
    sink = meaning | _rows_by_name(written, "option")
    sink_default = default | _rows_by_name(written, "option", "default")
    passed = ", ".join(f"`{name}`" for name in (*read._BROKER_ONLY, *write._IGNORED))
    refused = ", ".join(f"`{name}`" for name in (*read._REFUSED, *write._REFUSED))
    heads = ("option", "default", "meaning")
    return "\n".join(
        [
            "# Spark options\n",
            'Options of `format("kafka-log")`. Case does not matter. The guide is'
            " [Logs with Spark](../spark.md).\n",
            "## Reading\n",
            _table(heads, _options(read._FIELDS, read.ReadOptions, meaning, default)),
            "## Writing\n",
            _table(heads, _options(write._FIELDS, write.WriteOptions, sink, sink_default)),
            "## Storage\n",
            "For reading and writing.\n",
            _table(heads, _options(STORAGE_FIELDS, StorageOptions, meaning, default)),
            "## Ignored and refused\n",
            f"Accepted, and ignored with a warning: {passed}, and other options that begin with"
            " `kafka.`.\n",
            f"Refused, as by Spark's Kafka connector: {refused}.\n",
        ]
    )


def _options(
    known: Mapping[str, tuple[str, Any]],
    kind: type,
    meaning: Mapping[str, str],
    default: Mapping[str, str],
) -> list[tuple[str, ...]]:
    """A row for each option; those that mean the same share one."""
    defaults = {one.name: one.default for one in fields(kind)}
    types = {one.name: one.type for one in fields(kind)}
    given = {**meaning} | {
        "path": "the path of `load`, `save` or `start`",
        "paths": "what Spark makes of `load([a, b])`",
    }
    rows: dict[tuple[str, str], list[str]] = {}
    for name, (place, _) in known.items():
        found = _default(name, defaults.get(place, MISSING)) or default.get(name, "")
        words = given[name] or "see the guide"
        rows.setdefault((found, words + _values(name, types.get(place))), []).append(f"`{name}`")
    return [(", ".join(names), found, words) for (found, words), names in rows.items()]


def _values(name: str, kind: object) -> str:
    choices: list[object] = []
    if name == "codec":
        choices = [*CODEC_NAMES.values()]
    elif isinstance(kind, type) and issubclass(kind, Enum):
        choices = [one.value for one in kind]
    return ". One of " + ", ".join(f"`{one}`" for one in choices) if choices else ""


def _default(name: str, value: object) -> str:
    if name == "codec":
        return "`none`"
    if value is MISSING or value is None or value == ():
        return ""
    if name.endswith("Bytes") and isinstance(value, int):
        return f"`{_size(value)}`"
    if name == "maxTriggerDelay":
        return f"`{int(str(value)) // 60000}m`"
    if isinstance(value, bool | int | str | Enum):
        return f"`{_plain(value)}`"
    return ""


def _size(value: int) -> str:
    for shift, letter in ((30, "g"), (20, "m"), (10, "k")):
        if value % (1 << shift) == 0:
            return f"{value >> shift}{letter}"
    return str(value)


def _plain(value: object) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _python() -> str:
    names = [name for name in ottla.__all__ if name != "__version__"]
    functions = sorted(name for name in names if name[0].islower())
    classes = ["Log", "Scan", *sorted(set(names) - set(functions) - {"Log", "Scan"})]
    lines = [
        "# Python API\n",
        "`import ottla` gives these names."
        " The guide is [Logs as tables in Python](../python.md).\n",
        "`ottla.Log` is what `ottla.open` returns; its class is called `KafkaLog`.\n",
    ]
    for name in ["open", *(one for one in functions if one != "open"), *classes]:
        home = getattr(ottla, name)
        lines.append(f"::: {home.__module__}.{home.__qualname__}\n")
    return "\n".join(lines)


def _rules(guide: str) -> str:
    meaning = _rows_by_name(guide, "Rule")
    rows = [
        (
            f'<span id="{rule.value}"></span>`{rule.value}`',
            str(rule.severity),
            str(rule.stage),
            meaning[rule.value],
        )
        for rule in Rule
    ]
    return (
        "# Rules\n\nEvery rule that a violation can name. The names stay the same between versions;"
        " the sentences around them may change. [Kafka's rules and their tests](../rules.md) says"
        " which of Kafka's classes each mirrors, and where it is checked.\n\n"
        + _table(("rule", "severity", "stage", "broken when"), rows)
    )


def _columns() -> str:
    record = meanings.BATCH | meanings.RECORD
    batch_of_record = [
        one for one in RECORD_COLUMNS.values() if one.name not in RECORD_SCHEMA.names
    ]
    account = dict.fromkeys(account_row("", 0))
    lines = [
        "# Columns\n",
        "## Records\n",
        "Rows of the Spark source and of `scan`. All may be null.\n",
        _schema_table([*CONNECTOR_COLUMNS, HEADERS_COLUMN], record),
        "With `includeBatchColumns`, or when they are named, also:\n",
        _schema_table(BATCH_COLUMNS, record),
        "With `mode=PERMISSIVE` the last column is `_corrupt`, a string: what is wrong with a batch"
        " that was left out. With `keyAs` or `valueAs`, `keyRaw` and `valueRaw` have the bytes of"
        " keys and values that could not be decoded.\n",
        "## Records of a segment\n",
        "Rows of `ottla.read_segment`. Numbers are Kafka's own.\n",
        _schema_table(RECORD_SCHEMA, record),
        "On request:\n",
        _schema_table(batch_of_record, record | meanings.BATCH),
        "## Batches\n",
        "Rows of `view=batches`, of `log.batches()` and of `ottla.read_batches`, which has no"
        " topic, partition and file. `ottla dump --json` has the same keys.\n",
        _schema_table(BATCHES_COLUMNS, meanings.BATCH),
        "## Violations\n",
        "Rows of `view=violations`, `ottla verify --out` and quarantine accounts.\n",
        _schema_table(VIOLATION_SCHEMA, meanings.VIOLATION),
        "## Accounts\n",
        "What each job that writes prints and keeps, one row for each partition.\n",
        _table(("column", "meaning"), [(f"`{one}`", meanings.ACCOUNT[one]) for one in account]),
    ]
    for name, view in VIEWS.items():
        lines += [f"## View {name}\n", f"From the topic `{view.topic}`.\n"]
        lines.append(_schema_table(view.schema, meanings.EVERY_VIEW | meanings.VIEWS[name]))
    assert set(BATCH_SCHEMA.names) <= set(BATCHES_COLUMNS.names)
    return "\n".join(lines)


def _schema_table(schema: Iterable[Any], meaning: Mapping[str, str]) -> str:
    rows = [(f"`{one.name}`", _type(str(one.type)), meaning[one.name]) for one in schema]
    return _table(("column", "type", "meaning"), rows)


def _type(text: str) -> str:
    short = re.sub(r"element: | not null", "", text)
    return f"`{short}`"


def _rows_by_name(guide: str, head: str, column: str | None = None) -> dict[str, str]:
    """Of tables whose first column is called `head`: for each name in code its row's meaning.

    Without `column` the meaning is the last cell, or that of the column that says it.
    """
    found: dict[str, str] = {}
    heads: list[str] = []
    for line in guide.splitlines():
        cells = [cell.strip() for cell in _CELL.split(line)[1:-1]] if line[:1] == "|" else []
        if not cells:
            heads = []
        elif not heads:
            heads = cells
        elif heads[0] == head:
            text = _moved(_cell_of(heads, cells, column))
            for name in re.findall(r"`([^`=]+)(?:=[^`]*)?`", cells[0]):
                found.setdefault(name, text)
    return found


def _moved(cell: str) -> str:
    """A cell of a page of docs/, for a page one folder below; anchors are those of spark.md."""
    return re.sub(r"\]\((?=[a-z])", "](../", cell.replace("](#", "](spark.md#"))


def _cell_of(heads: list[str], cells: list[str], column: str | None) -> str:
    wanted = [column] if column else ["Meaning", "Refused", "", "adds"]
    at = next((heads.index(one) for one in wanted if one in heads), len(heads) - 1)
    return cells[at]


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    lines += ["| " + " | ".join(_escaped(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _escaped(cell: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", cell.replace("\n", " "))


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
