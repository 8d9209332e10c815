"""Start Spark's JVM, and pass on what it prints but for its notes about itself.

Spark's launcher always adds a module that is still incubating (JavaModuleOptions), which the JVM
remarks on before there is a logger that could be told not to, and newer JVMs have more to remark.
"""

import os
import threading
from typing import Any, Final

from pyspark import SparkConf
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway

_NOTE: Final = b"WARNING: "  # lines of Spark's loggers begin with a time (log4j2.properties)
_STDERR: Final = 2


def launch_jvm(conf: SparkConf) -> Any:
    """The gateway to a new JVM that Spark has configured."""
    reading, writing = os.pipe()
    passing = threading.Thread(target=_pass_on, args=(reading,), daemon=True)
    passing.start()
    try:
        with os.fdopen(writing, "wb") as stderr:
            pipe = {"stderr": stderr}
            return launch_gateway(conf, popen_kwargs=pipe)  # type: ignore[no-untyped-call]
    except PySparkException:
        passing.join()  # the JVM is gone: its last words come before ours
        raise


def _pass_on(reading: int) -> None:
    with os.fdopen(reading, "rb") as lines:
        for line in lines:
            if not line.startswith(_NOTE):
                os.write(_STDERR, line)
