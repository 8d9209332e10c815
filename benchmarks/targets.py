"""The ratios to Java that we ask of ourselves. One that is missed needs a note that says why."""

from benchmarks.corpus import Case

_DECODE_500 = {
    100: {"none": 2.0, "lz4": 1.3, "snappy": 1.4, "gzip": 2.0, "zstd": 1.1},
    20: {"none": 2.4, "lz4": 1.8, "snappy": 1.6, "gzip": 1.6, "zstd": 1.4},
    1000: {"none": 1.4, "lz4": 1.1, "snappy": 1.2, "gzip": 2.0, "zstd": 1.1},
}
_DECODE_SMALL_BATCHES = {"none": 1.5}  # 100 B
_DECODE_ANY = 1.0
_ENCODE = {"none": 3.0, "lz4": 1.2, "snappy": 1.2, "gzip": 1.0, "zstd": 1.2}
_ENCODE_LARGE_VALUES = 2.5  # 1000 B, none
_ENCODE_SMALL_BATCHES = 1.0  # 5 per batch

VERIFY_TO_PREADV = 0.8
WALK_TO_TOUCHING = 0.8
COLD_VERIFY_TO_PREADV = 0.9
PARTS_TO_WHOLE = 0.8  # a whole may cost 1.25 times its parts
WORKER_TO_PARTS = 1.25
TWO_CORES_TO_ONE = 1.7
TRANSACTIONS_TO_WALK = 0.5
WHERE_TO_FILTER = 3.0  # one record in a hundred
LAKE_TO_PARQUET = 0.9
AVRO_TO_FASTAVRO = 30.0
AVRO_TO_PYRUHVRO = 1.5
VALUES_TO_BYTES = 0.5
TIERED_TO_PARTS = 0.6
LATE_TO_PROMPT = 0.7  # of a scan on S3 with 50 ms for each request
CLONE_TO_COPY = 0.7  # of `cp -r` and `sync`, with cold caches
COMPACT_GROWTH = 1.2  # ten times the records may take so much more than ten times the time


def decode_target(case: Case) -> float:
    """No row may be behind Java."""
    if case.shape != "text":
        return _DECODE_ANY
    if case.records_per_batch == 500:
        return _DECODE_500[case.value_bytes][case.codec]
    if case.value_bytes == 100:
        return _DECODE_SMALL_BATCHES.get(case.codec, _DECODE_ANY)
    return _DECODE_ANY


def encode_target(case: Case) -> float | None:
    """None where no figure was set."""
    if case.shape != "text":
        return None
    if case.records_per_batch == 5:
        return _ENCODE_SMALL_BATCHES
    if case.records_per_batch == 500 and case.value_bytes == 100:
        return _ENCODE[case.codec]
    large = case == Case("none", value_bytes=1000)
    return _ENCODE_LARGE_VALUES if large else None
