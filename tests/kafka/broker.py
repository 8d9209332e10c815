"""A real broker as a child process: on loopback, free ports, all files in one directory."""

import os
import signal
import socket
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.maven import class_path, java
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

JAVA = Path(__file__).parents[1] / "java"
KAFKA = JAVA  # the reference version, with our programs
KAFKA_3_9 = JAVA / "broker-3.9"

START_SECONDS = 120

# Small machines run these tests: a short start matters more than peak speed.
_JVM = ("-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

# One node, and housekeeping in fractions of a second so that a test can wait for it.
_COMMON = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    # A transaction that a test leaves open stays so, however slow the machine.
    "transaction.max.timeout.ms": "86400000",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "log.retention.check.interval.ms": "500",
    "log.segment.delete.delay.ms": "100",
    "log.cleaner.backoff.ms": "300",
    "log.cleaner.dedupe.buffer.size": "16777216",
    "log.flush.offset.checkpoint.interval.ms": "1000",
}


def free_port() -> int:
    """A port of loopback that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Broker:
    """A broker that can be stopped and started again over the same files."""

    project: Path
    properties: Path
    log_dir: Path
    port: int
    jvm: tuple[str, ...] = _JVM
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def server_log(self) -> Path:
        return self.properties.with_suffix(".out")

    def start(self) -> None:
        """Run, and return when clients can be served."""
        assert self.process is None
        self.process = run_in_background("kafka.Kafka", self.project, self.properties, self.jvm)
        wait_for_port(self.port, self.process, self.server_log)
        wait_for_controller(self.bootstrap, self.process, self.server_log)

    def stop(self) -> None:
        """A clean shutdown: everything flushed, indexes trimmed, the marker file written."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """As a power cut would, for the process at least."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(how)
        self.process.wait(timeout=60)
        self.process = None


def new_broker(directory: Path, **changes: str) -> Broker:
    """Broker and controller in one process (KRaft), its storage formatted, not started yet."""
    port, controller = free_port(), free_port()
    log_dir = directory / "log"
    properties = directory / "server.properties"
    settings = _COMMON | {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "log.dirs": str(log_dir),
        "log.initial.task.delay.ms": "100",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "1",
    }
    write_properties(properties, settings | changes)
    cluster = "AAAAAAAAAAAAAAAAAAAAAQ"
    formatting = ["format", "--standalone", "-t", cluster, "-c", str(properties)]
    run_tool("kafka.tools.StorageTool", *formatting)
    return Broker(KAFKA, properties, log_dir, port)


def new_zookeeper_broker(directory: Path, zookeeper_port: int, **changes: str) -> Broker:
    """A 3.9 broker that still writes message formats 0 and 1 where a topic asks for them."""
    port = free_port()
    log_dir = directory / "log"
    properties = directory / "server.properties"
    settings = _COMMON | {
        "broker.id": "1",
        "zookeeper.connect": f"127.0.0.1:{zookeeper_port}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": str(log_dir),
        # LogConfig ignores message.format.version from protocol 3.0 on.
        "inter.broker.protocol.version": "2.8",
    }
    write_properties(properties, settings | changes)
    return Broker(KAFKA_3_9, properties, log_dir, port)


def start_zookeeper(directory: Path) -> tuple[subprocess.Popen[bytes], int]:
    """A lone ZooKeeper and its port."""
    port = free_port()
    properties = directory / "zookeeper.properties"
    settings = {
        "dataDir": str(directory / "zookeeper"),
        "clientPort": str(port),
        "clientPortAddress": "127.0.0.1",
        "admin.enableServer": "false",
    }
    write_properties(properties, settings)
    main_class = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
    process = run_in_background(main_class, KAFKA_3_9, properties)
    wait_for_port(port, process, properties.with_suffix(".out"))
    return process, port


def run_in_background(
    main_class: str, project: Path, properties: Path, jvm: tuple[str, ...] = _JVM
) -> subprocess.Popen[bytes]:
    """Start a server; what it prints goes beside its properties."""
    command = [*java(main_class, class_path(project), *jvm), str(properties)]
    with properties.with_suffix(".out").open("ab") as output:
        return subprocess.Popen(command, stdout=output, stderr=output)


def run_tool(main_class: str, *arguments: str, cwd: Path | None = None) -> str:
    """Run one of the reference version's tools, or a program of ours, to its end."""
    command = [*java(main_class, class_path(KAFKA), *_JVM), *arguments]
    quiet = os.environ | {"JAVA_TOOL_OPTIONS": "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"}
    done = subprocess.run(command, capture_output=True, text=True, env=quiet, cwd=cwd)
    assert done.returncode == 0, f"{main_class} {arguments}:\n{done.stdout}{done.stderr}"
    return done.stdout


def dump_log(log_dir: Path) -> str:
    """What kafka-dump-log prints of all files of a log directory; keys and payloads as base64."""
    suffixes = {".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint"}
    files = sorted(path for path in log_dir.glob("*-*/*") if path.suffix in suffixes)
    files = [path for path in files if not _is_index_of_nothing(path)]
    return run_tool(
        "org.apache.kafka.tools.DumpLogSegments",
        "--deep-iteration",
        "--print-data-log",
        "--key-decoder-class",
        "questions.Base64Decoder",
        "--value-decoder-class",
        "questions.Base64Decoder",
        "--files",
        ",".join(str(path.relative_to(log_dir)) for path in files),
        cwd=log_dir,
    )


def _is_index_of_nothing(path: Path) -> bool:
    """The index of an empty log: kafka-dump-log dies of either kind."""
    log = path.with_suffix(".log")
    return path.suffix in (".index", ".timeindex") and log.exists() and log.stat().st_size == 0


def write_properties(path: Path, settings: dict[str, str]) -> None:
    """A Java properties file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))


def wait_for_port(port: int, process: subprocess.Popen[bytes], output: Path) -> None:
    """Return when somebody listens; fail with the server's own words when it ended instead."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert process.poll() is None, output.read_text()[-4000:]
        time.sleep(0.2)
    raise TimeoutError(f"nothing on port {port}:\n{output.read_text()[-4000:]}")


def wait_for_controller(bootstrap: str, process: subprocess.Popen[bytes], output: Path) -> None:
    """Return when a broker that listens has heard of its controller.

    librdkafka asks for the controller once: an admin client that comes before it waits in vain.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap})
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        with suppress(KafkaException):
            if admin.list_topics(timeout=5).controller_id != -1:
                return
        assert process.poll() is None, output.read_text()[-4000:]
        time.sleep(0.1)
    raise TimeoutError(f"no controller at {bootstrap}:\n{output.read_text()[-4000:]}")
