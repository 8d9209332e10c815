"""What a kernel can say about its input; its caller gives a rule and a text where it is wrong."""

from typing import Final

OK: Final = 0

# A kernel stopped, and nothing is wrong.
END: Final = 1  # fewer bytes than the next batch needs
TABLE_FULL: Final = 2  # no room for another row
CHUNK_FULL: Final = 3  # no room for the next batch or record in the output chunk
MORE: Final = 4  # more bytes must be held to go on

# No batch can be cut here.
SIZE_TOO_SMALL: Final = 10
SIZE_TOO_LARGE: Final = 11
MAGIC_UNKNOWN: Final = 12

# A batch is broken.
HEADER_INCOMPLETE: Final = 20
CRC_MISMATCH: Final = 21
CODEC_UNKNOWN: Final = 22
CODEC_NOT_ALLOWED: Final = 23
CODEC_FAILED: Final = 24
BATCH_TOO_LARGE: Final = 25

# Its records are broken.
COUNT_NEGATIVE: Final = 30
RECORD_TRUNCATED: Final = 32
VARINT_TOO_LONG: Final = 33
RECORD_SIZE: Final = 34
FIELD_TOO_LONG: Final = 35
HEADER_COUNT: Final = 36
HEADER_KEY_NULL: Final = 37
BYTES_REMAIN: Final = 38

# A v0 or v1 message is broken.
MESSAGE_TRUNCATED: Final = 40
WRAPPER_VALUE_NULL: Final = 41
WRAPPER_EMPTY: Final = 42
WRAPPER_OFFSET: Final = 43
INNER_SIZE: Final = 44
INNER_COMPRESSED: Final = 45

# A record cannot be written.
OFFSET_NOT_RISING: Final = 60
TIMESTAMP_NEGATIVE: Final = 61
HEADERS_NOT_ALLOWED: Final = 62
OFFSET_DELTA_RANGE: Final = 63
NEW_BATCH_TOO_LARGE: Final = 64

# A producer's batch is refused.
DUPLICATE: Final = 70
EPOCH_FENCED: Final = 71
SEQUENCE_OUT_OF_ORDER: Final = 72
COORDINATOR_FENCED: Final = 73
NOT_TRANSACTIONAL: Final = 74
