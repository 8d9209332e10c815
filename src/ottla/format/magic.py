"""The versions of the record format: the current one, and what older ones have no place for."""

from enum import StrEnum
from typing import Final

CURRENT_MAGIC: Final = 2


class Loss(StrEnum):
    """What an older format has no place for."""

    TIMESTAMPS = "timestamps"  # magic 0
    HEADERS = "headers"
    PRODUCER_STATE = "producer-state"  # ids, epochs, sequences, transactions, empty batches
    CONTROL_RECORDS = "control-records"
    LEADER_EPOCHS = "leader-epochs"
