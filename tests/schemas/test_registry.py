"""The model of a registry: what records of `_schemas` add up to."""

import base64
import hashlib
import json
import uuid
from typing import Any

import pytest

from ottla.errors import SchemaError
from ottla.schemas.registry import Registry, State, fold_registry

Record = tuple[bytes, bytes | None]


def schema(
    subject: str, version: int, number: int, text: str = '"int"', key: Any = None, **more: Any
) -> Record:
    """A record as Confluent's registry writes it; `key` adds what Redpanda has."""
    name = {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1, **(key or {})}
    value = {"subject": subject, "version": version, "id": number, "schema": text, **more}
    return json.dumps(name).encode(), json.dumps({"deleted": False} | value).encode()


def delete_subject(subject: str, version: int) -> Record:
    key = {"keytype": "DELETE_SUBJECT", "subject": subject, "magic": 0}
    value = {"subject": subject, "version": version}
    return json.dumps(key).encode(), json.dumps(value).encode()


def of(registry: Registry, subject: str) -> list[tuple[int, int, State]]:
    return [(one.version, one.id, one.state) for one in registry.of_subject(subject)]


def test_versions_ids_and_guids() -> None:
    registry = fold_registry([schema("a-value", 1, 7), schema("a-value", 2, 9, '"long"')])
    assert of(registry, "a-value") == [(2, 9, State.LIVE), (1, 7, State.LIVE)]
    found = registry.find_id(9)
    assert found is not None
    assert found.guid == str(uuid.UUID(hashlib.md5(b'"long"').hexdigest()))
    assert registry.find_guid(found.guid) is found
    digest = bytes(range(16))
    stored = fold_registry([schema("a", 1, 1, md5=base64.b64encode(digest).decode())])
    assert stored.versions[0].guid == str(uuid.UUID(bytes=digest))


def test_deletes() -> None:
    soft = schema("a", 1, 1, deleted=True)
    assert of(fold_registry([schema("a", 1, 1), soft]), "a") == [(1, 1, State.SOFT)]
    both = [schema("a", 1, 1), schema("a", 2, 2, '"long"'), delete_subject("a", 2)]
    registry = fold_registry([*both, schema("a", 3, 3, '"float"')])
    assert of(registry, "a") == [(3, 3, State.LIVE), (2, 2, State.SOFT), (1, 1, State.SOFT)]
    assert registry.find_id(1) is not None, "data that was written with it is still there"
    key, _ = schema("a", 1, 1)
    assert of(fold_registry([schema("a", 1, 1), (key, None)]), "a") == [(1, 1, State.HARD)]


def test_a_hard_delete_hides_no_live_version() -> None:
    key, _ = schema("a", 1, 1)
    registry = fold_registry([schema("a", 1, 1), (key, None), schema("a", 1, 5, '"long"')])
    assert of(registry, "a") == [(1, 5, State.LIVE), (1, 1, State.HARD)]
    found = registry.find_version("a", 1)
    assert found is not None
    assert found.id == 5


def test_a_tombstone_of_redpanda_takes_back_one_write() -> None:
    first = schema("a", 1, 1, key={"seq": 1, "node": 1})
    second = schema("a", 1, 2, '"long"', key={"seq": 4, "node": 1})
    registry = fold_registry([first, second, (first[0], None)])
    assert of(registry, "a") == [(1, 2, State.LIVE)]


def test_the_default_context_wins() -> None:
    other = schema(":.eu:a-value", 1, 1, '"string"')
    registry = fold_registry([other, schema("a-value", 1, 1, '"long"')])
    found = registry.find_id(1)
    assert found is not None
    assert found.text == '"long"'
    assert registry.subjects_named("a-value") == ["a-value"]
    assert any("id 1 is" in problem for problem in registry.problems)
    assert fold_registry([other]).subjects_named("a-value") == [":.eu:a-value"]


def test_a_clash_keeps_the_first() -> None:
    registry = fold_registry([schema("a", 1, 1), schema("b", 1, 1, '"long"')])
    found = registry.find_id(1)
    assert found is not None
    assert found.subject == "a"
    assert len(registry.problems) == 1


def test_compatibility() -> None:
    config = {"keytype": "CONFIG", "subject": "a", "magic": 0}
    value = {"compatibilityLevel": "FULL"}
    records = [(json.dumps(config).encode(), json.dumps(value).encode())]
    assert fold_registry(records).compatibility == {"a": "FULL"}


@pytest.mark.parametrize(
    "record",
    [
        (None, b"{}"),
        (b"\xff", b"{}"),
        (b"[]", b"{}"),
        (b"[" * 100_000, None),
        (b'{"keytype":"SCHEMA"}', b"{}"),
        (b'{"keytype":"SCHEMA","subject":"a","version":1}', b'{"id":1}'),
        (b'{"keytype":"SCHEMA","subject":"a","version":1}', b'{"id":true,"schema":"x"}'),
        (b'{"keytype":"SCHEMA","subject":"a","version":1e99}', b'{"id":1,"schema":"x"}'),
        (b'{"keytype":"SCHEMA","subject":"\\ud800","version":1}', b'{"id":1,"schema":"x"}'),
    ],
)
def test_what_is_not_understood_is_told(record: Any) -> None:
    registry = fold_registry([record, schema("b", 1, 2)])
    assert len(registry.problems) == 1
    assert [one.subject for one in registry.versions] == ["b"]


def test_odd_rules_are_no_error() -> None:
    for odd in ("x", ["x"], {"encodingRules": ["x", {"type": "ENCRYPT"}]}, {"domainRules": "x"}):
        registry = fold_registry([schema("a", 1, 1, ruleSet=odd, metadata=odd)])
        assert not registry.problems
    found = fold_registry([schema("a", 1, 1, ruleSet={"encodingRules": [{"type": "ENCRYPT"}]})])
    assert found.versions[0].encoding_rules == ("ENCRYPT",)


def test_references() -> None:
    refers = [{"name": "B", "subject": "b", "version": 1}]
    registry = fold_registry([schema("a", 1, 1, references=refers), schema("b", 1, 2)])
    found = registry.find_id(1)
    assert found is not None
    assert [(name.name, one.subject) for name, one in registry.referenced(found)] == [("B", "b")]
    lonely = fold_registry([schema("a", 1, 1, references=refers)])
    with pytest.raises(SchemaError, match="needs b version 1, which is not there"):
        lonely.referenced(lonely.versions[0])
    back = schema("b", 1, 2, references=[{"name": "A", "subject": "a", "version": 1}])
    circle = fold_registry([schema("a", 1, 1, references=refers), back])
    with pytest.raises(SchemaError, match="refers to itself"):
        circle.referenced(circle.versions[0])


def test_references_that_fan_out_take_no_time() -> None:
    """Each of thirty levels names both of the next one: a thousand million ways, sixty schemas."""
    records = []
    for level in range(30):
        nexts = [f"s{level + 1}-{side}" for side in (0, 1)] if level < 29 else []
        refers = [{"name": name, "subject": name, "version": 1} for name in nexts]
        records += [
            schema(f"s{level}-{side}", 1, 2 * level + side + 1, references=refers)
            for side in (0, 1)
        ]
    registry = fold_registry(records)
    found = registry.find_id(1)
    assert found is not None
    assert len(registry.referenced(found)) == 58


def test_the_first_schema_of_an_id_in_the_log_counts() -> None:
    records = [
        schema("a", 1, 1),
        schema("t-value", 1, 5),
        schema("a", 2, 5, '"long"'),
        schema("t-value", 1, 5, deleted=True),
    ]
    registry = fold_registry(records)
    found = registry.find_id(5)
    assert found is not None
    assert found.subject == "t-value"
    assert "id 5 is t-value version 1 (id 5) and also a version 2" in registry.problems[0]
