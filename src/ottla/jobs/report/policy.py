"""Which topics are compacted, as far as their log directory says so, or the caller."""

from collections.abc import Iterable, Sequence

from ottla.catalog.catalog import Catalog
from ottla.catalog.chosen import ChosenLogs
from ottla.catalog.missing import require_topics
from ottla.format.names import TopicPartition
from ottla.internal.image import CLEANUP_POLICY, policies_of
from ottla.internal.records import COMPACTED_TOPICS
from ottla.internal.views import VIEWS
from ottla.jobs.read.internal_topics import find_internal_topic, read_current
from ottla.options.choice import choose_topics


def find_compacted(
    chosen: ChosenLogs, asked: Sequence[str], cleaned: Iterable[TopicPartition]
) -> set[str]:
    """The chosen topics that are compacted.

    Those that match a pattern of `asked` count as such; of others `cleanup.policy` in the metadata
    log decides, then whether a cleaner has a checkpoint of them, as it has of no other topics.
    """
    topics = {log.name.topic for log in chosen.logs()}
    choice = choose_topics(asked)
    require_topics(choice, topics, chosen.paths)
    matched = {topic for topic in topics if asked and choice.chooses_topic(topic)}
    policies = _policies(chosen.catalog)
    known = {
        topic
        for topic, policy in policies.items()
        if "compact" in policies_of({CLEANUP_POLICY: policy})
    }
    unknown = (COMPACTED_TOPICS | {name.topic for name in cleaned}) - policies.keys()
    return matched | (topics & (known | unknown))


def _policies(catalog: Catalog) -> dict[str, str]:
    """What topics have as cleanup.policy, where a metadata log is at hand."""
    view = VIEWS["configs"]
    if not any(each.name.topic == view.topic for each in catalog.partitions):
        return {}
    return {
        row["resourceName"]: row["value"]
        for row in read_current(find_internal_topic(catalog, view.topic), view).rows.to_pylist()
        if row["resourceType"] == "TOPIC" and row["name"] == CLEANUP_POLICY and row["value"]
    }
