import pyarrow as pa

from ottla.arrow.schema import VIOLATION_SCHEMA
from ottla.errors import Rule, Violation


def test_the_schema_has_the_columns_of_a_violation_in_their_order() -> None:
    row = Violation(Rule.CRC_MATCHES, "wrong", "0.log", 0).as_row()
    assert VIOLATION_SCHEMA.names == list(row)


def test_texts_that_are_not_utf8_fit_into_columns() -> None:
    """Names of folders and contents of side files are bytes: the fuzz found a topic of one."""
    odd = b"\xff".decode("utf-8", "surrogateescape")
    violation = Violation(
        Rule.FILE_NAME, odd, odd, 0, found=odd, expected=odd, topic=odd, partition=0
    )
    batch = pa.RecordBatch.from_pylist([violation.as_row()], VIOLATION_SCHEMA)
    for name in ("topic", "file", "found", "expected", "detail"):
        assert batch[name].to_pylist() == ["\\udcff"]
