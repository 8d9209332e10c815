"""What to say where logs that were asked for are not: what is there, and what may be meant."""

import posixpath
from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Final

from ottla.errors import OptionError
from ottla.log.files.text_logs import is_text_log
from ottla.storage.files import list_files
from ottla.storage.object_store import DEFAULT_OPTIONS, StorageOptions

_SHOWN: Final = 20
_WANTED: Final = (
    "name a log directory of a broker (log.dirs in its server.properties), which holds folders such"
    " as orders-0, or one of those folders"
)


def no_logs(paths: Sequence[str], storage: StorageOptions = DEFAULT_OPTIONS) -> OptionError:
    """For paths below which no file is named as Kafka names segments."""
    found = [entry for path in paths for entry in islice(list_files(path, storage), _SHOWN)]
    if not found:
        return OptionError(f"{', '.join(paths)}: an empty directory; {_WANTED}")
    names = ", ".join(posixpath.basename(entry.path) for entry in found[:3])
    text = next((entry.path for entry in found if is_text_log(entry, storage)), None)
    told = "" if text is None else f" ({text} is text: what a program says, not what Kafka stores)"
    return OptionError(
        f"{', '.join(paths)}: no Kafka logs here, but files such as {names}{told}; {_WANTED}"
    )


def no_topic(missing: Iterable[str], there: Collection[str], paths: Sequence[str]) -> OptionError:
    """For topics of which no partition was found.

    >>> print(no_topic(["order"], {"orders", "clicks"}, ["logs"]))
    no topic order in logs: did you mean orders? There are clicks, orders
    """
    missing = sorted(missing)
    near = [name for topic in missing for name in get_close_matches(topic, there, cutoff=0.7)]
    # The name of a partition's folder is often taken for that of its topic.
    near += [topic.rpartition("-")[0] for topic in missing if topic.rpartition("-")[0] in there]
    meant = f": did you mean {' or '.join(dict.fromkeys(near))}? T" if near else "; t"
    return OptionError(
        f"no topic {' or '.join(missing)} in {', '.join(paths)}{meant}here are {listed(there)}"
    )


def listed(names: Collection[str]) -> str:
    """Names in order, not more than one can read."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return (", ".join(sorted(names)[:_SHOWN]) or "none") + more
