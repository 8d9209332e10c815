"""What is asked of a clone: its nodes, what comes along, and what the new cluster is called."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from ottla.errors import OptionError
from ottla.log.files.identity import is_uuid
from ottla.options.choice import Choice

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 9092
_MAX_PORT: Final = 65535
_MAX_NODE: Final = 2**31 - 1
_EVERYWHERE: Final = ("0.0.0.0", "::")  # noqa: S104  (to be refused)
MOST_REPLICAS: Final = 3  # where nobody says how many

# MetadataVersion, from the first that a broker of 3.3 or later starts with.
METADATA_VERSIONS: Final = {
    "3.3-IV3": 7, "3.4-IV0": 8, "3.5-IV0": 9, "3.5-IV1": 10, "3.5-IV2": 11, "3.6-IV0": 12,
    "3.6-IV1": 13, "3.6-IV2": 14, "3.7-IV0": 15, "3.7-IV1": 16, "3.7-IV2": 17, "3.7-IV3": 18,
    "3.7-IV4": 19, "3.8-IV0": 20, "3.9-IV0": 21, "4.0-IV0": 22, "4.0-IV1": 23, "4.0-IV2": 24,
    "4.0-IV3": 25, "4.1-IV0": 26, "4.1-IV1": 27, "4.2-IV0": 28, "4.2-IV1": 29, "4.3-IV0": 30,
}  # fmt: skip


class Keep(StrEnum):
    """What comes along besides topics."""

    GROUPS = "groups"
    TRANSACTIONS = "transactions"
    ACLS = "acls"
    QUOTAS = "quotas"
    SCRAM = "scram"
    BROKER_CONFIGS = "broker-configs"
    TOKENS = "tokens"


DEFAULT_KEEP: Final = frozenset({Keep.GROUPS, Keep.TRANSACTIONS})


class Retention(StrEnum):
    """Whether topics delete what is old, as they did, or nothing."""

    KEEP = "keep"
    UNLIMITED = "unlimited"


@dataclass(frozen=True, slots=True)
class CloneRequest:
    """`exclude` are globs of topics that stay behind, `rename` new names of topics by the old.

    Damaged partitions are refused, or `salvage` takes what is intact of them.
    """

    node_ids: tuple[int, ...] = (1,)
    replication: int | None = None
    cluster_id: str | None = None
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    metadata_version: int | None = None
    keep: frozenset[Keep] = DEFAULT_KEEP
    retention: Retention = Retention.UNLIMITED
    exclude: tuple[str, ...] = ()
    rename: Mapping[str, str] = field(default_factory=dict)
    salvage: bool = False

    def __post_init__(self) -> None:
        ids = self.node_ids
        if len(set(ids)) < len(ids) or not all(0 <= each <= _MAX_NODE for each in ids):
            raise OptionError(f"node ids {', '.join(map(str, ids))}: each is one number from 0 on")
        if self.replication is not None and not 1 <= self.replication <= len(ids):
            raise OptionError(
                f"{self.replication} replicas need as many nodes, and there are {len(ids)}"
            )
        if self.cluster_id is not None and not is_uuid(self.cluster_id):
            raise OptionError(
                f"{self.cluster_id!r} is no cluster id: 22 characters as in meta.properties"
            )
        if not 1 <= self.port <= _MAX_PORT - 2 * len(ids) + 1:
            raise OptionError(f"port {self.port} leaves no room for two ports of each node")
        if not self.host or any(not one.isprintable() or one in " ,/@" for one in self.host):
            raise OptionError(f"{self.host!r} is no name or address of a host")
        if self.host in _EVERYWHERE:
            raise OptionError(
                f"{self.host} is no address that clients can be told, and no broker starts with it:"
                " name the one that they shall connect to"
            )

    @property
    def replicas(self) -> int:
        """How many each partition gets."""
        return self.replication or min(len(self.node_ids), MOST_REPLICAS)

    def excludes(self, topic: str) -> bool:
        """Whether a topic stays behind."""
        return bool(self.exclude) and Choice(globs=self.exclude).chooses_topic(topic)

    def described(self) -> dict[str, Any]:
        """All of it as plain values in a fixed order: the names of jobs depend on it."""
        return {
            "nodeIds": self.node_ids,
            "replicas": self.replicas,
            "clusterId": self.cluster_id,
            "host": self.host,
            "port": self.port,
            "metadataVersion": self.metadata_version,
            "keep": sorted(self.keep),
            "retention": self.retention,
            "exclude": self.exclude,
            "rename": sorted(self.rename.items()),
            "salvage": self.salvage,
        }


def parse_metadata_version(text: str) -> int:
    """The level of a metadata version; a release stands for its last one.

    >>> parse_metadata_version("4.0"), parse_metadata_version("3.9-IV0")
    (25, 21)
    """
    of_release = [
        level for name, level in METADATA_VERSIONS.items() if text in (name, name.partition("-")[0])
    ]
    if not of_release:
        first, last = next(iter(METADATA_VERSIONS)), next(reversed(METADATA_VERSIONS))
        raise OptionError(
            f"{text!r} is no metadata version from {first} to {last}, and no release such as 4.0"
        )
    return of_release[-1]


def metadata_version_name(level: int) -> str:
    """
    >>> metadata_version_name(25), metadata_version_name(99)
    ('4.0-IV3', '99')
    """
    return {level: name for name, level in METADATA_VERSIONS.items()}.get(level, str(level))


def parse_keep(texts: tuple[str, ...]) -> frozenset[Keep]:
    """
    >>> sorted(parse_keep(("groups,acls",)))
    [<Keep.ACLS: 'acls'>, <Keep.GROUPS: 'groups'>]
    """
    words = [word.strip() for text in texts for word in text.split(",")]
    unknown = [word for word in words if word and word not in list(Keep)]
    if unknown:
        raise OptionError(f"nothing is called {unknown[0]!r}; there are {', '.join(Keep)}")
    return frozenset(Keep(word) for word in words if word)
