"""Files that real brokers wrote, kept in tests/golden so that no broker is needed to read them."""

import base64
import json
import lzma
import tarfile
from pathlib import Path
from typing import NamedTuple

from dump_log import Line, parse_dump

GOLDEN = Path(__file__).parent / "golden"
KAFKA_DUMP = "kafka-dump-log.txt.xz"
ANSWERS = "answers.jsonl"

BROKERS = ("kafka-4.3", "kafka-3.9")

# Packed, one file for each: what its own producer wrote, cleaner left and consumer read.
OLD_GOLDEN = GOLDEN / "brokers"
OLD_BROKERS = (
    *("0.9.0.1", "0.10.0.1", "0.10.1.1", "0.10.2.2", "0.11.0.3", "1.0.2", "1.1.1", "2.0.1"),
    *("2.1.1", "2.2.2", "2.3.1", "2.4.1", "2.5.1", "2.6.3", "2.7.2", "2.8.2"),
    *("3.0.2", "3.1.2", "3.3.2", "3.6.2", "3.9.2"),
)


class Answer(NamedTuple):
    """A record as a consumer got it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def unpack_old(version: str, folder: Path) -> dict[str, list[Answer]]:
    """Put the partitions of an old broker into a folder; what its consumer read, by topic."""
    with tarfile.open(OLD_GOLDEN / f"{version}.tar.xz") as packed:
        packed.extractall(folder, filter="data")
    answers = folder / ANSWERS
    found: dict[str, list[Answer]] = {}
    for line in answers.read_text().splitlines():
        row = json.loads(line)
        headers = tuple((key, _bytes(value)) for key, value in row["headers"])
        answer = Answer(
            row["offset"], row["timestamp"], _bytes(row["key"]), _bytes(row["value"]), headers
        )
        found.setdefault(row["topic"], []).append(answer)
    answers.unlink()
    return found


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def kafka_dump(broker: str) -> dict[Path, list[Line]]:
    """What kafka-dump-log said of each file when it was made."""
    folder = GOLDEN / broker
    text = lzma.decompress((folder / KAFKA_DUMP).read_bytes()).decode()
    return {folder / name: lines for name, lines in parse_dump(text).items()}
