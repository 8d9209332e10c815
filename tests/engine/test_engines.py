"""Which engine runs a job, and why."""

from pathlib import Path

import pytest

from cli.command import run
from jobs.topics import write_topic
from ottla.engines import EngineKind, EngineOptions, choose_engine
from ottla.errors import OptionError

GIB = 1 << 30


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MASTER", "PYSPARK_GATEWAY_PORT", "JAVA_HOME"):
        monkeypatch.delenv(name, raising=False)


def kind(size: int, **options: object) -> EngineKind:
    return choose_engine(size, EngineOptions(**options))[0]  # type: ignore[arg-type]


def test_small_work_runs_here_and_large_work_on_spark() -> None:
    assert kind(GIB) is EngineKind.LOCAL
    assert kind(GIB + 1) is EngineKind.SPARK
    assert kind(1001, local_bytes=1000) is EngineKind.SPARK
    assert kind(GIB + 1, local_bytes=2 * GIB) is EngineKind.LOCAL


def test_what_is_asked_for_is_taken() -> None:
    assert kind(1 << 50, kind=EngineKind.LOCAL) is EngineKind.LOCAL
    assert kind(0, kind=EngineKind.SPARK) is EngineKind.SPARK
    assert kind(0, master="local[2]") is EngineKind.SPARK
    with pytest.raises(OptionError, match="is for Spark"):
        kind(0, kind=EngineKind.LOCAL, master="local[2]")


def test_spark_submit_and_a_master_of_the_environment_mean_spark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MASTER", "local[2]")
    assert kind(0) is EngineKind.SPARK
    monkeypatch.delenv("MASTER")
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert kind(0) is EngineKind.SPARK
    assert kind(0, kind=EngineKind.LOCAL) is EngineKind.LOCAL


def test_without_java_all_work_runs_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    chosen, why = choose_engine(GIB + 1, EngineOptions())
    assert chosen is EngineKind.LOCAL
    assert f"but it needs Java 17 or newer, and there is no java in JAVA_HOME ({tmp_path})" in why


@pytest.mark.parametrize("version", ["11.0.27", "1.8.0_402"])
def test_an_old_java_is_as_good_as_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    chosen, why = choose_engine(GIB + 1, EngineOptions())
    assert chosen is EngineKind.LOCAL
    assert f"the java in JAVA_HOME ({tmp_path}) is of version" in why
    assert int(why.rpartition(" ")[2]) < 17


def test_a_line_says_which_engine_runs_and_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_topic(tmp_path / "logs", "orders", partitions=1)
    run("verify", tmp_path / "logs")
    assert "ottla: verify runs in this process: " in capsys.readouterr().err
    run("verify", tmp_path / "logs", "--quiet")
    assert capsys.readouterr().err == ""
