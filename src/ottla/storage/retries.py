"""Requests to object stores: which are sent again, for how long, and how many there were.

Only what may be done twice is sent again: reads, listings, puts of whole objects, copies, deletes.
A store says in its own words why it failed, and Arrow passes them on as text: a failure passes if
the text says so, and every other one is final. `docs/reliability.md` says what libraries below do.
"""

import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, TypeVar

import pyarrow as pa

from ottla.notices import STORE_TROUBLE

Answer = TypeVar("Answer")

_ATTEMPTS: Final = 8
_FIRST_WAIT: Final = 0.1  # seconds; each wait is twice the one before
_LONGEST_WAIT: Final = 10.0
_PATIENCE: Final = 30.0  # seconds after which nothing is sent again

# In the words of the libraries, for keys may have any words and numbers in them.
_PASSING: Final = re.compile(
    r"AWS Error (NETWORK_CONNECTION|REQUEST_TIMEOUT|SLOW_DOWN|THROTTLING|SERVICE_UNAVAILABLE"
    r"|INTERNAL_FAILURE|\w+ \(HTTP status (408|429|500|502|503|504)\))"
    r"|google::cloud::Status\((UNAVAILABLE|DEADLINE_EXCEEDED|RESOURCE_EXHAUSTED|INTERNAL|ABORTED)"
    r"|Azure Error: \[(ServerBusy|InternalError|OperationTimedOut)\]"
    r"|Azure Error: \[\w*\] ((408|429|500|502|503|504)\b|Error while sending|Connection closed"
    r"|Fail to get a new connection)"
)
# Google's library calls it UNAVAILABLE too that nobody gave it credentials: outside of Google's
# cloud there is no host that has some. A host that is there and fails may give them a moment later.
_NO_CREDENTIALS: Final = re.compile(
    r"google::cloud::Status\(UNAVAILABLE: .*Could not create a OAuth2 access token"
    r".*CURL error \[6\]",
    re.DOTALL,
)


class ShortAnswerError(OSError):
    """A body ended before the bytes that were asked for."""


class StoreError(OSError):
    """A store failed again and again, as if each time might have been the last."""


class Requests:
    """How many requests were sent, and how many bytes of objects they read or wrote."""

    def __init__(self) -> None:
        self.count = 0
        self.size = 0
        self._lock = threading.Lock()

    def add(self, count: int = 0, size: int = 0) -> None:
        with self._lock:
            self.count += count
            self.size += size

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count here what this thread asks for in the block, and what files opened in it ask."""
        token = _COUNTED.set(self)
        try:
            yield
        finally:
            _COUNTED.reset(token)

    def counting_each(self, things: Iterator[Answer]) -> Iterator[Answer]:
        """The same things; what is asked for to make them is counted, and not what is between."""
        ended = object()
        while True:
            with self.counting():
                one = next(things, ended)
            if one is ended:
                return
            yield one  # type: ignore[misc]

    def take(self) -> tuple[int, int]:
        """Requests and bytes since this was called last."""
        with self._lock:
            taken = self.count, self.size
            self.count = self.size = 0
        return taken


_COUNTED: ContextVar[Requests | None] = ContextVar("requests", default=None)


def counted_requests() -> Requests:
    """Where the requests of this thread are counted; nobody may look at it."""
    return _COUNTED.get() or Requests()


def is_passing(error: BaseException) -> bool:
    """Whether the same request may succeed a moment later.

    >>> is_passing(OSError("AWS Error SLOW_DOWN during GetObject operation"))
    True
    >>> is_passing(OSError("AWS Error UNKNOWN (HTTP status 503) during HeadObject operation"))
    True
    >>> is_passing(OSError("AWS Error ACCESS_DENIED during GetObject operation of 'SLOW_DOWN/503'"))
    False
    >>> is_passing(OSError("google::cloud::Status(PERMISSION_DENIED: a@b.example has no access)"))
    False
    >>> is_passing(OSError("google::cloud::Status(UNAVAILABLE: Could not create a OAuth2 access"
    ...     " token: PerformWork() - CURL error [6]=Could not resolve hostname)"))
    False
    """
    if isinstance(error, ShortAnswerError | ConnectionError | TimeoutError):
        return True
    text = str(error) if isinstance(error, OSError) else ""
    return _PASSING.search(text) is not None and _NO_CREDENTIALS.search(text) is None


def send(
    operation: str,
    uri: str,
    request: Callable[[], Answer],
    requests: Requests | None = None,
    given_up: threading.Event | None = None,
) -> Answer:
    """The answer to a request that may be sent more than once; `operation` is for people.

    Nobody waits for the answer any more when `given_up` is set.
    """
    counted = counted_requests() if requests is None else requests
    began = time.monotonic()
    for attempt in range(1, _ATTEMPTS + 1):
        counted.add(count=1)
        try:
            return request()
        # Arrow's, of an answer, a name or a setting that makes no sense.
        except (ValueError, pa.ArrowException) as error:
            raise OSError(f"{operation} {uri}: {error}") from error
        except OSError as error:
            waited = time.monotonic() - began
            wait = choose_wait(attempt)
            if not is_passing(error):
                raise named(operation, uri, error) from error
            if given_up is not None and given_up.is_set():
                raise
            if attempt == _ATTEMPTS or waited + wait > _PATIENCE:
                raise _exhausted(operation, uri, attempt, waited, error) from error
            STORE_TROUBLE.tell(waited + wait, f"{operation} {uri}", str(error))
            if (given_up or threading.Event()).wait(wait):
                raise
    raise AssertionError(_ATTEMPTS)


def choose_wait(attempt: int) -> float:
    """Seconds after an attempt, the first is 1; not the same for all, or all would come at once."""
    longest: float = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** (attempt - 1))
    return random.uniform(0.5, 1.0) * longest  # noqa: S311


def named(operation: str, uri: str, error: OSError) -> OSError:
    """The same error with what it is about: some libraries do not say it."""
    return error if error.errno is not None else type(error)(f"{operation} {uri}: {error}")


def _exhausted(
    operation: str, uri: str, attempts: int, seconds: float, error: OSError
) -> StoreError:
    return StoreError(
        f"{operation} {uri}: {attempts} attempts in {seconds:.0f} s failed, the last one with:"
        f" {error}; see whether the store can be reached and is not overloaded, then run this again"
    )
