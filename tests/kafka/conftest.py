"""Real brokers, started once for all tests of this folder, and what they left on disk."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from broker import Broker, new_broker, new_zookeeper_broker, start_zookeeper
from clients import JavaClients
from tally import summary
from workloads import produce_current, produce_legacy


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here needs a broker or Kafka's own classes."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.kafka)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How much Kafka agreed with."""
    if summary():
        terminalreporter.write_line(summary())


@pytest.fixture(scope="session")
def java() -> Iterator[JavaClients]:
    """The Java clients."""
    with JavaClients() as clients:
        yield clients


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory, java: JavaClients) -> Iterator[Broker]:
    """A running broker of the reference version, with all topics of `workloads`."""
    broker = new_broker(tmp_path_factory.mktemp("broker"))
    broker.start()
    produce_current(broker, java)
    yield broker
    broker.stop()


@pytest.fixture(scope="session")
def logs(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Copies of log directories by how they were taken."""
    copies = tmp_path_factory.mktemp("logs")
    # While it runs the indexes of active segments are preallocated; a clean stop trims them.
    running = shutil.copytree(broker.log_dir, copies / "running")
    broker.stop()
    stopped = shutil.copytree(broker.log_dir, copies / "stopped")
    broker.start()
    return {"running": running, "stopped": stopped}


@pytest.fixture(scope="session")
def legacy_log(tmp_path_factory: pytest.TempPathFactory, java: JavaClients) -> Path:
    """The log directory of a stopped 3.9 broker that wrote message formats 0, 1 and 2."""
    directory = tmp_path_factory.mktemp("legacy")
    zookeeper, port = start_zookeeper(directory)
    broker = new_zookeeper_broker(directory, port)
    try:
        broker.start()
        produce_legacy(broker, java)
        broker.stop()
    finally:
        zookeeper.terminate()
        zookeeper.wait()
    return broker.log_dir
