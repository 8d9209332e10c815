"""The columns of decoded keys and values in an account, and how they may change."""

from typing import Any

import pyarrow as pa

from ottla.schemas.plans import PayloadPlans

Described = Any  # a type as JSON: a text, or a list of its kind and what is in it


def describe_types(plans: PayloadPlans) -> dict[str, Described]:
    """The types of keys and values, for an account."""
    sides = (("key", plans.key), ("value", plans.value))
    return {side: "binary" if plan is None else describe(plan.arrow_type) for side, plan in sides}


def describe(kind: pa.DataType) -> Described:
    """
    >>> describe(pa.struct([("a", pa.list_(pa.int32()))]))
    ['struct', {'a': ['list', {'element': 'int32'}]}]
    """
    if pa.types.is_struct(kind):
        return ["struct", {field.name: describe(field.type) for field in kind}]
    if pa.types.is_map(kind):
        return ["map", {"key": describe(kind.key_type), "value": describe(kind.item_type)}]
    if pa.types.is_list(kind):
        return ["list", {"element": describe(kind.value_type)}]
    return str(kind)


def find_retyped(before: Described, now: Described, name: str = "") -> str | None:
    """The first column that is gone or of another type; new ones may come into structs."""
    if before is None:
        return None
    if isinstance(before, dict) and isinstance(now, dict):
        for each, kind in before.items():
            inner = f"{name}.{each}" if name else str(each)
            if each not in now:
                return f"{inner} is not there any more"
            found = find_retyped(kind, now[each], inner)
            if found is not None:
                return found
        return None
    if isinstance(before, list) and isinstance(now, list) and before[:1] == now[:1]:
        return find_retyped(before[-1], now[-1], name)
    if before != now:
        return f"{name} was {_said(before)}, is {_said(now)}"
    return None


def _said(kind: Described) -> str:
    return str(kind[0] if isinstance(kind, list) and kind else kind)[:40]
