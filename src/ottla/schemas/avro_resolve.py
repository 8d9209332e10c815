"""What becomes of a writer's type in a reader's: Avro's schema resolution, each pair once.

Plans are a graph: types that contain themselves have plans that do. A pair that does not resolve is
remembered as such, so that no schema takes longer than its pairs.
"""

from dataclasses import dataclass, field

from ottla.errors import SchemaError
from ottla.schemas.avro_schema import MAX_DEPTH, AvroField, AvroSchema, AvroType

MAX_PAIRS = 200_000

_PROMOTIONS = {
    ("int", "long"),
    ("int", "float"),
    ("int", "double"),
    ("long", "float"),
    ("long", "double"),
    ("float", "double"),
    ("string", "bytes"),
    ("bytes", "string"),
}


@dataclass(slots=True, eq=False)
class Resolved:
    """How to read one type of the writer as one of the reader."""

    writer: int
    reader: int
    kind: str  # the writer's kind, or "into" a branch of the reader's union
    # Of a record, in the writer's order: what is read into which field; None and -1 are skipped.
    parts: list[tuple["Resolved | None", int]] = field(default_factory=list)
    missing: list[int] = field(default_factory=list)  # fields of the reader that take their default
    branches: list["Resolved | None"] = field(default_factory=list)
    choice: int = 0  # the branch of the reader
    item: "Resolved | None" = None  # of lists and maps, and of a chosen branch
    symbols: list[int] = field(default_factory=list)  # the reader's for each of the writer's, or -1
    failed: bool = False  # found out when others already had it


class Resolver:
    """Plans between two schemas."""

    def __init__(self, writer: AvroSchema, reader: AvroSchema) -> None:
        self._writer = writer.types
        self._reader = reader.types
        self._plans: dict[tuple[int, int], Resolved | str] = {}

    def resolve(self, writer: int, reader: int, depth: int = 0) -> Resolved:
        """The plan of a pair; SchemaError if there is none."""
        found = self._plans.get((writer, reader))
        if isinstance(found, Resolved) and not found.failed:
            return found
        if found is not None:
            raise SchemaError(found if isinstance(found, str) else "The schemas do not resolve.")
        if depth > 2 * MAX_DEPTH:
            raise SchemaError(f"The Avro schema is nested deeper than {2 * MAX_DEPTH} types.")
        if len(self._plans) >= MAX_PAIRS:
            raise SchemaError(f"The Avro schemas have more than {MAX_PAIRS:,} pairs of types.")
        given, wanted = self._writer[writer], self._reader[reader]
        plan = Resolved(writer, reader, given.kind)
        self._plans[writer, reader] = plan
        try:
            self._make(plan, given, wanted, depth + 1)
        except SchemaError as error:
            plan.failed = True
            self._plans[writer, reader] = str(error)
            raise
        return plan

    def _make(self, plan: Resolved, given: AvroType, wanted: AvroType, depth: int) -> None:
        if given.kind == "union":
            self._from_union(plan, given, depth)
        elif wanted.kind == "union":
            plan.kind = "into"
            plan.choice, plan.item = self._choose(plan.writer, given, wanted, depth)
        elif given.kind != wanted.kind:
            if (given.kind, wanted.kind) not in _PROMOTIONS:
                raise SchemaError(f"{_called(given)} is not read as {_called(wanted)}.")
        elif given.kind in ("array", "map"):
            plan.item = self.resolve(given.items, wanted.items, depth)
        elif given.kind in ("record", "enum", "fixed"):
            self._named(plan, given, wanted, depth)
        _same_scale(given, wanted)

    def _from_union(self, plan: Resolved, given: AvroType, depth: int) -> None:
        why = ""
        for branch in given.branches:
            try:
                plan.branches.append(self.resolve(branch, plan.reader, depth))
            except SchemaError as error:
                why = str(error)
                plan.branches.append(None)
        if not any(plan.branches):
            raise SchemaError(why)

    def _choose(
        self, writer: int, given: AvroType, wanted: AvroType, depth: int
    ) -> tuple[int, Resolved]:
        """The branch of the very type, else the first that the value can be read as."""
        kinds = [self._reader[branch] for branch in wanted.branches]
        order = sorted(
            range(len(kinds)),
            key=lambda index: (kinds[index].kind, kinds[index].name) != (given.kind, given.name),
        )
        for index in order:
            try:
                return index, self.resolve(writer, wanted.branches[index], depth)
            except SchemaError:
                continue
        raise SchemaError(f"No branch of the reader's union takes {_called(given)}.")

    def _named(self, plan: Resolved, given: AvroType, wanted: AvroType, depth: int) -> None:
        known = {wanted.name, *wanted.aliases}
        if given.name not in known and given.short_name not in {
            wanted.short_name,
            *(alias.rpartition(".")[2] for alias in wanted.aliases),
        }:
            raise SchemaError(f"{_called(given)} is not read as {_called(wanted)}.")
        if given.kind == "fixed" and given.size != wanted.size:
            raise SchemaError(f"{_called(given)} has {given.size} bytes, not {wanted.size}.")
        if given.kind == "enum":
            places = {symbol: index for index, symbol in enumerate(wanted.symbols)}
            other = -1 if wanted.default is None else places[wanted.default]
            plan.symbols = [places.get(symbol, other) for symbol in given.symbols]
        if given.kind == "record":
            self._record(plan, given, wanted, depth)

    def _record(self, plan: Resolved, given: AvroType, wanted: AvroType, depth: int) -> None:
        by_name = {one.name: index for index, one in enumerate(wanted.fields)}
        by_alias = {alias: at for at, one in enumerate(wanted.fields) for alias in one.aliases}
        named = {one.name for one in given.fields}
        taken = set()
        for one in given.fields:
            index = by_name.get(one.name, by_alias.get(one.name, -1))
            if index < 0 or index in taken or _is_other(one.name, wanted.fields[index], named):
                plan.parts.append((None, -1))
                continue
            taken.add(index)
            inner = self.resolve(one.type, wanted.fields[index].type, depth)
            plan.parts.append((inner, index))
        for index, one in enumerate(wanted.fields):
            if index not in taken:
                if not one.has_default:
                    raise SchemaError(
                        f"The field {one.name} of {_called(wanted)} is missing and has no default."
                    )
                plan.missing.append(index)


def _is_other(name: str, wanted: AvroField, named: set[str]) -> bool:
    """Whether a field has the alias of one that is there by its own name, too."""
    return wanted.name != name and wanted.name in named


def _same_scale(given: AvroType, wanted: AvroType) -> None:
    if given.logical == wanted.logical == "decimal" and given.scale != wanted.scale:
        raise SchemaError(f"A decimal of scale {given.scale} is not one of scale {wanted.scale}.")


def _called(one: AvroType) -> str:
    return f"{one.kind} {one.name}" if one.name else one.kind


def find_lost(writer: AvroSchema, reader: AvroSchema) -> set[str]:
    """Fields of the writer's record that are not read, or not with all that is in them.

    Of what is no record "" stands for the whole.
    """
    top = Resolver(writer, reader).resolve(writer.root, reader.root)
    around: dict[int, list[Resolved]] = {id(top): []}
    waiting, lost = [top], []
    while waiting:
        plan = waiting.pop()
        inner = [plan.item, *plan.branches, *(part for part, _ in plan.parts)]
        if any(part is None for part, _ in plan.parts):
            lost.append(plan)
        for one in inner:
            if one is not None:
                if id(one) not in around:
                    waiting.append(one)
                around.setdefault(id(one), []).append(plan)
    seen = {id(plan) for plan in lost}
    while lost:
        for plan in around[id(lost.pop())]:
            if id(plan) not in seen:
                seen.add(id(plan))
                lost.append(plan)
    if top.kind != "record":
        return {""} if id(top) in seen else set()
    fields = zip(writer.top.fields, top.parts, strict=True)
    return {each.name for each, (part, _) in fields if part is None or id(part) in seen}


def find_recursive(types: tuple[AvroType, ...]) -> frozenset[int]:
    """The records that contain themselves (Tarjan's components, without recursion)."""
    inside = [
        [one.items]
        if one.kind in ("array", "map")
        else [*one.branches, *(field.type for field in one.fields)]
        for one in types
    ]
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    path: list[int] = []
    on_path: set[int] = set()
    found: set[int] = set()
    for start in range(len(types)):
        work = [] if start in order else [(start, 0)]
        while work:
            node, step = work.pop()
            if step == 0:
                order[node] = low[node] = len(order)
                path.append(node)
                on_path.add(node)
            if step > 0:
                low[node] = min(low[node], low[inside[node][step - 1]])
            while step < len(inside[node]):
                child = inside[node][step]
                step += 1
                if child not in order:
                    work += [(node, step), (child, 0)]
                    break
                if child in on_path:
                    low[node] = min(low[node], order[child])
            else:
                if low[node] == order[node]:
                    group: list[int] = []
                    while not group or group[-1] != node:
                        group.append(path.pop())
                        on_path.discard(group[-1])
                    if len(group) > 1 or node in inside[node]:
                        found.update(one for one in group if types[one].kind == "record")
    return frozenset(found)
