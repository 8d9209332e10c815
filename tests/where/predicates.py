"""Random predicates: each a text, and what it means as a plain function of a row.

Nothing here imports ottla. A row is a dict of the connector's columns and of the batch's, with
times in milliseconds; its headers are pairs. A meaning gives True, False, or None for unknown.
"""

import operator
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from hypothesis import strategies as st

Row = dict[str, Any]
Answer = bool | None
Meaning = Callable[[Row], Answer]

NUMBERS = (
    *("offset", "partition", "timestampType", "position", "magic", "baseOffset"),
    *("partitionLeaderEpoch", "producerId", "producerEpoch", "sequence"),
)
TEXTS = ("topic", "codec")  # not the file: what is drawn must not hang on a temporary path
COMPARISONS = {
    "=": operator.eq,
    "<>": operator.ne,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Clause(NamedTuple):
    """A part of a predicate and what it means."""

    text: str
    meaning: Meaning


def negate(answer: Answer) -> Answer:
    return None if answer is None else not answer


def both(answers: Sequence[Answer]) -> Answer:
    if False in answers:
        return False
    return None if None in answers else True


def either(answers: Sequence[Answer]) -> Answer:
    return negate(both([negate(answer) for answer in answers]))


def like(data: bytes, pattern: str, escape: str | None) -> bool:
    """LIKE on characters; a byte that is no part of one is matched by % alone."""
    pieces: list[str | None] = []  # None is %, "" any one character
    letters = iter(pattern)
    for letter in letters:
        if letter == escape:
            pieces.append(next(letters))
        else:
            pieces.append({"%": None, "_": ""}.get(letter, letter))
    text = data.decode("utf-8", "surrogateescape")
    reached = {0}
    for piece in pieces:
        if piece is None:
            reached = set(range(min(reached, default=len(text) + 1), len(text) + 1))
        else:
            reached = {
                at + 1
                for at in reached
                if at < len(text) and (piece == text[at] or (not piece and is_character(text[at])))
            }
    return len(text) in reached


def is_character(letter: str) -> bool:
    return not 0xDC80 <= ord(letter) <= 0xDCFF


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def spelled(draw: st.DrawFn, value: Any, column: str) -> str:
    """A literal that a predicate may have for a value."""
    if isinstance(value, bool):
        return draw(st.sampled_from(["true", "false", "TRUE", "False"][value is False :: 2]))
    if isinstance(value, bytes):
        try:
            text = value.decode()
        except UnicodeDecodeError:
            text = None
        if text is not None and (column in TEXTS or draw(st.booleans())):
            return quoted(text)
        return f"x'{value.hex()}'"
    if column == "timestamp" and 0 <= value < 10**13 and draw(st.booleans()):
        time = EPOCH + timedelta(milliseconds=value)
        zone = draw(st.sampled_from(["Z", "", "+00:00"]))
        return f"'{time.strftime('%Y-%m-%dT%H:%M:%S')}.{value % 1000:03d}{zone}'"
    return str(value)


def predicates(rows: Sequence[Row]) -> st.SearchStrategy[Clause]:
    """Predicates about rows like these, none of them too long."""
    return _clauses(rows, 3).filter(lambda clause: len(clause.text.encode()) <= 4096)


@st.composite
def _clauses(draw: st.DrawFn, rows: Sequence[Row], depth: int) -> Clause:
    kind = draw(st.sampled_from(["test", "test", "and", "or", "not"])) if depth else "test"
    if kind == "test":
        return draw(_tests(rows))
    if kind == "not":
        part = draw(_clauses(rows, depth - 1))
        return Clause(f"not ({part.text})", lambda row: negate(part.meaning(row)))
    parts = [draw(_clauses(rows, depth - 1)) for _ in range(draw(st.integers(2, 3)))]
    join = {"and": both, "or": either}[kind]
    word = draw(st.sampled_from([kind, kind.upper()]))
    return Clause(
        f" {word} ".join(f"({part.text})" for part in parts),
        lambda row: join([part.meaning(row) for part in parts]),
    )


@st.composite
def _tests(draw: st.DrawFn, rows: Sequence[Row]) -> Clause:
    row = draw(st.sampled_from(rows))
    if draw(st.integers(0, 4)) == 0:
        names = [key for key, _ in row["headers"]] + [b"trace", b"nobody"]
        name = draw(st.sampled_from([name for name in names if is_utf8(name)]))
        near = [value for key, value in row["headers"] if key == name]
        test = draw(_value_tests("key", near or [b"a"]))
        return Clause(
            f"header({quoted(name.decode())}) {test.text}", of_headers(name, test.meaning)
        )
    if draw(st.integers(0, 19)) == 0:
        no = draw(st.booleans())
        return Clause(
            f"headers is {'not ' if no else ''}null", lambda row: bool(row["headers"]) == no
        )
    column = draw(
        st.sampled_from(
            [*("offset", "timestamp", "key", "value") * 4, *NUMBERS, *TEXTS, "isTransactional"]
        )
    )
    near = [row[column]]
    test = draw(_value_tests(column, near))
    flipped = test.text.split(" ", 1)
    if flipped[0] in COMPARISONS and draw(st.booleans()):
        sign = FLIPPED.get(flipped[0], flipped[0])
        return Clause(f"{flipped[1]} {sign} {column}", lambda row: test.meaning(row[column]))
    name = draw(st.sampled_from([column, column.upper()]))
    return Clause(f"{name} {test.text}", lambda row: test.meaning(row[column]))


def is_utf8(data: bytes) -> bool:
    return data.decode("utf-8", "replace").encode() == data


def of_headers(name: bytes, test: Callable[[Any], Answer]) -> Meaning:
    def meaning(row: Row) -> Answer:
        values = [value for key, value in row["headers"] if key == name]
        return either([test(value) for value in values or [None]])

    return meaning


@st.composite
def _literals(draw: st.DrawFn, column: str, near: Any) -> Any:
    """A value like one that is there."""
    if column == "isTransactional":
        return draw(st.booleans())
    if column in NUMBERS or column == "timestamp":
        base = -1 if near is None else near
        return draw(
            st.one_of(
                st.just(base),
                st.integers(base - 200, base + 200),
                st.sampled_from([0, -1, 2**63 - 1, -(2**63) + 1]),
            )
        )
    data = near or b""
    if column in TEXTS:
        return draw(st.sampled_from([data, data[:-1], data + b"x", b"", "é'%".encode()]))
    return draw(st.one_of(st.just(data), st.just(data[:3]), st.binary(max_size=3)))


@st.composite
def _patterns(draw: st.DrawFn, near: bytes | None) -> tuple[str, str | None]:
    text = (near or b"").decode("utf-8", "ignore")
    start = draw(st.integers(0, min(len(text), 6)))
    piece = text[start : draw(st.integers(start, start + 8))]
    escape = draw(st.sampled_from([None, None, "!", "\\", "é"]))
    if escape is None:
        middle = "".join(
            draw(st.sampled_from([letter, letter, "_"])) if letter not in "%_" else "_"
            for letter in piece
        )
    else:
        middle = "".join(escape + c if c in ("%", "_", escape) else c for c in piece)
    before, after = (draw(st.sampled_from(["%", "%", "", "_", "%%"])) for _ in range(2))
    return before + middle + after, escape


@st.composite
def _value_tests(draw: st.DrawFn, column: str, near: Sequence[Any]) -> Clause:
    """What stands behind a column, and what it says of a value."""
    seen = draw(st.sampled_from(near))
    kinds = ["compare", "compare", "in", "null"]
    kinds += ["between"] if column != "isTransactional" else []
    kinds += ["like"] if column in (*TEXTS, "key", "value") else []
    kind = draw(st.sampled_from(kinds))
    no = draw(st.booleans())
    word = "not " if no else ""
    if kind == "null":
        return Clause(f"is {word}null", lambda value: (value is None) != no)
    if kind == "compare":
        signs = ["=", "<>", "!="] if column == "isTransactional" else [*COMPARISONS]
        sign = draw(st.sampled_from(signs))
        literal = draw(_literals(column, seen))
        return Clause(
            f"{sign} {spelled(draw, literal, column)}",
            lambda value: None if value is None else COMPARISONS[sign](value, literal),
        )
    if kind == "in":
        wanted = [draw(_literals(column, seen)) for _ in range(draw(st.integers(1, 4)))]
        listed = ", ".join(spelled(draw, value, column) for value in wanted)
        return Clause(
            f"{word}in ({listed})",
            lambda value: None if value is None else (value in wanted) != no,
        )
    if kind == "between":
        low, high = draw(_literals(column, seen)), draw(_literals(column, seen))
        return Clause(
            f"{word}between {spelled(draw, low, column)} and {spelled(draw, high, column)}",
            lambda value: None if value is None else (low <= value <= high) != no,
        )
    pattern, escape = draw(_patterns(seen))
    told = "" if escape is None else f" escape {quoted(escape)}"
    return Clause(
        f"{word}like {quoted(pattern)}{told}",
        lambda value: None if value is None else like(value, pattern, escape) != no,
    )
