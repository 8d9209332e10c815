"""A put that one writer wins, by each store's own client: Arrow's file systems have none.

Azure's client also deletes. The clients look for credentials where Arrow's file systems do. They
are imported when somebody writes and not before: they take long to load, and few commands write to
a store.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache, lru_cache, partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from ottla.extras import missing_extra
from ottla.storage.files import read_bytes
from ottla.storage.object_store import (
    AZURE,
    GCS,
    S3,
    Address,
    StorageOptions,
    find_azure_key,
    find_endpoint,
    find_region,
    is_unsigned,
    parse_address,
)
from ottla.storage.retries import choose_wait, send

if TYPE_CHECKING:
    from azure.core.exceptions import AzureError
    from azure.identity import DefaultAzureCredential
    from azure.storage.blob import ContainerClient

_ROUNDS: Final = 10  # as often may others create and delete an object that we try to create
_PASSING: Final = frozenset({408, 429, 500, 502, 503, 504})  # answers of a store that is busy
_CONNECTIONS: Final = 64  # to Azure that are kept; as many threads may delete at once
# By store: the extra that brings the client, its packages and their modules.
_CLIENTS: Final = {
    S3: ("s3", "boto3", ("boto3",)),
    GCS: ("gcs", "google-cloud-storage", ("google.cloud.storage",)),
    AZURE: ("azure", "azure-storage-blob", ("azure.storage.blob", "azure.identity")),
}


def require_client(uri: str) -> None:
    """Refuse, before any work, a store to which nothing can be committed here."""
    store = parse_address(uri).store
    extra, package, modules = _CLIENTS[store]
    if not all(map(_is_there, modules)):
        raise missing_extra(extra, f"writing to {store}:// needs {package}")


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of the package that it would lie in
        return False


def put_if_absent(uri: str, data: bytes, options: StorageOptions) -> bool:
    """Write an object unless there is one, and say whether what is there now are these bytes.

    A request whose answer was lost is sent again, and is then told of an object that it wrote
    itself. So whoever meets an object compares it. Writers that must know which of them won put
    bytes that nobody else puts.
    """
    require_client(uri)
    address = parse_address(uri)
    create = partial(_CREATE[address.store], address, data, options)
    for tried in range(_ROUNDS):
        if tried:
            time.sleep(choose_wait(tried))
        if send("writing", uri, create):
            return True
        with suppress(FileNotFoundError):  # deleted since
            return read_bytes(uri, options) == data
    raise OSError(f"{uri} cannot be created: others create and delete it all the time")


def _create_on_s3(address: Address, data: bytes, options: StorageOptions) -> bool:
    import boto3  # type: ignore[import-untyped]
    from botocore import UNSIGNED  # type: ignore[import-untyped]
    from botocore.config import Config  # type: ignore[import-untyped]
    from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

    endpoint = find_endpoint(S3, options)
    try:
        session = boto3.session.Session(
            profile_name=options.profile, region_name=find_region(options)
        )
        client = session.client(
            "s3",
            endpoint_url=endpoint.url if endpoint else None,
            config=Config(signature_version=UNSIGNED) if is_unsigned(S3, options) else None,
        )
        client.put_object(Bucket=address.bucket, Key=address.key, Body=data, IfNoneMatch="*")
    except ClientError as error:
        # 412: it is there. 409: another request for the same key was faster.
        if error.response["ResponseMetadata"]["HTTPStatusCode"] in (409, 412):
            return False
        raise OSError(str(error)) from error
    except (BotoCoreError, ValueError) as error:  # it refuses some hosts that Arrow knows
        raise OSError(str(error)) from error
    return True


def _create_on_gcs(address: Address, data: bytes, options: StorageOptions) -> bool:
    from google.api_core.exceptions import GoogleAPIError, PreconditionFailed
    from google.auth.credentials import AnonymousCredentials
    from google.auth.exceptions import GoogleAuthError
    from google.cloud.storage import Client

    endpoint = find_endpoint(GCS, options)
    nobody = AnonymousCredentials()  # type: ignore[no-untyped-call]
    try:
        client = Client(
            project=None,
            credentials=nobody if is_unsigned(GCS, options) else None,
            client_options={"api_endpoint": endpoint.url} if endpoint else None,
        )
        blob = client.bucket(address.bucket).blob(address.key)
        blob.upload_from_string(data, if_generation_match=0)  # 0: there is none
    except PreconditionFailed:
        return False
    except (GoogleAPIError, GoogleAuthError) as error:
        raise OSError(str(error)) from error
    return True


def _create_on_azure(address: Address, data: bytes, options: StorageOptions) -> bool:
    from azure.core.exceptions import AzureError, ResourceExistsError

    try:
        _azure_container(address, options).upload_blob(address.key, data, overwrite=False)
    except ResourceExistsError:
        return False
    except AzureError as error:
        raise _failure_of_azure(error) from error
    return True


def delete_on_azure(address: Address, options: StorageOptions) -> None:
    """Delete an object: Arrow's client of Azure ended the process at a delete that failed."""
    from azure.core.exceptions import AzureError, ResourceNotFoundError

    try:
        _azure_container(address, options).delete_blob(address.key)
    except ResourceNotFoundError:
        return  # deleted by this request, sent before, or by somebody else
    except AzureError as error:
        raise _failure_of_azure(error) from error


def _failure_of_azure(error: "AzureError") -> OSError:
    """What `send` knows: its own words are for what Arrow says."""
    from azure.core.exceptions import ServiceRequestError, ServiceResponseError

    is_broken = isinstance(error, ServiceRequestError | ServiceResponseError)
    if is_broken or getattr(error, "status_code", None) in _PASSING:
        return ConnectionError(str(error))
    return OSError(str(error))


def _azure_container(address: Address, options: StorageOptions) -> "ContainerClient":
    endpoint = find_endpoint(AZURE, options)
    url = f"https://{address.account}.blob.core.windows.net"
    if endpoint:
        url = f"{endpoint.url}/{address.account}"
    return _azure_client(url, address.account, address.bucket, find_azure_key())


# A client has connections, and a credential its token: nobody wants new ones for each delete.
@lru_cache(maxsize=32)
def _azure_client(url: str, account: str, container: str, key: str | None) -> "ContainerClient":
    import requests
    from azure.core.credentials import AzureNamedKeyCredential
    from azure.core.pipeline.transport import RequestsTransport
    from azure.storage.blob import ContainerClient

    credential = AzureNamedKeyCredential(account, key) if key else _azure_login()
    session = requests.Session()
    for scheme in ("http://", "https://"):  # by default it keeps ten, and warns of each other one
        session.mount(scheme, requests.adapters.HTTPAdapter(pool_maxsize=_CONNECTIONS))
    return ContainerClient(
        url,
        container,
        credential=credential,
        transport=RequestsTransport(session=session),
        retry_total=0,  # `send` does that, and also after 429
    )


@cache
def _azure_login() -> "DefaultAzureCredential":
    from azure.identity import DefaultAzureCredential

    return DefaultAzureCredential()


_CREATE: Final[dict[str, Callable[[Address, bytes, StorageOptions], bool]]] = {
    S3: _create_on_s3,
    GCS: _create_on_gcs,
    AZURE: _create_on_azure,
}
