"""What violations amount to: how many, where, and the command that acts on the worst of them."""

import posixpath
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from ottla.cli.colours import Part, by_severity
from ottla.cli.partitions import titles_of
from ottla.errors import Row, Severity
from ottla.format.names import TopicPartition
from ottla.jobs.verify.findings import Remedy, advice_on
from ottla.log.files.partition import Partition
from ottla.options.texts import counted, few

_ACTS: Final = (Remedy.SALVAGE, Remedy.RESTORE, Remedy.DUMP)  # in the order of what is worst
_GRAVE: Final = (Severity.ERROR, Severity.WARNING)


@dataclass(slots=True)
class Verdict:
    """Counts violations that pass; of `acts` each is by severity and remedy where it is called for.

    `places` are partitions with an error or a warning, by path, in the order of their finding.
    """

    partitions: Sequence[Partition]
    severities: Counter[str] = field(default_factory=Counter)
    places: dict[str, str] = field(default_factory=dict)
    elsewhere: bool = False
    acts: dict[tuple[Severity, Remedy], dict[TopicPartition, str]] = field(default_factory=dict)

    def see(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The same rows, counted."""
        titles = titles_of(self.partitions)
        for row in rows:
            self.severities[row["severity"]] += 1
            if row["severity"] in _GRAVE:
                self._place(row, titles)
            yield row

    def _place(self, row: Row, titles: dict[str, str]) -> None:
        folder = posixpath.dirname(row["file"]) or "."
        path = row["file"] if row["file"] in titles else folder
        if path not in titles:  # of a log directory: what to do is in the violation
            self.elsewhere = True
            return
        self.places[path] = titles[path]
        name = TopicPartition(row["topic"], row["partition"])
        remedy = advice_on(row["rule"], row["stage"]).remedy
        self.acts.setdefault((row["severity"], remedy), {}).setdefault(name, row["file"])

    def sentence(self) -> list[Part]:
        """How many of each severity, in how many partitions, and in which."""
        counts: list[Part] = [] if self.places or self.elsewhere else ["No errors, no warnings"]
        for severity in Severity:
            if count := self.severities[severity]:
                counts += [", "] if counts else []
                counts.append(by_severity(counted(count, severity), severity))
        return [*counts, f" {self._where()}."]

    def _where(self) -> str:
        whole = counted(len(self.partitions), "partition")
        if not self.places:
            return f"in the log directory, none in {whole}" if self.elsewhere else f"in {whole}"
        beside = ", and in the log directory" if self.elsewhere else ""
        return f"in {len(self.places)} of {whole} ({few([*self.places.values()])}){beside}"

    def command(self, paths: Sequence[str]) -> str | None:
        """What acts on the worst; None where there is nothing to do but to read."""
        for severity in _GRAVE:
            for remedy in _ACTS:
                if places := self.acts.get((severity, remedy)):
                    files = [*places.values()]
                    return remedy_command(remedy, _holding(paths, files), [*places], files[0])
        return None


def _holding(paths: Sequence[str], files: Sequence[str]) -> list[str]:
    """The paths that hold the files: a job takes one replica of a partition, not two."""
    found = [
        path
        for path in paths
        if any(file == path or file.startswith(f"{path.rstrip('/')}/") for file in files)
    ]
    return found or [*paths]


def remedy_command(
    remedy: Remedy, paths: Sequence[str], names: Sequence[TopicPartition], file: str
) -> str:
    """The command line of a remedy for partitions; OUT is for the reader to name."""
    if remedy is Remedy.DUMP:
        return shlex.join(["ottla", remedy, file])
    writes = remedy in (Remedy.SALVAGE, Remedy.RESTORE)
    words = ["ottla", remedy, *paths, *(["OUT"] if writes else [])]
    topics = dict.fromkeys(name.topic for name in names)
    if None not in topics:
        words += [word for topic in topics for word in ("--topic", topic)]
        words += ["--partition", str(names[0].partition)] if len(names) == 1 else []
    return shlex.join(words)
