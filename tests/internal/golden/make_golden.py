"""Make records.jsonl: records of every internal topic, as bytes and JSON, by Kafka's own classes.

Random values are drawn from the message definitions inside Kafka's jars; Kafka's generated classes
turn them into bytes and back into JSON. Nothing here knows Ottla. README.md says how to run it.
"""

import base64
import json
import random
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

PACKAGES = {
    "group": "org.apache.kafka.coordinator.group.generated",
    "transaction": "org.apache.kafka.coordinator.transaction.generated",
    "share": "org.apache.kafka.coordinator.share.generated",
    "metadata": "org.apache.kafka.common.metadata",
    "storage": "org.apache.kafka.server.log.remote.metadata.storage.generated",
    "clients": "org.apache.kafka.common.message",
}
TOPICS = {
    "group": "__consumer_offsets",
    "transaction": "__transaction_state",
    "share": "__share_group_state",
    "metadata": "__cluster_metadata",
    "storage": "__remote_log_metadata",
}
CONTROL = {
    "LeaderChangeMessage": 2, "SnapshotHeaderRecord": 3, "SnapshotFooterRecord": 4,
    "KRaftVersionRecord": 5, "VotersRecord": 6,
}  # fmt: skip
# What older releases wrote under a number that 4.3 gives another layout, or does not know.
HISTORY = {
    "4.0.0": {
        "ShareGroupMetadataValue", "ShareGroupPartitionMetadataValue",
        "ShareGroupStatePartitionMetadataValue", "ShareSnapshotValue", "ShareUpdateValue",
    },
}  # fmt: skip
SAMPLES = 4
random.seed(9)


def definitions(jar: Path) -> Iterator[dict]:
    archive = zipfile.ZipFile(jar)
    for name in sorted(archive.namelist()):
        if not re.search(r"(common/message|common/metadata|^message)/\w+\.json$", name):
            continue
        text = re.sub(r"(?m)^\s*//.*$|\s//.*$", "", archive.read(name).decode())
        yield json.loads(text)


def spread(text: str | None) -> range:
    if text in (None, "none"):
        return range(0)
    if text.endswith("+"):
        return range(int(text[:-1]), 2**15)
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def draw(kind: str, fields: list | None, structs: dict, version: int, size: int) -> object:
    if kind.startswith("[]"):
        count = random.choice([0, 1, 2, 3 if fields or kind[2:] in structs else size])
        return [draw(kind[2:], fields, structs, version, 2) for _ in range(count)]
    if fields or kind in structs:
        return draw_struct(fields or structs[kind], structs, version, size)
    bits = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
    if kind in bits:
        bound = 2 ** bits[kind]
        return random.choice([-bound, bound - 1, -1, 0, 1, random.randrange(-bound, bound)])
    if kind == "uint16":
        return random.choice([0, 2**16 - 1, 9092])
    if kind == "bool":
        return random.random() < 0.5
    if kind == "float64":
        return random.choice([0.0, 1048576.0, -0.1, 1e300])
    if kind == "uuid":
        return base64.urlsafe_b64encode(random.randbytes(16)).decode()[:22]
    if kind == "bytes":
        return base64.b64encode(random.randbytes(random.choice([0, 3, 200]))).decode()
    return random.choice(["", "a", "Größe-\u20ac-\U0001f600", 'quo"te\\', "x" * 150])


def draw_struct(fields: list, structs: dict, version: int, size: int) -> dict:
    values: dict = {}
    for field in fields:
        tagged = version in spread(field.get("taggedVersions"))
        present = version in spread(field.get("versions") or field.get("taggedVersions"))
        if not present or (tagged and random.random() < 0.4):
            continue
        name = field["name"][0].lower() + field["name"][1:]
        if version in spread(field.get("nullableVersions")) and random.random() < 0.3:
            values[name] = None
        else:
            values[name] = draw(field["type"], field.get("fields"), structs, version, size)
    return values


def messages(jars: Path, release: str) -> Iterator[tuple[str, dict, int, dict]]:
    for part in PACKAGES:
        stem = {
            "clients": "kafka-clients",
            "metadata": "kafka-metadata",
            "storage": "kafka-storage",
        }
        for jar in jars.glob(f"{stem.get(part, f'kafka-{part}-coordinator')}-{release}.jar"):
            for definition in definitions(jar):
                structs = {s["name"]: s["fields"] for s in definition.get("commonStructs", [])}
                last = spread(definition.get("validVersions", "none"))
                for version in last:
                    for sample in range(SAMPLES):
                        size = 150 if sample == 0 else 3
                        values = draw_struct(definition["fields"], structs, version, size)
                        if definition["name"] in CONTROL:
                            values["version"] = version
                        yield part, definition, version, values


def is_key(definition: dict) -> bool:
    return definition["name"].endswith("Key")


def wanted(part: str, definition: dict, release: str) -> bool:
    name = definition["name"]
    if part == "clients" and release not in HISTORY:
        return name in CONTROL or name.startswith("ConsumerProtocol")
    if definition["type"] not in ("coordinator-key", "coordinator-value", "metadata", "data"):
        return False
    if release in HISTORY:
        return name in HISTORY[release] or (
            is_key(definition) and name[:-3] + "Value" in HISTORY[release]
        )
    return name != "ProducerSnapshot"


def to_bytes(jars: Path, release: str, classes: Path, drawn: list) -> list[tuple[str, dict]]:
    lines = "".join(
        f"{PACKAGES[part]}.{definition['name']}\t{version}\t{json.dumps(values)}\n"
        for part, definition, version, values in drawn
    )
    path = ":".join([str(classes), *map(str, jars.glob("*.jar"))])
    done = subprocess.run(
        ["java", "-cp", path, "MessageBytes"],
        input=lines, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    pairs = [line.split("\t", 1) for line in done.stdout.splitlines()]
    return [(data, json.loads(text)) for data, text in pairs]


def uvarint(number: int) -> str:
    assert number < 0x80
    return f"{number:02x}"


def fill_blobs(drawn: list, blobs: dict[str, list]) -> None:
    """Half of the classic groups get members that speak the consumer protocol."""
    for _, definition, _, values in drawn:
        if definition["name"] != "GroupMetadataValue":
            continue
        consumer = random.random() < 0.7
        values["protocolType"] = "consumer" if consumer else "other"
        for member in values["members"] if consumer else []:
            for field, name in (
                ("subscription", "ConsumerProtocolSubscription"),
                ("assignment", "ConsumerProtocolAssignment"),
            ):
                version, data, _ = random.choice(blobs[name])
                member[field] = base64.b64encode(bytes.fromhex(f"{version:04x}{data}")).decode()


def replace_blobs(shown: dict, blobs: dict[str, list]) -> None:
    if shown["protocolType"] != "consumer":
        return
    meaning = {f"{v:04x}{data}": shown for rows in blobs.values() for v, data, shown in rows}
    for member in shown["members"]:
        for field in ("subscription", "assignment"):
            member[field] = meaning[base64.b64decode(member[field]).hex()]


def main() -> None:
    jars, classes, release = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    drawn = [row for row in messages(jars, release) if wanted(row[0], row[1], release)]
    blob_rows = [row for row in drawn if row[1]["name"].startswith("ConsumerProtocol")]
    blobs: dict[str, list] = {}
    for (_, definition, version, _), (data, shown) in zip(
        blob_rows, to_bytes(jars, release, classes, blob_rows) if blob_rows else [], strict=True
    ):
        blobs.setdefault(definition["name"], []).append((version, data, shown))
    drawn = [row for row in drawn if not row[1]["name"].startswith("ConsumerProtocol")]
    if blobs:
        fill_blobs(drawn, blobs)
    results = to_bytes(jars, release, classes, drawn)
    keys: dict[str, list] = {}
    for (_, definition, _, _), result in zip(drawn, results, strict=True):
        if is_key(definition):
            keys.setdefault(definition["name"], []).append(result)
    for (part, definition, version, _), (data, shown) in zip(drawn, results, strict=True):
        name = definition["name"]
        row = {"release": release, "name": name, "version": version}
        if is_key(definition):
            continue
        if name == "GroupMetadataValue":
            replace_blobs(shown, blobs)
        if part == "clients":
            row |= {"control": f"0000{CONTROL[name]:04x}", "value": data, "valueJson": shown}
        elif part in ("metadata", "storage"):
            frame = uvarint(1) + uvarint(definition["apiKey"]) + uvarint(version)
            row |= {"topic": TOPICS[part], "value": frame + data, "valueJson": shown}
        else:
            key_name = name[:-5] + "Key"
            key, key_shown = random.choice(keys[key_name])
            # Before 4.1 the version of a key was its record type.
            number = next(
                d.get("apiKey", spread(d["validVersions"]).start)
                for _, d, _, _ in drawn
                if d["name"] == key_name
            )
            row |= {
                "topic": TOPICS[part], "type": number,
                "key": f"{number:04x}{key}", "keyJson": key_shown,
                "value": f"{version:04x}{data}", "valueJson": shown,
            }  # fmt: skip
        print(json.dumps(row, ensure_ascii=False, separators=(",", ":")))


main()
