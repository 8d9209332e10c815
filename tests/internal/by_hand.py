"""The cases of by_hand.txt."""

import json
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
IDS = {"U": bytes(range(16)).hex(), "V": "ff" * 16}


class Case(NamedTuple):
    topic: str
    name: str
    version: int
    key: bytes | None
    key_data: Any
    value: bytes
    data: Any


def hex_bytes(words: list[str]) -> bytes:
    return bytes.fromhex("".join(IDS.get(word, word) for word in words))


def read_case(text: str) -> Case:
    (topic, name, version), *lines = [line.split() for line in text.splitlines() if line.strip()]
    found: dict[str, Any] = {"key": None, "key_data": None}
    part = ""
    for words in lines:
        if words[0] in ("key", "value"):
            part = words[0]
            found[part] = hex_bytes(words[1:])
        elif words[0].startswith("{"):
            found["data" if part == "value" else "key_data"] = json.loads(" ".join(words))
    return Case(topic, name, int(version), **found)


def read_cases() -> list[Case]:
    lines = (HERE / "by_hand.txt").read_text("utf-8").splitlines()
    text = "\n".join(line for line in lines if not line.startswith("#")).strip()
    return [read_case(part) for part in text.removeprefix("= ").split("\n= ")]


BY_HAND = read_cases()
