"""The commands of docs/restore.md, as they are written, bring a topic and its groups back."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.maven import class_path, java
from broker import KAFKA, Broker, new_broker
from confluent_kafka import Consumer, TopicPartition
from consumers import consume_rdkafka
from tally import compared

GUIDE = Path(__file__).parents[2] / "docs" / "restore.md"
TOOLS = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-get-offsets.sh": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
}
TOPIC = "small-batches"
GROUP = "billing"
PATIENCE = 600


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Broker]:
    """A running broker without topics."""
    broker = new_broker(tmp_path / "broker")
    broker.start()
    yield broker
    broker.stop()


def test_the_guide_brings_topic_and_groups_back(
    broker: Broker, logs: dict[str, Path], empty: Broker, tmp_path: Path
) -> None:
    settings, *blocks = re.findall(r"^```sh\n(.*?)^```$", GUIDE.read_text(), re.M | re.S)
    values = {
        "BACKUP": str(logs["stopped"]),
        "LOG_DIR": str(empty.log_dir),
        "CONFIG": str(empty.properties),
        "BROKER": empty.bootstrap,
        "TOPIC": TOPIC,
        "PARTITIONS": "2",
        "WORK": str(tmp_path / "work"),
    }
    assert re.findall(r"^(\w+)=", settings, re.M) == list(values)
    run_beside(empty, "".join(blocks), values, make_tools(tmp_path))
    for partition in (0, 1):
        assert bounds(empty, partition) == bounds(broker, partition)
    assert committed(empty) == committed(broker)
    expected = consume_rdkafka(broker.bootstrap, TOPIC, "read_uncommitted")
    assert consume_rdkafka(empty.bootstrap, TOPIC, "read_uncommitted") == expected
    compared["mounts"] += 2
    compared["records"] += len(expected)


def make_tools(folder: Path) -> Path:
    """Kafka's scripts as a download of it has them; two of them ask this process to act."""
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    scripts = {
        name: " ".join(["exec", *java(tool, f"'{class_path(KAFKA)}'", "-Xmx256m"), '"$@"'])
        for name, tool in TOOLS.items()
    }
    for action in ("start", "stop"):
        asked = folder / action
        wait = f"while [ -e '{asked}' ]; do sleep 0.1; done"
        scripts[f"kafka-server-{action}.sh"] = f"touch '{asked}'\n{wait}"
    for name, text in scripts.items():
        path = bin_folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    return bin_folder


def run_beside(broker: Broker, script: str, values: dict[str, str], bin_folder: Path) -> None:
    """Run the commands, and stop and start the broker where they ask for it."""
    path = os.pathsep.join([str(bin_folder), str(Path(sys.executable).parent), os.environ["PATH"]])
    output = bin_folder.parent / "output"
    with output.open("w") as out:
        commands = subprocess.Popen(
            ["bash", "-e", "-u", "-o", "pipefail", "-c", script],
            env=os.environ | values | {"PATH": path},
            stdout=out,
            stderr=out,
        )
    deadline = time.monotonic() + PATIENCE
    actions = {"stop": broker.stop, "start": broker.start}
    while commands.poll() is None:
        assert time.monotonic() < deadline, output.read_text()
        for name, act in actions.items():
            if (bin_folder.parent / name).exists():
                act()
                (bin_folder.parent / name).unlink()
        time.sleep(0.1)
    said = output.read_text()
    assert commands.returncode == 0, said
    assert not re.findall(r"^\s+at [\w.$/]+\(", said, re.M), said  # lines of a stack trace


def consumer(broker: Broker) -> Consumer:
    return Consumer({"bootstrap.servers": broker.bootstrap, "group.id": GROUP})


def bounds(broker: Broker, partition: int) -> tuple[int, int]:
    asking = consumer(broker)
    found: tuple[int, int] = asking.get_watermark_offsets(TopicPartition(TOPIC, partition), 30)
    asking.close()
    return found


def committed(broker: Broker) -> dict[int, int]:
    """The committed offsets of the group; those of a group that never was are negative."""
    asking = consumer(broker)
    both = [TopicPartition(TOPIC, partition) for partition in (0, 1)]
    found = {each.partition: each.offset for each in asking.committed(both, timeout=30)}
    asking.close()
    assert min(found.values()) > 0
    return found
