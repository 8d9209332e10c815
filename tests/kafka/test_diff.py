"""The disks of a real cluster after an unclean election: where they part, and which is right."""

import json
import subprocess
import time
from pathlib import Path

from broker import Broker, run_in_background, run_tool, wait_for_controller, wait_for_port
from clients import Rdkafka, Sent
from confluent_kafka import Consumer, TopicPartition
from test_clone import (
    OTTLA,
    broker_of,
    clone,
    free_ports,
    leader_of,
    start_all,
    tool,
    wait_until_in_sync,
)

TOPIC = "java-none"
PATIENCE = 240


def replicas_of(broker: Broker) -> list[int]:
    said = tool(broker, "TopicCommand", "--describe", "--topic", TOPIC)
    return [int(one) for one in said.split("Replicas: ")[1].split()[0].split(",")]


def end_of(broker: Broker) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "asking"})
    _, end = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), 60)
    consumer.close()
    return int(end)


def wait_for_leader(broker: Broker, node: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while leader_of(broker, TOPIC) != node:
        assert time.monotonic() < deadline


def start_again(node: Broker) -> None:
    node.process = run_in_background("kafka.Kafka", node.project, node.properties, node.jvm)
    wait_for_port(node.port, node.process, node.server_log)
    wait_for_controller(node.bootstrap, node.process, node.server_log)


def sent(text: bytes, count: int) -> list[Sent]:
    return [Sent(b"k", b"%s %d" % (text, at), 1_700_000_000_000 + at) for at in range(count)]


def test_an_unclean_election_is_named_to_the_offset(logs: dict[str, Path], tmp_path: Path) -> None:
    port = free_ports(6)
    flags = ["--nodes", "3", "--replication", "2", "--port", str(port), "--topic", TOPIC]
    clone(logs["stopped"], tmp_path / "out", *flags, "--keep", "transactions")
    nodes = {at + 1: broker_of(tmp_path / "out", at + 1, port + 2 * at) for at in range(3)}
    try:
        start_all(list(nodes.values()))
        wait_until_in_sync(nodes[1])
        words = ["--alter", "--entity-type", "topics", "--entity-name", TOPIC, "--add-config"]
        setting = "unclean.leader.election.enable=true"
        server = ["--bootstrap-server", nodes[1].bootstrap]
        run_tool("kafka.admin.ConfigCommand", *server, *words, setting)
        leader, follower = (nodes[node] for node in replicas_of(nodes[1]))
        common = end_of(leader)
        follower.kill()
        Rdkafka(leader.bootstrap, acks="1").send(TOPIC, sent(b"only the leader had these", 30))
        leader.kill()
        start_again(follower)
        wait_for_leader(follower, replicas_of(follower)[1])
        Rdkafka(follower.bootstrap, acks="1").send(TOPIC, sent(b"the new leader's", 5))
    finally:
        for node in nodes.values():
            if node.process is not None:
                node.kill()
    disks = [leader.log_dir, follower.log_dir]
    command = [OTTLA, "diff", *disks, "--topic", TOPIC, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    (row,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert (row["state"], row["equalTo"]) == ("diverged", common)
    assert row["best"] == str(follower.log_dir / f"{TOPIC}-0")
    assert row["divergence"]["offset"] == common
    assert row["divergence"]["bestEpoch"] > row["divergence"]["epoch"]
    assert row["alone"]["after"]["records"] == 30
    assert row["lacks"]["after"]["records"] == 5
    printed = clone(disks, tmp_path / "again", "--topic", TOPIC, "--keep", "transactions")
    assert f"parts at offset {common}" in printed
    assert "30 records of it stay behind" in printed
