"""Write tests/golden anew: small files of real brokers, and what kafka-dump-log says of them.

    PYTHONPATH=.:tests:tests/kafka .venv/bin/python tests/kafka/make_golden.py

Offsets, batches and codecs come out the same each time; timestamps and ids do not.
"""

import lzma
import shutil
import tempfile
from pathlib import Path

from broker import Broker, dump_log, new_broker, new_zookeeper_broker, start_zookeeper
from clients import JavaClients
from workloads import produce_current, produce_legacy

from golden import GOLDEN, KAFKA_DUMP

# One segment of each codec and client is enough; of the others the whole partition is the point.
FIRST_SEGMENT_ONLY = ("java-", "rdkafka-", "aiokafka-", "broker-", "v0-", "v1-")
LEFT_OUT = ("large-",)


def main() -> None:
    """Start both brokers, produce, stop them, and keep what is small."""
    shutil.rmtree(GOLDEN / "kafka-4.3", ignore_errors=True)
    shutil.rmtree(GOLDEN / "kafka-3.9", ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder, JavaClients() as java:
        current = new_broker(Path(folder) / "current")
        current.start()
        produce_current(current, java)
        keep(current, GOLDEN / "kafka-4.3")
        zookeeper, port = start_zookeeper(Path(folder) / "legacy")
        legacy = new_zookeeper_broker(Path(folder) / "legacy", port)
        legacy.start()
        produce_legacy(legacy, java)
        keep(legacy, GOLDEN / "kafka-3.9")
        zookeeper.terminate()
        zookeeper.wait()


def keep(broker: Broker, golden: Path) -> None:
    """Stop a broker, copy its small files and ask kafka-dump-log about the copies."""
    broker.stop()
    shutil.copytree(broker.log_dir, golden, ignore=shutil.ignore_patterns(".lock"))
    for partition in golden.glob("*-*/"):
        if partition.name.startswith(LEFT_OUT):
            shutil.rmtree(partition)
        elif partition.name.startswith(FIRST_SEGMENT_ONLY):
            keep_first_segment(partition)
    (golden / KAFKA_DUMP).write_bytes(lzma.compress(dump_log(golden).encode()))


def keep_first_segment(partition: Path) -> None:
    """Leave the first segment, its indexes, and the producer snapshot taken where it ended."""
    segments = sorted(partition.glob("*.log"))
    snapshots = sorted(partition.glob("*.snapshot"))
    kept = {segments[0].stem, *(path.stem for path in snapshots[:1])}
    for path in partition.glob("0*.*"):
        is_snapshot = path.suffix == ".snapshot"
        if path.stem not in kept or (not is_snapshot and path.stem != segments[0].stem):
            path.unlink()


if __name__ == "__main__":
    main()
