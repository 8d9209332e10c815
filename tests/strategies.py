"""Segments for Hypothesis: every magic and codec, legal ones and ones that break some rule."""

from collections.abc import Sequence

from hypothesis import strategies as st

import builders
from builders import Row
from naive_codecs import CODECS

INT32 = st.integers(-(2**31), 2**31 - 1)
# Half the range of int64, so that a delta between two of them still fits.
TIMESTAMPS = st.one_of(
    st.just(-1), st.integers(0, 2**41), st.integers(-(2**62), 2**62 - 1), st.integers(0, 300)
)
OFFSETS = st.one_of(st.integers(0, 200), st.integers(0, 2**62))
# Small sizes around where a varint grows by a byte, and values that a codec can shorten.
FIELDS = st.one_of(
    st.none(),
    st.binary(max_size=12),
    st.integers(60, 70).map(bytes),
    st.integers(8180, 8200).map(lambda size: b"ab" * (size // 2)),
)
HEADER_KEYS = st.one_of(
    st.sampled_from([b"trace", b"", b"\xff", b"\xed\xa0\x80", b"\xe2\x82", "é".encode()]),
    st.binary(max_size=8),
)
HEADERS = st.lists(st.tuples(HEADER_KEYS, FIELDS), max_size=4).map(tuple)
DELTAS = st.one_of(st.just(1), st.integers(1, 500), st.integers(-3, 3), INT32)
PRODUCERS = st.one_of(
    st.just((-1, -1, -1)),
    st.tuples(st.integers(0, 2**40), st.integers(0, 9), st.sampled_from([0, 7, 2**31 - 2])),
    st.tuples(st.integers(-3, 3), st.integers(-3, 3), INT32),
)
# Timestamp type, transactional, delete horizon, and the bits that nobody reads; never control.
FLAGS = st.sampled_from([0, 0, 0, 8, 16, 64, 8 | 16, 128, 0x5500, 88])


@st.composite
def codecs(draw: st.DrawFn, magic: int) -> int:
    return draw(st.integers(0, len(CODECS) - 1 if magic == 2 else len(CODECS) - 2))


@st.composite
def rows(draw: st.DrawFn, magic: int) -> list[Row]:
    """At least one row; their deltas fit in the int32 that a batch has for them."""
    # A compressed v1 message may not have a negative offset; the other formats do not care.
    base = draw(OFFSETS if magic == 1 else st.one_of(OFFSETS, st.integers(-(2**62), 0)))
    deltas = draw(st.lists(DELTAS, max_size=6))
    headers = HEADERS if magic == 2 else st.just(())
    return [
        Row(base + delta, draw(TIMESTAMPS), draw(FIELDS), draw(FIELDS), draw(headers))
        for delta in [0, *deltas]
    ]


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    """One batch, wrapper or message that Kafka reads, if not always one that it writes."""
    magic = draw(st.integers(0, 2))
    codec = draw(codecs(magic))
    content = draw(rows(magic))
    if magic == 2:
        return builders.batch(
            content,
            codec=codec,
            attributes=draw(FLAGS),
            last_offset_delta=draw(st.one_of(st.none(), INT32)),
            producer=draw(PRODUCERS),
            leader_epoch=draw(INT32),
        )
    attributes = draw(st.sampled_from([0, 8, 0xF0]))
    if codec:
        return builders.wrapper(content, magic=magic, codec=codec, attributes=attributes)
    return builders.message(content[0], magic=magic, attributes=attributes)


@st.composite
def _edited(draw: st.DrawFn, data: bytes, first: int = 0) -> bytes:
    """Change, remove or insert a few bytes from `first` on."""
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(min(first, len(data)), len(data)))
        removed = draw(st.sampled_from([0, 1, 1, 1, 2, 8]))
        data = data[:at] + draw(st.binary(max_size=3)) + data[at + removed :]
    return data


@st.composite
def broken_records(draw: st.DrawFn) -> bytes:
    """A batch with the right CRC and a good codec stream around records that are not right."""
    magic = draw(st.integers(0, 2))
    codec = draw(codecs(magic))
    content = draw(rows(magic))
    if magic == 2:
        encoded = [builders.record(row, base_offset=content[0].offset) for row in content]
        payload = draw(_edited(b"".join(encoded)))
        count = draw(st.one_of(st.just(len(content)), st.integers(-1, len(content) + 1), INT32))
        compressed = builders.compress(payload, codec, magic=magic)
        return builders.batch_of(compressed, count=count, attributes=codec)
    inner = draw(_edited(_messages(content, magic)))
    value = builders.compress(inner, codec, magic=magic)
    outer = Row(draw(st.integers(-1, 9)), draw(TIMESTAMPS), None, value)
    return builders.message(outer, magic=magic, attributes=codec)


@st.composite
def broken_streams(draw: st.DrawFn) -> bytes:
    """A batch whose codec stream was damaged before its CRC was taken."""
    magic = draw(st.integers(0, 2))
    codec = draw(st.integers(1, 4 if magic == 2 else 3))
    content = draw(rows(magic))
    if magic == 2:
        encoded = [builders.record(row, base_offset=content[0].offset) for row in content]
        stream = builders.compress(b"".join(encoded), codec, magic=magic)
        count = draw(st.sampled_from([len(content), len(content), 0]))
        return builders.batch_of(draw(_edited(stream)), count=count, attributes=codec)
    stream = builders.compress(_messages(content, magic), codec, magic=magic)
    outer = Row(content[-1].offset, 0, None, draw(_edited(stream)))
    return builders.message(outer, magic=magic, attributes=codec)


@st.composite
def broken_batches(draw: st.DrawFn) -> bytes:
    """A batch with damage anywhere after its size, sealed again or not."""
    whole = draw(batches())
    damaged = draw(_edited(whole, first=12))[: len(whole)].ljust(len(whole), b"\0")
    return builders.reseal(damaged) if draw(st.booleans()) else damaged


@st.composite
def segments(draw: st.DrawFn) -> bytes:
    """A few good batches, and perhaps the beginning of another."""
    whole = b"".join(draw(st.lists(batches(), max_size=4)))
    return whole + draw(batches())[: draw(st.sampled_from([0, 0, 5, 17, 40]))]


@st.composite
def broken_segments(draw: st.DrawFn) -> bytes:
    """A broken batch between good ones."""
    broken = draw(st.one_of(broken_records(), broken_streams(), broken_batches()))
    return draw(batches()) + broken + draw(batches())


def _messages(content: Sequence[Row], magic: int) -> bytes:
    inner = [row._replace(offset=at) for at, row in enumerate(content)]
    return b"".join(builders.message(row, magic=magic) for row in inner)
