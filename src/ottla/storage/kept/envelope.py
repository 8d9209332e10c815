"""The key of an object: sealed by RSA in its manifest, opened with a private key of the reader.

A data key is sealed with OAEP, with SHA3-512 for the label and for the mask (Bouncy Castle's
OAEPWithSHA3-512AndMGF1Padding). Private keys are `KEYID.pem` in the folder that OTTLA_TIERED_KEYS
names, in the environment of whoever reads: no option names a key, and none travels.
"""

import os
import re
from functools import lru_cache
from typing import Any, Final

from ottla.errors import OptionError
from ottla.extras import missing_extra

KEYS_VARIABLE: Final = "OTTLA_TIERED_KEYS"
DATA_KEY_BYTES: Final = 32
_KEY_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")


class SealedError(Exception):
    """A key that does not open, with the reason."""


def is_key_id(text: str) -> bool:
    """Whether a key may be called so: it is the name of a file.

    >>> is_key_id("key-1"), is_key_id("../etc/key"), is_key_id("..")
    (True, False, False)
    """
    return _KEY_ID.fullmatch(text) is not None and text.strip(".") != ""


def open_data_key(key_id: str, sealed: bytes) -> bytes:
    """The AES key of an object."""
    folder = os.environ.get(KEYS_VARIABLE)
    if not folder:
        raise OptionError(
            f"these objects are encrypted (key {key_id}): set {KEYS_VARIABLE} to a folder that"
            f" holds the private key as {key_id}.pem, where the reading is done"
        )
    return _open_data_key(folder, key_id, sealed)


@lru_cache(maxsize=1 << 14)  # of keys that open: one that does not may be there later
def _open_data_key(folder: str, key_id: str, sealed: bytes) -> bytes:
    path = os.path.join(folder, f"{key_id}.pem")
    try:
        private = _read_private_key(path, _stamp(path))
    except OSError as error:
        raise SealedError(f"no private key {path}: {error.strerror}") from None
    except (ValueError, IndexError, TypeError) as error:
        raise SealedError(f"{path} is no private key: {error}") from None
    from Crypto.Cipher import PKCS1_OAEP
    from Crypto.Hash import SHA3_512

    try:
        data_key = PKCS1_OAEP.new(private, hashAlgo=SHA3_512).decrypt(sealed)
    except (ValueError, TypeError):
        why = f"{path} does not open the data key: another key, or the manifest was changed"
        raise SealedError(why) from None
    if len(data_key) != DATA_KEY_BYTES:
        raise SealedError("a data key that is not AES-256")
    return bytes(data_key)


def _stamp(path: str) -> int:
    return os.stat(path).st_mtime_ns


@lru_cache(maxsize=64)
def _read_private_key(path: str, _: int) -> Any:
    try:
        from Crypto.PublicKey import RSA
    except ImportError:
        raise missing_extra("tiered", "encrypted objects are opened by pycryptodome") from None
    with open(path, "rb") as file:
        key = RSA.import_key(file.read(1 << 20))
    if not key.has_private():
        raise ValueError("only the public part of one")
    return key
