"""Files that are no segments are refused by name, with what to do, in every command."""

import bz2
import gzip
import io
import lzma
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path

import lz4.frame
import pytest
import zstandard

from builders import batch
from cli.here import run

NAME = f"{0:020d}.log"


def tar(data: bytes, mode: str = "w:") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:
        member = tarfile.TarInfo(f"orders-0/{NAME}")
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


def zipped(data: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(NAME, data)
    return out.getvalue()


PACKED = {
    ".gz": (gzip.compress, "compressed by gzip", "gzip -dk"),
    ".zst": (zstandard.compress, "compressed by zstd", "zstd -dk"),
    ".lz4": (lz4.frame.compress, "compressed by lz4", "lz4 -dk"),
    ".xz": (lzma.compress, "compressed by xz", "xz -dk"),
    ".bz2": (bz2.compress, "compressed by bzip2", "bzip2 -dk"),
    ".tar": (tar, "a tar archive", "tar -xf"),
    ".tgz": (lambda data: tar(data, "w:gz"), "a packed tar archive", "tar -xzf"),
    ".tar.gz": (lambda data: tar(data, "w:gz"), "a packed tar archive", "tar -xzf"),
    ".zip": (zipped, "a zip archive", "unzip"),
}
COMMANDS = {
    "dump": (),
    "inspect": (),
    "ls": (),
    "verify": (),
    "transactions": (),
    "groups": (),
    "topics": (),
    "schemas": (),
    "diff": (),
    "report": (),
    "append": ("--to", "PARTITION", "--dry-run"),
    "salvage": ("OUT",),
    "export": ("OUT",),
    "convert": ("OUT",),
    "compact": ("OUT",),
    "restore": ("OUT",),
    "clone": ("OUT",),
}


def refused(folder: Path, command: str, path: Path) -> str:
    """What a command says of a path that it does not take."""
    places = {"PARTITION": folder / "orders-0", "OUT": folder / "out"}
    words = [places.get(word, word) for word in COMMANDS[command]]
    ran = run(command, path, *words)
    assert (ran.status, ran.out) == (2, "")
    assert not (folder / "out").exists()
    return ran.err


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / NAME).write_bytes(batch())
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_refuses_a_packed_file(folder: Path, command: str) -> None:
    path = folder / f"{NAME}.gz"
    path.write_bytes(gzip.compress(batch()))
    said = refused(folder, command, path)
    assert f"{path} is compressed by gzip, and only what is unpacked is read" in said
    assert f"`gzip -dk {path}`" in said


@pytest.mark.parametrize("suffix", PACKED)
def test_packed_files_are_known_by_their_names(folder: Path, suffix: str) -> None:
    path = folder / f"backup{suffix}"
    path.write_bytes(b"")
    _, what, command = PACKED[suffix]
    said = refused(folder, "ls", path)
    assert f"{path} is {what}, " in said
    assert f"`{command} {path}`" in said


@pytest.mark.parametrize("suffix", sorted(PACKED.keys() - {".tgz", ".tar.gz"}))
@pytest.mark.parametrize("command", ["dump", "ls"])
def test_packed_files_are_known_by_their_first_bytes(
    folder: Path, command: str, suffix: str
) -> None:
    pack, what, unpack = PACKED[suffix]
    path = folder / NAME
    path.write_bytes(pack(batch()))
    said = refused(folder, command, path)
    assert f"{path} is {what}, " in said
    assert f"`{unpack} {path}`" in said


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".tar", ".tgz"])
def test_the_command_unpacks(folder: Path, suffix: str) -> None:
    pack, _, command = PACKED[suffix]
    if shutil.which(command.split()[0]) is None:
        pytest.skip(f"no {command.split()[0]} here")
    shutil.rmtree(folder / "orders-0")
    path = folder / f"{NAME}{suffix}"
    path.write_bytes(pack(batch()))
    subprocess.run([*command.split(), str(path)], check=True, cwd=folder)
    (unpacked,) = folder.rglob("*.log")
    assert unpacked.read_bytes() == batch()


def test_a_partition_of_packed_segments_is_refused(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    path = tmp_path / "orders-0" / f"{NAME}.zst"
    path.write_bytes(zstandard.compress(batch()))
    for command in ("ls", "dump", "verify"):
        assert f"{path} is compressed by zstd" in refused(tmp_path, command, tmp_path)


def test_a_packed_file_beside_segments_is_not_read(folder: Path) -> None:
    (folder / "orders-0" / f"{5:020d}.log.gz").write_bytes(gzip.compress(batch()))
    ran = run("ls", folder, "--format", "jsonl")
    assert (ran.status, ran.out.count('"segments":1')) == (0, 1)


def test_a_folder_of_archives_names_one(tmp_path: Path) -> None:
    (tmp_path / "orders-0.tar").write_bytes(tar(batch()))
    said = refused(tmp_path, "ls", tmp_path)
    assert f"no Kafka logs here, but files such as orders-0.tar ({tmp_path}/orders-0.tar is" in said


@pytest.mark.parametrize("command", ["ls", "verify", "inspect", "transactions", "report"])
@pytest.mark.parametrize(
    ("name", "what"),
    [
        (f"{0:020d}.index", "an offset index"),
        (f"{0:020d}.timeindex", "a time index"),
        (f"{0:020d}.txnindex", "a transaction index"),
        (f"{0:020d}.snapshot", "a producer snapshot"),
        ("leader-epoch-checkpoint", "a checkpoint"),
        ("partition.metadata", "the id of a topic"),
    ],
)
def test_what_lies_beside_a_segment_is_called_what_it_is(
    folder: Path, command: str, name: str, what: str
) -> None:
    path = folder / "orders-0" / name
    path.write_bytes(bytes(8))
    said = refused(folder, command, path)
    assert f"{path}: {what}, not a segment" in said
    assert "print it with `ottla dump`" in said
    assert "delete" not in said
