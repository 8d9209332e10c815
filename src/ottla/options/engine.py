"""How much an engine may take, if nobody says otherwise; nothing heavy is imported here."""

from typing import Final

DEFAULT_LOCAL_BYTES: Final = 1 << 30  # of input, beyond which work is for Spark
DEFAULT_MEMORY: Final = 1 << 30  # of rows that wait for others in this process
