"""What is said of a command line that makes no sense: the word, what may be meant, the choices."""

import argparse
from collections.abc import Collection, Iterable, Iterator, Sequence
from difflib import get_close_matches
from itertools import takewhile
from typing import Any, NoReturn

from ottla.cli.output import tell

WRONG_USAGE = 2


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong, not how all of the command is used."""

    def error(self, message: str) -> NoReturn:
        stop = "" if message.endswith("?") else ";"
        tell(f"ottla: {message}{stop} `{self.prog} --help` says more")
        self.exit(WRONG_USAGE)

    # The parser of a command looks at what it does not know itself: the one of `ottla` would get to
    # see the words, but does not have the flags.
    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Refuse what no flag and no argument takes."""
        # Before anything is missed: a flag that is not known is why.
        self._refuse_unknown(word for word in self._own(args or ()) if word.startswith("--"))
        found, unknown = super().parse_known_args(args, namespace)
        self._refuse_unknown(word for word in unknown if word.startswith("-"))
        if unknown:
            self.error(f"nothing takes the word {unknown[0]!r}")
        return found, unknown

    def _own(self, words: Sequence[str]) -> Iterator[str]:
        """The words that are not a command's, or by themselves."""
        if self._subparsers is not None:
            return takewhile(lambda word: word.startswith("-"), words)
        return takewhile(lambda word: word != "--", words)

    def _refuse_unknown(self, words: Iterable[str]) -> None:
        for word in words:
            flag = word.partition("=")[0]
            known = self._option_string_actions
            begun = self.allow_abbrev and any(each.startswith(flag) for each in known)
            if flag not in known and not begun:
                shown = (one for one in self._actions if one.help is not argparse.SUPPRESS)
                flags = [each for one in shown for each in one.option_strings]
                self.error(_unknown("option", flag, [each for each in flags if each[:2] == "--"]))

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        # The type is asked first otherwise, and its error names no choices.
        if action.choices is not None and action.type is not None:
            _require_choice(action, arg_string, map(str, action.choices))
        return super()._get_value(action, arg_string)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None:
            _require_choice(action, value, action.choices)


def _require_choice(action: argparse.Action, value: Any, choices: Iterable[Any]) -> None:
    choices = list(choices)
    if value in choices:
        return
    words = [str(choice) for choice in choices]
    if action.nargs == argparse.PARSER:
        raise argparse.ArgumentError(None, _unknown("command", str(value), words))
    name = "/".join(action.option_strings) or action.metavar
    meant = _meant(str(value), words)
    text = f"{name} {value}: {f'{meant} C' if meant else 'c'}hoose {_either(words)}"
    raise argparse.ArgumentError(None, text)


def _unknown(kind: str, word: str, choices: Collection[str]) -> str:
    """
    >>> _unknown("command", "dmup", ["dump", "ls"])
    'no command dmup: did you mean dump?'
    >>> _unknown("command", "x", ["dump", "ls"])
    'no command x; there are dump, ls'
    """
    meant = _meant(word, choices)
    if meant:
        return f"no {kind} {word}: {meant}"
    return f"no {kind} {word}; there are {', '.join(choices)}"


def _meant(word: str, choices: Iterable[str]) -> str:
    """
    >>> _meant("--topics", ["--topic", "--to"]), _meant("json", ["text", "jsonl"])
    ('did you mean --topic?', 'did you mean jsonl?')
    """
    by_name = {choice.lstrip("-").lower(): choice for choice in choices}
    name = word.lstrip("-").lower()
    near = get_close_matches(name, by_name, n=2, cutoff=0.7)
    if len(name) > 2:
        near += [each for each in by_name if each.startswith(name) and each not in near][:2]
    return f"did you mean {_either([by_name[each] for each in near])}?" if near else ""


def _either(words: Sequence[str]) -> str:
    """
    >>> _either(["text"]), _either(["auto", "local", "spark"])
    ('text', 'auto, local or spark')
    """
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))
