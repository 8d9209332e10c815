"""Numba unpickles the cache of kernels: it lies where nobody else can write, or nowhere."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.kernels.cache import choose_cache


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of our own, and a temporary folder that is not to be trusted."""
    (tmp_path / "home").mkdir(mode=0o700)
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o777)
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home" / ".cache"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    return tmp_path / "home"


def test_the_cache_is_a_folder_of_ours(home: Path) -> None:
    folder = home / ".cache" / "ottla"
    assert choose_cache() == str(folder / "kernels")
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_cache_that_others_could_read_is_closed(home: Path) -> None:
    (home / ".cache" / "ottla").mkdir(parents=True, mode=0o755)
    assert choose_cache() is not None
    assert (home / ".cache" / "ottla").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o757])
@pytest.mark.parametrize("loose", [".cache/ottla", ".cache", ""])
def test_a_cache_that_others_could_write_is_not_used(
    home: Path, capsys: pytest.CaptureFixture[str], loose: str, mode: int
) -> None:
    (home / ".cache" / "ottla").mkdir(parents=True)
    (home / loose).chmod(mode)
    # The sticky bit protects what is there, but lets others add to it.
    protects = mode & 0o1000 and loose != ".cache/ottla"
    assert (choose_cache() is None) == (not protects)
    told = capsys.readouterr().err
    assert told == "" if protects else told.startswith("ottla: kernels are compiled anew")
    assert told.count("\n") == int(not protects)


def test_a_cache_of_another_user_is_not_used(home: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    for given in (home / ".cache" / "ottla", home / ".cache"):
        (home / ".cache" / "ottla").mkdir(parents=True, exist_ok=True)
        os.chown(given, 65534, 65534)
        assert choose_cache() is None
        os.chown(given, 0, 0)
    assert choose_cache() is not None


def test_the_temporary_folder_is_taken_where_the_sticky_bit_protects_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = home.parent / "tmp"
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/none")
    assert choose_cache() is None
    temporary.chmod(0o1777)
    assert choose_cache() == str(temporary / f"ottla-{os.geteuid()}" / "kernels")


@pytest.mark.parametrize("mode", [0o755, 0o777])
def test_a_cache_that_was_named_is_taken_or_none(
    home: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    named = home / "named"
    named.mkdir()
    named.chmod(mode)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(named))
    assert choose_cache() == (str(named) if mode == 0o755 else None)


def test_kernels_work_without_a_cache(home: Path) -> None:
    named = home / "named"
    named.mkdir()
    named.chmod(0o777)
    script = (
        "import numpy as np\n"
        "from ottla.kernels.bytes.crc import crc32c\n"
        "print(crc32c(np.frombuffer(b'123456789' + bytes(64), dtype=np.uint8), 0, 9))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"NUMBA_CACHE_DIR": str(named), "NUMBA_DISABLE_JIT": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{0xE3069283}\n"
    assert "compiled anew" in done.stderr
    assert list(named.iterdir()) == []


def test_a_link_in_the_temporary_folder_is_not_followed(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary, victim = home.parent / "tmp", home.parent / "victim"
    temporary.chmod(0o1777)
    victim.mkdir(mode=0o755)
    (temporary / f"ottla-{os.geteuid()}").symlink_to(victim)
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/none")
    assert choose_cache() is None
    assert victim.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("ending", ["nbi", "nbc"])
@pytest.mark.parametrize(
    "left",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"cottla.region\nNoClass\n.", id="class-gone"),
        pytest.param(b"cottla.none\nNoClass\n.", id="module-gone"),
        pytest.param(b"N.", id="other-shape"),
    ],
)
def test_a_file_that_can_not_be_used_is_made_again(home: Path, ending: str, left: bytes) -> None:
    code = (
        "import numpy as np; from ottla.kernels.bytes.crc import crc32c;"
        "print(crc32c(np.zeros(64, dtype=np.uint8), 0, 9))"
    )
    compiled = os.environ | {"NUMBA_DISABLE_JIT": "0"}
    first = subprocess.check_output([sys.executable, "-c", code], env=compiled)
    files = list(home.rglob(f"crc.crc32c-*.{ending}"))
    assert files
    whole = {path: path.stat().st_size for path in files}
    for path in files:
        path.write_bytes(left)
    assert subprocess.check_output([sys.executable, "-c", code], env=compiled) == first
    assert {path: path.stat().st_size > len(left) for path in whole} == dict.fromkeys(whole, True)
