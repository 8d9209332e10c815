"""Write a segment, break a byte of it, and read what is intact, without Spark.

python examples/read_segment.py
"""

import tempfile
from pathlib import Path

import pyarrow as pa

import ottla


def main() -> None:
    """Spoil the second of two batches: a strict reader stops there, a lenient one goes on."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "00000000000000000000.log"
        orders = pa.table({"key": [b"ada", b"bob"], "value": [b"tea", b"ink"]})
        ottla.write_segment(orders.to_batches(max_chunksize=1), path)
        data = bytearray(path.read_bytes())
        data[-1] ^= 0xFF
        path.write_bytes(data)
        try:
            list(ottla.read_segment(path))
        except ottla.CorruptLogError as error:
            print(error.violation)
        for batch in ottla.read_segment(path, columns=["offset", "value"], mode="PERMISSIVE"):
            print(batch.to_pylist())


if __name__ == "__main__":
    main()
