"""A predicate as a tree of conditions, and the columns that it may name.

The columns are those of Spark's Kafka connector and, after them, those of the batch. Values are
kept as readers compare them: times as milliseconds, texts as UTF-8 bytes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any, Final


class Type(Enum):
    """What a column is compared with, as a message says it."""

    NUMBER = "a whole number"
    TIME = "milliseconds, or a time such as '2025-10-09T08:53:20Z'"
    BYTES = "a text such as 'anna', or bytes such as x'00ff'"
    TEXT = "a text such as 'orders'"
    FLAG = "true or false"
    HEADERS = "nothing: ask header('name'), or whether headers is null"


COLUMNS: Final = {
    "key": Type.BYTES,
    "value": Type.BYTES,
    "topic": Type.TEXT,
    "partition": Type.NUMBER,
    "offset": Type.NUMBER,
    "timestamp": Type.TIME,
    "timestampType": Type.NUMBER,
    "headers": Type.HEADERS,
    "file": Type.TEXT,
    "position": Type.NUMBER,
    "magic": Type.NUMBER,
    "codec": Type.TEXT,
    "baseOffset": Type.NUMBER,
    "partitionLeaderEpoch": Type.NUMBER,
    "producerId": Type.NUMBER,
    "producerEpoch": Type.NUMBER,
    "sequence": Type.NUMBER,
    "isTransactional": Type.FLAG,
}
# The same for all records of a file.
OF_FILE: Final = ("topic", "partition", "file")


class Operator(StrEnum):
    """What a condition does with a column and its values."""

    EQUAL = "="
    NOT_EQUAL = "<>"
    LESS = "<"
    LESS_EQUAL = "<="
    GREATER = ">"
    GREATER_EQUAL = ">="
    BETWEEN = "between"
    IN = "in"
    LIKE = "like"
    IS_NULL = "is null"


@dataclass(frozen=True, slots=True)
class ColumnNamed:
    """A column by its name."""

    name: str

    @property
    def type(self) -> Type:
        return COLUMNS[self.name]


@dataclass(frozen=True, slots=True)
class HeaderNamed:
    """The values of all headers of one name."""

    name: bytes

    @property
    def type(self) -> Type:
        return Type.BYTES


Subject = ColumnNamed | HeaderNamed
Value = int | bytes | bool


@dataclass(frozen=True, slots=True)
class Condition:
    """One column against values; of LIKE the value is a regular expression on bytes."""

    subject: Subject
    operator: Operator
    values: tuple[Value, ...] = ()
    is_negated: bool = False


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite of what is true or false."""

    part: "Node"


@dataclass(frozen=True, slots=True)
class AllOf:
    """Whether all parts are true."""

    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Whether one of the parts is true."""

    parts: tuple["Node", ...]


Node = Condition | Not | AllOf | AnyOf


def conditions_of(node: Node) -> Iterator[Condition]:
    """All conditions of a tree."""
    match node:
        case Condition():
            yield node
        case Not(part):
            yield from conditions_of(part)
        case AllOf(parts) | AnyOf(parts):
            for part in parts:
                yield from conditions_of(part)


@dataclass(frozen=True, slots=True)
class Predicate:
    """A text and its tree; two are equal when their texts are."""

    text: str
    root: Node = field(repr=False, compare=False)

    def columns(self) -> list[str]:
        """The columns of the core that must be decoded to tell."""
        subjects = [condition.subject for condition in conditions_of(self.root)]
        names = [
            each.name if isinstance(each, ColumnNamed) and each.name != "headers" else "rawHeaders"
            for each in subjects
        ]
        return [name for name in dict.fromkeys(names) if name not in OF_FILE]

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True, eq=False)
class ArrowFilter:
    """An expression of pyarrow over the connector's columns; it lets nothing be skipped."""

    expression: Any  # of pyarrow.compute, for which whoever declares flags does not wait

    def __str__(self) -> str:
        return str(self.expression)


Where = Predicate | ArrowFilter
