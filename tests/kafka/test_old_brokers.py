"""A broker of the reference version reads what all old ones wrote, converted to v2."""

import shutil
from pathlib import Path

from broker import new_broker
from clients import JavaClients
from confluent_kafka.admin import AdminClient, NewTopic
from consumers import Received, consume_java
from tally import compared
from test_mount import TROUBLE

from cli.here import run
from golden import OLD_BROKERS, unpack_old


def test_a_current_broker_reads_every_old_log(tmp_path: Path, java: JavaClients) -> None:
    answers = {version: unpack_old(version, tmp_path / version) for version in OLD_BROKERS}
    topics = {
        f"{topic}-of-{version}": (version, topic)
        for version, each in answers.items()
        for topic in each
    }
    broker = new_broker(tmp_path / "broker", **{"log.retention.ms": "-1"})
    broker.start()
    create_topics(broker.bootstrap, [*topics])
    broker.stop()
    for version in OLD_BROKERS:
        out = tmp_path / f"{version}-v2"
        assert run("convert", tmp_path / version, out, "--magic", "2", "--quiet").status == 0
    for name, (version, topic) in topics.items():
        mount(tmp_path / f"{version}-v2" / f"{topic}-0", broker.log_dir / f"{name}-0")
    broker.server_log.unlink()
    broker.start()
    try:
        for name, (version, topic) in topics.items():
            expected = [Received(*answer) for answer in answers[version][topic]]
            read = consume_java(java, broker.bootstrap, name, "read_committed")
            assert read == expected, name
            compared["mounts"] += 1
    finally:
        broker.stop()
    lines = broker.server_log.read_text().splitlines()
    about = [line for line in lines if "-of-" in line and "cluster_metadata" not in line]
    assert len(about) >= len(topics)
    assert [line for line in about if any(word in line for word in TROUBLE)] == []


def create_topics(bootstrap: str, names: list[str]) -> None:
    """All at once: one by one they take a minute."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
        created.result()


def mount(converted: Path, partition: Path) -> None:
    """Replace all that a stopped broker has of a partition but its topic id."""
    for path in partition.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in converted.iterdir():
        if path.name != "partition.metadata":
            shutil.copy(path, partition / path.name)
