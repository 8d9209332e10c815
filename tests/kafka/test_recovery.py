"""A broker that starts does what `verify --recovery` predicts, and has what every reader gives.

One topic has a partition for every place at which a broker can die while it replaces segments.
Beside it lie directories that a broker was about to delete, or did not know.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from broker import Broker, new_broker
from clients import create_topic
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from tally import compared
from test_mount_extent import wait_until

from log.swap_states import CRASHES, TEN, State, segment
from ottla.log.check.recovery import Recovery, Step, plan_recovery
from ottla.log.files.partition import Partition, read_log_directories

DELETED = f"gone-0.{'a' * 32}-delete"
STRAY = f"odd-0.{'b' * 32}-stray"


class Recovered(NamedTuple):
    """What was predicted by directory, what readers gave before, and what the broker then had."""

    plans: dict[str, Recovery]
    before: dict[str, bytes]
    told: dict[int, tuple[int, int]]
    after: dict[str, bytes]


def put(state: State, partition: Path) -> None:
    """Replace what a stopped broker has of a partition but what names it."""
    partition.mkdir(exist_ok=True)
    for path in partition.iterdir():
        if path.name not in ("partition.metadata", "leader-epoch-checkpoint"):
            path.unlink()
    for name, data in state.files.items():
        (partition / name).write_bytes(data)


def bytes_of(partition: Partition) -> bytes:
    return b"".join(Path(each.log.path).read_bytes() for each in partition.segments)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    broker = new_broker(tmp_path_factory.mktemp("recovery"))
    broker.start()
    create_topic(broker.bootstrap, "swaps", len(CRASHES), retention_ms="-1")
    broker.stop()
    yield broker
    if broker.process is not None:
        broker.stop()


@pytest.fixture(scope="module", params=["clean", "unclean"])
def recovered(stopped: Broker, request: pytest.FixtureRequest) -> Recovered:
    logs = stopped.log_dir
    for number, state in enumerate(CRASHES):
        put(state, logs / f"swaps-{number}")
    for name in (DELETED, STRAY):
        shutil.rmtree(logs / name, ignore_errors=True)
        put(State("", segment(0, TEN), {}), logs / name)
    if request.param == "unclean":
        (logs / ".kafka_cleanshutdown").unlink()
        (logs / "recovery-point-offset-checkpoint").unlink()
    (directory,) = read_log_directories([logs])
    named = {Path(each.path).name: each for each in directory.partitions}
    plans = {name: plan_recovery(directory, each) for name, each in named.items()}
    before = {name: bytes_of(each) for name, each in named.items()}
    stopped.start()
    told = told_offsets(stopped)
    wait_until(lambda: not (logs / DELETED).exists())
    stopped.stop()
    (directory,) = read_log_directories([logs])
    after = {Path(each.path).name: bytes_of(each) for each in directory.partitions}
    return Recovered(plans, before, told, after)


def told_offsets(broker: Broker) -> dict[int, tuple[int, int]]:
    """Where logs begin and end; a client may know of an epoch before a broker that starts does."""
    found: list[dict[int, tuple[int, int]]] = []

    def ask() -> bool:
        try:
            found.append(ask_offsets(broker))
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_LEADER_EPOCH:
                raise
        return bool(found)

    wait_until(ask)
    return found[0]


def ask_offsets(broker: Broker) -> dict[int, tuple[int, int]]:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    parts = [TopicPartition("swaps", number) for number in range(len(CRASHES))]
    first, last = (
        admin.list_offsets(dict.fromkeys(parts, spec))
        for spec in (OffsetSpec.earliest(), OffsetSpec.latest())
    )
    return {
        part.partition: (first[part].result().offset, last[part].result().offset) for part in parts
    }


def test_logs_start_and_end_as_predicted(recovered: Recovered) -> None:
    predicted = {number: recovered.plans[f"swaps-{number}"][1:] for number in recovered.told}
    assert recovered.told == predicted
    compared["mounts"] += len(predicted)


def test_the_broker_has_what_readers_gave(recovered: Recovered) -> None:
    for number, state in enumerate(CRASHES):
        name = f"swaps-{number}"
        expected = b"".join(data for _, data in sorted(state.logs.items()))
        assert recovered.before[name] == expected, state.title
        assert recovered.after[name] == expected, state.title


def test_a_directory_of_a_deleted_topic_goes_and_a_stray_one_stays(recovered: Recovered) -> None:
    assert [action.step for action in recovered.plans[DELETED].actions] == [Step.DELETE]
    assert DELETED not in recovered.after
    assert recovered.plans[STRAY][1:] == (0, 10)
    assert recovered.after[STRAY] == TEN
