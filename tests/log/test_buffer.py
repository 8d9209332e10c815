"""Whatever way a buffer moves, it holds the file's bytes, and asks for none of them twice."""

import itertools
import random
from pathlib import Path

import numpy as np
import pytest

from ottla.log.read.buffer import WINDOW_BYTES, Buffer
from ottla.region import PADDING
from ottla.storage.files import File, open_file


class Counting:
    """A local file that remembers what was asked of it."""

    def __init__(self, file: File) -> None:
        self.file = file
        self.asked: list[tuple[int, int]] = []

    def read(self, target: np.ndarray, position: int) -> int:
        got = self.file.source.read(target, position)
        self.asked.append((position, position + got))
        return got

    def close(self) -> None:
        self.file.close()


@pytest.mark.parametrize("seed", range(12))
def test_a_buffer_holds_the_bytes_of_the_file_wherever_it_goes(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    data = chance.randbytes(chance.choice([0, 100, 3 << 20, (9 << 20) + 17]))
    path = tmp_path / "file"
    path.write_bytes(data)
    counting = Counting(open_file(path))
    end = len(data) if seed % 3 else chance.randrange(len(data) + 1)
    steps = [0, 1, 61, 5000, WINDOW_BYTES - 5000, WINDOW_BYTES, WINDOW_BYTES + 1]
    position = 0
    with Buffer(File(str(path), len(data), counting), 0, end) as buffer:
        for _ in range(20):
            size = chance.choice([1, WINDOW_BYTES, WINDOW_BYTES + chance.randrange(5 << 20)])
            buffer.advance(position, size)
            assert buffer.position == position
            assert buffer.size >= min(size, end - position)
            assert buffer.data.size >= buffer.size + PADDING
            held = buffer.data[: buffer.size].tobytes()
            assert held == data[position : position + buffer.size]
            assert position + buffer.size <= end
            # Batches end within the window, or it is jumped over what could not be read.
            position = min(end, position + min(chance.choice(steps), buffer.size))
            if chance.random() < 0.1:
                position = min(end, position + chance.randrange(3 << 20))
    counting.close()
    asked = sorted(counting.asked)
    assert all(stop <= start for (_, stop), (start, _) in itertools.pairwise(asked))


def test_a_file_that_shrank_ends_where_its_bytes_do(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(100) + b"x")
    with open_file(path) as file, Buffer(File(str(path), 5000, file.source), 0, 5000) as buffer:
        buffer.advance(0, WINDOW_BYTES)
        assert (buffer.size, buffer.end) == (101, 101)


def test_a_file_that_shrinks_under_a_large_batch_ends_where_its_bytes_do(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(2 * WINDOW_BYTES))  # all that is left of what was listed
    size = 8 * WINDOW_BYTES
    with open_file(path) as file, Buffer(File(str(path), size, file.source), 0, size) as buffer:
        buffer.advance(0, WINDOW_BYTES // 2)  # two reads go on, the second finds the end
        buffer.advance(0, 6 * WINDOW_BYTES)
        assert (buffer.size, buffer.end) == (2 * WINDOW_BYTES, 2 * WINDOW_BYTES)
