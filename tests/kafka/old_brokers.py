"""Old brokers from Maven Central, each with the clients of its own version."""

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.maven import class_path, java
from broker import free_port, wait_for_controller, wait_for_port, write_properties
from clients import create_topic

PROJECTS = Path.home() / ".cache" / "ottla" / "brokers"
CLIENT = Path(__file__).with_name("OldClient.java")
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>ottla</groupId><artifactId>broker-{version}</artifactId><version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_{scala}</artifactId>
      <version>{version}</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version>
    </dependency>
{more}  </dependencies>
  <build>
    <plugins>
      <plugin><artifactId>maven-dependency-plugin</artifactId><version>3.8.1</version></plugin>
    </plugins>
  </build>
</project>
"""
# Of the JDK until Java 10; without it 0.10.2 can not make the id of its cluster.
JAXB = """    <dependency>
      <groupId>javax.xml.bind</groupId><artifactId>jaxb-api</artifactId><version>2.3.1</version>
    </dependency>
"""
# The clients of 2.0 and 2.1, 3.4.13, and 3.4.14 find no server on Java 17.
ZOOKEEPER = """    <dependency>
      <groupId>org.apache.zookeeper</groupId><artifactId>zookeeper</artifactId>
      <version>3.4.10</version>
    </dependency>
"""
# Old code looks into the JDK.
OPENED = tuple(
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in ("java.lang", "java.nio", "sun.nio.ch", "java.util", "jdk.internal.ref")
)
JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *OPENED)
SETTINGS = {
    "broker.id": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "controlled.shutdown.enable": "false",
    "zookeeper.connection.timeout.ms": "60000",
    "zookeeper.session.timeout.ms": "60000",
    "log.retention.hours": "1000000",  # records are of 2017
    "log.message.timestamp.difference.max.ms": "9223372036854775807",
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": "300",
    "log.cleaner.dedupe.buffer.size": "16777216",
}
LOGGING = {
    "log4j.rootLogger": "WARN, out",
    "log4j.appender.out": "org.apache.log4j.ConsoleAppender",
    "log4j.appender.out.layout": "org.apache.log4j.PatternLayout",
    "log4j.appender.out.layout.ConversionPattern": "%p %m (%c)%n",
}
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": "3000",
    "min.cleanable.dirty.ratio": "0.01",
}
WAIT_SECONDS = 60


class Version(NamedTuple):
    """A broker of Maven Central."""

    text: str

    @property
    def number(self) -> tuple[int, ...]:
        return tuple(map(int, self.text.split(".")))

    @property
    def project(self) -> Path:
        """The Maven project that has it."""
        scala = "2.11" if self.number < (1,) else "2.12" if self.number < (2, 4) else "2.13"
        project = PROJECTS / self.text
        more = JAXB if self.number < (1, 1) else ""
        more += ZOOKEEPER if (2, 0) <= self.number < (2, 4) else ""
        text = POM.format(version=self.text, scala=scala, more=more)
        pom = project / "pom.xml"
        if not pom.exists() or pom.read_text() != text:
            project.mkdir(parents=True, exist_ok=True)
            pom.write_text(text)
        return project

    @property
    def codecs(self) -> tuple[str, ...]:
        """Those of its time (KIP-110 brought zstd)."""
        return ("none", "gzip", "snappy", "lz4") + (("zstd",) if self.number >= (2, 1) else ())

    @property
    def topics(self) -> tuple[str, ...]:
        """Those that `OldClient` fills."""
        later = ("transactions",) if self.number >= (0, 11) else ()
        return (*(f"codec-{codec}" for codec in self.codecs), "compacted", *later)

    def run(self, main_class: str, *words: str) -> str:
        """Run one of its tools, or our client, to its end."""
        command = [*java(main_class, class_path(self.project), *JVM), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=180)
        assert done.returncode == 0, f"{main_class} {words}:\n{done.stdout}{done.stderr}"
        return done.stdout


@contextmanager
def running(version: Version, directory: Path, zookeeper: int) -> Iterator[tuple[str, Path]]:
    """A broker that serves its topics: where it is, and its log directory."""
    port, logs = free_port(), directory / "log"
    chroot = f"127.0.0.1:{zookeeper}/v{version.text.replace('.', '-')}"
    properties = directory / "server.properties"
    listeners = {"listeners": f"PLAINTEXT://127.0.0.1:{port}"}
    if version.number < (0, 9):
        listeners = {"host.name": "127.0.0.1", "port": str(port)}
    places = {"zookeeper.connect": chroot, "log.dirs": str(logs)}
    write_properties(properties, SETTINGS | listeners | places)
    output, logging = properties.with_suffix(".out"), directory / "log4j.properties"
    write_properties(logging, LOGGING)
    options = (*JVM, f"-Dlog4j.configuration={logging.as_uri()}")
    command = [*java("kafka.Kafka", class_path(version.project), *options), str(properties)]
    with output.open("ab") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=stream)
    try:
        wait_for_port(port, process, output)
        bootstrap = f"127.0.0.1:{port}"
        if version.number >= (1,):
            wait_for_controller(bootstrap, process, output)
        for topic in version.topics:
            _create(version, bootstrap, chroot, topic)
        yield bootstrap, logs
    finally:
        process.terminate()
        process.wait(timeout=60)


def _create(version: Version, bootstrap: str, chroot: str, topic: str) -> None:
    config = COMPACTED if topic == "compacted" else {}
    if version.number >= (1,):
        create_topic(bootstrap, topic, **config)
        return
    words = ["--zookeeper", chroot, "--create", "--topic", topic]
    words += ["--partitions", "1", "--replication-factor", "1"]
    words += [word for each in config.items() for word in ("--config", "=".join(each))]
    deadline = time.monotonic() + WAIT_SECONDS
    while True:  # a broker listens before ZooKeeper knows of it
        try:
            version.run("kafka.admin.TopicCommand", *words)
            return
        except AssertionError:
            if time.monotonic() > deadline:
                raise


def wait_for_cleaner(logs: Path) -> None:
    """Return when a cleaner has come to an offset that is not the first."""
    checkpoint = logs / "cleaner-offset-checkpoint"
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        lines = checkpoint.read_text().splitlines() if checkpoint.exists() else []
        if any(line.startswith("compacted 0 ") and int(line.split()[2]) > 150 for line in lines):
            return
        time.sleep(0.2)
    raise TimeoutError(f"the cleaner did nothing: {checkpoint}")


def fill(version: Version, bootstrap: str) -> None:
    """Have its own producer write all topics."""
    version.run(str(CLIENT), "produce", bootstrap, *version.codecs)


def answers(version: Version, bootstrap: str) -> list[dict[str, Any]]:
    """What its own consumer reads, committed records only."""
    said = version.run(str(CLIENT), "consume", bootstrap, *version.topics)
    return [json.loads(line) for line in said.splitlines() if line.startswith("{")]
