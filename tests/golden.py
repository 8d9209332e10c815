"""Files that real brokers wrote, kept in tests/golden so that no broker is needed to read them."""

import lzma
from pathlib import Path

from dump_log import Line, parse_dump

GOLDEN = Path(__file__).parent / "golden"
KAFKA_DUMP = "kafka-dump-log.txt.xz"

BROKERS = ("kafka-4.3", "kafka-3.9")


def kafka_dump(broker: str) -> dict[Path, list[Line]]:
    """What kafka-dump-log said of each file when it was made."""
    folder = GOLDEN / broker
    text = lzma.decompress((folder / KAFKA_DUMP).read_bytes()).decode()
    return {folder / name: lines for name, lines in parse_dump(text).items()}
