"""Both libraries that talk to a store find the same credentials: Arrow, and the store's client."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.errors import OptionError
from ottla.storage import object_store
from ottla.storage.files import read_bytes
from ottla.storage.object_store import StorageOptions
from ottla.storage.writing import create_file, write_file
from stores.conftest import Stores
from stores.servers import AZURE_SECRETS, S3_SECRETS, Store

PROFILES = """[default]
aws_access_key_id = test
aws_secret_access_key = wrong

[backup]
aws_access_key_id = {AWS_ACCESS_KEY_ID}
aws_secret_access_key = {AWS_SECRET_ACCESS_KEY}
"""


@pytest.fixture(autouse=True)
def _forget_file_systems() -> Iterator[None]:
    """Arrow's are kept for a process, whose environment does not change but here."""
    object_store._file_system.cache_clear()
    yield
    object_store._file_system.cache_clear()


def use(store: Store, options: StorageOptions, name: str) -> None:
    """Write, commit and read."""
    path = f"{store.base}/credentials/{name}"
    write_file(f"{path}.log", b"log", options)
    assert create_file(path, b"first", options)
    assert not create_file(path, b"second", options)
    assert read_bytes(path, options) == b"first"


@pytest.fixture
def profiles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No secrets in the environment, but in a file; s3proxy checks every signature."""
    file = tmp_path / "credentials"
    file.write_text(PROFILES.format(**S3_SECRETS))
    for name in S3_SECRETS:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.mark.usefixtures("profiles")
def test_a_profile_that_an_option_names(stores: Stores) -> None:
    store = stores["s3proxy"]
    use(store, StorageOptions(store.endpoint, profile="backup"), "option")


@pytest.mark.usefixtures("profiles")
def test_a_profile_that_the_environment_names(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "backup")
    store = stores["s3proxy"]
    use(store, store.options, "environment")


@pytest.mark.usefixtures("profiles")
def test_another_profile_is_refused_by_the_server(stores: Stores) -> None:
    store = stores["s3proxy"]
    path = f"{store.base}/credentials/refused"
    with pytest.raises(OSError, match=r"^writing .*/refused: "):
        create_file(path, b"first", store.options)
    with pytest.raises(OSError, match=r"HTTP (status )?403|SIGNATURE|FORBIDDEN"):
        write_file(path, b"log", store.options)


def test_the_account_of_a_container_may_come_from_the_environment(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = stores["azure"]
    short = Store("short", "abfss://azure-logs", store.endpoint)
    use(short, short.options, "short")
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT")
    with pytest.raises(OptionError, match="names no account"):
        use(short, short.options, "none")
    with pytest.raises(OptionError, match="no address of Azure"):
        use(Store("other", "abfs://azure-logs@example.com"), short.options, "other")
    assert read_bytes(f"{store.base}/credentials/short", store.options) == b"first"


def test_azure_is_not_read_anonymously(stores: Stores) -> None:
    store = stores["azure"]
    with pytest.raises(OptionError, match="leave `anonymous` out"):
        read_bytes(f"{store.base}/any", StorageOptions(store.endpoint, anonymous=True))


def test_a_wrong_key_is_refused_by_azure(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    store = stores["azure"]
    wrong = AZURE_SECRETS["AZURE_STORAGE_KEY"].replace("E", "F")
    monkeypatch.setenv("AZURE_STORAGE_KEY", wrong)
    with pytest.raises(OSError, match=r"^writing .*/refused: "):
        create_file(f"{store.base}/credentials/refused", b"first", store.options)
