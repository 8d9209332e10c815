"""Object stores through `pyarrow.fs`: which file system a URI means, and a put one writer wins.

Secrets come from the environment or the machine's role, never from an option.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from pyarrow import fs

from ottla.errors import OptionError

S3_SCHEMES: Final = frozenset({"s3", "s3a", "s3n"})  # Hadoop's names for the same store
SCHEMES: Final = S3_SCHEMES | {"gs", "abfs", "abfss", "hdfs"}


@dataclass(frozen=True, slots=True)
class StorageOptions:
    """Where an object store is, for those that are not where the environment says.

    On a local disk: whether files may be links that lead out of what was named.
    """

    endpoint: str | None = None
    region: str | None = None
    profile: str | None = None
    anonymous: bool = False
    follow_links: bool = False

    def __post_init__(self) -> None:
        if self.endpoint is not None and "@" in self.endpoint:
            raise OptionError(
                "the endpoint names a user, which looks like a secret: options end up in plans and"
                " logs; give the workers credentials by their environment or role"
            )


DEFAULT_OPTIONS: Final = StorageOptions()


def connect(uri: str, options: StorageOptions) -> tuple[Any, str]:
    """The file system of a URI, and the path in it."""
    scheme, _, rest = uri.partition("://")
    authority, _, key = rest.partition("/")
    system = _file_system("s3" if scheme in S3_SCHEMES else scheme, authority, options)
    if scheme == "hdfs":
        return system, f"/{key}".rstrip("/")  # the authority is a name node, not a bucket
    container = authority.partition("@")[0]  # abfs://container@account.dfs.core.windows.net/key
    return system, f"{container}/{key}".rstrip("/")


@lru_cache(maxsize=32)
def _file_system(scheme: str, authority: str, options: StorageOptions) -> Any:
    if scheme == "s3":
        return _s3(authority, options)
    if scheme == "gs":
        return fs.GcsFileSystem(anonymous=options.anonymous, endpoint_override=options.endpoint)
    return fs.FileSystem.from_uri(f"{scheme}://{authority}/")[0]


def _s3_endpoint(options: StorageOptions) -> str | None:
    names = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
    return options.endpoint or next(filter(None, map(os.environ.get, names)), None)


def _s3(bucket: str, options: StorageOptions) -> Any:
    endpoint = _s3_endpoint(options)
    region = options.region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if region is None:
        region = "us-east-1" if endpoint else fs.resolve_s3_region(bucket)
    address = (endpoint or "").removeprefix("https://")
    with _profile(options.profile):
        return fs.S3FileSystem(
            anonymous=options.anonymous,
            region=region,
            scheme="http" if address.startswith("http://") else "https",
            endpoint_override=address.removeprefix("http://") or None,
        )


@contextmanager
def _profile(name: str | None) -> Iterator[None]:
    """Let the AWS SDK see a profile while it looks for credentials: it takes none as argument."""
    if name is None:
        yield
        return
    before = os.environ.get("AWS_PROFILE")
    os.environ["AWS_PROFILE"] = name
    try:
        yield
    finally:
        del os.environ["AWS_PROFILE"]
        if before is not None:
            os.environ["AWS_PROFILE"] = before


def put(uri: str, data: bytes, options: StorageOptions) -> None:
    """Write an object, replacing what is there."""
    system, key = connect(uri, options)
    with system.open_output_stream(key) as stream:
        stream.write(data)


def put_if_absent(uri: str, data: bytes, options: StorageOptions) -> bool:
    """Write an object unless there is one, and say whether this call wrote it.

    Arrow has no conditional put, so S3's needs boto3. Without it, and on other stores, two writers
    that look at the same instant can both win.
    """
    scheme, _, rest = uri.partition("://")
    client = _s3_client(options) if scheme in S3_SCHEMES else None
    if client is not None:
        bucket, _, key = rest.partition("/")
        return _conditional_put(client, bucket, key, data)
    system, path = connect(uri, options)
    if system.get_file_info(path).type != fs.FileType.NotFound:
        return False
    put(uri, data, options)
    return True


def _s3_client(options: StorageOptions) -> Any:
    try:
        import boto3  # type: ignore[import-untyped]
        from botocore import UNSIGNED  # type: ignore[import-untyped]
        from botocore.config import Config  # type: ignore[import-untyped]
    except ImportError:
        return None
    session = boto3.session.Session(profile_name=options.profile, region_name=options.region)
    config = Config(signature_version=UNSIGNED) if options.anonymous else None
    return session.client("s3", endpoint_url=_s3_endpoint(options), config=config)


def _conditional_put(client: Any, bucket: str, key: str, data: bytes) -> bool:
    try:
        client.put_object(Bucket=bucket, Key=key, Body=data, IfNoneMatch="*")
    except client.exceptions.ClientError as error:
        # 412: it is there. 409: another conditional put of the same key was faster.
        if error.response["ResponseMetadata"]["HTTPStatusCode"] in (409, 412):
            return False
        raise
    return True
