"""A reader's schema with what older schemas had beside it: no column goes because a schema changed.

Fields that records lost, at any depth, are read again, and are null where a writer has them not.
"""

from dataclasses import replace

from ottla.errors import SchemaError
from ottla.schemas.avro_schema import MAX_TYPES, AvroField, AvroSchema, AvroType

_NAMED = ("record", "enum", "fixed")


def merge_avro(newest: AvroSchema, older: tuple[AvroSchema, ...]) -> AvroSchema:
    """The newest schema with the fields of older ones, behind its own."""
    types = list(newest.types)
    try:
        for each in older:
            _Merging(types, each.types).merge(newest.root, each.root)
    except RecursionError:
        raise SchemaError("The types of the Avro schema hold each other too deep.") from None
    return replace(newest, types=tuple(types), older=older)


class _Merging:
    """Types of the merged schema, while those of an older one are taken in."""

    def __init__(self, types: list[AvroType], older: tuple[AvroType, ...]) -> None:
        self.types = types
        self.older = older
        self.done: set[tuple[int, int]] = set()
        self.taken: dict[int, int] = {}
        self.named = {one.name: at for at, one in enumerate(types) if one.name}

    def merge(self, root: int, other: int) -> None:
        """Take in what the type `other` has and the type `root` has not."""
        waiting = [(root, other)]
        while waiting:
            pair = waiting.pop()
            if pair not in self.done:
                self.done.add(pair)
                waiting += self._merge_one(*pair)

    def _merge_one(self, number: int, other: int) -> list[tuple[int, int]]:
        one, old = self.types[number], self.older[other]
        if "union" in (one.kind, old.kind):
            return self._pairs_of_unions(number, other)
        if one.kind != old.kind:
            return []
        if one.kind in ("array", "map"):
            return [(one.items, old.items)]
        return self._merge_record(number, old) if one.kind == "record" else []

    def _pairs_of_unions(self, number: int, other: int) -> list[tuple[int, int]]:
        """Branches of one kind and name, or the only ones."""
        ours = [at for at in self._branches(number) if self.types[at].kind != "null"]
        theirs = [
            at for at in (self.older[other].branches or (other,)) if self.older[at].kind != "null"
        ]
        if len(ours) == len(theirs) == 1:
            return [(ours[0], theirs[0])]
        return [
            (left, right)
            for left in ours
            for right in theirs
            if (self.types[left].kind, self.types[left].name)
            == (self.older[right].kind, self.older[right].name)
        ]

    def _branches(self, number: int) -> tuple[int, ...]:
        return self.types[number].branches or (number,)

    def _merge_record(self, number: int, old: AvroType) -> list[tuple[int, int]]:
        one = self.types[number]
        places = {name: each for each in one.fields for name in each.aliases}
        places |= {each.name: each for each in one.fields}
        known = {name.lower() for name in places}
        pairs, more = [], []
        for each in old.fields:
            if each.name in places:
                pairs.append((places[each.name].type, each.type))
            elif each.name.lower() not in known:
                known.add(each.name.lower())
                more.append(AvroField(each.name, self._nullable(each.type), (), True, None))
        self.types[number] = replace(self.types[number], fields=(*one.fields, *more))
        return pairs

    def _nullable(self, other: int) -> int:
        """A type of the older schema, or null."""
        found = self._take(other)
        branches = self._branches(found)
        if any(self.types[at].kind == "null" for at in branches):
            return found
        return self._add(AvroType("union", branches=(self._add(AvroType("null")), *branches)))

    def _take(self, other: int) -> int:
        """The number here of a type of the older schema; what has a name is there once."""
        if other in self.taken:
            return self.taken[other]
        old = self.older[other]
        if old.kind in _NAMED and old.name in self.named:
            number = self.taken[other] = self.named[old.name]
            if self.types[number].kind != old.kind:
                raise SchemaError(f"{old.name} is {old.kind} and also {self.types[number].kind}.")
            self.merge(number, other)
            return number
        number = self.taken[other] = self._add(old)
        if old.kind in _NAMED:
            self.named[old.name] = number
        fields = tuple(replace(each, type=self._take(each.type)) for each in old.fields)
        branches = tuple(self._take(each) for each in old.branches)
        items = self._take(old.items) if old.kind in ("array", "map") else 0
        self.types[number] = replace(old, fields=fields, branches=branches, items=items)
        return number

    def _add(self, one: AvroType) -> int:
        if len(self.types) >= MAX_TYPES:
            raise SchemaError(f"The Avro schemas together have more than {MAX_TYPES:,} types.")
        self.types.append(one)
        return len(self.types) - 1
