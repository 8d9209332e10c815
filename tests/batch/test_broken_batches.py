"""Every rule about a batch by itself, each broken by bytes worked out here."""

import struct
from pathlib import Path

import numpy as np
import pytest

import builders
from builders import Row, varint
from cli.command import run_json
from ottla.batch.decode import Decoder
from ottla.batch.encode import encode
from ottla.batch.new_batch import NewBatch
from ottla.batch.rows import NewRecord, pack_rows
from ottla.errors import CorruptLogError, Rule
from ottla.kernels.bytes.crc import compute_crcs
from ottla.kernels.tables import Wanted
from ottla.log.read.windows import read_windows
from ottla.storage.files import open_file
from rules.histories import tables


def sealed(payload: bytes, count: int = 1, attributes: int = 0) -> bytes:
    return builders.batch_of(payload, count=count, attributes=attributes)


def body(*fields: bytes) -> bytes:
    """A record of v2 around its fields, after attributes and both deltas."""
    data = b"\0\0\0" + b"".join(fields)
    return varint(len(data)) + data


def wrapped(inner: bytes, *, offset: int = 0, magic: int = 1) -> bytes:
    value = builders.compress(inner, 1, magic=magic)
    return builders.message(Row(offset, 5, None, value), magic=magic, attributes=1)


def header(count: bytes, *fields: bytes) -> bytes:
    return body(varint(-1), varint(-1), count, *fields)


MESSAGE = builders.message(Row(0, 5, b"k"), magic=1)
SHORT_BATCH = struct.pack(">qiib", 0, 40, 0, 2) + bytes(35)
SHORT_MESSAGE = builders.reseal(struct.pack(">qiIbB", 0, 14, 0, 1, 0) + bytes(8))
LONG_VARINT = b"\xff" * 5 + b"\x01"

BROKEN = [
    pytest.param(SHORT_BATCH, Rule.BATCH_HEADER_COMPLETE, id="shorter-than-its-fixed-part"),
    pytest.param(sealed(b"", attributes=5), Rule.CODEC_KNOWN, id="codec-5"),
    pytest.param(
        builders.message(Row(0, 5, None, b"x"), magic=1, attributes=4),
        Rule.CODEC_ALLOWED,
        id="zstd-in-magic-1",
    ),
    pytest.param(sealed(b"no gzip", attributes=1), Rule.DECOMPRESSES, id="no-gzip"),
    pytest.param(sealed(b"", count=-1), Rule.RECORD_COUNT, id="negative-count"),
    pytest.param(sealed(LONG_VARINT), Rule.RECORD_VARINT, id="a-length-of-six-bytes"),
    pytest.param(
        sealed(body(varint(-1), varint(-1), varint(0), b"left")), Rule.RECORD_SIZE, id="too-long"
    ),
    pytest.param(sealed(header(varint(-1))), Rule.HEADER_COUNT, id="negative-headers"),
    pytest.param(sealed(header(varint(2**31 - 1))), Rule.HEADER_COUNT, id="too-many-headers"),
    pytest.param(
        sealed(header(varint(1), varint(-1), varint(-1))),
        Rule.HEADER_KEY_NOT_NULL,
        id="header-without-key",
    ),
    pytest.param(
        builders.message(Row(0, 5, b"k", None), magic=1, attributes=1),
        Rule.WRAPPER_VALUE,
        id="wrapper-without-value",
    ),
    pytest.param(wrapped(b""), Rule.WRAPPER_NOT_EMPTY, id="empty-wrapper"),
    pytest.param(
        wrapped(MESSAGE + MESSAGE[:7] + b"\x02" + MESSAGE[8:], offset=1),
        Rule.WRAPPER_OFFSET,
        id="wrapper-below-its-last-message",
    ),
    pytest.param(
        wrapped(struct.pack(">qi", 0, 13) + bytes(13)), Rule.INNER_FRAMING, id="inner-size-13"
    ),
    pytest.param(wrapped(wrapped(MESSAGE)), Rule.INNER_NOT_COMPRESSED, id="wrapper-in-wrapper"),
    pytest.param(wrapped(SHORT_MESSAGE), Rule.MESSAGE_FIELDS, id="inner-shorter-than-its-fields"),
]


@pytest.mark.parametrize(("data", "rule"), BROKEN)
def test_a_broken_batch_is_named_by_its_rule(data: bytes, rule: Rule) -> None:
    region, batches, _ = tables(data)
    compute_crcs(region.data, 0, batches)
    decoder = Decoder(Wanted.KEYS | Wanted.VALUES | Wanted.HEADERS)
    ((chunk, broken),) = decoder.decode(region, batches)
    assert chunk is decoder.flush() is None
    assert [bad.violation.rule for bad in broken] == [rule]


def test_a_control_record_that_kafka_can_not_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(builders.batch([Row(0, 0, b"\0\0\0", b"")], attributes=0x20))
    done = run_json("dump", path)
    assert done.status == 1
    assert [line["rule"] for line in done.of("error")] == [Rule.CONTROL_RECORD.value]


@pytest.mark.parametrize("size", [2**31 - 12, 2**31 - 1])
def test_a_length_whose_sum_overflows_ends_the_file(tmp_path: Path, size: int) -> None:
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(builders.batch() + struct.pack(">qiib", 1, size, 0, 2) + bytes(60))
    with open_file(str(path)) as file:
        *_, last = read_windows(file)
    assert last.violation is not None
    assert last.violation.rule is Rule.BATCH_SIZE_RANGE


def test_a_batch_of_two_gibibytes_is_not_written() -> None:
    records = pack_rows([NewRecord(0, 0, b"k", b"v")])
    # The bounds alone are measured; nobody needs the bytes to know that they are too many.
    many = np.array([0, 3 << 29], dtype=np.int32)
    with pytest.raises(CorruptLogError) as caught:
        encode(records._replace(key_bounds=many, value_bounds=many), NewBatch())
    assert caught.value.violation.rule is Rule.NEW_BATCH_SIZE


def test_of_a_wrapper_with_very_many_broken_messages_the_first_are_named_and_the_rest_counted() -> (
    None
):
    good = builders.message(Row(0, 5, b"k"), magic=1)
    count = 5000
    inner = b"".join(struct.pack(">q", at) + SHORT_MESSAGE[8:] for at in range(count))
    last = struct.pack(">q", count) + good[8:]
    data = wrapped(inner + last, offset=count) + good[:7] + b"\xff" + good[8:]
    region, batches, _ = tables(data)
    compute_crcs(region.data, 0, batches)
    decoder = Decoder(Wanted.KEYS)
    ((_, broken),) = decoder.decode(region, batches)
    chunk = decoder.flush()
    assert chunk is not None
    assert chunk.buffers.offset[: chunk.count].tolist() == [count, 255]
    found = [bad.violation for bad in broken]
    assert {violation.rule for violation in found} == {Rule.MESSAGE_FIELDS}
    assert [violation.offset for violation in found] == list(range(1000))
    assert found[-1].last_offset == count - 1
    assert found[-1].detail == "message 999 of the wrapper, and 4000 more after it"


def test_how_many_broken_messages_are_named_does_not_depend_on_how_chunks_are_cut() -> None:
    count = 3000
    sound = builders.message(Row(0, 5, None, bytes(2000)), magic=1)
    inner = b"".join(
        struct.pack(">q", at) + (SHORT_MESSAGE if at % 2 else sound)[8:] for at in range(count)
    )
    data = wrapped(inner, offset=count - 1)
    region, batches, _ = tables(data)
    compute_crcs(region.data, 0, batches)
    named = []
    for wanted in (Wanted.KEYS, Wanted.VALUES):
        pieces = list(Decoder(wanted).decode(region, batches))
        named.append([bad.violation for piece in pieces for bad in piece.broken])
    assert len(pieces) > 1
    assert named[0] == named[1]
    assert len(named[0]) == 1000
    assert named[0][-1].detail == "message 1999 of the wrapper, and 500 more after it"
