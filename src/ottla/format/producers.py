"""Who appends, and how long a broker remembers it."""

from enum import IntEnum
from typing import Final

DEFAULT_EXPIRATION_MS: Final = 86_400_000  # producer.id.expiration.ms
MAX_TRANSACTION_TIMEOUT_MS: Final = 900_000  # transaction.max.timeout.ms


class Origin(IntEnum):
    """Who appends (AppendOrigin): replicas check nothing, only clients have sequences."""

    REPLICATION = 0
    COORDINATOR = 1
    CLIENT = 2
    RAFT_LEADER = 3
