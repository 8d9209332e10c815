"""Decode while the batch before is still being sent: Spark's worker does one after the other."""

from collections.abc import Generator, Iterator
from contextlib import closing, suppress
from queue import Empty, Queue
from threading import Event, Thread
from typing import Final, NamedTuple

import pyarrow as pa

_WAITING: Final = 1  # batches; one more is being decoded, and one is being sent


class _Ended(NamedTuple):
    """Nothing more comes, perhaps because of an error."""

    error: BaseException | None = None


def decode_ahead(batches: Generator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same batches, and an error at the same place, but made by a thread."""
    made: Queue[pa.RecordBatch | _Ended] = Queue(_WAITING)
    left = Event()  # nobody takes any more

    def make() -> None:
        try:
            with closing(batches):
                for batch in batches:
                    made.put(batch)
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
