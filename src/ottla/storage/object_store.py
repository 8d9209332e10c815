"""Object stores through `pyarrow.fs`: what a URI names, where that is, and the file system for it.

Secrets come from the environment or the machine's role, never from an option.
"""

import base64
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple

from pyarrow import fs

from ottla.errors import OptionError
from ottla.storage.retries import ShortAnswerError, counted_requests, send

S3: Final = "s3"
GCS: Final = "gs"
AZURE: Final = "abfs"
S3_SCHEMES: Final = frozenset({"s3", "s3a", "s3n"})  # Hadoop's names for the same store
_STORES: Final = dict.fromkeys(S3_SCHEMES, S3) | {"gs": GCS, "abfs": AZURE, "abfss": AZURE}
SCHEMES: Final = frozenset(_STORES)

# Where a store is said to be, by the names that its vendor's own tools know.
_ENDPOINTS: Final = {
    S3: ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    GCS: ("STORAGE_EMULATOR_HOST",),
    AZURE: ("AZURE_STORAGE_SERVICE_ENDPOINT",),
}
_AUTHORITY: Final = re.compile(r"([\w.~-]+|\[[\da-fA-F:.]+\])(:\d{1,5})?(/[^\s?#@]*)?")
_ATTEMPTS: Final = 6  # of patient file systems, at each request
_PATIENCE: Final = 60.0  # seconds
_AT_MOST_ONCE: Final = 0.1  # seconds in which a request may begin, but no second one
_AZURE_HOSTS: Final = (".dfs.core.windows.net", ".blob.core.windows.net")
_CONNECTING: Final = threading.Lock()  # `_profile` changes the environment of all threads


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


class Address(NamedTuple):
    """What a URI names; only Azure has accounts."""

    store: str
    account: str
    bucket: str
    key: str


def parse_address(uri: str) -> Address:
    """
    >>> parse_address("s3a://backup/kafka-logs/")
    Address(store='s3', account='', bucket='backup', key='kafka-logs')
    >>> parse_address("abfss://backup@shop.dfs.core.windows.net/kafka-logs")
    Address(store='abfs', account='shop', bucket='backup', key='kafka-logs')
    """
    scheme, _, rest = uri.partition("://")
    authority, _, key = rest.partition("/")
    if _STORES[scheme] != AZURE:
        return Address(_STORES[scheme], "", authority, key.rstrip("/"))
    bucket, _, host = authority.partition("@")
    return Address(AZURE, _azure_account(bucket, host), bucket, key.rstrip("/"))


def _azure_account(bucket: str, host: str) -> str:
    """The account of a host's name, else that of the environment."""
    account, _, domain = host.partition(".")
    if host and f".{domain}" not in _AZURE_HOSTS:
        raise OptionError(
            f"abfs://{bucket}@{host} is no address of Azure that is known here: write"
            f" abfs://{bucket}@ACCOUNT.dfs.core.windows.net, and say by the endpoint where else"
            " the account is"
        )
    account = account or os.environ.get("AZURE_STORAGE_ACCOUNT", "")
    if not account:
        raise OptionError(
            f"abfs://{bucket} names no account: write abfs://{bucket}@ACCOUNT.dfs.core.windows.net,"
            " or set AZURE_STORAGE_ACCOUNT"
        )
    return account


class Endpoint(NamedTuple):
    """Where a store is, if it is not where its vendor has it."""

    scheme: str
    authority: str

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}"


def find_endpoint(store: str, options: StorageOptions) -> Endpoint | None:
    """What the options say, else the environment; of Azure's, the account in its path is cut off.

    >>> find_endpoint("abfs", StorageOptions("http://127.0.0.1:10000/devstoreaccount1"))
    Endpoint(scheme='http', authority='127.0.0.1:10000')
    """
    name, found = _said_endpoint(store, options)
    if not found:
        return None
    scheme, _, rest = found.rpartition("://")
    authority = rest.partition("/")[0] if store == AZURE else rest.rstrip("/")
    if scheme not in ("", "http", "https") or not _AUTHORITY.fullmatch(authority):
        # No secret into logs: neither a user's, nor the signature of a URL.
        shown = "" if "@" in found or "?" in found else f" {found!r}"
        raise OptionError(
            f"{name}{shown} is no address of a store: write http://HOST:PORT or https://HOST"
        )
    return Endpoint(scheme or "https", authority)


def _said_endpoint(store: str, options: StorageOptions) -> tuple[str, str]:
    if options.endpoint:
        return "the endpoint", options.endpoint
    said = ((name, os.environ.get(name, "")) for name in _ENDPOINTS[store])
    return next(filter(lambda each: each[1], said), ("", ""))


def is_unsigned(store: str, options: StorageOptions) -> bool:
    """Whether requests carry no credentials.

    Google's are tokens that anybody could use again: none goes to an emulator, without encryption.
    """
    endpoint = find_endpoint(store, options)
    return options.anonymous or (
        store == GCS and endpoint is not None and endpoint.scheme == "http"
    )


def connect(uri: str, options: StorageOptions, *, is_patient: bool = False) -> tuple[Any, str]:
    """The file system of a URI, and the path in it.

    A patient one sends requests again by itself, for uploads that nobody could begin anew. Others
    leave that to `retries`, as far as their libraries let them: attempts would multiply.
    """
    address = parse_address(uri)
    endpoint = find_endpoint(address.store, options)
    # The environment may change in a process: what is kept is kept by where it leads.
    options = replace(options, endpoint=endpoint.url if endpoint else None)
    bucket = address.bucket if address.store == S3 else ""
    with _CONNECTING:
        system = _file_system(address.store, address.account, bucket, options, is_patient)
    return system, f"{address.bucket}/{address.key}".rstrip("/")


@lru_cache(maxsize=32)
def _file_system(
    store: str, account: str, bucket: str, options: StorageOptions, is_patient: bool
) -> Any:
    endpoint = find_endpoint(store, options)
    if store == S3:
        return _s3(bucket, endpoint, options, _ATTEMPTS if is_patient else 1)
    if store == AZURE:
        return _azure(account, endpoint, options)
    limit = _PATIENCE if is_patient else _AT_MOST_ONCE
    return fs.GcsFileSystem(
        anonymous=is_unsigned(store, options),
        scheme=endpoint.scheme if endpoint else "https",  # Arrow's own choice for anonymous: http
        endpoint_override=endpoint.authority if endpoint else None,
        retry_time_limit=timedelta(seconds=limit),
    )


def _azure(account: str, endpoint: Endpoint | None, options: StorageOptions) -> Any:
    if options.anonymous:  # Arrow's class has no word for it
        raise OptionError("abfs:// is not read without credentials: leave `anonymous` out")
    where = {}
    if endpoint:
        for service in ("blob", "dfs"):
            where[f"{service}_storage_authority"] = endpoint.authority
            where[f"{service}_storage_scheme"] = endpoint.scheme
    return fs.AzureFileSystem(account, account_key=find_azure_key(), **where)


def find_azure_key() -> str | None:
    """The key of the account, by the name that `az` knows; without one, Azure looks elsewhere."""
    key = os.environ.get("AZURE_STORAGE_KEY") or None
    try:
        base64.b64decode(key or "", validate=True)
    except ValueError as error:
        raise OptionError(
            "AZURE_STORAGE_KEY holds no key of an account, which would be base64: `az storage"
            " account keys list` shows it"
        ) from error
    return key


def find_region(options: StorageOptions) -> str | None:
    """The region of S3, if it is said."""
    names = ("AWS_REGION", "AWS_DEFAULT_REGION")
    return options.region or next(filter(None, map(os.environ.get, names)), None)


def _s3(bucket: str, endpoint: Endpoint | None, options: StorageOptions, attempts: int) -> Any:
    region = find_region(options)
    if region is None:
        region = "us-east-1" if endpoint else _find_home(bucket)
    with _profile(options.profile):
        return fs.S3FileSystem(
            anonymous=options.anonymous,
            region=region,
            scheme=endpoint.scheme if endpoint else "https",
            endpoint_override=endpoint.authority if endpoint else None,
            retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=attempts),
            allow_delayed_open=True,  # a small object is one request, and not three
        )


def _find_home(bucket: str) -> str:
    """The region of a bucket, as S3 says it."""
    find = partial(fs.resolve_s3_region, bucket)
    region: str = send("finding the region of", f"{S3}://{bucket}", find)
    return region


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

    def write() -> None:
        with system.open_output_stream(key) as stream:
            stream.write(data)
        require_whole(system, key, uri, len(data))

    send("writing", uri, write)
    counted_requests().add(size=len(data))


def require_whole(system: Any, key: str, uri: str, size: int) -> None:
    """Refuse an upload to Google's store of which a part is missing.

    Its library asks how far an upload came when an answer is lost, and believes that it is done.
    """
    if parse_address(uri).store != GCS:
        return
    counted_requests().add(count=1)
    found = system.get_file_info(key).size or 0
    if found != size:
        raise ShortAnswerError(f"{found} of {size} bytes were written to {uri}")
