"""What optional parts of Ottla need, as `pyproject.toml` has it, and the sentence that says so."""

import shlex
import sys
from typing import Final

from ottla.errors import OptionError

EXTRAS: Final = {
    "spark": ("pyspark>=4.0", "pandas<3"),
    "s3": ("boto3>=1.40",),
    "gcs": ("google-cloud-storage>=3.0",),
    "azure": ("azure-storage-blob>=12.25", "azure-identity>=1.20"),
    "pandas": ("pandas<3",),
    "polars": ("polars>=1.20",),
    "duckdb": ("duckdb>=1.3",),
    "tiered": ("pycryptodome>=3.20",),
    "iceberg": ("pyiceberg[sql-sqlite]>=0.12",),
    "delta": ("deltalake>=1.6",),
    "protobuf": ("ptars>=0.0.25", "grpcio-tools>=1.70"),
}


def missing_extra(name: str, what: str) -> OptionError:
    """For what needs packages that are not here."""
    return OptionError(f"{what}, which this Python does not have: {install_command(name)}")


def install_command(name: str, python: str = sys.executable) -> str:
    """What brings an extra, however Ottla itself came here: no index has Ottla.

    >>> install_command("spark", "python")
    "python -m pip install 'pyspark>=4.0' 'pandas<3'"
    """
    return shlex.join([python, "-m", "pip", "install", *EXTRAS[name]])
