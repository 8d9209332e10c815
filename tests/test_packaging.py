"""Wheel and sdist are complete: built, installed where nothing else is, and started."""

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

import builders
from test_documents import blocks_of, commands_of

ROOT = Path(__file__).parent.parent


def run(*command: object, folder: Path | None = None) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(
        words, cwd=folder, capture_output=True, text=True, check=False, timeout=1200
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT)
    return next(folder.glob("*.whl"))


def test_the_wheel_holds_the_package_its_types_and_its_licence(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    sources = [path.relative_to(ROOT / "src") for path in (ROOT / "src").rglob("*.py")]
    assert {"ottla/py.typed", *map(str, sources)} <= set(names)
    assert {name.rsplit("/", 1)[-1] for name in names} >= {"LICENSE", "NOTICE"}


def test_the_wheel_works_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    python, ottla = tmp_path / "venv/bin/python", tmp_path / "venv/bin/ottla"
    constraints = ROOT / "constraints.txt"
    run(python, "-m", "pip", "install", "--quiet", "--constraint", constraints, wheel)
    version = wheel.name.split("-")[1]
    assert run(ottla, "--version").split() == ["ottla", version]
    segment = tmp_path / "00000000000000000000.log"
    segment.write_bytes(b"".join(builders.batch(codec=codec) for codec in range(5)))
    assert run(ottla, "dump", "--format", "jsonl", segment).count('"type":') == 11


def test_two_builds_have_the_same_bytes_and_twine_accepts_them(tmp_path: Path) -> None:
    built = [tmp_path / "once", tmp_path / "again"]
    for folder in built:
        environment = os.environ | {"SOURCE_DATE_EPOCH": "1763424000"}
        # Without isolation: the build needs only what `make` has installed.
        words = [
            sys.executable,
            "-m",
            "build",
            "--no-isolation",
            "--outdir",
            str(folder),
            str(ROOT),
        ]
        subprocess.run(words, env=environment, check=True, capture_output=True, timeout=600)
    once, again = ({one.name: one.read_bytes() for one in folder.iterdir()} for folder in built)
    assert {name.rsplit(".", 1)[-1] for name in once} == {"whl", "gz"}
    assert once == again
    run(sys.executable, "-m", "twine", "check", "--strict", *built[0].iterdir())


@pytest.mark.newcomer
def test_the_first_tutorial_runs_where_only_the_wheel_is_installed(
    wheel: Path, tmp_path: Path
) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv/bin/python"
    constraints = ROOT / "constraints.txt"
    run(python, "-m", "pip", "install", "--quiet", "--constraint", constraints, wheel)
    tutorial = ROOT / "docs" / "tutorials" / "incident.md"
    commands = [one for block in blocks_of(tutorial) for one, _ in commands_of(block)]
    assert len(commands) > 8
    (tmp_path / "empty").mkdir()
    for command in commands:
        path = f"{tmp_path / 'venv/bin'}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path / "empty",
            env=os.environ | {"PATH": path},
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert done.returncode in (0, 1), command + done.stderr
    assert (tmp_path / "empty" / "incident.html").exists()


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv/bin/python"
    run(python, "-m", "pip", "install", "--quiet", "hatchling")
    run(python, "-m", "hatchling", "build", "-t", "sdist", "-d", folder, folder=ROOT)
    return next(folder.glob("*.tar.gz"))


@pytest.mark.newcomer
@pytest.mark.parametrize("built", ["wheel", "sdist"])
def test_the_demo_runs_where_only_the_package_is_installed(
    built: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    package = request.getfixturevalue(built)
    venv.create(tmp_path / "venv", with_pip=True)
    python, ottla = tmp_path / "venv/bin/python", tmp_path / "venv/bin/ottla"
    constraints = ROOT / "constraints.txt"
    run(python, "-m", "pip", "install", "--quiet", "--constraint", constraints, f"{package}[spark]")
    shown = run(ottla, "demo", "--out", "demo-out", folder=tmp_path)
    assert "Traceback" not in shown
    left = {path.name for path in (tmp_path / "demo-out").iterdir()}
    assert {"kafka-logs", "salvaged", "cleaned", "parquet", "streamed", "report.html"} <= left
