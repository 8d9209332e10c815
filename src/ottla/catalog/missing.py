"""What to say where logs that were asked for are not: what is there, and what may be meant."""

import posixpath
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import Final

from ottla.errors import OptionError
from ottla.format.names import natural_order, parse_directory_name
from ottla.internal.records import INTERNAL_TOPICS
from ottla.log.files.foreign import find_packing, is_text_log, say_packed
from ottla.options.choice import Choice
from ottla.options.texts import few
from ottla.storage.listing import list_files
from ottla.storage.object_store import DEFAULT_OPTIONS, StorageOptions

_SHOWN: Final = 20
_ICEBERG: Final = (".metadata.json", ".puffin")
_WANTED: Final = (
    "name a log directory of a broker (log.dirs in its server.properties), which holds folders such"
    " as orders-0, or one of those folders"
)


def no_logs(paths: Sequence[str], storage: StorageOptions = DEFAULT_OPTIONS) -> OptionError:
    """For paths below which no file is named as Kafka names segments."""
    listed_files = [list_files(path, storage) for path in paths]
    found = [entry for files in listed_files for entry in files[:_SHOWN]]
    if not found:
        return OptionError(f"{', '.join(paths)}: an empty directory; {_WANTED}")
    if any(entry.path.endswith(_ICEBERG) for files in listed_files for entry in files):
        return OptionError(
            f"{', '.join(paths)}: an Iceberg table, as tiered storage keeps in its Iceberg mode:"
            " rows that were decoded, and no segments; read it with Iceberg"
        )
    names = ", ".join(posixpath.basename(entry.path) for entry in found[:3])
    packed = ((entry.path, find_packing(entry.path)) for entry in found)
    told = next((f" ({say_packed(path, how)})" for path, how in packed if how is not None), "")
    text = next((entry.path for entry in found if is_text_log(entry, storage)), None)
    if text is not None and not told:
        told = f" ({text} is text: what a program says, not what Kafka stores)"
    return OptionError(
        f"{', '.join(paths)}: no Kafka logs here, but files such as {names}{told}; {_WANTED}"
    )


def require_topics(choice: Choice, there: Collection[str], paths: Sequence[str]) -> None:
    """Refuse topics of which no partition was found; internal ones are not listed unasked.

    >>> require_topics(Choice(("order",)), {"orders", "clicks", "__consumer_offsets"}, ["logs"])
    Traceback (most recent call last):
    ottla.errors.OptionError: no topic order in logs: did you mean orders? There are clicks, orders
    """
    missing = sorted(choice.missing_topics(there))
    if not missing:
        return
    near = [name for topic in missing for name in get_close_matches(topic, there, cutoff=0.7)]
    # The name of a partition's folder is often taken for that of its topic.
    near += [topic.rpartition("-")[0] for topic in missing if topic.rpartition("-")[0] in there]
    meant = f": did you mean {' or '.join(dict.fromkeys(near))}? T" if near else "; t"
    raise OptionError(
        f"no topic {' or '.join(missing)} in {', '.join(paths)}{meant}here are"
        f" {listed(set(there) - INTERNAL_TOPICS)}"
    )


def listed(names: Collection[str]) -> str:
    """Names in order, not more than one can read; those of partitions by their numbers.

    >>> listed({"users-10", "users-2", "orders"})
    'orders, users-2, users-10'
    """
    return few(sorted(names, key=_order), _SHOWN) or "none"


def _order(name: str) -> tuple[str, int]:
    parsed, _ = parse_directory_name(name)
    return natural_order(parsed.topic or name, parsed.partition)
