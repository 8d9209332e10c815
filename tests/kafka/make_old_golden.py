"""Write tests/golden/brokers anew: what old brokers wrote, and what their own consumers read.

    PYTHONPATH=.:tests:tests/kafka .venv/bin/python tests/kafka/make_old_golden.py [VERSION ...]

Offsets and records come out the same each time; producer ids, topic ids and batches do not.
"""

import io
import json
import sys
import tarfile
import tempfile
from pathlib import Path

from broker import start_zookeeper
from old_brokers import Version, answers, fill, running, wait_for_cleaner

from golden import ANSWERS, OLD_BROKERS, OLD_GOLDEN


def main(texts: list[str]) -> None:
    """Run one broker after another, all on one ZooKeeper; say what became of each."""
    OLD_GOLDEN.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        zookeeper, port = start_zookeeper(Path(folder))
        try:
            for text in texts or OLD_BROKERS:
                try:
                    keep(Version(text), Path(folder) / text, port)
                    print(f"{text}: kept", flush=True)
                except Exception as error:  # what fails is what we want to know of the others too
                    print(f"{text}: {type(error).__name__}: {str(error)[-1500:]}", flush=True)
        finally:
            zookeeper.terminate()
            zookeeper.wait()


def keep(version: Version, directory: Path, zookeeper: int) -> None:
    """The partitions of one broker and the answers of its consumer, in one small file."""
    with running(version, directory, zookeeper) as (bootstrap, logs):
        fill(version, bootstrap)
        wait_for_cleaner(logs)
        read = answers(version, bootstrap)
    assert {record["topic"] for record in read} == {*version.topics}
    with tarfile.open(OLD_GOLDEN / f"{version.text}.tar.xz", "w:xz", preset=9) as packed:
        for topic in version.topics:
            for path in sorted((logs / f"{topic}-0").iterdir()):
                add(packed, f"{topic}-0/{path.name}", path.read_bytes())
        add(packed, ANSWERS, "".join(json.dumps(one) + "\n" for one in read).encode())


def add(packed: tarfile.TarFile, name: str, data: bytes) -> None:
    """A file of the archive, of nobody."""
    info = tarfile.TarInfo(name)
    info.size = len(data)
    packed.addfile(info, io.BytesIO(data))


if __name__ == "__main__":
    main(sys.argv[1:])
