"""How much was compared with Kafka; the last line of the run says it."""

from collections import Counter

compared: Counter[str] = Counter()

WORDS = ("topics", "records", "files", "mounts", "clones")


def summary() -> str:
    """The line, empty where nothing was compared."""
    if not compared:
        return ""
    return "compared with Kafka: " + ", ".join(f"{compared[word]} {word}" for word in WORDS)
