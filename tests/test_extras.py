"""What is not installed is named in one sentence, with a command that works without an index."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from builders import batch
from ottla.extras import EXTRAS, install_command

ROOT = Path(__file__).parent.parent


def test_extras_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = project["optional-dependencies"]
    assert {name: tuple(declared[name]) for name in declared if name != "dev"} == EXTRAS


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["-c", "import ottla; ottla.read_log('logs')"], id="read_log"),
        pytest.param(["-c", "import ottla; ottla.write_log(None, 'logs')"], id="write_log"),
        pytest.param(["-m", "ottla.cli", "verify", "logs", "--engine", "spark"], id="command"),
    ],
)
def test_no_pyspark_is_one_sentence_with_the_command(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden/sitecustomize.py").write_text("import sys; sys.modules['pyspark'] = None")
    (tmp_path / "logs/orders-0").mkdir(parents=True)
    (tmp_path / "logs/orders-0/00000000000000000000.log").write_bytes(batch())
    done = subprocess.run(
        [sys.executable, *words],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "hidden")},
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "during handling" not in done.stderr.lower()
    last = done.stderr.splitlines()[-1]
    assert last.endswith(f"Spark, which this Python does not have: {install_command('spark')}")


@pytest.mark.parametrize(
    ("form", "package"),
    [("delta", "deltalake"), ("iceberg", "pyiceberg")],
    ids=["delta", "iceberg"],
)
def test_no_library_of_tables_is_one_sentence_before_any_work(
    tmp_path: Path, form: str, package: str
) -> None:
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden/sitecustomize.py").write_text(
        f"import sys; sys.modules['{package}'] = None"
    )
    (tmp_path / "logs/orders-0").mkdir(parents=True)
    (tmp_path / "logs/orders-0/00000000000000000000.log").write_bytes(batch())
    done = subprocess.run(
        [sys.executable, "-m", "ottla.cli", "export", "logs", "table", "--format", form],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "hidden")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    told = f"need {package}, which this Python does not have: {install_command(form)}"
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "table").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["convert", "--codec=zstd", "logs"],
        ["verify", "logs", "--out"],
        ["report", "logs", "--out"],
    ],
    ids=["job", "verify", "report"],
)
@pytest.mark.parametrize(
    ("extra", "out", "module", "package"),
    [
        ("s3", "s3://bucket/out.jsonl", "boto3", "boto3"),
        ("gcs", "gs://bucket/out.jsonl", "google.cloud.storage", "google-cloud-storage"),
        ("azure", "abfs://c@account.dfs.core.windows.net/out.jsonl", "azure", "azure-storage-blob"),
    ],
    ids=["s3", "gcs", "azure"],
)
def test_no_client_of_a_store_is_one_sentence_before_any_work(
    tmp_path: Path, extra: str, out: str, module: str, package: str, words: list[str]
) -> None:
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden/sitecustomize.py").write_text(f"import sys; sys.modules['{module}'] = None")
    (tmp_path / "logs/orders-0").mkdir(parents=True)
    (tmp_path / "logs/orders-0/00000000000000000000.log").write_bytes(batch())
    done = subprocess.run(
        [sys.executable, "-m", "ottla.cli", *words, out],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "hidden")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    told = f"needs {package}, which this Python does not have: {install_command(extra)}"
    assert told in done.stderr
    assert "Traceback" not in done.stderr


SCRATCH = """
import sys
sys.modules["azure"] = None
from ottla.publish.journal import scratch_job
with scratch_job("abfs://c@account.dfs.core.windows.net/out"):
    print("began")
"""


def test_no_client_of_a_store_is_one_sentence_before_scratch_files_are_written() -> None:
    done = subprocess.run([sys.executable, "-c", SCRATCH], capture_output=True, text=True)
    told = f"needs azure-storage-blob, which this Python does not have: {install_command('azure')}"
    assert done.stderr.splitlines()[-1].endswith(told)
    assert done.stdout == ""
