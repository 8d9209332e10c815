"""The words of an Avro program, and what can be wrong with a datum.

A program is one array of numbers, STRIDE for each instruction. Both passes run it; each has its own
operations, since the first only checks and measures, and the second only writes.
"""

from typing import Final

# Slots of an instruction.
CHECK: Final = 0  # the operation of the first pass
FILL: Final = 1  # and of the second
MODE: Final = 2  # how the value comes to be valid or null
NULL: Final = 3  # the number of the union's branch that is null
NEXT: Final = 4  # where to go on behind a value that is null, or after a jump
VALID: Final = 5  # where the column's bytes begin that say which values are there
VALUE: Final = 6  # where its values or bounds begin, counted in their own width
BYTES: Final = 7  # where its text or binary values begin
COUNTER: Final = 8  # the counter of its bytes, or of the items of a list
LOW: Final = 9  # the least value; or a size, or the first of a table
HIGH: Final = 10  # the largest value; or the size of a table
COST: Final = 11  # bytes that each item of a list takes in memory
STRIDE: Final = 12

KEPT: Final = 16  # bytes before what is kept
UUID_SIZE: Final = 36  # of its text

# Modes; none is a column without nulls.
SET: Final = 1  # the value is there
NULLABLE: Final = 2  # a union of null and one other branch comes first

# Operations of the first pass. Those from VARINT on begin with a number of the datum.
END: Final = 0
NOTHING: Final = 1
JUMP: Final = 2
SIZED: Final = 3  # LOW bytes
BOOLEAN: Final = 4
CONSTANT: Final = 5  # text that is not in the datum
HEX: Final = 6  # 16 bytes as a UUID's text
DECIMAL_FIXED: Final = 7
NEXT_ITEM: Final = 8
DEFAULT: Final = 9  # go on in the constants
DEFAULT_END: Final = 10
SKIP: Final = 11  # what the reader does not want
KEEP: Final = 12  # checked, and kept as it is, behind the numbers of its plan and its datum
CALL: Final = 13  # in what is skipped: named types call themselves
RETURN: Final = 14
FAIL: Final = 15
VARINT: Final = 20
TEXT: Final = 21
BINARY: Final = 22
DECIMAL: Final = 23
SYMBOL: Final = 24
UNION: Final = 25
LIST: Final = 26

# Operations of the second pass for what the first takes as VARINT or SIZED; else they are the same.
INT32: Final = 30
INT64: Final = 31
MILLIS: Final = 32  # to microseconds
INT_TO_FLOAT32: Final = 33
INT_TO_FLOAT64: Final = 34
FLOAT32: Final = 35
FLOAT64: Final = 36
FLOAT32_TO_64: Final = 37
FIXED: Final = 38

# What can be wrong with a datum.
TRUNCATED: Final = 1  # it ends before the schema does
TRAILING: Final = 2  # bytes remain
BAD_LENGTH: Final = 3  # a negative length
BAD_COUNT: Final = 4  # more items than bytes
BAD_BRANCH: Final = 5  # a branch that the union, or its reader, does not have
BAD_ENUM: Final = 6
BAD_UTF8: Final = 7
BAD_NUMBER: Final = 8  # a varint that does not end
TOO_DEEP: Final = 9
TOO_LARGE: Final = 10
OUT_OF_RANGE: Final = 11  # of what the type can hold
