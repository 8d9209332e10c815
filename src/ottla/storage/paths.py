"""What a path or URI names: a local file, or an object of a store."""

import os
import posixpath

from ottla.errors import OptionError
from ottla.storage.object_store import SCHEMES

Path = str | os.PathLike[str]


def is_remote(path: Path) -> bool:
    """Whether a path is a URI of an object store.

    >>> is_remote("s3a://bucket/logs"), is_remote("/var/kafka"), is_remote("file:///var/kafka")
    (True, False, False)
    """
    scheme, separator, rest = os.fspath(path).partition("://")
    if not separator or scheme == "file":
        return False
    if scheme == "hdfs":
        raise OptionError(
            "hdfs:// is not read: mount it, or copy what is wanted by `hdfs dfs -get` to a disk"
        )
    if scheme not in SCHEMES:
        known = ", ".join(sorted(SCHEMES))
        raise OptionError(f"no storage for {scheme}://; known are local paths, {known}")
    if ":" in rest.partition("/")[0].rpartition("@")[0]:
        raise OptionError(
            f"a path of {scheme}:// names a user and what looks like a secret, and paths end up in"
            " plans and logs: leave it out, credentials come from the environment or a role"
        )
    return True


def local_path(path: Path) -> str:
    """The path of a local file, which may be written as a file URI."""
    return os.fspath(path).removeprefix("file://")


def real_path(path: Path) -> str:
    """The one name of a local place: absolute, and without links."""
    return os.path.realpath(local_path(path))


def join(path: Path, *names: str) -> str:
    """Names below a path or URI.

    >>> join("s3://bucket/", "orders-0", "0.log"), join("/", "tmp")
    ('s3://bucket/orders-0/0.log', '/tmp')
    """
    return posixpath.join(os.fspath(path).rstrip("/") or "/", *names)
