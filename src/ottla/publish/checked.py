"""What lies in a journal, read as if a stranger had put it there: its owner, names, shapes, sizes.

On a local disk only what is the effective user's alone is believed. An object store has no owners:
who may write there is settled by its rights, and names and shapes are all there is to check.
"""

import json
import os
import re
import stat
import zlib
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from ottla.errors import PublishError, Term
from ottla.format.names import (
    LOG_DIRECTORY_FILES,
    PARTITION_FILES,
    UNNAMED,
    parse_directory_name,
    parse_file_name,
)
from ottla.storage.files import open_file
from ottla.storage.object_store import StorageOptions
from ottla.storage.paths import is_remote, local_path
from ottla.strangers import distrust

CLAIM: Final = "claim"  # in a commit to an object store: the object without which it counts as none
_VERSION: Final = 1
_MAX_BYTES: Final = 256 << 20  # a commit of a million files
_CHECKSUM: Final = "checksum"
_TOLD: Final = re.compile(rb',\s*"checksum": ([0-9]{1,10})(\s*})\Z')  # how a journal ends
_TOLD_BYTES: Final = 64
_READS: Final = 3
_MAX_NAME: Final = 255  # of any file system
_MAX_SIZE: Final = 2**63 - 1
_EXPORTED: Final = re.compile(
    r"(type=[\w%.~-]+/)?topic=[^/]+/partition=[0-9]{1,10}/[0-9]{20}-[0-9]{20}\.(parquet|jsonl)"
)
_OF_TABLE: Final = re.compile(
    r"(data/)?topic=[^/]+/(partition=[0-9]{1,10}|day=[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"/[0-9]{20}-[0-9]{20}-[0-9a-f]{32}\.parquet"
)
_NODE: Final = re.compile(r"node-[0-9]{1,10}/(server\.properties|data/(.+))")


class StagedFile(NamedTuple):
    """A file under `staging` and the place below OUT that it is for.

    Appending never touches what is there, so a target that exists is an error, except where
    `replaces` says that the file is a new version (a leader epoch checkpoint that grew).
    """

    staged: str
    target: str
    size: int
    replaces: bool = False


class FinishedPartition(NamedTuple):
    """What one partition staged, and its row of the job's account."""

    files: list[StagedFile]
    account: dict[str, Any]


def check_ours(path: str) -> None:
    """Refuse a local file or folder of a journal that somebody else may have put there."""
    why = distrust(os.lstat(path))
    if why is not None:
        raise _refused(path, why)


def check_folder(folder: str) -> None:
    """Refuse the local folder of a job if it, or anything directly in it, may be another's."""
    check_ours(folder)
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):  # one of ours, renamed since
                check_ours(entry.path)


def own_sizes(folder: str) -> dict[str, int]:
    """The sizes of the files in a local folder; one of somebody else is refused."""
    sizes = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            status = entry.stat(follow_symlinks=False)
            if not stat.S_ISREG(status.st_mode):
                raise _refused(entry.path, "is no file")
            if status.st_uid != os.geteuid():
                raise _refused(entry.path, distrust(status) or "")
            sizes[entry.name] = status.st_size
    return sizes


def read_json(path: str, storage: StorageOptions) -> dict[str, Any]:
    """An object of a journal; what is broken, too large, newer or another's is refused."""
    if not is_remote(path):
        return _decode_json(_read_own(local_path(path)), path)
    for _ in range(_READS - 1):  # what was changed on the way may come whole the next time
        with suppress(PublishError):
            return _decode_json(_read_remote(path, storage), path)
    return _decode_json(_read_remote(path, storage), path)


def _decode_json(data: bytes, path: str) -> dict[str, Any]:
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _refused(path, "is not JSON as a job writes it") from error
    if not isinstance(content, dict):
        raise _refused(path, "is not JSON as a job writes it")
    if content.get("version", _VERSION) != _VERSION:
        raise _refused(path, "was written by a newer ottla")
    # Older versions wrote none.
    if content.pop(_CHECKSUM, None) is not None and not _checksum_fits(data):
        raise _refused(path, "was changed after a job wrote it: its checksum does not fit")
    return content


def encode_json(content: Mapping[str, Any]) -> bytes:
    """The bytes of a file of a journal, with a checksum: no other part of it would show a flaw.

    More than anybody would read is refused here.
    """
    # Lines are for people who look into it. By `indent` they would be made in Python, slowly.
    whole = {"version": _VERSION, **content}
    text = json.dumps(whole, separators=(",\n", ": ")).encode()
    told = f',\n"{_CHECKSUM}": {zlib.crc32(text)}}}'.encode()
    size = len(text) - 1 + len(told)
    if size > _MAX_BYTES:
        raise PublishError(
            f"a journal of this job would have {size} bytes, more than {_MAX_BYTES}: it has"
            " too many files; choose fewer topics or partitions at once"
        )
    return b"".join((memoryview(text)[:-1], told))


def _checksum_fits(data: bytes) -> bool:
    """Whether the checksum at the end is that of the bytes without it."""
    told = _TOLD.search(data, max(0, len(data) - _TOLD_BYTES))
    if told is None:
        return False
    return int(told[1]) == zlib.crc32(told[2], zlib.crc32(memoryview(data)[: told.start()]))


def _read_remote(path: str, storage: StorageOptions) -> bytes:
    with open_file(path, storage) as file:
        if file.size > _MAX_BYTES:
            raise _refused(path, f"has {file.size} bytes")
        return file.read()


def _read_own(path: str) -> bytes:
    # What is checked is what is opened, and to open a pipe must not wait for a writer.
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    check_ours(path)
    with open(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        why = distrust(status)
        if why is None and not stat.S_ISREG(status.st_mode):
            why = "is no file"
        if why is None and status.st_size > _MAX_BYTES:
            why = f"has {status.st_size} bytes"
        if why is not None:
            raise _refused(path, why)
        return file.read()


def parse_files(content: Mapping[str, Any], path: str) -> list[StagedFile]:
    """The files that a journal names, each from its staging to a place where jobs publish."""
    files = content.get("files")
    if not isinstance(files, list):
        raise _refused(path, "has no list of files")
    return [_parse_file(file, path) for file in files]


def parse_claim(content: Mapping[str, Any], path: str) -> str | None:
    """The claim that a commit names; those of older versions, and on a disk, name none."""
    claim = content.get(CLAIM)
    if claim is not None and not is_bare(claim):
        raise _refused(path, f"names a claim as no job does: {_short(claim)}")
    return claim


def parse_finished(content: Mapping[str, Any], path: str) -> FinishedPartition:
    """What a task said of a partition that it staged."""
    account = content.get("account")
    if not isinstance(account, dict):
        raise _refused(path, "has no account")
    return FinishedPartition(parse_files(content, path), account)


def _parse_file(file: Any, path: str) -> StagedFile:
    known = StagedFile._fields
    if not isinstance(file, dict) or not {*known[:3]} <= file.keys() <= {*known}:
        raise _refused(path, f"names a file as no job does: {_short(file)}")
    parsed = StagedFile(**file)
    if not is_bare(parsed.staged):
        raise _refused(path, f"names a file outside of its staging: {_short(parsed.staged)}")
    if not is_target(parsed.target):
        raise _refused(path, f"names a place where no job publishes: {_short(parsed.target)}")
    if type(parsed.size) is not int or not 0 <= parsed.size <= _MAX_SIZE:
        raise _refused(path, f"names a file of {_short(parsed.size)} bytes")
    if type(parsed.replaces) is not bool:
        raise _refused(path, f"replaces by {_short(parsed.replaces)}")
    return parsed


def is_bare(name: object) -> bool:
    """Whether a text names something directly in a folder.

    >>> is_bare("3f-0.log"), is_bare("../x"), is_bare(".."), is_bare("")
    (True, False, False, False)
    """
    if not isinstance(name, str) or name in ("", ".", ".."):
        return False
    return "/" not in name and len(name) <= _MAX_NAME and name.isprintable()


def is_target(target: object) -> bool:
    """Whether a text is a place below OUT where jobs publish: of logs, an export or a cluster.

    >>> is_target("orders-0/00000000000000000007.log"), is_target("log-start-offset-checkpoint")
    (True, True)
    >>> is_target("node-1/server.properties"), is_target("node-1/data/orders-0/7.log")
    (True, True)
    >>> is_target("orders-0/../../x.log"), is_target("/etc/passwd"), is_target("bin/7.log")
    (False, False, False)
    """
    if not isinstance(target, str) or not all(map(is_bare, target.split("/"))):
        return False
    if node := _NODE.fullmatch(target):
        return node[2] is None or _is_of_logs(node[2])
    of_export = _EXPORTED.fullmatch(target) or _OF_TABLE.fullmatch(target)
    return _is_of_logs(target) or of_export is not None


def _is_of_logs(target: str) -> bool:
    """Whether a log directory has a file of this name, in itself or in a partition."""
    directory, separator, name = target.rpartition("/")
    if not separator:
        return name in LOG_DIRECTORY_FILES
    of_partition = name in PARTITION_FILES or parse_file_name(name) is not None
    is_partition = "/" not in directory and parse_directory_name(directory)[0] != UNNAMED
    return is_partition and of_partition


def is_checkpoint(target: str) -> bool:
    """Whether what is published there is replaced by whoever writes next.

    >>> is_checkpoint("orders-0/leader-epoch-checkpoint"), is_checkpoint("orders-0/0.log")
    (True, False)
    """
    node = _NODE.fullmatch(target)
    directory, _, name = (node[2] or target if node else target).rpartition("/")
    return name in (PARTITION_FILES if directory else LOG_DIRECTORY_FILES)


def _short(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _refused(path: str, why: str) -> PublishError:
    return PublishError(
        f"{path} {why}: nothing of it is published; if it is yours, see ",
        Term.FINISH,
        ", else choose another OUT",
    )
