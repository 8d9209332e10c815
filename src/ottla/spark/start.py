"""Start Spark, quiet, local unless told otherwise, with workers that have ottla."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote
from pyspark.version import __version__ as pyspark_version

from ottla.errors import OptionError
from ottla.spark.failures import explain, no_ottla, other_python
from ottla.spark.java import MINIMUM as JAVA
from ottla.spark.java import find_java_problem
from ottla.spark.jvm import launch_jvm
from ottla.spark.versions import MINIMUM, format_version, minor_version

DEFAULT_MASTER: Final = "local[*]"
_MASTERS: Final = ("local", "spark://", "k8s://")
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"  # spark-submit runs Python with the port of its JVM

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


def find_session() -> SparkSession | None:
    """The session that runs in this process already, if its workers have ottla."""
    spark = SparkSession.getActiveSession()
    if is_remote():
        return spark  # what its workers have is known to the server only
    if spark is not None and str(spark.sparkContext.master).startswith("local"):
        _require_same_python(spark.sparkContext.pythonExec)
    return spark


def refuse_connect() -> None:
    """Refuse to run a job where the session of this process is one of Spark Connect."""
    if is_remote():
        raise OptionError(
            "the session of this process is one of Spark Connect: source and sink work there, jobs"
            " do not. Run the job in a process of its own, or in this one with engine local"
        )


def start_session(
    name: str, master: str | None = None, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """The session of a command on the master that `choose_master` gives."""
    _require_version()
    _refuse_remote()
    _require_java()
    chosen = choose_master(master)
    if chosen is not None and chosen.startswith("local"):
        # Workers on this machine must be the Python that has ottla, not the first on the PATH.
        _require_same_python(os.environ.setdefault("PYSPARK_PYTHON", sys.executable))
    conf = SparkConf().setAll([*(_settings(name, chosen) | dict(settings or {})).items()])
    try:
        session = _open(conf)
    except (PySparkException, Py4JError) as error:
        raise OptionError(f"Spark does not start on {chosen}: {_reason(error)}") from error
    _require_same_version(session.version)
    session.sparkContext.setLogLevel("ERROR")
    return session


def _settings(name: str, master: str | None) -> dict[str, str]:
    settings = _SETTINGS | {"spark.app.name": f"ottla {name}"}
    if master is not None:
        settings["spark.master"] = master
    if master is not None and master.startswith("local"):
        settings |= _LOCAL_SETTINGS
    if _LOGGING.exists():  # not in a zip
        settings["spark.driver.extraJavaOptions"] = f"-Dlog4j2.configurationFile={_LOGGING}"
    return settings


def _open(conf: SparkConf) -> SparkSession:
    has_jvm = SparkContext._gateway is not None or _SUBMITTED in os.environ  # noqa: SLF001
    if not has_jvm:
        SparkContext(conf=conf, gateway=launch_jvm(conf))
    return SparkSession.builder.config(conf=conf).getOrCreate()


def choose_master(master: str | None) -> str | None:
    """The URL that is asked for, else MASTER, else this machine; None leaves it to spark-submit."""
    if master is None and _SUBMITTED in os.environ:
        return None
    chosen = master or os.environ.get("MASTER") or DEFAULT_MASTER
    if chosen.startswith("sc://"):
        raise OptionError(
            f"{chosen!r} is a server of Spark Connect: source and sink work there, jobs do not."
            " Name the cluster's master, such as spark://host:7077"
        )
    if chosen != "yarn" and not chosen.startswith(_MASTERS):
        raise OptionError(
            f"{chosen!r} is no Spark master: local[*] or spark://HOST:PORT; yarn and k8s:// are"
            " given to Spark as they are, and were not tried"
        )
    return chosen


def _reason(error: Exception) -> str:
    text = error.java_exception.getMessage() if isinstance(error, Py4JJavaError) else error
    return str(text).partition("\n")[0]


def _require_version() -> None:
    if minor_version(pyspark_version) < MINIMUM:
        needed = format_version(MINIMUM)
        raise OptionError(
            f"Ottla needs Spark {needed} or newer, and this Python has {pyspark_version}: pip"
            f" install 'pyspark>={needed}', and let SPARK_HOME, if it is set, be of the same"
            " version"
        )


def _refuse_remote() -> None:
    """Refuse a variable by which no JVM starts; it may have a token in it, so it is not shown."""
    if "SPARK_REMOTE" in os.environ:
        raise OptionError(
            "SPARK_REMOTE names a server of Spark Connect: source and sink work there, in a session"
            " that you make yourself, and jobs do not. Unset it"
        )


def _require_same_version(jvm: str) -> None:
    """Refuse a JVM that SPARK_HOME has from elsewhere: its Python workers are of its version."""
    if minor_version(jvm) != minor_version(pyspark_version):
        raise OptionError(
            f"SPARK_HOME ({os.environ.get('SPARK_HOME')}) is Spark {jvm}, and this Python has"
            f" PySpark {pyspark_version}: unset SPARK_HOME, or install 'pyspark=={jvm}'"
        )


def _require_same_python(python: str) -> None:
    """Refuse a worker that could not read what this Python sends it, before Spark starts."""
    if python == sys.executable:
        return
    question = (
        "import sys; from importlib.util import find_spec;"
        "print('%d.%d' % sys.version_info[:2], find_spec('ottla') is not None)"
    )
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
    version, _, has_ottla = answer.stdout.strip().partition(" ")
    if version != driver:
        raise other_python(f"{version} (PYSPARK_PYTHON={python})", driver)
    if has_ottla != "True":
        raise no_ottla(python)


def _require_java() -> None:
    problem = find_java_problem()
    if problem is not None:
        raise OptionError(
            f"Spark needs Java {JAVA} or newer, and {problem}: install a JDK, for example with"
            f" 'apt install openjdk-{JAVA}-jre-headless' or 'brew install openjdk@{JAVA}'"
        )
