"""The Java that Spark would start; needs no PySpark."""

import os
import re
import shutil
import subprocess
from typing import Final

MINIMUM: Final = 17
# "17.0.15" of 2025, "1.8.0_402" of Java 8.
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')


def find_java_problem() -> str | None:
    """Why Spark cannot start, if Java is to blame."""
    home = os.environ.get("JAVA_HOME")
    where = f"in JAVA_HOME ({home})" if home else "on the PATH"
    java = shutil.which("java", path=os.path.join(home, "bin") if home else None)
    if java is None:
        return f"there is no java {where}"
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    version = _VERSION.search(said.stderr)
    if version is not None and int(version[1]) < MINIMUM:
        return f"the java {where} is of version {version[1]}"
    return None
