"""What to do about an error of the machine: a path, a right, a disk, an object store."""

import errno
import os
from difflib import get_close_matches
from typing import Final

_ADVICE: Final = {
    errno.EACCES: "run ottla as the user who owns it, or work on a copy that you may read",
    errno.EPERM: "run ottla as the user who owns it, or work on a copy that you may read",
    errno.EISDIR: "a file is wanted; `ottla ls --segments` lists those of a directory",
    errno.ENOTDIR: "a part of this path is a file",
    errno.ENOSPC: "free some, or write elsewhere; the same command goes on where it stopped",
    errno.EDQUOT: "free some, or write elsewhere; the same command goes on where it stopped",
    errno.EROFS: "write elsewhere",
}
# What the AWS SDK says where a request is not signed, or not by one who may do this.
_DENIED: Final = ("ACCESS_DENIED", "INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT_MATCH", "HTTP 403")
_CREDENTIALS: Final = ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE")


def describe(error: OSError) -> str:
    """One line: where, what is wrong, and what can be done about it."""
    where = f"{error.filename}: " if error.filename else ""
    text = f"{where}{error.strerror or error}"
    advice = _advice(error)
    return f"{text}; {advice}" if advice else text


def _advice(error: OSError) -> str | None:
    if error.errno == errno.ENOENT and error.filename:
        return _near(os.fspath(error.filename))
    if error.errno in _ADVICE:
        return _ADVICE[error.errno]
    text = str(error)
    if "AWS Error" in text and any(word in text for word in _DENIED):
        return _about_credentials()
    return None


def _near(path: str) -> str | None:
    """Names that were perhaps meant, from the nearest folder that is there."""
    folder, name = os.path.split(os.path.abspath(path))
    while not os.path.isdir(folder):
        folder, name = os.path.split(folder)
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return None
    near = get_close_matches(name, names, cutoff=0.7)
    if near:
        return f"did you mean {' or '.join(os.path.join(folder, one) for one in near)}?"
    return f"{folder} holds {', '.join(names[:8]) or 'nothing'}{', ...' if names[8:] else ''}"


def _about_credentials() -> str:
    given = [name for name in _CREDENTIALS if os.environ.get(name)]
    if given:
        return (
            f"S3 does not let in whom {' and '.join(given)} name; check the rights and the region"
        )
    return (
        "S3 was asked without credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or"
        " AWS_PROFILE, or run where a role gives them"
    )
