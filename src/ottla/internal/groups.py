"""Groups and their members, from the records of a `__consumer_offsets` partition.

A classic group is one record. The groups of the newer protocols are spread over several, keyed by
group or by group and member; which record sets what is the table PARTS.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.errors import Row
from ottla.internal.commits import decode_commits
from ottla.internal.offsets import CurrentOffsets
from ottla.internal.records import CONSUMER_OFFSETS, decode_record, why_unusable
from ottla.kernels.records.offset_commits import OTHER

_ASSIGNMENT: Final = pa.list_(
    pa.struct(
        [
            ("topic", pa.string()),
            ("topicId", pa.string()),
            ("subtopologyId", pa.string()),
            ("partitions", pa.list_(pa.int32())),
        ]
    )
)
MEMBER_TYPE: Final = pa.struct(
    [
        ("memberId", pa.string()),
        ("instanceId", pa.string()),
        ("clientId", pa.string()),
        ("clientHost", pa.string()),
        ("rackId", pa.string()),
        ("epoch", pa.int32()),
        ("subscription", pa.list_(pa.string())),
        ("assignment", _ASSIGNMENT),
    ]
)
GROUPS_SCHEMA: Final = pa.schema(
    [
        pa.field("group", pa.string()),
        pa.field("type", pa.string()),
        pa.field("state", pa.string()),
        pa.field("protocolType", pa.string()),
        pa.field("protocol", pa.string()),
        pa.field("epoch", pa.int32()),
        pa.field("assignmentEpoch", pa.int32()),
        pa.field("leader", pa.string()),
        pa.field("members", pa.list_(MEMBER_TYPE)),
        pa.field("deleted", pa.bool_()),
        pa.field("logOffset", pa.int64()),
        pa.field("logTimestamp", pa.int64()),
        pa.field("error", pa.string()),
    ]
)


class GroupPart(NamedTuple):
    """What a record type sets: a property of its group, or of one of its members."""

    group_type: str
    name: str


# Record types that carry nothing shown here (resolved regexes, topologies, share state) are absent.
PARTS: Final = {
    2: GroupPart("classic", "group"),
    3: GroupPart("consumer", "group"),
    4: GroupPart("consumer", "topics"),
    5: GroupPart("consumer", "member"),
    6: GroupPart("consumer", "target"),
    8: GroupPart("consumer", "current"),
    9: GroupPart("share", "topics"),
    10: GroupPart("share", "member"),
    11: GroupPart("share", "group"),
    12: GroupPart("share", "target"),
    14: GroupPart("share", "current"),
    17: GroupPart("streams", "group"),
    19: GroupPart("streams", "member"),
    20: GroupPart("streams", "target"),
    22: GroupPart("streams", "current"),
}
STABLE: Final = 0  # MemberState


@dataclass(slots=True)
class _GroupRecords:
    """The records that make a group, each by its part and, for members, the member's id."""

    parts: dict[tuple[GroupPart, str | None], Row] = field(default_factory=dict)
    offset: int = -1
    timestamp: int = -1

    def type(self) -> str | None:
        """The type of the group there is; a conversion leaves only one."""
        types = [part.group_type for part, _ in self.parts if part.name == "group"]
        return types[-1] if types else None


def current_groups(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """Every group that exists, those without any record but offsets too (type "simple")."""
    groups: dict[str, _GroupRecords] = {}
    offsets = CurrentOffsets()
    errors: list[Row] = []
    for batch in batches:
        offsets.add(batch)
        errors += [change for change in _apply(groups, batch) if isinstance(change, dict)]
    rows = [_group_row(name, group) for name, group in groups.items() if group.type() is not None]
    known = {row["group"] for row in rows}
    with_offsets = pc.unique(offsets.table()["group"].drop_null()).to_pylist()
    rows += [_simple_row(name) for name in with_offsets if name not in known]
    rows.sort(key=lambda row: str(row["group"]))
    return pa.Table.from_pylist(rows + errors, schema=GROUPS_SCHEMA)


def group_history(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Groups as each record left them."""
    groups: dict[str, _GroupRecords] = {}
    for batch in batches:
        rows = [
            change if isinstance(change, dict) else _group_row(*change)
            for change in _apply(groups, batch)
        ]
        yield pa.Table.from_pylist(rows, schema=GROUPS_SCHEMA)


def _apply(
    groups: dict[str, _GroupRecords], batch: pa.RecordBatch
) -> Iterator[tuple[str, _GroupRecords] | Row]:
    """Work in the records that are no commits: each group that changed, or a row with an error."""
    for record in _group_records(batch):
        decoded = decode_record(CONSUMER_OFFSETS, record["key"], record["value"])
        if problem := why_unusable(decoded):
            yield {
                "logOffset": record["offset"],
                "logTimestamp": record["timestamp"],
                "error": problem,
            }
            continue
        part = PARTS.get(int((decoded.key or {}).get("type", -1)))
        if part is None or decoded.key is None:
            continue
        name, member = _names(decoded.key["data"])
        group = groups.setdefault(name, _GroupRecords())
        group.parts.pop((part, member), None)  # so that what was set last comes last
        if decoded.value is not None:
            group.parts[part, member] = decoded.value["data"]
        group.offset, group.timestamp = record["offset"], record["timestamp"]
        if not group.parts:
            del groups[name]
        yield name, group


def _group_records(batch: pa.RecordBatch) -> list[Row]:
    is_commit = decode_commits(batch["key"], batch["value"]).commits.kind != OTHER
    is_control = batch["isControl"].to_numpy(zero_copy_only=False)
    wanted = np.flatnonzero(~is_commit & ~is_control)
    rows: list[Row] = batch.take(pa.array(wanted)).to_pylist()
    return rows


def _names(key: Row) -> tuple[str, str | None]:
    return key["groupId" if "groupId" in key else "group"], key.get("memberId")


def _group_row(name: str, group: _GroupRecords) -> Row:
    kind = group.type()
    origin = {"group": name, "logOffset": group.offset, "logTimestamp": group.timestamp}
    if kind is None:
        return origin | {"deleted": True}
    row = _classic_row(group) if kind == "classic" else _modern_row(group, kind)
    return origin | {"type": kind, "deleted": False} | row


def _simple_row(name: str) -> Row:
    return {"group": name, "type": "simple", "state": "Empty", "members": [], "deleted": False}


def _classic_row(group: _GroupRecords) -> Row:
    data = group.parts[PARTS[2], None]
    members = [_classic_member(member, data["generation"]) for member in data["members"]]
    return {
        "state": "Stable" if members else "Empty",  # the state itself is not stored
        "protocolType": data["protocolType"],
        "protocol": data["protocol"],
        "epoch": data["generation"],
        "leader": data["leader"],
        "members": members,
    }


def _classic_member(member: Row, generation: int) -> Row:
    subscription, assignment = member["subscription"], member["assignment"]
    topics = subscription.get("topics") if isinstance(subscription, dict) else None
    assigned = assignment.get("assignedPartitions") if isinstance(assignment, dict) else None
    return {
        "memberId": member["memberId"],
        "instanceId": member.get("groupInstanceId"),
        "clientId": member["clientId"],
        "clientHost": member["clientHost"],
        "rackId": subscription.get("rackId") if isinstance(subscription, dict) else None,
        "epoch": generation,
        "subscription": topics,
        "assignment": assigned,
    }


def _modern_row(group: _GroupRecords, kind: str) -> Row:
    def parts(name: str) -> dict[str | None, Row]:
        return {
            member: data
            for (part, member), data in group.parts.items()
            if part == GroupPart(kind, name)
        }

    epoch = parts("group")[None]["epoch"]
    target = parts("target").get(None, {}).get("assignmentEpoch", -1)
    names = {
        topic["topicId"]: topic["topicName"]
        for topic in parts("topics").get(None, {}).get("topics", ())
    }
    current = parts("current")
    members = {member: current.get(member, {}) for member in parts("member")}
    return {
        "state": _modern_state(kind, epoch, target, list(members.values())),
        "protocolType": "consumer" if kind == "consumer" else kind,
        "epoch": epoch,
        "assignmentEpoch": target,
        "members": [
            _modern_member(member, data, members[member], names)
            for member, data in sorted(parts("member").items(), key=lambda pair: str(pair[0]))
        ],
    }


def _modern_state(kind: str, epoch: int, target: int, members: list[Row]) -> str:
    """ConsumerGroup.maybeUpdateGroupState; a share group is never between states."""
    if not members:
        return "Empty"
    if kind == "share":
        return "Stable"
    if epoch > target:
        return "Assigning"
    settled = [
        member.get("state") == STABLE and member.get("memberEpoch") == target for member in members
    ]
    return "Stable" if all(settled) else "Reconciling"


def _modern_member(member: str | None, data: Row, current: Row, names: dict[str, str]) -> Row:
    assigned = current.get("assignedPartitions") or current.get("activeTasks") or ()
    return {
        "memberId": member,
        "instanceId": data.get("instanceId"),
        "clientId": data["clientId"],
        "clientHost": data["clientHost"],
        "rackId": data.get("rackId"),
        "epoch": current.get("memberEpoch", -1),
        "subscription": data.get("subscribedTopicNames"),
        "assignment": [
            {
                "topic": names.get(one.get("topicId", "")),
                "topicId": one.get("topicId"),
                "subtopologyId": one.get("subtopologyId"),
                "partitions": one["partitions"],
            }
            for one in assigned
        ],
    }
