"""From options to plans: which topic, which registry, which types its records have."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ottla.batch.decode import DEFAULT_MAX_BATCH_BYTES
from ottla.catalog.catalog import Catalog, list_catalog
from ottla.catalog.logs import Log
from ottla.catalog.slices import choose_logs
from ottla.errors import OptionError
from ottla.jobs.schemas.load import load_registry
from ottla.jobs.schemas.usage import CountUses, Usage, sample_usage
from ottla.options.export import ValueAs
from ottla.options.read import ReadOptions, View
from ottla.schemas.decoding import (
    NoSchemaError,
    PayloadPlan,
    UnusableSchemasError,
    plan_payloads,
)
from ottla.schemas.plans import PayloadPlans
from ottla.schemas.registry import Registry, SchemaType
from ottla.schemas.wires import WireFormat

_ONLY: Final = {
    ValueAs.AVRO: SchemaType.AVRO,
    ValueAs.PROTOBUF: SchemaType.PROTOBUF,
    ValueAs.JSONSCHEMA: SchemaType.JSON,
    ValueAs.REGISTRY: None,
}


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of the keys and values of topics."""

    key_as: ValueAs
    value_as: ValueAs
    wire: WireFormat
    max_bytes: int = DEFAULT_MAX_BATCH_BYTES

    def plans(
        self, registry: Registry, topic: str, usage: Usage, refused: list[OptionError]
    ) -> PayloadPlans:
        """The plans of one topic, of which a sample was seen.

        Where the registry decides, a side that has no schemas stays bytes; if it has some that can
        not be used, that is told. A side whose language the user named is refused.
        """
        sides: dict[str, PayloadPlan | None] = {}
        told: list[str] = []
        for side, given in (("key", self.key_as), ("value", self.value_as)):
            sides[side] = None
            try:
                sides[side] = self._plan(registry, topic, side, given, usage)
            except (NoSchemaError, UnusableSchemasError) as error:
                if given is not ValueAs.REGISTRY:
                    raise
                refused.append(error)
                if isinstance(error, UnusableSchemasError):
                    told.append(f"the {side}s of {topic} stay bytes: {error}")
        return PayloadPlans(sides["key"], sides["value"], tuple(told))

    def _plan(
        self, registry: Registry, topic: str, side: str, given: ValueAs, usage: Usage
    ) -> PayloadPlan | None:
        if not given.needs_schemas:
            return None
        seen = [
            (use.writer, use.indexes) for use in usage if (use.topic, use.side) == (topic, side)
        ]
        return plan_payloads(
            registry,
            topic,
            side,
            wire=self.wire,
            only=_ONLY[given],
            seen=seen,
            max_bytes=self.max_bytes,
        )


def resolve_topics(
    catalog: Catalog, logs: Sequence[Log], asked: Asked, schemas: str | None
) -> dict[str, PayloadPlans]:
    """The plans of all topics of some logs.

    Where the registry decides, topics that it knows nothing of stay bytes beside others.
    """
    registry = load_registry(catalog, schemas)
    usage = sample_usage(logs, CountUses(registry, asked.wire, catalog.storage))
    refused: list[OptionError] = []
    found = {
        topic: asked.plans(registry, topic, usage, refused)
        for topic in dict.fromkeys(str(log.name.topic) for log in logs)
    }
    if refused and not any(plans.key or plans.value for plans in found.values()):
        raise next((each for each in refused if isinstance(each, UnusableSchemasError)), refused[0])
    return found


def resolve_payloads(options: ReadOptions, catalog: Catalog | None = None) -> ReadOptions:
    """Options whose columns are known: a typed column is that of one topic."""
    if not (options.key_as.needs_schemas or options.value_as.needs_schemas):
        return options
    if options.view is not View.RECORDS:
        return options
    if catalog is None:
        catalog = list_catalog(options.paths, options.storage)
    logs = choose_logs(catalog, options)
    topic = _only_topic(logs)
    asked = Asked(options.key_as, options.value_as, options.wire, options.max_batch_bytes)
    plans = resolve_topics(catalog, logs, asked, options.schemas)
    for note in notes_of(plans.values()):
        warnings.warn(note, stacklevel=2)
    return replace(options, payloads=plans[topic])


def notes_of(plans: Iterable[PayloadPlans]) -> list[str]:
    """What people should know of plans: schemas that can not be used, rules that hide data."""
    told = [
        note
        for both in plans
        for each in (both, both.key, both.value)
        if each is not None
        for note in each.told
    ]
    return list(dict.fromkeys(told))


def _only_topic(logs: Iterable[Log]) -> str:
    topics = sorted({str(log.name.topic) for log in logs})
    if len(topics) != 1:
        told = ", ".join(topics[:5]) or "none"
        raise OptionError(
            "keys or values that are decoded by schemas have the columns of one topic: choose one"
            f" of those here ({told})"
        )
    return topics[0]
