"""What is wrong with remote objects is said and the rest is read; nothing of them is trusted."""

import base64
import json
import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from jobs.test_verify import verify, violations
from ottla.errors import CorruptLogError, OptionError, Rule
from ottla.jobs.verify.plan import VerifyOptions
from ottla.log.files.partition import find_partitions
from ottla.log.read.records import Mode as ReadMode
from ottla.log.tiered.manifest import read_manifest
from ottla.storage.kept.envelope import KEYS_VARIABLE
from tiered.encoder import Mode, pack_sizes, stored_chunks, upload_of, write_upload
from tiered.whole import found_in, offsets_of, rules_in

SEALED = Mode(chunk_size=1000, compress=True, key_id="key1")
MODES = [Mode(1000), Mode(1000, compress=True), Mode(1000, key_id="key1"), SEALED]
CHUNK = str(Rule.REMOTE_CHUNK_OPENS)
MANIFEST = str(Rule.REMOTE_MANIFEST_READABLE)
COMPLETE = str(Rule.REMOTE_OBJECT_COMPLETE)
FINISHED = str(Rule.REMOTE_OBJECT_FINISHED)


def three(root: Path, mode: Mode = SEALED) -> list[Path]:
    """The logs of three segments of a hundred records."""
    return [
        write_upload(
            root,
            upload_of(number, range(number * 100, number * 100 + 100), {5: 0}, lineage=[(5, 0)]),
            mode,
        )
        for number in range(3)
    ]


def beside(log: Path, suffix: str) -> Path:
    return log.with_suffix(suffix)


def change(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def rewrite(path: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    told = json.loads(path.read_text())
    edit(told)
    path.write_text(json.dumps(told))


def others_are_read(root: Path) -> bool:
    """The records of the first and of the last segment, while one in the middle is broken."""
    found = offsets_of(root, mode=ReadMode.DROPMALFORMED)
    return set(found) >= {*range(100), *range(200, 300)} and found == sorted(set(found))


def test_sound_objects_have_nothing_to_say(tmp_path: Path) -> None:
    for number, mode in enumerate(MODES):
        three(tmp_path / str(number), mode)
        assert rules_in(tmp_path / str(number)) == set()


@pytest.mark.parametrize("mode", MODES[2:], ids=str)
def test_a_changed_byte_costs_its_chunk(tmp_path: Path, mode: Mode) -> None:
    logs = three(tmp_path, mode)
    sizes = [len(chunk) for chunk in stored_chunks(upload_of(1, range(100, 200), {5: 0}).log, mode)]
    assert len(sizes) > 4
    change(logs[1], sum(sizes[:2]) + sizes[2] // 2)
    (row,) = [row for row in found_in(tmp_path) if row["rule"] == CHUNK]
    assert row["file"] == str(logs[1])
    assert 1000 < row["position"] < 3000  # of the batch that reaches into it
    assert row["position"] + row["size"] == 3000
    assert "chunk 2" in str(row["detail"])
    found = offsets_of(tmp_path, mode=ReadMode.DROPMALFORMED)
    assert set(found) >= {*range(110), *range(190, 300)}  # the index leads on behind the chunk
    with pytest.raises(CorruptLogError):
        offsets_of(tmp_path)


def test_every_broken_chunk_is_told(tmp_path: Path) -> None:
    """Those too that come after one behind which nothing can be read."""
    logs = three(tmp_path)
    sizes = [len(each) for each in stored_chunks(upload_of(1, range(100, 200), {5: 0}).log, SEALED)]
    for number in (1, 3, 4, 6):
        change(logs[1], sum(sizes[:number]) + 20)
    told = [str(row["detail"]) for row in found_in(tmp_path) if row["rule"] == CHUNK]
    assert sorted(each.partition(":")[0] for each in told) == [
        *("chunk 1", "chunk 3", "chunk 4", "chunk 6")
    ]


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("left", [0.0, 0.5, 0.99])
def test_a_cut_object_costs_what_is_gone(tmp_path: Path, mode: Mode, left: float) -> None:
    logs = three(tmp_path, mode)
    data = logs[1].read_bytes()
    logs[1].write_bytes(data[: int(len(data) * left)])
    assert {COMPLETE, CHUNK} <= rules_in(tmp_path)
    assert others_are_read(tmp_path)
    with pytest.raises(CorruptLogError):
        offsets_of(tmp_path)


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_a_cut_last_object_does_not_end_the_log_quietly(tmp_path: Path, mode: Mode) -> None:
    logs = three(tmp_path, mode)
    size = logs[2].stat().st_size
    for left in range(size - 1, 0, -size // 7):
        logs[2].write_bytes(logs[2].read_bytes()[:left])
        with pytest.raises(CorruptLogError):
            offsets_of(tmp_path)


def test_objects_without_a_manifest_are_not_read(tmp_path: Path) -> None:
    logs = three(tmp_path)
    beside(logs[1], ".rsm-manifest").unlink()
    rows = found_in(tmp_path)
    files = {row["file"] for row in rows if row["rule"] == FINISHED}
    assert files == {str(logs[1]), str(beside(logs[1], ".indexes"))}
    (gap,) = [row for row in rows if row["rule"] == str(Rule.REMOTE_GAP)]
    assert (gap["offset"], gap["lastOffset"]) == (100, 199)
    assert offsets_of(tmp_path) == [*range(100), *range(200, 300)]


def test_a_manifest_without_its_log_is_told(tmp_path: Path) -> None:
    logs = three(tmp_path)
    logs[1].unlink()
    assert {COMPLETE, str(Rule.REMOTE_GAP)} <= rules_in(tmp_path)
    assert offsets_of(tmp_path) == [*range(100), *range(200, 300)]


def test_a_manifest_without_its_indexes_is_told_and_read(tmp_path: Path) -> None:
    logs = three(tmp_path)
    beside(logs[1], ".indexes").unlink()
    assert COMPLETE in rules_in(tmp_path)
    assert offsets_of(tmp_path) == list(range(300))


def test_a_log_that_vanishes_after_it_was_listed(tmp_path: Path) -> None:
    logs = three(tmp_path)
    partitions = find_partitions([tmp_path])
    logs[1].unlink()
    rows = violations(verify(partitions, VerifyOptions()))
    told = [row["detail"] for row in rows if row["rule"] == str(Rule.SLICE_COMPLETE)]
    assert len(told) == 1
    assert "vanished between listing and reading" in str(told[0])


def test_an_index_with_a_wrong_tag_is_told_and_not_believed(tmp_path: Path) -> None:
    logs = three(tmp_path)
    change(beside(logs[1], ".indexes"), 40)
    rows = found_in(tmp_path)
    assert {str(row["file"]) for row in rows} == {f"{beside(logs[1], '.indexes')}:offset"}
    assert CHUNK in {row["rule"] for row in rows}
    assert offsets_of(tmp_path) == list(range(300))


def test_no_keys_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    three(tmp_path)
    monkeypatch.delenv(KEYS_VARIABLE)
    with pytest.raises(OptionError, match=r"encrypted \(key key1\): set OTTLA_TIERED_KEYS"):
        offsets_of(tmp_path)


def test_a_key_that_is_not_there_costs_the_segments_that_need_it(tmp_path: Path) -> None:
    logs = three(tmp_path)
    manifest = beside(logs[1], ".rsm-manifest")

    def rename(told: dict[str, Any]) -> None:
        _, _, sealed = told["encryption"]["dataKey"].partition(":")
        told["encryption"]["dataKey"] = f"key2:{sealed}"

    rewrite(manifest, rename)
    told = [str(row["detail"]) for row in found_in(tmp_path) if row["rule"] == CHUNK]
    assert told
    assert all("no private key" in each and "key2.pem" in each for each in told)
    assert others_are_read(tmp_path)


def test_a_data_key_of_another_pair_costs_its_segment(tmp_path: Path) -> None:
    logs = three(tmp_path)

    def spoil(told: dict[str, Any]) -> None:
        told["encryption"]["dataKey"] = "key1:" + base64.b64encode(bytes(range(256))).decode()

    rewrite(beside(logs[1], ".rsm-manifest"), spoil)
    told = [str(row["detail"]) for row in found_in(tmp_path) if row["rule"] == CHUNK]
    assert any("does not open the data key" in each for each in told)
    assert others_are_read(tmp_path)


def bomb(size: int) -> bytes:
    packer = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    part = bytes(1 << 20)
    return b"".join(packer.compress(part) for _ in range(size >> 20)) + packer.flush()


@pytest.mark.parametrize("stated", [True, False])
def test_a_chunk_that_is_a_bomb_is_not_expanded(tmp_path: Path, stated: bool) -> None:
    logs = three(tmp_path, Mode(1000, compress=True))
    size = 512 << 20
    packed = zstandard.ZstdCompressor().compress(bytes(size)) if stated else bomb(size)

    def arm(told: dict[str, Any]) -> None:
        index = told["chunkIndex"]
        count = -(-index["originalFileSize"] // 1000)
        sizes = [len(packed), *[0] * (count - 1)]
        index["transformedChunks"] = base64.b64encode(pack_sizes(sizes)).decode()

    rewrite(beside(logs[1], ".rsm-manifest"), arm)
    logs[1].write_bytes(packed)
    tracemalloc.start()
    assert CHUNK in rules_in(tmp_path)
    assert others_are_read(tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 128 << 20


def test_a_chunk_index_that_is_a_bomb_is_not_expanded(tmp_path: Path) -> None:
    logs = three(tmp_path, Mode(1000, compress=True))
    packed = base64.b64encode(zstandard.ZstdCompressor().compress(bytes(256 << 20))).decode()

    def arm(told: dict[str, Any]) -> None:
        told["chunkIndex"]["transformedChunks"] = packed

    rewrite(beside(logs[1], ".rsm-manifest"), arm)
    (row,) = [row for row in found_in(tmp_path) if row["rule"] == MANIFEST]
    assert "transformedChunks" in str(row["detail"])
    assert others_are_read(tmp_path)


EDITS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "version": lambda told: told.update(version="2"),
    "no compression": lambda told: told.pop("compression"),
    "compression of text": lambda told: told.update(compression="true"),
    "no chunk index": lambda told: told.pop("chunkIndex"),
    "kind of index": lambda told: told["chunkIndex"].update(type="other"),
    "negative size": lambda told: told["chunkIndex"].update(originalFileSize=-1),
    "huge size": lambda told: told["chunkIndex"].update(originalFileSize=2**31),
    "size of true": lambda told: told["chunkIndex"].update(originalChunkSize=True),
    "fraction": lambda told: told["chunkIndex"].update(originalChunkSize=1000.0),
    "no chunks": lambda told: told["chunkIndex"].update(originalChunkSize=0),
    "other count": lambda told: told["chunkIndex"].update(originalChunkSize=99),
    "no base64": lambda told: told["chunkIndex"].update(transformedChunks="?"),
    "no frame": lambda told: told["chunkIndex"].update(transformedChunks="AAAA"),
    "no indexes": lambda told: told.pop("segmentIndexes"),
    "null index": lambda told: told["segmentIndexes"].update(offset=None),
    "index before": lambda told: told["segmentIndexes"]["offset"].update(position=-1),
    "tiny index": lambda told: told["segmentIndexes"]["offset"].update(size=5),
    "no colon": lambda told: told["encryption"].update(dataKey="AAAA"),
    "two colons": lambda told: told["encryption"].update(dataKey="a:b:AAAA"),
    "key elsewhere": lambda told: told["encryption"].update(dataKey="../key1:AAAA"),
    "no aad": lambda told: told["encryption"].pop("aad"),
    "encryption of text": lambda told: told.update(encryption="yes"),
    "end before start": lambda told: told["remoteLogSegmentMetadata"].update(endOffset=3),
    "offset of text": lambda told: told["remoteLogSegmentMetadata"].update(startOffset="0"),
    "no epochs": lambda told: told["remoteLogSegmentMetadata"].update(segmentLeaderEpochs={}),
    "epoch of text": lambda told: told["remoteLogSegmentMetadata"].update(
        segmentLeaderEpochs={"x": 1}
    ),
    "epochs fall": lambda told: told["remoteLogSegmentMetadata"].update(
        segmentLeaderEpochs={"1": 150, "2": 120}
    ),
    "other segment": lambda told: told["remoteLogSegmentMetadata"]["remoteLogSegmentId"].update(
        id="AAAAAAAAAAAAAAAAAAAAAQ"
    ),
    "other topic": lambda told: told["remoteLogSegmentMetadata"]["remoteLogSegmentId"][
        "topicIdPartition"
    ].update(topicId="AAAAAAAAAAAAAAAAAAAAAQ"),
    "no topic": lambda told: told["remoteLogSegmentMetadata"]["remoteLogSegmentId"][
        "topicIdPartition"
    ]["topicPartition"].update(topic="../x"),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_a_manifest_that_can_not_be_right_is_told(
    tmp_path: Path, edit: Callable[[dict[str, Any]], None]
) -> None:
    logs = three(tmp_path)
    rewrite(beside(logs[1], ".rsm-manifest"), edit)
    assert MANIFEST in rules_in(tmp_path)
    assert others_are_read(tmp_path)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000])
def test_bytes_that_are_no_manifest_are_told(tmp_path: Path, data: bytes) -> None:
    logs = three(tmp_path)
    beside(logs[1], ".rsm-manifest").write_bytes(data)
    assert MANIFEST in rules_in(tmp_path)
    assert others_are_read(tmp_path)


def test_every_cut_of_a_manifest_is_an_error_or_nothing(tmp_path: Path) -> None:
    (path, *_) = three(tmp_path)
    data = beside(path, ".rsm-manifest").read_bytes()
    for size in range(len(data)):
        with pytest.raises(CorruptLogError):
            read_manifest(data[:size], "manifest")


def test_chunks_that_are_too_large_to_hold_are_not_read(tmp_path: Path) -> None:
    logs = three(tmp_path, Mode(1000, compress=True))

    def claim(told: dict[str, Any]) -> None:
        size = 2**31 - 1
        told["chunkIndex"].update(originalFileSize=size, originalChunkSize=size)
        told["chunkIndex"]["transformedChunks"] = base64.b64encode(pack_sizes([100])).decode()

    rewrite(beside(logs[1], ".rsm-manifest"), claim)
    told = [str(row["detail"]) for row in found_in(tmp_path) if row["rule"] == CHUNK]
    assert any("held whole" in each for each in told)
    assert others_are_read(tmp_path)


@pytest.mark.parametrize("seed", range(40))
def test_random_damage_is_told_and_ends(tmp_path: Path, seed: int) -> None:
    """Any object, any bytes: verify and readers come to an end, and nothing is read twice."""
    chance = random.Random(seed)
    mode = chance.choice(MODES)
    three(tmp_path, mode)
    for _ in range(chance.randrange(1, 4)):
        path = chance.choice(sorted(one for one in tmp_path.rglob("*") if one.is_file()))
        data = bytearray(path.read_bytes())
        at = chance.randrange(len(data) + 1)
        match chance.randrange(5):
            case 0:
                data[at : at + 1] = chance.randbytes(1)
            case 1:
                del data[at:]
            case 2:
                data[at:at] = chance.randbytes(chance.randrange(1, 50))
            case 3:
                data[at : at + 20] = data[: len(data[at : at + 20])]
            case _:
                data = bytearray()
        path.write_bytes(data)
    found_in(tmp_path)
    offsets = offsets_of(tmp_path, mode=ReadMode.DROPMALFORMED)
    if mode.key_id:  # of others no tag says that an offset was changed, which no CRC covers
        assert set(offsets) <= set(range(300))
        assert len(offsets) == len(set(offsets))
