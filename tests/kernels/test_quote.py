"""Columns as JSON strings, compared with Python's own base64 and json."""

import base64
import json
import random
from itertools import pairwise

import numpy as np
import pytest

from ottla.kernels.text.quote import BASE64, TEXT, quote, quoted_room
from ottla.region import padded

TEXTS = ["", "plain", 'a "b" \\ c', "\x00\x1f\n\r\t\b\f\x7f", "é € 😀 \u2028", "x" * 100]


def quoted(values: list[bytes], style: int) -> list[str]:
    data = b"".join(values)
    bounds = np.cumsum([0, *map(len, values)], dtype=np.int32)
    out = np.empty(quoted_room(len(data), len(values), style), dtype=np.uint8)
    out_bounds = np.empty(len(values) + 1, dtype=np.int64)
    quote(out, out_bounds, padded(data), bounds, style)
    edges = out_bounds.tolist()
    return [out[start:stop].tobytes().decode() for start, stop in pairwise(edges)]


def test_text_is_escaped_as_json_escapes_it() -> None:
    # DEL is not for terminals, though JSON lets it stand.
    expected = [json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f") for text in TEXTS]
    assert quoted([text.encode() for text in TEXTS], TEXT) == expected


@pytest.mark.parametrize("seed", range(5))
def test_bytes_are_base64(seed: int) -> None:
    chance = random.Random(seed)
    values = [chance.randbytes(chance.randint(0, 40)) for _ in range(50)]
    expected = [f'"{base64.b64encode(value).decode()}"' for value in values]
    assert quoted(values, BASE64) == expected


@pytest.mark.parametrize("style", [TEXT, BASE64])
def test_a_column_of_nothing_is_nothing(style: int) -> None:
    assert quoted([], style) == []


def test_the_worst_text_fits_into_its_room() -> None:
    assert quoted([b"\x01" * 1000], TEXT) == ['"' + "\\u0001" * 1000 + '"']
