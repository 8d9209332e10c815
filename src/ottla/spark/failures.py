"""Why Spark failed, as an error that says what to do; Spark's own are pages of two languages."""

import builtins
import re
import sys
from typing import Final

from ottla.errors import OptionError

# The last line of a traceback, as Python prints it. Spark puts that of a worker into its message.
_RAISED: Final = re.compile(r"^(\w+): (?:\[Errno (\d+)\] )?(.*)$", re.MULTILINE)
_OS_ERRORS: Final = frozenset(
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, OSError)
)
_NAMED: Final = re.compile(r"(.*): '(.*)'")
_VERSIONS: Final = re.compile(r"different version: ([\d.]+) than that in driver: ([\d.]+\d)")
_NO_OTTLA: Final = re.compile(r"No module named '?(?:ottla|pyspark)\b")
_NO_SPACE: Final = re.compile(r"java\.io\.IOException: (?:No space left|Disk quota exceeded)")


def explain(error: Exception) -> Exception | None:
    """What went wrong outside of us, or None where it was nothing that is known."""
    text = str(error)
    if versions := _VERSIONS.search(text):
        return other_python(*versions.groups())
    if _NO_OTTLA.search(text):
        return no_ottla()
    if _NO_SPACE.search(text):
        return OptionError(
            "no space left where Spark keeps what it sorts: free some, or set SPARK_LOCAL_DIRS to"
            " a folder on a larger disk"
        )
    return _error_of_the_machine(text)


def no_ottla(python: str | None = None) -> OptionError:
    """Spark's workers run what the driver's Python has, and take the first python3 for it."""
    which = "" if python is None else f" ({python})"
    return OptionError(
        f"the Python of Spark's workers{which} lacks ottla or PySpark: install there what is"
        f" installed here ({sys.executable}), or set PYSPARK_PYTHON to a Python that has both"
    )


def other_python(worker: str, driver: str) -> OptionError:
    """Spark sends code between Pythons, which only those of one minor version understand."""
    return OptionError(
        f"Spark's workers have Python {worker}, this command has {driver}: set PYSPARK_PYTHON, on"
        f" every machine, to a Python {driver} that has ottla"
    )


def _error_of_the_machine(text: str) -> OSError | None:
    """The OSError that a task died of, as it was raised there."""
    raised = [found for found in _RAISED.finditer(text) if found[1] in _OS_ERRORS]
    if not raised:
        return None
    number, message = raised[-1].group(2, 3)
    if number is None:
        return OSError(message)
    named = _NAMED.fullmatch(message)
    return OSError(int(number), named[1], named[2]) if named else OSError(int(number), message)
