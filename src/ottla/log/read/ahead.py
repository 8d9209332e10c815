"""Decode while what came before is still being sent or printed: kernels hold no lock."""

from collections.abc import Generator
from contextlib import closing, suppress
from queue import Empty, Queue
from threading import Event, Thread
from typing import Final, NamedTuple, TypeVar

Decoded = TypeVar("Decoded")

_WAITING: Final = 1  # one more is being decoded, and one is being used


class _Ended(NamedTuple):
    """Nothing more comes, perhaps because of an error."""

    error: BaseException | None = None


def decode_ahead(source: Generator[Decoded]) -> Generator[Decoded]:
    """The same things, and an error at the same place, but made by a thread."""
    made: Queue[Decoded | _Ended] = Queue(_WAITING)
    left = Event()  # nobody takes any more

    def make() -> None:
        try:
            with closing(source):
                for one in source:
                    made.put(one)
                    if left.is_set():
                        return
        except BaseException as error:
            if not left.is_set():  # else nobody takes it, and there may be no room
                made.put(_Ended(error))
        else:
            made.put(_Ended())

    thread = Thread(target=make, name="ottla-decode", daemon=True)
    thread.start()
    try:
        while not isinstance(taken := made.get(), _Ended):
            yield taken
        if taken.error is not None:
            raise taken.error
    finally:
        left.set()
        with suppress(Empty):
            made.get_nowait()  # the thread may be waiting for room
        thread.join()
