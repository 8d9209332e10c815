"""Choose records of a chunk by their key or value, or by a header."""

from ottla.format.arrays import Bools, Bytes, Int32s
from ottla.kernels._jit import inlined, kernel
from ottla.kernels.tables import RecordBuffers
from ottla.kernels.text.render_tables import is_valid


@inlined
def is_same(data: Bytes, start: int, stop: int, wanted: Bytes) -> bool:
    """Whether these bytes are the wanted ones."""
    if stop - start != wanted.size:
        return False
    differences = 0
    for index in range(wanted.size):
        differences += data[start + index] != wanted[index]
    return differences == 0


@kernel
def mark_bytes(bounds: Int32s, data: Bytes, valid: Bytes, wanted: Bytes, marked: Bools) -> None:
    """Mark the records whose key or value is this."""
    for record in range(marked.size):
        if is_same(data, bounds[record], bounds[record + 1], wanted) and is_valid(valid, record):
            marked[record] = True


@kernel
def mark_header(
    buffers: RecordBuffers, key: Bytes, value: Bytes, any_value: bool, marked: Bools
) -> None:
    """Mark the records that have a header of this key and value, or of this key."""
    keys = buffers.header_key_bounds
    values = buffers.header_value_bounds
    for record in range(marked.size):
        for header in range(buffers.header_bounds[record], buffers.header_bounds[record + 1]):
            if is_same(buffers.header_key_bytes, keys[header], keys[header + 1], key) and (
                any_value
                or (
                    is_valid(buffers.header_value_valid, header)
                    and is_same(
                        buffers.header_value_bytes, values[header], values[header + 1], value
                    )
                )
            ):
                marked[record] = True
