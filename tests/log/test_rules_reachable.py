"""Every rule has bytes that break it on a way that users take: verify, append or salvage.

Four rules are about something else than stored or sent bytes. Three are about records that a batch
can not be built from (WRITE), one is about what a reader's type can not hold (READ).
"""

import struct
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import builders
from batch.test_broken_batches import (
    LONG_VARINT,
    MESSAGE,
    SHORT_BATCH,
    SHORT_MESSAGE,
    body,
    header,
    sealed,
    wrapped,
)
from builders import Row, batch, varint
from jobs.test_verify import verify, violations
from log.test_check import ABORTED, snapshot
from ottla.batch.encode import encode
from ottla.batch.new_batch import NewBatch
from ottla.batch.rows import NewRecord, pack_rows
from ottla.catalog.slices import plan_tasks
from ottla.dump.dry_run import try_append
from ottla.errors import CorruptLogError, Rule
from ottla.format.attributes import Codec, TimestampType
from ottla.format.names import UNNAMED
from ottla.internal.encode import encode_framed
from ottla.jobs.read.records import read_violations
from ottla.jobs.verify.plan import VerifyOptions, plan_verify, see_part, validate_partitions
from ottla.kernels.bytes.crc import compute_crcs
from ottla.log.check.directory import check_directory
from ottla.log.files.partition import find_partitions, read_log_directories
from ottla.log.files.small_files import LIMIT
from ottla.log.files.transaction_index import aborted_transactions, write_transaction_index
from ottla.options.read import parse_read_options
from ottla.rules.append.accept import Refused, append
from ottla.rules.append.checks import AppendPolicy
from ottla.rules.append.each import Appends
from ottla.rules.producers.producer import Origin
from rules.histories import COMMIT, data_batch, marker, tables
from tiered.encoder import TOPIC_ID, Mode, Upload, segment_id, upload_of, write_upload
from whole_log import plan_salvage

NOW = 1_700_000_000_000
HOUR = 3_600_000
Files = dict[str, bytes]


def log(*batches: bytes, base: int = 0) -> Files:
    return {f"t-0/{base:020d}.log": b"".join(batches)}


def beside(suffix: str, data: bytes) -> Files:
    """A file beside a log of six batches."""
    return log(*(batch([Row(n, n)]) for n in range(6))) | {f"t-0/{0:020d}.{suffix}": data}


def index(*entries: tuple[int, int]) -> Files:
    return beside("index", b"".join(struct.pack(">ii", *entry) for entry in entries))


def time_index(*entries: tuple[int, int]) -> Files:
    return beside("timeindex", b"".join(struct.pack(">qi", *entry) for entry in entries))


def transaction_index(*entries: tuple[int, int, int, int]) -> Files:
    """Producer, first and last offset, last stable offset, beside a log with an abort."""
    data = write_transaction_index(aborted_transactions(list(entries)))
    return log(*ABORTED) | {f"t-0/{0:020d}.txnindex": data}


def with_max_timestamp(data: bytes, timestamp: int) -> bytes:
    return builders.reseal(data[:35] + struct.pack(">q", timestamp) + data[43:])


def remote(*uploads: Upload) -> Files:
    """Remote objects as Aiven's plugin writes them, in chunks of 1000 bytes of zstd."""
    with tempfile.TemporaryDirectory() as folder:
        for upload in uploads:
            write_upload(Path(folder), upload, Mode(1000, compress=True), topic="t")
        paths = [path for path in Path(folder).rglob("*") if path.is_file()]
        return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def metadata_of(segment: str) -> Files:
    """What says that the copy of a remote segment of partition t-0 began."""
    identity = {"topicIdPartition": {"name": "t", "id": TOPIC_ID, "partition": 0}, "id": segment}
    told = {"remoteLogSegmentId": identity, "remoteLogSegmentState": 0}
    value = encode_framed("__remote_log_metadata", 0, 0, told)
    return {f"__remote_log_metadata-0/{0:020d}.log": batch([Row(0, 0, None, value)])}


def ending(suffix: str, files: Files) -> str:
    return next(name for name in files if name.endswith(suffix))


SIZE = len(batch([Row(0)]))
REMOTE = remote(upload_of(1, range(100), {5: 0}))
REMOTE_LOG, REMOTE_MANIFEST = ending(".log", REMOTE), ending(".rsm-manifest", REMOTE)
RECORD = builders.record(Row(0))
EPOCHS = log(batch([Row(0)], leader_epoch=0), batch([Row(1)], leader_epoch=4))
CHECKPOINT = "t-0/leader-epoch-checkpoint"
PRODUCED = log(batch([Row(0), Row(1)], producer=(7, 0, 0))) | log(batch([Row(2)]), base=2)
BOMB = builders.compress(bytes(257 << 20), 4, magic=2)

VERIFY: dict[Rule, Files] = {
    Rule.BATCH_SIZE_MINIMUM: log(bytes(11) + b"\x05" + bytes(100)),
    Rule.BATCH_SIZE_RANGE: log(struct.pack(">qiib", 1, 2**31 - 1, 0, 2) + bytes(60)),
    Rule.MAGIC_KNOWN: log(batch()[:16] + b"\x03" + batch()[17:]),
    Rule.ZERO_TAIL: log(batch(), bytes(100)),
    Rule.BATCH_HEADER_COMPLETE: log(SHORT_BATCH),
    Rule.CRC_MATCHES: log(batch()[:-1] + b"\xff"),
    Rule.CODEC_KNOWN: log(sealed(b"", attributes=5)),
    Rule.CODEC_ALLOWED: log(builders.message(Row(0, 5, None, b"x"), magic=1, attributes=4)),
    Rule.DECOMPRESSES: log(sealed(b"no gzip", attributes=1)),
    Rule.BATCH_BYTES_LIMIT: log(sealed(BOMB, attributes=4)),
    Rule.RECORD_COUNT: log(sealed(b"", count=-1)),
    Rule.RECORD_COMPLETE: log(sealed(RECORD[:-1])),
    Rule.RECORD_VARINT: log(sealed(LONG_VARINT)),
    Rule.RECORD_SIZE: log(sealed(body(varint(-1), varint(-1), varint(0), b"left"))),
    Rule.RECORD_FIELD_SIZE: log(sealed(body(varint(100), b"k", varint(-1), varint(0)))),
    Rule.HEADER_COUNT: log(sealed(header(varint(-1)))),
    Rule.HEADER_KEY_NOT_NULL: log(sealed(header(varint(1), varint(-1), varint(-1)))),
    Rule.RECORDS_REMAIN: log(sealed(RECORD + RECORD)),
    Rule.WRAPPER_VALUE: log(builders.message(Row(0, 5, b"k", None), magic=1, attributes=1)),
    Rule.WRAPPER_NOT_EMPTY: log(wrapped(b"")),
    Rule.WRAPPER_OFFSET: log(wrapped(MESSAGE + MESSAGE[:7] + b"\x02" + MESSAGE[8:], offset=1)),
    Rule.INNER_FRAMING: log(wrapped(struct.pack(">qi", 0, 13) + bytes(13))),
    Rule.INNER_NOT_COMPRESSED: log(wrapped(wrapped(MESSAGE))),
    Rule.MESSAGE_FIELDS: log(wrapped(SHORT_MESSAGE)),
    Rule.INNER_CRC_MATCHES: log(wrapped(MESSAGE[:-1] + b"\xff")),
    Rule.CONTROL_RECORD: log(batch([Row(0, 0, b"\0\0\0", b"")], attributes=0x20)),
    Rule.LOG_TAIL: log(batch(), batch([Row(1)])[:-2]),
    Rule.OFFSETS_RISE: log(batch(), batch()),
    Rule.OFFSET_IN_SEGMENT: log(batch([Row(9)]), base=10),
    Rule.OFFSET_GAP: log(batch(), batch([Row(2)])),
    Rule.COUNT_FITS_OFFSETS: log(batch([Row(0), Row(1), Row(2)], last_offset_delta=1)),
    Rule.LOG_END: log(batch([Row(2**63 - 1)]), base=2**63 - 1),
    Rule.MAX_TIMESTAMP: log(with_max_timestamp(batch([Row(0, 5), Row(1, 9)]), 10)),
    Rule.LEADER_EPOCHS_RISE: log(batch(leader_epoch=4), batch([Row(1)], leader_epoch=3)),
    Rule.PRODUCER_EPOCHS_RISE: log(batch(producer=(7, 3, 0)), batch([Row(1)], producer=(7, 2, 0))),
    Rule.SEQUENCE_GAP: log(batch(producer=(7, 1, 0)), batch([Row(1)], producer=(7, 1, 4))),
    Rule.SEQUENCE_REPEAT: log(batch(producer=(7, 1, 0)), batch([Row(1)], producer=(7, 1, 0))),
    Rule.INDEX_SIZE: beside("index", bytes(7)),
    Rule.INDEX_OFFSET_RANGE: index((-1, SIZE)),
    Rule.INDEX_ORDER: index((3, 3 * SIZE), (1, SIZE)),
    Rule.INDEX_TAIL: index((1, SIZE), (0, 0), (3, 3 * SIZE)),
    Rule.INDEX_POSITION: index((1, SIZE + 1)),
    Rule.INDEX_SKIPS: index((1, 3 * SIZE)),
    Rule.INDEX_OFFSET: index((70, 3 * SIZE)),
    Rule.TIME_INDEX_ORDER: time_index((3, 3), (1, 1)),
    Rule.TIME_INDEX_OFFSET: time_index((5, 9)),
    Rule.TIME_INDEX_TIMESTAMP: time_index((4, 1)),
    Rule.TRANSACTION_INDEX_VERSION: log(*ABORTED) | {f"t-0/{0:020d}.txnindex": b"\0\1" + bytes(32)},
    Rule.TRANSACTION_INDEX_ORDER: transaction_index((7, 3, 2, 1)),
    Rule.TRANSACTION_INDEX_LOG: transaction_index(),
    Rule.SIDE_FILE_SIZE: beside("snapshot", bytes(LIMIT + 1)),
    Rule.SIDE_FILE_HAS_LOG: log(batch()) | {f"t-0/{5:020d}.index": b""},
    Rule.FILE_NAME: log(batch()) | {f"t-0/{2**63}.log": b""},
    Rule.SWAP_FINISHED: {f"t-0/{0:020d}.log.swap": batch()},
    Rule.SNAPSHOT_READABLE: PRODUCED | {f"t-0/{2:020d}.snapshot": b""},
    Rule.SNAPSHOT_LOG: PRODUCED | {f"t-0/{2:020d}.snapshot": snapshot(5, 1)},
    Rule.CHECKPOINT_READABLE: EPOCHS | {CHECKPOINT: b"9\n"},
    Rule.LEADER_EPOCH_CHECKPOINT_ORDER: EPOCHS | {CHECKPOINT: b"0\n2\n4 1\n0 0\n"},
    Rule.LEADER_EPOCH_CHECKPOINT_LOG: EPOCHS | {CHECKPOINT: b"0\n1\n0 0\n"},
    Rule.PARTITION_METADATA_READABLE: log(batch()) | {"t-0/partition.metadata": b"x"},
    Rule.META_PROPERTIES_READABLE: log(batch()) | {"meta.properties": b"version=2\n"},
    Rule.DIRECTORY_NAME: log(batch()) | {"lost+found/file": b""},
    Rule.REMOTE_CHUNK_OPENS: REMOTE | {REMOTE_LOG: b"?" + REMOTE[REMOTE_LOG][1:]},
    Rule.REMOTE_MANIFEST_READABLE: REMOTE | {REMOTE_MANIFEST: b"{}"},
    Rule.REMOTE_OBJECT_COMPLETE: REMOTE | {REMOTE_LOG: REMOTE[REMOTE_LOG][:-1]},
    Rule.REMOTE_OBJECT_FINISHED: {REMOTE_LOG: REMOTE[REMOTE_LOG]},
    Rule.REMOTE_SEGMENT_END: REMOTE
    | {REMOTE_MANIFEST: REMOTE[REMOTE_MANIFEST].replace(b'"endOffset":99', b'"endOffset":999')},
    Rule.REMOTE_STATE_KNOWN: remote(upload_of(1, range(50), {5: 0})) | metadata_of(segment_id(2)),
    Rule.REMOTE_LINEAGE: remote(
        upload_of(1, range(50), {3: 0}), upload_of(2, range(100), {4: 0, 6: 40})
    ),
    Rule.REMOTE_OVERLAP: remote(upload_of(1, range(50), {5: 0}), upload_of(2, range(50), {5: 0})),
    Rule.REMOTE_GAP: remote(upload_of(1, range(50), {5: 0}), upload_of(2, range(60, 90), {5: 60})),
}


@pytest.mark.parametrize(("rule", "files"), VERIFY.items(), ids=map(str, VERIFY))
def test_verify_names(tmp_path: Path, rule: Rule, files: Files) -> None:
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    directories = read_log_directories([tmp_path])
    found = [violation.rule for each in directories for violation in check_directory(each)]
    partitions = [one for each in directories for one in each.partitions]
    rows = verify([one for one in partitions if one.name != UNNAMED], VerifyOptions())
    assert str(rule) in [*map(str, found), *(row["rule"] for row in violations(rows))]


def test_verify_names_a_log_that_is_gone(tmp_path: Path) -> None:
    """SLICE_COMPLETE: bytes that were there when the job was planned."""
    for name, data in log(batch()).items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(data)
    partitions = find_partitions([tmp_path])
    (part,) = plan_verify(partitions, VerifyOptions())
    (tmp_path / "t-0" / f"{0:020d}.log").unlink()
    seen = [row for each in see_part(part, VerifyOptions()) for row in each.to_pylist()]
    (told,) = validate_partitions(seen, partitions, VerifyOptions())
    assert Rule.SLICE_COMPLETE.value in told.column("rule").to_pylist()


class Request(NamedTuple):
    """What is sent at once, by whom, to a topic with these settings; its log ends at 1000."""

    data: bytes
    policy: AppendPolicy = AppendPolicy()
    origin: Origin = Origin.CLIENT


ROW = [Row(0, NOW, b"k")]
SENT = batch(ROW)
TWO_MAGICS = builders.message(Row(0, NOW), magic=0) + builders.message(Row(1, NOW), magic=1)
COPIES = batch([Row(1001, NOW)]) + batch([Row(1000, NOW)])

APPEND: dict[Rule, Request] = {
    Rule.APPEND_BATCHES: Request(SENT + SENT),
    Rule.APPEND_MAGIC: Request(TWO_MAGICS, AppendPolicy(magic=1)),
    Rule.APPEND_LEADER_EPOCH: Request(
        batch([Row(1000, NOW)], leader_epoch=3), AppendPolicy(leader_epoch=4), Origin.RAFT_LEADER
    ),
    Rule.APPEND_BASE_OFFSET: Request(batch([Row(5, NOW)])),
    Rule.APPEND_OFFSETS_RISE: Request(COPIES, origin=Origin.REPLICATION),
    Rule.APPEND_OFFSET: Request(batch([Row(999, NOW)]), origin=Origin.REPLICATION),
    Rule.APPEND_BATCH_SIZE: Request(SENT, AppendPolicy(max_message_bytes=10)),
    Rule.APPEND_SET_SIZE: Request(SENT, AppendPolicy(segment_bytes=len(SENT) - 1)),
    Rule.APPEND_RECORD_COUNT: Request(builders.batch_of(b"", count=0)),
    Rule.APPEND_CONTROL: Request(marker(0, 7, 1, COMMIT, timestamp=NOW)),
    Rule.APPEND_SEQUENCE: Request(batch(ROW, producer=(7, 1, -1))),
    Rule.APPEND_FORMAT: Request(batch(ROW, producer=(7, 1, 0)), AppendPolicy(magic=1)),
    Rule.APPEND_CODEC: Request(
        builders.wrapper(ROW, magic=1, codec=1), AppendPolicy(magic=1, compression_type=Codec.ZSTD)
    ),
    Rule.APPEND_RECORD_MAGIC: Request(wrapped(TWO_MAGICS, offset=1), AppendPolicy(magic=1)),
    Rule.APPEND_KEY: Request(batch([Row(0, NOW)]), AppendPolicy(is_compacted=True)),
    Rule.APPEND_TIMESTAMP: Request(batch([Row(0, NOW + HOUR + 1)])),
    Rule.APPEND_TIMESTAMP_TYPE: Request(
        batch(ROW, attributes=0x08), AppendPolicy(timestamp_type=TimestampType.LOG_APPEND_TIME)
    ),
    Rule.RECORD_TIMESTAMP: Request(
        batch([Row(0, -2, b"k")]), AppendPolicy(compression_type=Codec.GZIP)
    ),
    Rule.RECORD_HEADERS: Request(
        batch([Row(0, NOW, b"k", b"v", ((b"h", b"1"),))]), AppendPolicy(magic=1)
    ),
}


@pytest.mark.parametrize(("rule", "sent"), APPEND.items(), ids=map(str, APPEND))
def test_append_names(rule: Rule, sent: Request) -> None:
    region, batches, _ = tables(sent.data)
    compute_crcs(region.data, 0, batches)
    done = append(
        region, batches, next_offset=1000, now=NOW, origin=sent.origin, policy=sent.policy
    )
    assert isinstance(done, Refused)
    assert done.rule is rule


BEGUN = data_batch(0, producer=(7, 1, 0), transactional=True, timestamp=NOW)

# What a broker has, and what comes next.
PRODUCE: dict[Rule, tuple[bytes, bytes, Origin]] = {
    Rule.PRODUCER_EPOCH_FENCED: (
        data_batch(0, producer=(7, 1, 0), timestamp=NOW),
        data_batch(1, producer=(7, 0, 1), timestamp=NOW),
        Origin.CLIENT,
    ),
    Rule.SEQUENCE_IN_ORDER: (
        data_batch(0, producer=(7, 1, 0), timestamp=NOW),
        data_batch(1, producer=(7, 1, 9), timestamp=NOW),
        Origin.CLIENT,
    ),
    Rule.COORDINATOR_EPOCH_FENCED: (
        BEGUN + marker(1, 7, 1, COMMIT, coordinator_epoch=5, timestamp=NOW),
        marker(2, 7, 1, COMMIT, coordinator_epoch=4, timestamp=NOW),
        Origin.COORDINATOR,
    ),
    Rule.TRANSACTION_STATE: (
        BEGUN,
        data_batch(1, producer=(7, 1, 1), timestamp=NOW),
        Origin.CLIENT,
    ),
}


@pytest.mark.parametrize(("rule", "case"), PRODUCE.items(), ids=map(str, PRODUCE))
def test_a_dry_run_names(tmp_path: Path, rule: Rule, case: tuple[bytes, bytes, Origin]) -> None:
    there, sent, origin = case
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020d}.log").write_bytes(there)
    (tmp_path / "sent.log").write_bytes(sent)
    (partition,) = find_partitions([tmp_path / "t-0"])
    appends = Appends(NOW, origin, AppendPolicy())
    row, _ = try_append([str(tmp_path / "sent.log")], partition, appends)
    assert row["rule"] == rule


SALVAGE: dict[Rule, bytes] = {
    Rule.BYTES_ARE_BATCHES: batch() + b"no batch" * 20 + batch([Row(1)]),
    Rule.BATCH_IN_ORDER: batch([Row(0), Row(1), Row(2)]) + batch([Row(1)]) + batch([Row(3)]),
}


@pytest.mark.parametrize(("rule", "data"), SALVAGE.items(), ids=map(str, SALVAGE))
def test_salvage_names(tmp_path: Path, rule: Rule, data: bytes) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020d}.log").write_bytes(data)
    (partition,) = find_partitions([tmp_path])
    (plan,) = plan_salvage(partition)
    assert rule in [violation.rule for violation in plan.quarantined]


def rows(*offsets: int) -> Callable[[], bytes]:
    return lambda: encode(pack_rows([NewRecord(at, 0, None, b"v") for at in offsets]), NewBatch())


def two_gibibytes() -> bytes:
    # The bounds alone are measured; nobody needs the bytes to know that they are too many.
    many = np.array([0, 3 << 29], dtype=np.int32)
    records = pack_rows([NewRecord(0, 0, b"k", b"v")])
    return encode(records._replace(key_bounds=many, value_bounds=many), NewBatch())


WRITE: dict[Rule, Callable[[], bytes]] = {
    Rule.RECORD_OFFSETS_RISE: rows(1, 1),
    Rule.OFFSET_DELTA_RANGE: rows(0, 2**31),
    Rule.NEW_BATCH_SIZE: two_gibibytes,
}


@pytest.mark.parametrize(("rule", "write"), WRITE.items(), ids=map(str, WRITE))
def test_writing_names(rule: Rule, write: Callable[[], bytes]) -> None:
    with pytest.raises(CorruptLogError) as caught:
        write()
    assert caught.value.violation.rule is rule


READ: dict[Rule, bytes] = {Rule.TIMESTAMP_RANGE: batch([Row(0, 2**62)])}


@pytest.mark.parametrize(("rule", "data"), READ.items(), ids=map(str, READ))
def test_reading_names(tmp_path: Path, rule: Rule, data: bytes) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020d}.log").write_bytes(data)
    options = parse_read_options({"path": str(tmp_path), "mode": "dropmalformed"})
    ((part,),) = plan_tasks(options)
    assert [violation.rule for violation in read_violations(part, options.access)] == [rule]


def test_every_rule_has_bytes_that_break_it() -> None:
    ways = (VERIFY, APPEND, PRODUCE, SALVAGE, WRITE, READ, {Rule.SLICE_COMPLETE: None})
    named = [rule for way in ways for rule in way]
    assert sorted(named) == sorted(set(Rule))
