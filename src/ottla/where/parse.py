"""Text to tree: a small part of SQL, of which everything else is refused with its place.

The text comes from anybody. Its size and depth are limited before anything is made of it, and
nothing here calls itself for more than the allowed depth.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from enum import StrEnum
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ottla.errors import OptionError
from ottla.format.sentinels import INT64_MAX
from ottla.where.tree import (
    COLUMNS,
    AllOf,
    AnyOf,
    ArrowFilter,
    ColumnNamed,
    Condition,
    HeaderNamed,
    Node,
    Not,
    Operator,
    Predicate,
    Subject,
    Type,
    Value,
    Where,
)

MAX_BYTES: Final = 4096
MAX_DEPTH: Final = 20
_EXCERPT: Final = 24


class _TokenKind(StrEnum):
    WORD = "word"
    NUMBER = "number"
    BYTES = "bytes"
    TEXT = "text"
    SIGN = "sign"
    END = "end"


class _Token(NamedTuple):
    kind: _TokenKind
    text: str
    at: int


_TOKEN: Final = re.compile(
    r"""[ \t\r\n]*(?:
    (?P<bytes>[xX]'[0-9A-Fa-f]*')
    |(?P<text>'(?:[^']|'')*')
    |(?P<number>[+-]?[0-9]+(?![0-9A-Za-z_.]))
    |(?P<word>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<sign><>|!=|<=|>=|[=<>(),])
    |(?P<end>\Z))""",
    re.VERBOSE,
)
_COMPARISONS: Final = {
    "=": Operator.EQUAL,
    "<>": Operator.NOT_EQUAL,
    "!=": Operator.NOT_EQUAL,
    "<": Operator.LESS,
    "<=": Operator.LESS_EQUAL,
    ">": Operator.GREATER,
    ">=": Operator.GREATER_EQUAL,
}
_FLIPPED: Final = {
    Operator.LESS: Operator.GREATER,
    Operator.LESS_EQUAL: Operator.GREATER_EQUAL,
    Operator.GREATER: Operator.LESS,
    Operator.GREATER_EQUAL: Operator.LESS_EQUAL,
}
_RESERVED: Final = ("and", "or", "not", "in", "between", "like", "escape", "is")
_NAMES: Final = {name.lower(): name for name in COLUMNS}
_TIME: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,3})?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)?"
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# One character as UTF-8 has it; no part of what is not UTF-8 is one.
_CHARACTER: Final = (
    r"(?:[\x00-\x7F]|[\xC2-\xDF][\x80-\xBF]|\xE0[\xA0-\xBF][\x80-\xBF]"
    r"|[\xE1-\xEC\xEE\xEF][\x80-\xBF]{2}|\xED[\x80-\x9F][\x80-\xBF]"
    r"|\xF0[\x90-\xBF][\x80-\xBF]{2}|[\xF1-\xF3][\x80-\xBF]{3}|\xF4[\x80-\x8F][\x80-\xBF]{2})"
)


def parse_where(text: str) -> Predicate:
    """Read a predicate; what it can not mean is an OptionError that says where.

    >>> parse_where("offset >= 5 and key = 'anna'").columns()
    ['offset', 'key']
    """
    if len(text) > MAX_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise OptionError(f"where: the text has more than {MAX_BYTES} bytes")
    parser = _WhereParser(text, _scan(text))
    root = parser.parse_any(0)
    if parser.token.kind is not _TokenKind.END:
        raise parser.refusal("expected and, or, or the end")
    return Predicate(text, root)


def as_where(given: "str | pc.Expression") -> Where:
    """A text, or an expression of pyarrow over the connector's columns."""
    if isinstance(given, str):
        return parse_where(given)
    if not isinstance(given, pc.Expression):
        raise OptionError(f"where={given!r} is neither a text nor an expression of PyArrow")
    if "FieldPath(" in str(given):
        raise OptionError("where: name the columns of an expression; their order is not fixed")
    return ArrowFilter(given)


def _scan(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at = 0
    while not tokens or tokens[-1].kind is not _TokenKind.END:
        found = _TOKEN.match(text, at)
        if found is None or found.lastgroup is None:
            start = at + len(text[at:]) - len(text[at:].lstrip(" \t\r\n"))
            raise _refusal(_explain_character(text[start]), text, start)
        kind = _TokenKind(found.lastgroup)
        tokens.append(_Token(kind, found[kind], found.start(kind)))
        at = found.end()
    return tokens


def _explain_character(character: str) -> str:
    if character == "'":
        return "the text that begins here does not end"
    if character in '"`':
        return "texts stand in single quotes, and columns in none"
    if character in "0123456789+-":
        return "numbers are whole numbers"
    return f"{character!r} has no meaning here"


def _refusal(what: str, text: str, at: int) -> OptionError:
    place = (
        f"at character {at + 1}: {text[at : at + _EXCERPT]!r}" if at < len(text) else "at its end"
    )
    stop = " " if what.endswith("?") else ", "
    place = place.capitalize() if stop == " " else place
    return OptionError(f"where: {what}{stop}{place}")


@dataclass(slots=True)
class _WhereParser:
    """Goes from token to token; `depth` counts what is around the current one."""

    text: str
    tokens: list[_Token]
    next: int = 0

    @property
    def token(self) -> _Token:
        return self.tokens[self.next]

    def refusal(self, what: str, token: _Token | None = None) -> OptionError:
        return _refusal(what, self.text, (token or self.token).at)

    def take(self) -> _Token:
        token = self.token
        self.next += token.kind is not _TokenKind.END
        return token

    def takes(self, *words: str) -> bool:
        """Whether the next tokens are these words or signs; then they are passed."""
        ahead = self.tokens[self.next : self.next + len(words)]
        found = [
            token.text.lower()
            for token in ahead
            if token.kind in (_TokenKind.WORD, _TokenKind.SIGN)
        ] == list(words)
        self.next += len(words) if found else 0
        return found

    def require(self, word: str) -> None:
        if not self.takes(word):
            raise self.refusal(f"expected {word}")

    def parse_any(self, depth: int) -> Node:
        parts = [self.parse_all(depth)]
        while self.takes("or"):
            parts.append(self.parse_all(depth))
        return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))

    def parse_all(self, depth: int) -> Node:
        parts = [self.parse_part(depth)]
        while self.takes("and"):
            parts.append(self.parse_part(depth))
        return parts[0] if len(parts) == 1 else AllOf(tuple(parts))

    def parse_part(self, depth: int) -> Node:
        start = self.token
        negations = 0
        while self.takes("not"):
            negations += 1
        if depth + negations > MAX_DEPTH:
            raise self.refusal(f"more than {MAX_DEPTH} levels deep", start)
        if self.takes("("):
            if depth + negations == MAX_DEPTH:
                raise self.refusal(f"more than {MAX_DEPTH} levels deep", start)
            node = self.parse_any(depth + negations + 1)
            self.require(")")
        else:
            node = self.parse_test()
        for _ in range(negations):
            node = Not(node)
        return node

    def parse_test(self) -> Condition:
        first = self.token
        if self._at_literal():
            return self._parse_flipped()
        subject = self.parse_subject()
        if self.takes("is", "null"):
            return Condition(subject, Operator.IS_NULL)
        if self.takes("is", "not", "null"):
            return Condition(subject, Operator.IS_NULL, is_negated=True)
        if subject.type is Type.HEADERS:
            raise self.refusal(f"headers is compared with {Type.HEADERS.value}", first)
        is_negated = self.takes("not")
        if self.takes("in"):
            return Condition(subject, Operator.IN, self._parse_list(subject), is_negated)
        if self.takes("between"):
            self._require_order(subject)
            low = self.parse_value(subject)
            self.require("and")
            return Condition(
                subject, Operator.BETWEEN, (low, self.parse_value(subject)), is_negated
            )
        if self.takes("like"):
            return Condition(subject, Operator.LIKE, (self._parse_pattern(subject),), is_negated)
        if (
            is_negated
            or self.token.text not in _COMPARISONS
            or self.token.kind is not _TokenKind.SIGN
        ):
            raise self.refusal(
                "expected in, between or like" if is_negated else "expected a comparison"
            )
        operator = self._parse_operator(subject)
        return Condition(subject, operator, (self.parse_value(subject),))

    def _at_literal(self) -> bool:
        kind, text, _ = self.token
        is_word = kind is _TokenKind.WORD and text.lower() in ("true", "false", "null")
        return is_word or kind in (_TokenKind.NUMBER, _TokenKind.BYTES, _TokenKind.TEXT)

    def _parse_flipped(self) -> Condition:
        """`5 < offset`, as `offset > 5`."""
        literal = self.next
        self.next += 1
        sign = self.next
        if self.token.kind is not _TokenKind.SIGN or self.token.text not in _COMPARISONS:
            raise self.refusal("expected a comparison")
        self.next += 1
        if self._at_literal():
            raise self.refusal("one side of a comparison is a column")
        subject = self.parse_subject()
        after, self.next = self.next, sign
        operator = self._parse_operator(subject)
        self.next = literal
        value = self.parse_value(subject)
        self.next = after
        return Condition(subject, _FLIPPED.get(operator, operator), (value,))

    def _parse_operator(self, subject: Subject) -> Operator:
        operator = _COMPARISONS[self.token.text]
        if operator in _FLIPPED:
            self._require_order(subject)
        self.next += 1
        return operator

    def _require_order(self, subject: Subject) -> None:
        if subject.type is Type.FLAG:
            raise self.refusal("true and false have no order")
        if subject.type is Type.HEADERS:
            raise self.refusal(f"headers is compared with {Type.HEADERS.value}")

    def parse_subject(self) -> Subject:
        token = self.take()
        name = token.text.lower()
        if token.kind is not _TokenKind.WORD or name in _RESERVED:
            raise self.refusal("expected a column", token)
        if self.takes("("):
            if name != "header":
                raise self.refusal("the only function is header('name')", token)
            inside = self.take()
            if inside.kind is not _TokenKind.TEXT:
                raise self.refusal("expected the name of a header in quotes", inside)
            self.require(")")
            return HeaderNamed(self._utf8(inside))
        if name in _NAMES:
            return ColumnNamed(_NAMES[name])
        near = get_close_matches(name, _NAMES, n=1)
        if near:
            raise self.refusal(f"no column {token.text}: did you mean {_NAMES[near[0]]}?", token)
        raise self.refusal(f"no column {token.text[:40]}; there are {', '.join(COLUMNS)}", token)

    def _parse_list(self, subject: Subject) -> tuple[Value, ...]:
        self.require("(")
        values = [self.parse_value(subject)]
        while self.takes(","):
            values.append(self.parse_value(subject))
        self.require(")")
        return tuple(values)

    def parse_value(self, subject: Subject) -> Value:
        """A literal as values of the column are compared."""
        token = self.take()
        kind, type_, word = token.kind, subject.type, token.text.lower()
        if kind is _TokenKind.NUMBER and type_ in (Type.NUMBER, Type.TIME):
            if len(token.text) > 20 or abs(int(token.text)) > INT64_MAX:
                raise self.refusal("the number is beyond 63 bits", token)
            return int(token.text)
        if kind is _TokenKind.TEXT and type_ in (Type.BYTES, Type.TEXT):
            return self._utf8(token)
        if kind is _TokenKind.TEXT and type_ is Type.TIME:
            return self._time(token)
        if kind is _TokenKind.BYTES and type_ is Type.BYTES:
            if len(token.text) % 2 == 0:
                raise self.refusal("bytes have two digits each", token)
            return bytes.fromhex(token.text[2:-1])
        if kind is _TokenKind.WORD and word in ("true", "false") and type_ is Type.FLAG:
            return word == "true"
        if kind is _TokenKind.WORD and word == "null":
            raise self.refusal("nothing equals null; say is null or is not null", token)
        name = subject.name if isinstance(subject, ColumnNamed) else "header()"
        raise self.refusal(f"{name} is compared with {type_.value}", token)

    def _utf8(self, token: _Token) -> bytes:
        try:
            return token.text[1:-1].replace("''", "'").encode()
        except UnicodeEncodeError:
            raise self.refusal("the text is not UTF-8; write bytes as x'00ff'", token) from None

    def _time(self, token: _Token) -> int:
        text = token.text[1:-1]
        if _TIME.fullmatch(text):
            try:
                time = datetime.fromisoformat(text)
                zoned = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
                return (zoned - _EPOCH) // timedelta(milliseconds=1)
            except (ValueError, OverflowError):
                pass
        raise self.refusal(f"timestamp is compared with {Type.TIME.value}", token)

    def _parse_pattern(self, subject: Subject) -> bytes:
        """The pattern of LIKE; without `escape`, no character takes the meaning from % and _."""
        token = self.token
        if subject.type not in (Type.BYTES, Type.TEXT):
            raise self.refusal("like is for texts", token)
        if token.kind is not _TokenKind.TEXT:
            raise self.refusal("expected a pattern in quotes", token)
        pattern = self._utf8(self.take()).decode()
        escape = None
        if self.takes("escape"):
            mark = self.take()
            escape = self._utf8(mark).decode() if mark.kind is _TokenKind.TEXT else ""
            if len(escape) != 1:
                raise self.refusal("expected one character in quotes", mark)
        regex = self._to_regex(pattern, escape, token)
        try:
            pc.match_substring_regex(pa.array([b""], pa.binary()), regex)
        except pa.ArrowInvalid:
            raise self.refusal("the pattern is too large", token) from None
        return regex.encode()

    def _to_regex(self, pattern: str, escape: str | None, token: _Token) -> str:
        pieces = []
        characters = iter(pattern)
        for character in characters:
            if character == escape:
                character = next(characters, "")
                if character not in ("%", "_", escape):
                    raise self.refusal(
                        f"in a pattern {escape!r} stands before %, _ or itself", token
                    )
            elif character in "%_":
                pieces.append(".*" if character == "%" else _CHARACTER)
                continue
            pieces.append("".join(f"\\x{byte:02x}" for byte in character.encode()))
        return f"(?s)^{''.join(pieces)}\\z"
