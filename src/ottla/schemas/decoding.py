"""Keys or values of a topic as typed columns, by the schemas of a registry.

Which types there are is decided once, before anything is read (`plan_payloads`): each has a reader,
the newest schema of its name that can be used. Whatever a record turns out to be after that, it is
a value of one of these types, or null, and its bytes and the reason are kept.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.errors import OptionError, SchemaError, Term
from ottla.format.arrays import Bools, Int64s
from ottla.schemas.fitting import bisect, extends, fit, fit_type
from ottla.schemas.payloads import (
    Faults,
    Named,
    Naming,
    Writer,
    find_named,
    split_column,
)
from ottla.schemas.registry import NO_ID, Registry, SchemaType, State, Version
from ottla.schemas.unzip import unzip
from ottla.schemas.wires import WireFormat

OTHER: Final = "_other"  # no type is called so: an export has what is of none under this name
_MOST_COUNTED: Final = 1000  # schemas that an account names one by one
_MOST_ROWS: Final = 32_768  # decoded at once: each takes memory for every column
_MOST_TRIED: Final = 20  # versions, from the newest on, for one that can be used


class Fault(StrEnum):
    """Why a payload is not decoded."""

    NOT_NAMED = "names no schema"
    UNKNOWN = "no such schema"
    UNUSABLE = "unusable schema"
    UNRESOLVED = "does not resolve"
    LOSES_FIELDS = "fields without a column"
    OTHER_TYPE = "another type"
    ENCODED = "encoded by a rule"
    AS_JSON = "Avro as JSON"
    BROKEN = "broken payload"
    NO_ZLIB = "broken payload (no zlib)"
    TOO_LARGE = "too large"
    NO_ROOM = "no room in the column"


class NoSchemaError(OptionError):
    """Nothing is known of the keys or values of a topic."""


class UnusableSchemasError(OptionError):
    """None of the schemas of a topic can be used."""


class LanguageDecoder(Protocol):
    """Payloads of one writer to a column of one type."""

    arrow_type: pa.DataType
    too_large: int  # the fault of what does not fit into the bytes that are left

    def decode(self, payloads: pa.Array, max_bytes: int) -> tuple[pa.Array, Faults]:
        """A column, and what is wrong with each row; 0 for nothing."""

    def say(self, fault: int) -> str:
        """What is wrong, in a word."""


@dataclass(frozen=True, slots=True)
class RecordType:
    """A type of records in a topic: its name, its column, and the schema that it is read with."""

    name: str
    column: str
    type: SchemaType
    reader: Version
    arrow_type: pa.DataType
    older: tuple[Version, ...] = ()  # whose fields have columns too
    more: tuple["Dropped", ...] = ()


class Dropped(NamedTuple):
    """Fields that the newest message has not any more, and the newest one that has them.

    Only of Protobuf: what is absent there has a default in one schema, and is null in the other.
    """

    version: Version
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PayloadPlan:
    """How the keys or the values of a topic are decoded; `told` is for people."""

    topic: str
    side: str
    wire: WireFormat
    registry: Registry
    types: tuple[RecordType, ...]
    told: tuple[str, ...]
    max_bytes: int

    @property
    def arrow_type(self) -> pa.DataType:
        """Of the column: that of the only type, else a struct with a field for each."""
        if len(self.types) == 1:
            return self.types[0].arrow_type
        return pa.struct([pa.field(one.column, one.arrow_type) for one in self.types])

    def type_of(self, kind: SchemaType, name: str) -> int | None:
        for at, one in enumerate(self.types):
            if (one.type, one.name) == (kind, name):
                return at
        return None


class DecodedPayloads(NamedTuple):
    """A column; where it failed it is null. `types` are the numbers of the types, -1 for none.

    By name of a schema how many rows were `decoded`; by reason and schema which were not.
    """

    column: pa.Array
    failed: Bools
    types: Int64s
    decoded: Counter[str]
    failures: dict[str, list[Int64s]]


def language(kind: SchemaType) -> Any:
    """The module for a language; that of Protobuf needs packages that few have."""
    if kind is SchemaType.AVRO:
        from ottla.schemas import avro_language

        return avro_language
    if kind is SchemaType.PROTOBUF:
        from ottla.schemas import protobuf_language

        return protobuf_language
    from ottla.schemas import json_language

    return json_language


class _FoundSchema(NamedTuple):
    """A schema that a topic uses, or would by the name of its subject."""

    version: Version
    indexes: tuple[int, ...] = (0,)


def plan_payloads(
    registry: Registry,
    topic: str,
    side: str,
    *,
    wire: WireFormat,
    only: SchemaType | None,
    seen: Iterable[tuple[Writer, tuple[int, ...]]],
    max_bytes: int,
) -> PayloadPlan:
    """Decide on the types of a topic: those of its subjects, and those that its records use."""
    told: list[str] = []
    groups: dict[tuple[SchemaType, str], list[_FoundSchema]] = {}
    for found in _candidates(registry, topic, side, seen):
        if only is not None and found.version.type is not only:
            continue
        try:
            names = language(found.version.type).names(found.version, registry, found.indexes)
        except SchemaError as error:
            told.append(f"{found.version} cannot be used: {error}")
            continue
        for name in names:
            groups.setdefault((found.version.type, name), []).append(found)
    types: list[RecordType] = []
    for (kind, name), members in groups.items():
        made = _choose_reader(registry, kind, name, members, told)
        if made is not None:
            types.append(made)
    if not types:
        refusal = UnusableSchemasError if told else NoSchemaError
        why = f": {told[0]}" if told else ""
        raise refusal(
            f"no schema for the {side}s of {topic} can be used{why}; ",
            *(Term.SCHEMAS, " shows what there is"),
        )
    _tell_rules(groups, told)
    columns = _columns([one.name for one in types])
    named = tuple(replace(one, column=column) for one, column in zip(types, columns, strict=True))
    return PayloadPlan(topic, side, wire, registry, named, tuple(dict.fromkeys(told)), max_bytes)


def _candidates(
    registry: Registry, topic: str, side: str, seen: Iterable[tuple[Writer, tuple[int, ...]]]
) -> Iterator[_FoundSchema]:
    """Those of the topic's subject, then those that records name.

    A file of Protobuf has many messages: its first is meant only where no record says otherwise.
    """
    used = [
        _FoundSchema(found, indexes)
        for writer, indexes in seen
        if (found := find_writer(registry, writer, topic, side)) is not None
    ]
    is_known = any(one.version.type is SchemaType.PROTOBUF for one in used)
    for subject in registry.subjects_named(f"{topic}-{side}")[:1]:
        for version in registry.of_subject(subject)[:_MOST_TRIED]:
            hidden = is_known and version.type is SchemaType.PROTOBUF
            if version.state is not State.HARD and not hidden:
                yield _FoundSchema(version)
    yield from used


def find_writer(registry: Registry, writer: Writer, topic: str, side: str) -> Version | None:
    """The schema that payloads name; without ids in the registry, that of the topic's subject."""
    if writer.naming is not Naming.NONE:
        found = find_named(writer, registry)
    elif writer.wire is WireFormat.NONE:
        newest = [
            one
            for subject in registry.subjects_named(f"{topic}-{side}")[:1]
            for one in registry.of_subject(subject)[:1]
        ]
        return newest[0] if newest else None
    else:
        return None
    if found is None:
        files = [one for one in registry.of_subject(f"{topic}-{side}") if one.id == NO_ID]
        found = files[0] if files else None
    return found


def _choose_reader(
    registry: Registry,
    kind: SchemaType,
    name: str,
    members: Sequence[_FoundSchema],
    told: list[str],
) -> RecordType | None:
    """The newest schema of a name that can be used; what is newer and can not is told."""
    subjects = dict.fromkeys(one.version.subject for one in members)
    versions = [one for subject in subjects for one in registry.of_subject(subject)[:_MOST_TRIED]]
    versions += [one.version for one in members]
    spoken = language(kind)
    for version in dict.fromkeys(one for one in versions if one.type is kind):
        try:
            if name not in spoken.all_names(version, registry):
                continue
            arrow_type = _own_type(version, name, registry)
        except SchemaError as error:
            told.append(f"{version} cannot be used: {error}")
            continue
        others = _older(version, versions, name, registry)
        made = RecordType(name, name, kind, version, arrow_type)
        if kind is SchemaType.PROTOBUF:
            return _with_messages(made, others)
        return _with_older(made, others, registry)
    return None


def _own_type(version: Version, name: str, registry: Registry) -> pa.DataType:
    spoken = language(version.type)
    return fit_type(spoken.decoder(version, version, name, registry).arrow_type)


def _older(
    reader: Version, versions: Sequence[Version], name: str, registry: Registry
) -> Iterator[tuple[Version, pa.DataType]]:
    """The other versions of a type, and what columns they have for themselves."""
    for version in dict.fromkeys(each for each in versions if each.type is reader.type):
        try:
            if version != reader and name in language(reader.type).all_names(version, registry):
                yield version, _own_type(version, name, registry)
        except SchemaError:
            continue


def _with_older(
    made: RecordType, others: Iterable[tuple[Version, pa.DataType]], registry: Registry
) -> RecordType:
    """The same with all columns that older versions had: none goes because a schema changed.

    An older version that would change other columns is left out, as one that comes to too much.
    """
    spoken, reader = language(made.type), made.reader
    for version, own in others:
        if extends(made.arrow_type, own):
            continue
        older = (*made.older, version)
        try:
            merged = spoken.decoder(reader, reader, made.name, registry, older=older)
        except SchemaError:
            continue
        arrow_type = fit_type(merged.arrow_type)
        if extends(arrow_type, made.arrow_type):
            made = replace(made, arrow_type=arrow_type, older=older)
    return made


def _with_messages(made: RecordType, others: Iterable[tuple[Version, pa.DataType]]) -> RecordType:
    """The same for messages, as far as their own fields go."""
    if not pa.types.is_struct(made.arrow_type):
        return made
    fields, more = list(made.arrow_type), []
    taken = {each.name.lower() for each in fields}
    for version, own in others:
        gone = [each for each in own if each.name.lower() not in taken]
        fields += gone
        taken |= {each.name.lower() for each in gone}
        more += [Dropped(version, tuple(each.name for each in gone))] if gone else []
    return replace(made, arrow_type=pa.struct(fields), more=tuple(more))


def _tell_rules(groups: dict[tuple[SchemaType, str], list[_FoundSchema]], told: list[str]) -> None:
    for version in dict.fromkeys(one.version for each in groups.values() for one in each):
        if version.encoding_rules:
            rules = ", ".join(version.encoding_rules)
            told.append(f"{version} has rules that encode payloads ({rules}): they stay bytes")
        if any("ENCRYPT" in rule for rule in version.field_rules):
            told.append(f"{version} has rules that encrypt fields: these stay as they are")


def _columns(names: Sequence[str]) -> list[str]:
    """Names of columns: the last part of a type's name, or all of it where two end alike."""
    short = [_plain(name.rpartition(".")[2]) for name in names]
    lower = Counter(name.lower() for name in short)
    chosen = [
        one if lower[one.lower()] == 1 else _plain(name)
        for one, name in zip(short, names, strict=True)
    ]
    taken = {OTHER}
    for at, name in enumerate(chosen):
        number = 1
        while chosen[at].lower() in taken:
            number += 1
            chosen[at] = f"{name}_{number}"
        taken.add(chosen[at].lower())
    return chosen


def _plain(name: str) -> str:
    return "".join(one if one.isalnum() or one == "_" else "_" for one in name) or "_"


@dataclass(slots=True)
class PayloadDecoder:
    """Decodes columns by a plan and counts: records by schema, failures by reason and schema."""

    plan: PayloadPlan
    decoded: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    _decoders: dict[Any, Any] = field(default_factory=dict)

    def decode(self, values: pa.Array, headers: pa.Array | None) -> DecodedPayloads | None:
        """The column of the plan's type for a column of bytes; None if it takes too much memory.

        A single value that does is a failure.
        """
        work = _Work(self.plan, values)
        for named in split_column(
            values, headers, self.plan.side, self.plan.wire, self.plan.registry
        ):
            self._decode_named(named, work)
            if work.is_full and len(values) > 1:
                return None
        return work.finish()

    def count(self, found: DecodedPayloads) -> None:
        """Count what was decoded, and what was not."""
        for name, count in found.decoded.items():
            _count(self.decoded, name, count)
        for name, rows in found.failures.items():
            _count(self.failed, name, sum(each.size for each in rows))

    def _decode_named(self, named: Named, work: "_Work") -> None:
        plan = self.plan
        version = find_writer(plan.registry, named.writer, plan.topic, plan.side)
        if version is None:
            is_bare = named.writer.naming is Naming.NONE
            work.fail(Fault.NOT_NAMED if is_bare else Fault.UNKNOWN, named.writer, named.rows)
            return
        if version.encoding_rules or (named.writer.is_json and version.type is SchemaType.AVRO):
            hidden = Fault.ENCODED if version.encoding_rules else Fault.AS_JSON
            work.fail(hidden, named.writer, named.rows)
            return
        payloads, rows = named.payloads(work.values), named.rows
        if named.writer.is_zipped:
            unzipped = unzip(payloads, work.budget)
            work.fail(Fault.TOO_LARGE, named.writer, rows[unzipped.is_too_large])
            work.fail(Fault.NO_ZLIB, named.writer, rows[unzipped.is_broken])
            bad = unzipped.is_too_large | unzipped.is_broken
            payloads, rows = _without(bad, unzipped.payloads, rows)
            work.spend(payloads)
            if work.is_full:
                return
        spoken = language(version.type)
        for part in spoken.split(payloads, named, work.values, version, plan.registry):
            chosen = rows[part.rows]
            decoder = self._decoder(version, named.writer, part.indexes)
            if isinstance(decoder, Fault):
                work.fail(decoder, named.writer, chosen)
                continue
            at, run = decoder
            column, faults = run.decode(part.payloads, work.budget)
            bad = faults != 0
            for code in np.unique(faults[bad]).tolist():
                is_large = code == run.too_large
                why = Fault.TOO_LARGE if is_large else f"{Fault.BROKEN} ({run.say(code)})"
                work.fail(why, named.writer, chosen[faults == code])
            column, chosen = _without(bad, column, chosen)
            kind = plan.types[at].arrow_type
            column, unfit = bisect(column, partial(fit, kind=kind), kind)
            work.fail(Fault.NO_ROOM, named.writer, chosen[unfit])
            column, chosen = _without(unfit, column, chosen)
            work.put(at, chosen, column)
            work.decoded[str(named.writer)] += int(chosen.size)

    def _decoder(self, version: Version, writer: Writer, indexes: tuple[int, ...]) -> Any:
        """The number of a type and what decodes to it, or why nothing does."""
        key = version.subject, version.version, version.id, writer.wire, indexes
        if key not in self._decoders:
            if len(self._decoders) >= _MOST_COUNTED:
                self._decoders.clear()  # strangers name messages without end
            self._decoders[key] = self._find_decoder(version, writer, indexes)
        return self._decoders[key]

    def _find_decoder(self, version: Version, writer: Writer, indexes: tuple[int, ...]) -> Any:
        spoken, registry = language(version.type), self.plan.registry
        try:
            (name, *_) = spoken.names(version, registry, indexes)
        except (SchemaError, ValueError):
            return Fault.UNUSABLE
        at = self.plan.type_of(version.type, name)
        if at is None:
            return Fault.OTHER_TYPE
        kind = self.plan.types[at]
        try:
            made = spoken.decoder(version, kind.reader, name, registry, writer.wire, kind.older)
            if _loses_fields(version, kind, name, registry):
                return Fault.LOSES_FIELDS
            return at, _with_dropped(made, kind, version, name, registry, writer.wire)
        except SchemaError:
            return Fault.UNRESOLVED


def decode_pieces(
    records: pa.RecordBatch, decoders: Mapping[str, PayloadDecoder]
) -> Iterator[tuple[pa.RecordBatch, dict[str, DecodedPayloads]]]:
    """Records and what schemas make of their columns, few at a time: fewer where memory is short.

    Only a single record may be too large.
    """
    count = records.num_rows
    waiting = [records.slice(at, _MOST_ROWS) for at in range(0, count, _MOST_ROWS)][::-1]
    while waiting:
        piece = waiting.pop()
        headers = piece.column("headers")
        made: dict[str, DecodedPayloads] = {}
        for name, decoder in decoders.items():
            found = decoder.decode(piece.column(name), headers)
            if found is None:
                middle = piece.num_rows // 2
                waiting += [piece.slice(middle), piece.slice(0, middle)]
                break
            made[name] = found
        else:
            for name, found in made.items():
                decoders[name].count(found)
            yield piece, made


def _count(counter: Counter[str], name: str, count: int) -> None:
    if count:
        full = len(counter) >= _MOST_COUNTED and name not in counter
        counter["others" if full else name] += int(count)


def _loses_fields(writer: Version, kind: RecordType, name: str, registry: Registry) -> bool:
    """Whether a field of the writer, at any depth, has no column: no sample told of its schema."""
    if writer == kind.reader:
        return False
    spoken = language(kind.type)
    lost: set[str] = spoken.lost_fields(writer, kind.reader, name, registry, kind.older)
    for each in kind.more:
        if lost.intersection(each.names):
            still = spoken.lost_fields(writer, each.version, name, registry)
            lost -= set(each.names) - still
    return bool(lost)


def _with_dropped(
    made: LanguageDecoder,
    kind: RecordType,
    writer: Version,
    name: str,
    registry: Registry,
    wire: WireFormat,
) -> LanguageDecoder:
    """The same, with the fields that only older schemas have, where the writer's is such a one."""
    if not kind.more:
        return made
    spoken = language(kind.type)
    own = spoken.decoder(writer, writer, name, registry, wire).arrow_type
    there = {each.name for each in own}
    others = [
        (spoken.decoder(writer, each.version, name, registry, wire), each.names)
        for each in kind.more
        if there.intersection(each.names)
    ]
    return _Joined(made, others, kind.arrow_type)


class _Joined:
    """Payloads decoded by several schemas, side by side in one struct."""

    def __init__(
        self,
        first: LanguageDecoder,
        others: Sequence[tuple[LanguageDecoder, Sequence[str]]],
        arrow_type: pa.DataType,
    ) -> None:
        self.first = first
        self.others = others
        self.arrow_type = arrow_type
        self.too_large = first.too_large

    def decode(self, payloads: pa.Array, max_bytes: int) -> tuple[pa.Array, Faults]:
        """Columns of the first, then of the others; what is in none is null."""
        column, faults = self.first.decode(payloads, max_bytes)
        found = dict(zip((each.name for each in column.type), column.flatten(), strict=True))
        for decoder, names in self.others:
            max_bytes = max(0, max_bytes - column.nbytes)
            column, more = decoder.decode(payloads, max_bytes)
            faults = np.where(faults == 0, more, faults)
            found |= {name: pc.struct_field(column, name) for name in names}
        fields = [
            pa.field(each.name, found[each.name].type if each.name in found else each.type)
            for each in self.arrow_type
        ]
        columns = [
            found[each.name] if each.name in found else pa.nulls(len(payloads), each.type)
            for each in fields
        ]
        return pa.StructArray.from_arrays(columns, fields=fields), faults

    def say(self, fault: int) -> str:
        return self.first.say(fault)


class _Work:
    """A column while it is made: pieces of each type and the rows that they are for."""

    def __init__(self, plan: PayloadPlan, values: pa.Array) -> None:
        self.plan = plan
        self.values = values
        self.present = values.is_valid().to_numpy(zero_copy_only=False)
        self.budget = plan.max_bytes
        self.pieces: list[tuple[list[Int64s], list[pa.Array]]] = [([], []) for _ in plan.types]
        self.types = np.full(len(values), -1, np.int64)
        self.decoded: Counter[str] = Counter()
        self.failures: dict[str, list[Int64s]] = {}
        self.is_full = False

    def fail(self, fault: str, writer: Writer, rows: Int64s) -> None:
        if rows.size:
            self.is_full |= fault == Fault.TOO_LARGE
            self.failures.setdefault(f"{fault}: {writer}", []).append(rows)

    def spend(self, column: pa.Array) -> None:
        """One budget for a whole column, however many schemas it has."""
        self.budget = max(0, self.budget - column.nbytes)

    def put(self, at: int, rows: Int64s, column: pa.Array) -> None:
        if rows.size:
            self.pieces[at][0].append(rows)
            self.pieces[at][1].append(column)
            self.types[rows] = at
            self.spend(column)

    def finish(self) -> DecodedPayloads:
        columns = [self._join(at) for at in range(len(self.plan.types))]
        none = self.types < 0
        failed = none & self.present
        told = self.decoded, self.failures
        if len(columns) == 1:
            return DecodedPayloads(columns[0], failed, self.types, *told)
        fields = list(self.plan.arrow_type)
        mask = pa.array(none)
        column = pa.StructArray.from_arrays(columns, fields=fields, mask=mask)
        return DecodedPayloads(column, failed, self.types, *told)

    def _join(self, at: int) -> pa.Array:
        rows, columns = self.pieces[at]
        count = len(self.values)
        if not rows:
            return pa.nulls(count, self.plan.types[at].arrow_type)
        places = np.concatenate(rows)
        joined = pa.concat_arrays(columns) if len(columns) > 1 else columns[0]
        if places.size == count and (np.diff(places) > 0).all():
            return joined
        order = np.full(count, -1, np.int64)
        order[places] = np.arange(places.size)
        return joined.take(pa.array(order, mask=order < 0))


def _without(bad: Bools, column: pa.Array, rows: Int64s) -> tuple[pa.Array, Int64s]:
    """What is left of a column and of its rows; mostly all of it."""
    return (column.filter(pa.array(~bad)), rows[~bad]) if bad.any() else (column, rows)
