"""The headers of a whole segment in one table."""

from ottla.kernels.tables import Batches, concat_batches
from ottla.log.read.walk import walk_file
from ottla.storage.files import File


def walked(file: File) -> Batches:
    """What a walk over all headers finds."""
    return concat_batches([part.batches for part in walk_file(file)])
