"""Start Spark for our own commands: quiet, local unless told otherwise, with warm kernels."""

import os
import shutil
import sys
from pathlib import Path
from typing import Final

from ottla.errors import OptionError

try:
    from pyspark.sql import SparkSession
except ImportError as missing:
    raise OptionError("this command needs Spark: pip install 'ottla[spark]'") from missing

DEFAULT_MASTER: Final = "local[*]"

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


def start_session(name: str, master: str | None = None) -> SparkSession:
    """The session of a command; `master` is a Spark master URL, or whatever spark-submit set."""
    _require_java()
    chosen = master or os.environ.get("MASTER") or DEFAULT_MASTER
    builder = SparkSession.builder.appName(f"ottla {name}").master(chosen)
    settings = dict(_SETTINGS)
    if chosen.startswith("local"):
        # Workers on this machine must be the Python that has ottla, not the first on the PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        settings |= _LOCAL_SETTINGS
    if _LOGGING.exists():  # not in a zip
        settings["spark.driver.extraJavaOptions"] = f"-Dlog4j2.configurationFile={_LOGGING}"
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=os.path.join(home, "bin")) if home else shutil.which("java")
    if found is None:
        where = f"in JAVA_HOME ({home})" if home else "on the PATH"
        raise OptionError(
            f"Spark needs Java 17 or newer, and there is no java {where}: install a JDK, for"
            " example with 'apt install openjdk-17-jre-headless' or 'brew install openjdk@17'"
        )
