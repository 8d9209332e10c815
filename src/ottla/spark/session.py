"""Start Spark for our own commands: quiet, local unless told otherwise, with warm kernels."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ottla.errors import OptionError
from ottla.spark.failures import explain, other_python

try:
    from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession
    from pyspark.version import __version__ as pyspark_version
except ImportError as missing:
    raise OptionError("this command needs Spark: pip install 'ottla[spark]'") from missing

MINIMUM: Final = (4, 2)  # of Spark, as in pyproject.toml
DEFAULT_MASTER: Final = "local[*]"
_MASTERS: Final = ("local", "spark://", "k8s://")

# Not spark.python.unix.domain.socket.enabled: planners of 4.3 then end in a traceback.
_SETTINGS: Final = {
    "spark.python.daemon.module": "ottla.spark.daemon",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_LOCAL_SETTINGS: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
_LOGGING: Final = Path(__file__).with_name("log4j2.properties")


@contextmanager
def run_session(name: str, master: str | None = None) -> Iterator[SparkSession]:
    """A session for one command; what fails in it for a known reason is told so."""
    spark = start_session(name, master)
    try:
        yield spark
    except (PySparkException, Py4JError) as error:
        known = explain(error)
        if known is None:
            raise
        raise known from error
    finally:
        spark.stop()


def start_session(name: str, master: str | None = None) -> SparkSession:
    """The session of a command on the master that `choose_master` gives."""
    _require_version(pyspark_version, "this Python has")
    _require_java()
    chosen = choose_master(master)
    builder = SparkSession.builder.appName(f"ottla {name}")
    settings = dict(_SETTINGS)
    if chosen is not None:
        settings["spark.master"] = chosen
    if chosen is not None and chosen.startswith("local"):
        # Workers on this machine must be the Python that has ottla, not the first on the PATH.
        _require_same_python(os.environ.setdefault("PYSPARK_PYTHON", sys.executable))
        settings |= _LOCAL_SETTINGS
    if _LOGGING.exists():  # not in a zip
        settings["spark.driver.extraJavaOptions"] = f"-Dlog4j2.configurationFile={_LOGGING}"
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
    except (PySparkException, Py4JError) as error:
        raise OptionError(f"Spark does not start on {chosen}: {_reason(error)}") from error
    _require_version(session.version, f"SPARK_HOME ({os.environ.get('SPARK_HOME')}) is")
    session.sparkContext.setLogLevel("ERROR")
    return session


def choose_master(master: str | None) -> str | None:
    """The URL that is asked for, else MASTER, else this machine; None leaves it to spark-submit."""
    # spark-submit runs Python with the port of the JVM that it has configured.
    if master is None and "PYSPARK_GATEWAY_PORT" in os.environ:
        return None
    chosen = master or os.environ.get("MASTER") or DEFAULT_MASTER
    if chosen != "yarn" and not chosen.startswith(_MASTERS):
        raise OptionError(f"{chosen!r} is no Spark master: yarn, {', '.join(_MASTERS)}...")
    return chosen


def _reason(error: Exception) -> str:
    text = error.java_exception.getMessage() if isinstance(error, Py4JJavaError) else error
    return str(text).partition("\n")[0]


def _require_version(version: str, where: str) -> None:
    if tuple(map(int, version.split(".")[:2])) < MINIMUM:
        needed = ".".join(map(str, MINIMUM))
        raise OptionError(
            f"Ottla needs Spark {needed} or newer, and {where} {version}: pip install"
            f" 'pyspark>={needed}', and let SPARK_HOME, if it is set, be of the same version"
        )


def _require_same_python(python: str) -> None:
    """Refuse a worker that could not read what this Python sends it, before Spark starts."""
    if python == sys.executable:
        return
    question = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        answer = subprocess.run(  # noqa: S603  PYSPARK_PYTHON is what Spark will run too
            [*python.split(), "-c", question], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise OptionError(
            f"PYSPARK_PYTHON is {python!r}, which is no Python that starts: set it to"
            f" {sys.executable}, or unset it"
        ) from error
    driver = f"{sys.version_info.major}.{sys.version_info.minor}"
    if answer.stdout.strip() != driver:
        raise other_python(f"{answer.stdout.strip()} (PYSPARK_PYTHON={python})", driver)


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=os.path.join(home, "bin")) if home else shutil.which("java")
    if found is None:
        where = f"in JAVA_HOME ({home})" if home else "on the PATH"
        raise OptionError(
            f"Spark needs Java 17 or newer, and there is no java {where}: install a JDK, for"
            " example with 'apt install openjdk-17-jre-headless' or 'brew install openjdk@17'"
        )
