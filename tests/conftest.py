"""What tests of several folders share: the unpacked corpus and how many random cases run."""

import tarfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from corpus import DATA

# Seeded, so that a run says the same twice; `make soak` draws new cases, and many more of them.
settings.register_profile(
    "seeded",
    derandomize=True,
    max_examples=100,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile(
    "soak", settings.get_profile("seeded"), derandomize=False, max_examples=5000
)
settings.load_profile("seeded")


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with `segments`, `expected` and `expected-nocrc`."""
    folder = tmp_path_factory.mktemp("corpus")
    with tarfile.open(DATA / "corpus.tar.xz") as packed:
        packed.extractall(folder, filter="data")
    return folder
