"""What tests of several folders share: the unpacked corpus and how many random cases run."""

import os
import tarfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from corpus import DATA
from ottla.notices import COMPILING
from tiered.encoder import KEYS

# A process says once that kernels compile: here that would be in whichever test comes first. Tests
# of that sentence run commands in processes of their own.
COMPILING._told = True

# Spark's workers have the environment in which the JVM of this process was started, and whichever
# test comes first starts it.
os.environ |= {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "OTTLA_TIERED_KEYS": str(KEYS),
}

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
