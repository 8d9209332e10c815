"""PySpark's worker daemon with the kernels loaded before it forks, so that no worker loads them.

Set `spark.python.daemon.module` to `ottla.spark.daemon`. Only imports and compiled code are
prepared: threads and open files would not survive the fork.
"""

import gc
import sys
from contextlib import suppress
from importlib import import_module
from zipimport import zipimporter

import numpy as np
import pyspark.worker  # noqa: F401  it and the next: so that workers find them in the process
from pyspark.daemon import manager

import ottla.spark.reader  # noqa: F401
from ottla.batch.decode import Decoder
from ottla.format.attributes import Codec
from ottla.format.layout import BATCH_V2, LOG_OVERHEAD
from ottla.kernels.tables import Wanted
from ottla.log.files.transaction_index import aborted_transactions
from ottla.log.read.windows import read_windows
from ottla.region import Bytes
from ottla.rules.producers.transactions import aborted_mask
from ottla.storage.files import File


class _Memory:
    """The bytes of a file that is not on a disk."""

    def __init__(self, data: bytes) -> None:
        self.data = np.frombuffer(data, dtype=np.uint8)

    def read(self, target: Bytes, position: int) -> int:
        found = self.data[position : position + target.size]
        target[: found.size] = found
        return found.size

    def close(self) -> None:
        return


def load_kernels() -> None:
    """Run each kernel of the decoder once, on compressed batches that are empty and broken."""
    codecs = [codec for codec in Codec if codec is not Codec.NONE]
    batches = np.zeros(len(codecs), dtype=BATCH_V2)
    batches["magic"] = 2
    batches["length"] = BATCH_V2.itemsize - LOG_OVERHEAD
    batches["attributes"] = codecs
    batches["count"] = 1
    decoder = Decoder(Wanted.KEYS | Wanted.VALUES | Wanted.HEADERS, check_crcs=False)
    for window in read_windows(File("memory", batches.nbytes, _Memory(batches.tobytes()))):
        list(decoder.decode(window.region, window.batches))
        aborted_mask(window.batches, aborted_transactions([]))


def forget_archives() -> None:
    """Let a worker not read the contents of pyspark.zip again for each package found in it.

    A worker's first task has Python forget what it knows of its path (setup_spark_files), and an
    archive is then read anew by each of its finders, which takes longer than the task. A finder
    that is needed again is made again, from what is known.
    """
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            del sys.path_importer_cache[path]


if __name__ == "__main__":
    with suppress(ImportError):
        import_module("pandas")  # pyspark's workers load it where it is installed
    load_kernels()
    forget_archives()
    gc.freeze()  # a worker collects garbage after each task: not in what is loaded here
    manager()
