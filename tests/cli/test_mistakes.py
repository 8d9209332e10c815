"""The ten most likely mistakes, each really made: a line that says what is wrong and what to do."""

import contextlib
import http.client
import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import boto3
import pyspark
import pytest
from moto.server import ThreadedMotoServer

import builders
from ottla.cli import main
from ottla.jobs.demo import make_logs

TEXT_LOG = "[2024-04-24 10:00:00,000] INFO [KafkaServer id=1] started (kafka.server)\n" * 100
# Root without its right to read everything: tests often run as root.
LIKE_OTHERS = (
    ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if not os.getuid() else ()
)


def ottla(*words: object, by: Sequence[str] = (), **environment: str) -> str:
    """What a command says that ends with exit code 2, on one line and without a traceback."""
    command = [*by, sys.executable, "-m", "ottla.cli", *map(str, words)]
    done = subprocess.run(
        command,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return the_line(done.returncode, done.stdout, done.stderr)


def here(*words: object) -> str:
    """The same in this process, which is faster; for what needs no other user or environment."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main([str(word) for word in words])
    return the_line(status, out.getvalue(), err.getvalue())


def the_line(status: int, out: str, err: str) -> str:
    assert (status, out) == (2, ""), err
    assert "Traceback" not in err
    expected = re.compile(r"ottla: verify runs (on Spark|in this process): ")
    (line,) = [line for line in err.splitlines() if not expected.match(line)]
    assert line.startswith("ottla: ")
    return line.removeprefix("ottla: ")


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mistakes")
    make_logs(str(folder / "kafka-logs"))
    return folder / "kafka-logs"


def test_a_directory_at_the_wrong_level(tmp_path: Path) -> None:
    """Kafka's home, with its configuration and what the broker says, but not its data."""
    for folder, name in (("config", "server.properties"), ("logs", "server.log")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text(TEXT_LOG)
    for command in ("ls", "verify", "transactions", "groups", "dump"):
        said = here(command, tmp_path)
        assert f"{tmp_path}: no Kafka logs here, but files such as server.properties" in said
        assert "name a log directory of a broker (log.dirs in its server.properties)" in said


def test_a_directory_where_a_segment_is_wanted(logs: Path) -> None:
    said = here("inspect", logs / "orders-0")
    assert said == (
        f"{logs}/orders-0: Is a directory; a file is wanted;"
        " `ottla ls --segments` lists those of a directory"
    )


def test_segments_without_the_folder_that_names_their_partition(tmp_path: Path) -> None:
    (tmp_path / "backup").mkdir()
    (tmp_path / "backup/00000000000000000000.log").write_bytes(builders.batch())
    said = here("restore", tmp_path / "backup", tmp_path / "out")
    assert "no directory here is named topic-partition" in said
    assert "put the files into a folder such as orders-0" in said


def test_a_path_that_is_not_there(logs: Path) -> None:
    said = here("ls", logs.parent / "kafka_logs")
    assert said.startswith(f"{logs.parent}/kafka_logs: No such file or directory; did you mean ")
    assert str(logs) in said.rstrip("?").split(" ")


@pytest.mark.parametrize(
    "command", ["ls", "dump", "verify", "transactions", "groups", "topics", "schemas"]
)
def test_an_empty_directory(tmp_path: Path, command: str) -> None:
    said = here(command, tmp_path)
    assert said.startswith(f"{tmp_path}: an empty directory; name a log directory of a broker")


@pytest.mark.parametrize("command", ["ls", "dump", "inspect", "verify", "transactions"])
def test_a_log_that_is_a_text_log(tmp_path: Path, command: str) -> None:
    (tmp_path / "server.log").write_text(TEXT_LOG)
    said = here(command, tmp_path / "server.log")
    assert said.startswith(f"{tmp_path}/server.log: text, not a segment of Kafka")
    assert "named like 00000000000000000000.log" in said


@pytest.mark.parametrize("command", ["ls", "inspect", "verify", "transactions"])
@pytest.mark.parametrize(
    "name", ["leader-epoch-checkpoint", "replication-offset-checkpoint", "meta.properties"]
)
def test_a_log_that_is_a_checkpoint(tmp_path: Path, command: str, name: str) -> None:
    (tmp_path / name).write_text("0\n1\n0 0\n")
    said = here(command, tmp_path / name)
    assert said.startswith(f"{tmp_path}/{name}: ")
    assert "not a segment: name the" in said or "beside segments, and it is none" in said
    assert "text" not in said.removeprefix(str(tmp_path))


def test_a_directory_of_checkpoints_holds_no_text_logs(tmp_path: Path) -> None:
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n0\n")
    said = here("ls", tmp_path)
    assert "files such as cleaner-offset-checkpoint; name a log directory" in said


@pytest.mark.parametrize("command", ["ls", "dump", "verify", "transactions"])
@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [
        pytest.param("oders", "orders", id="letter"),
        pytest.param("Payments", "payments", id="case"),
        pytest.param("users-0", "users", id="folder"),
    ],
)
def test_a_misspelt_topic(logs: Path, command: str, misspelt: str, meant: str) -> None:
    said = here(command, logs, "--topic", "clicks", "--topic", misspelt)
    assert said == (
        f"no topic {misspelt} in {logs}: did you mean {meant}?"
        " There are clicks, orders, payments, users"
    )


def test_no_permission_in_a_task(locked: Path) -> None:
    said = ottla("verify", locked, by=LIKE_OTHERS)
    assert "00000000000000000000.log: Permission denied; run ottla as" in said


def test_no_java(logs: Path, tmp_path: Path) -> None:
    said = ottla("verify", logs, "--engine", "spark", PATH=str(tmp_path), JAVA_HOME="")
    assert said.startswith("Spark needs Java 17 or newer, and there is no java on the PATH")
    assert "apt install openjdk-17" in said
    said = ottla("verify", logs, "--engine", "spark", JAVA_HOME=str(tmp_path))
    assert f"there is no java in JAVA_HOME ({tmp_path}): install a JDK" in said


@pytest.fixture
def locked(logs: Path, tmp_path: Path) -> Iterator[Path]:
    """A log directory in which nobody may read one segment."""
    if os.getuid() == 0 and shutil.which("setpriv") is None:
        pytest.skip("root needs setpriv to give up its rights")
    shutil.copytree(logs / "orders-0", tmp_path / "orders-0")
    (tmp_path / "orders-0/00000000000000000000.log").chmod(0)
    yield tmp_path
    (tmp_path / "orders-0").chmod(0o755)


@pytest.mark.parametrize("command", ["ls", "dump", "transactions"])
def test_no_permission_to_read(locked: Path, command: str) -> None:
    said = ottla(command, locked / "orders-0", by=LIKE_OTHERS)
    assert said == (
        f"{locked}/orders-0/00000000000000000000.log: Permission denied;"
        " run ottla as the user who owns it, or work on a copy that you may read"
    )


def test_no_permission_to_list(locked: Path) -> None:
    (locked / "orders-0").chmod(0)
    assert f"{locked}/orders-0: Permission denied; run ottla as" in ottla(
        "verify", locked, by=LIKE_OTHERS
    )


@pytest.mark.spark_long
def test_no_permission_in_a_task_of_spark(locked: Path) -> None:
    said = ottla("verify", locked, "--engine", "spark", by=LIKE_OTHERS)
    assert "00000000000000000000.log: Permission denied; run ottla as" in said


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("no right to mount a tmpfs")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_no_space_left(logs: Path, small_disk: Path) -> None:
    said = ottla("salvage", logs, small_disk / "out", "--topic", "orders", "--quiet")
    assert said.startswith(f"{small_disk}/out.ottla/")
    assert said.endswith(
        ": No space left on device; free some, or write elsewhere;"
        " the same command goes on where it stopped"
    )


@pytest.fixture
def s3() -> Iterator[str]:
    """The endpoint of an S3 with a private backup in it."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    client = boto3.client(
        "s3",
        endpoint_url=f"http://{host}:{port}",
        region_name="us-east-1",
        aws_access_key_id="owner",
        aws_secret_access_key="owner",
    )
    client.create_bucket(Bucket="backup")
    client.put_object(Bucket="backup", Key="kafka-logs/orders-0/00000000000000000000.log", Body=b"")
    yield f"http://{host}:{port}"
    server.stop()


@contextlib.contextmanager
def checking(endpoint: str) -> Iterator[None]:
    """Have moto take only credentials that it gave out itself: after 0 requests, then after inf."""
    connection = http.client.HTTPConnection(endpoint.removeprefix("http://"))
    for requests in ("0", "inf"):
        connection.request("POST", "/moto-api/reset-auth", body=requests)
        assert connection.getresponse().read() is not None
        if requests == "0":
            yield


def test_s3_without_credentials(s3: str, tmp_path: Path) -> None:
    nothing = {
        "AWS_ENDPOINT_URL": s3,
        "AWS_ACCESS_KEY_ID": "",
        "AWS_SECRET_ACCESS_KEY": "",
        "AWS_PROFILE": "",
        "AWS_EC2_METADATA_DISABLED": "true",
        "HOME": str(tmp_path),
    }
    for command in ("ls", "dump"):
        said = ottla(command, "s3://backup/kafka-logs", **nothing)
        assert "kafka-logs/orders-0/00000000000000000000.log' in bucket 'backup'" in said
        assert "S3 was asked without credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_" in said


def test_s3_with_credentials_that_it_does_not_know(s3: str, tmp_path: Path) -> None:
    wrong = {
        "AWS_ENDPOINT_URL": s3,
        "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "wrong",
        "HOME": str(tmp_path),
    }
    with checking(s3):
        said = ottla("ls", "s3://backup/kafka-logs", **wrong)
    assert "S3 does not let in whom AWS_ACCESS_KEY_ID name" in said


@pytest.mark.parametrize(
    ("path", "name", "value", "said"),
    [
        ("s3://b/logs", "AWS_ENDPOINT_URL", "ftp://x", "'ftp://x' is no address of a store"),
        ("s3://b/logs", "AWS_ENDPOINT_URL_S3", "http://a b", "'http://a b' is no address"),
        ("gs://b/logs", "STORAGE_EMULATOR_HOST", "ftp://x", "'ftp://x' is no address of a store"),
        ("abfs://c@a/logs", "AZURE_STORAGE_SERVICE_ENDPOINT", "ftp://x", "'ftp://x' is no address"),
        ("abfs://c@a/logs", "AZURE_STORAGE_KEY", "not base64!", "holds no key of an account"),
    ],
)
def test_a_variable_that_says_nothing_of_a_store(
    path: str, name: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = path.replace("@a/", "@a.dfs.core.windows.net/")
    monkeypatch.setenv(name, value)
    assert here("ls", path).startswith(f"{name} {said}")


@pytest.fixture(scope="session")
def other_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python of another minor version; where none is installed, what answers like one.

    The command asks for the version before Spark starts, and goes no further.
    """
    names = [f"python3.{minor}" for minor in range(8, 20) if minor != sys.version_info.minor]
    for found in filter(None, map(shutil.which, [*names, "pypy3"])):
        if subprocess.run([found, "-c", ""], capture_output=True).returncode == 0:  # pyenv's shims
            return found
    script = tmp_path_factory.mktemp("python") / "python3.9"
    script.write_text("#!/bin/sh\necho 3.9\n")
    script.chmod(0o755)
    return str(script)


def version_of(python: str) -> str:
    question = "import sys; print('%d.%d' % sys.version_info[:2])"
    return subprocess.check_output([python, "-c", question], text=True).strip()


def test_workers_with_another_python(logs: Path, other_python: str) -> None:
    said = ottla("verify", logs, "--engine", "spark", PYSPARK_PYTHON=other_python)
    ours = version_of(sys.executable)
    assert said == (
        f"Spark's workers have Python {version_of(other_python)} (PYSPARK_PYTHON={other_python}),"
        f" this command has {ours}: set PYSPARK_PYTHON, on every machine, to a Python {ours} that"
        " has ottla"
    )


def test_workers_without_a_python(logs: Path) -> None:
    said = ottla("verify", logs, "--engine", "spark", PYSPARK_PYTHON="/nowhere/python3")
    assert "PYSPARK_PYTHON is '/nowhere/python3', which is no Python that starts: set it to" in said


def install_spark(version: str, folder: Path) -> Path:
    """A folder with a PySpark, as PyPI has it."""
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    done = subprocess.run(
        [*install, "--target", str(folder), f"pyspark=={version}"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.newcomer
def test_an_old_spark(logs: Path, tmp_path: Path) -> None:
    folder = install_spark("3.5.9", tmp_path)
    said = ottla("verify", logs, "--engine", "spark", PYTHONPATH=str(folder))
    assert said.startswith("Ottla needs Spark 4.0 or newer, and this Python has 3.5.9: pip install")


@pytest.mark.newcomer
def test_a_spark_home_of_another_spark(logs: Path, tmp_path: Path) -> None:
    home = install_spark("4.1.4", tmp_path) / "pyspark"
    said = ottla("verify", logs, "--engine", "spark", SPARK_HOME=str(home))
    assert said == (
        f"SPARK_HOME ({home}) is Spark 4.1.4, and this Python has PySpark"
        f" {pyspark.__version__}: unset SPARK_HOME, or install 'pyspark==4.1.4'"
    )


def test_damage_in_an_export_names_the_mode_that_goes_on(logs: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(logs / "orders-0", tmp_path / "logs/orders-0")).parent
    log = sorted(copy.rglob("*.log"))[0]
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    err = io.StringIO()
    with contextlib.redirect_stderr(err):
        assert main(["export", str(copy), str(tmp_path / "out"), "--quiet"]) == 1
    assert f"{log} @ " in err.getvalue()
    assert "--mode DROPMALFORMED leaves out what is broken and counts it" in err.getvalue()
