from ottla.arrow.schema import VIOLATION_SCHEMA
from ottla.errors import Rule, Violation


def test_the_schema_has_the_columns_of_a_violation_in_their_order() -> None:
    row = Violation(Rule.CRC_MATCHES, "wrong", "0.log", 0).as_row()
    assert VIOLATION_SCHEMA.names == list(row)
