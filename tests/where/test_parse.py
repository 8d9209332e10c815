"""What a predicate may say, and what is refused: whatever else a text holds, with its place."""

import pickle
import time

import pyarrow.compute as pc
import pytest

from ottla.errors import OptionError
from ottla.where.parse import MAX_BYTES, as_where, parse_where
from ottla.where.tree import (
    AllOf,
    AnyOf,
    ArrowFilter,
    ColumnNamed,
    Condition,
    HeaderNamed,
    Not,
    Operator,
)

OFFSET, KEY, TIME = ColumnNamed("offset"), ColumnNamed("key"), ColumnNamed("timestamp")
FIVE = Condition(OFFSET, Operator.EQUAL, (5,))
MIDNIGHT = 1_760_000_000_000 // 86_400_000 * 86_400_000  # 2025-10-09

READ = [
    pytest.param("offset = 5", FIVE, id="equal"),
    pytest.param("OFFSET=+5", FIVE, id="case-and-no-space"),
    pytest.param("\n(\toffset\r= 5 )", FIVE, id="space"),
    pytest.param("5 > offset", Condition(OFFSET, Operator.LESS, (5,)), id="flipped"),
    pytest.param("-1 <> offset", Condition(OFFSET, Operator.NOT_EQUAL, (-1,)), id="flipped-sign"),
    pytest.param("key = 'it''s'", Condition(KEY, Operator.EQUAL, (b"it's",)), id="quote"),
    pytest.param("key = X'00fF'", Condition(KEY, Operator.EQUAL, (b"\0\xff",)), id="bytes"),
    pytest.param("key in ('', x'')", Condition(KEY, Operator.IN, (b"", b"")), id="in"),
    pytest.param(
        "offset not between 1 and 2 and offset = 5",
        AllOf((Condition(OFFSET, Operator.BETWEEN, (1, 2), is_negated=True), FIVE)),
        id="between-and",
    ),
    pytest.param("key is not null", Condition(KEY, Operator.IS_NULL, is_negated=True), id="null"),
    pytest.param(
        "not offset = 5 or offset = 5 and offset = 5",
        AnyOf((Not(FIVE), AllOf((FIVE, FIVE)))),
        id="precedence",
    ),
    pytest.param(
        "timestamp = '2025-10-09'", Condition(TIME, Operator.EQUAL, (MIDNIGHT,)), id="day"
    ),
    pytest.param(
        "timestamp = '2025-10-09T02:00:00.250+02:00'",
        Condition(TIME, Operator.EQUAL, (MIDNIGHT + 250,)),
        id="zone",
    ),
    pytest.param("timestamp = -1", Condition(TIME, Operator.EQUAL, (-1,)), id="no-timestamp"),
    pytest.param(
        "header('é') = 'a'",
        Condition(HeaderNamed("é".encode()), Operator.EQUAL, (b"a",)),
        id="header",
    ),
    pytest.param(
        "isTransactional <> TRUE",
        Condition(ColumnNamed("isTransactional"), Operator.NOT_EQUAL, (True,)),
        id="flag",
    ),
]


@pytest.mark.parametrize(("text", "root"), READ)
def test_a_predicate_is_read(text: str, root: object) -> None:
    found = parse_where(text)
    assert found.root == root
    assert pickle.loads(pickle.dumps(found)).root == root


def test_twenty_levels_and_many_parts_are_taken() -> None:
    assert parse_where("(" * 20 + "offset = 5" + ")" * 20).root == FIVE
    assert parse_where(" or ".join(["offset = 5"] * 290)).root == AnyOf((FIVE,) * 290)


# Each text, and what its refusal says; the place is checked apart.
HOSTILE = [
    ("", "expected a column, at its end"),
    ("   ", "expected a column, at its end"),
    ("offset", "expected a comparison, at its end"),
    ("offset = ", "offset is compared with a whole number, at its end"),
    ("offset = 5 and", "expected a column, at its end"),
    ("and", "expected a column, at character 1"),
    ("not", "expected a column, at its end"),
    ("offset = 5 offset = 5", "expected and, or, or the end, at character 12"),
    ("offset = 5; drop table orders", "';' has no meaning here, at character 11"),
    ("offset = 5;", "';' has no meaning here"),
    ("offset = 5 -- comment", "numbers are whole numbers, at character 12"),
    ("offset = 5 /* comment */", "'/' has no meaning here"),
    ("offset = 5 # comment", "'#' has no meaning here"),
    ("offset in (select 1)", "offset is compared with a whole number, at character 12"),
    ("select offset from orders", "no column select; there are key"),
    ("exists (select 1)", "the only function is header('name')"),
    ("lower(key) = 'a'", "the only function is header('name'), at character 1"),
    ("key = lower('A')", "key is compared with a text"),
    ("sleep(1000) = 1", "the only function is header('name')"),
    ("header(key) = 'a'", "expected the name of a header in quotes, at character 8"),
    ("header('a', 'b') = 'a'", "expected ), at character 11"),
    ("header() = 'a'", "expected the name of a header in quotes"),
    ("header = 'a'", "no column header: did you mean headers?"),
    ("offset + 1 = 5", "numbers are whole numbers, at character 8"),
    ("offset = 1 + 1", "numbers are whole numbers"),
    ("offset +1 = 5", "expected a comparison, at character 8: '+1 = 5'"),
    ("offset * 2 = 5", "'*' has no meaning here"),
    ("offset = 1.5", "numbers are whole numbers, at character 10"),
    ("offset = 1e3", "numbers are whole numbers"),
    ("offset = 1_000", "numbers are whole numbers"),
    ("offset = 0x10", "numbers are whole numbers"),
    ("offset = 9223372036854775808", "beyond 63 bits, at character 10"),
    ("offset = " + "9" * 4000, "beyond 63 bits"),
    ("offset = '5'", "offset is compared with a whole number, at character 10: \"'5'\""),
    ("key = 5", "key is compared with a text such as 'anna', or bytes"),
    ("topic = x'00'", "topic is compared with a text such as 'orders'"),
    ("isTransactional = 1", "isTransactional is compared with true or false"),
    ("isTransactional < true", "true and false have no order"),
    ("isTransactional between true and false", "true and false have no order"),
    ("isTransactional", "expected a comparison"),
    ("timestamp > 'yesterday'", "timestamp is compared with milliseconds"),
    ("timestamp > '2025-13-01'", "timestamp is compared with milliseconds"),
    ("timestamp > '2025-10-09T08:00:00.1234Z'", "timestamp is compared with milliseconds"),
    ("offset like '5'", "like is for texts, at character 13"),
    ("key like x'00'", "expected a pattern in quotes"),
    ("key like 'a' escape 'bc'", "expected one character in quotes, at character 21"),
    ("key like '!a' escape '!'", "'!' stands before %, _ or itself"),
    ("key like 'a!' escape '!'", "'!' stands before %, _ or itself"),
    ("key like any ('a')", "expected a pattern in quotes"),
    ("key ilike 'a'", "expected a comparison, at character 5"),
    ("key = null", "nothing equals null; say is null or is not null, at character 7"),
    ("key in ('a', null)", "nothing equals null"),
    ("key in ()", "key is compared with a text"),
    ("key is true", "expected a comparison"),
    ("key is distinct from 'a'", "expected a comparison"),
    ("key = value", "key is compared with a text"),
    ("5 = 5", "one side of a comparison is a column, at character 5"),
    ("1 = 1 or offset = 5", "one side of a comparison is a column"),
    ("true", "expected a comparison, at its end"),
    ("(offset) = 5", "expected a comparison, at character 8"),
    ("(offset = 5", "expected ), at its end"),
    ("offset = 5)", "expected and, or, or the end, at character 11"),
    ("offsett = 5", "no column offsett: did you mean offset? At character 1: 'offsett = 5'"),
    ("password = 5", "no column password; there are key, value"),
    ("orders.key = 'a'", "'.' has no meaning here, at character 7"),
    ("\"key\" = 'a'", "texts stand in single quotes, and columns in none, at character 1"),
    ("`key` = 'a'", "texts stand in single quotes"),
    ('key = "a"', "texts stand in single quotes"),
    ("key = 'a", "the text that begins here does not end, at character 7"),
    ("key = 'a' 'b'", "expected and, or, or the end"),
    ("key = 'a' collate nocase", "expected and, or, or the end"),
    ("key = x'0'", "bytes have two digits each"),
    ("key = x'zz'", "key is compared with a text"),
    ("key = $1", "'$' has no meaning here"),
    ("key = ?", "'?' has no meaning here"),
    ("key = :name", "':' has no meaning here"),
    ("headers = 'a'", "headers is compared with nothing: ask header('name')"),
    ("'a' = headers", "headers is compared with nothing"),
    ("\u212aey = 'a'", "'\u212a' has no meaning here"),  # the Kelvin sign is k in lower case
    ("offset = \uff15", "'\uff15' has no meaning here"),
    ("offset = \u0665", "'\u0665' has no meaning here"),
    ("offset\u00a0= 5", "'\\xa0' has no meaning here, at character 7"),
    ("\u202eoffset = 5", "'\\u202e' has no meaning here, at character 1"),
    ("offset = 5\0", "'\\x00' has no meaning here"),
    ("key = \u2018a\u2019", "has no meaning here"),
    ("key = '\udc80'", "the text is not UTF-8; write bytes as x'00ff'"),
    ("(" * 21 + "offset = 5" + ")" * 21, "more than 20 levels deep, at character 21"),
    ("(" * 4000, "more than 20 levels deep"),
    ("not " * 21 + "offset = 5", "more than 20 levels deep, at character 1"),
    ("not " * 1000, "more than 20 levels deep"),
    ("(not " * 11 + "offset = 5" + ")" * 11, "more than 20 levels deep"),
    ("'" * 4095, "the text that begins here does not end"),
    ("a" * 1_000_000, f"the text has more than {MAX_BYTES} bytes"),
    ("(" * 1_000_000, f"the text has more than {MAX_BYTES} bytes"),
    ("key = '" + "\u00e9" * 2048 + "'", f"the text has more than {MAX_BYTES} bytes"),
]


@pytest.mark.parametrize(
    ("text", "message"),
    HOSTILE,
    ids=[f"{number}-{text[:20]!a}" for number, (text, _) in enumerate(HOSTILE)],
)
def test_a_hostile_text_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(OptionError) as refused:
        parse_where(text)
    told = str(refused.value)
    assert told.startswith("where: ")
    assert message in told
    assert len(told) < 500
    assert told.isprintable()
    limits = ("at character", "At character", "at its end", "more than 4096")
    assert any(limit in told for limit in limits)


def test_the_largest_patterns_are_taken_or_refused_at_once() -> None:
    started = time.process_time()
    for pattern in ("_" * 4000, "%_" * 2000, "%a" * 2000):
        assert parse_where(f"key like '{pattern}'").columns() == ["key"]
    assert time.process_time() - started < 60


def test_an_expression_of_pyarrow_is_taken() -> None:
    assert isinstance(as_where(pc.field("offset") < 5), ArrowFilter)
    assert as_where("offset = 5").root == FIVE
    with pytest.raises(OptionError, match="name the columns"):
        as_where(pc.field(0) < 5)
    with pytest.raises(OptionError, match="neither a text nor an expression of PyArrow"):
        as_where(5)
