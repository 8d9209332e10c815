"""Protobuf as one of the languages of schemas: protoc gives descriptors, ptars decodes.

protoc is given texts of strangers, so it runs in a process of its own, in a folder of its own, with
little time and memory. What it said of a text is kept.
"""

import base64
import binascii
import importlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.errors import SchemaError
from ottla.extras import missing_extra
from ottla.schemas import wire as frames
from ottla.schemas.fitting import bisect
from ottla.schemas.payloads import Faults, MessagePart, Named
from ottla.schemas.registry import Registry, Version
from ottla.schemas.spans import binary_of, spans_of
from ottla.schemas.wires import WireFormat

_ROOT: Final = "ottla-root.proto"
_SECONDS: Final = 30
_MEMORY: Final = 1 << 30
_MOST_FIELDS: Final = 1000  # of a message with all that is in it: each becomes a column
_MOST_PATHS: Final = 1000  # of messages in one column
_FIRST: Final[tuple[int, ...]] = (0,)
_NONE: Final[tuple[int, ...]] = (-1,)  # of a payload that names no message
_FRAME: Final = frames.Wire.CONFLUENT_PROTOBUF
_NAME: Final = b"\x0a"  # the tag of the field of a Ref
_ENDS: Final = pa.array([-(2**63), 2**63 - 1], pa.int64())
_BROKEN: Final = 1
_TOO_LARGE: Final = 2
_SLICE_BYTES: Final = 256 << 10
_IS_MAP_ENTRY: Final = b"\x38\x01"  # option 7 of a message
_MAP_ENTRY: Final = re.compile(r"\boption\s+map_entry\s*=\s*true\s*;")
_CHILD: Final = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({memory}, {memory}))
resource.setrlimit(resource.RLIMIT_CPU, ({seconds}, {seconds}))
resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 20, 64 << 20))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
from grpc_tools import protoc
sys.exit(protoc.main(["protoc", *sys.argv[1:]]))
"""
# What Confluent's registry knows without a reference; only the numbers matter.
_KNOWN: Final = {
    "confluent/meta.proto": """syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
""",
    "confluent/type/decimal.proto": """syntax = "proto3";
package confluent.type;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
""",
}


def _modules() -> Any:
    try:
        import grpc_tools
        import ptars
        from google.protobuf import descriptor_pb2, descriptor_pool
    except ImportError:
        raise missing_extra("protobuf", "Protobuf needs ptars and protoc") from None
    return ptars, descriptor_pb2, descriptor_pool, Path(grpc_tools.__file__).parent / "_proto"


def _files(version: Version, registry: Registry) -> tuple[tuple[str, str], ...]:
    needed = ((reference.name, one.text) for reference, one in registry.referenced(version))
    return (*needed, (_ROOT, version.text))


def _described(files: tuple[tuple[str, str], ...]) -> Any:
    """The descriptor of the last file, in a pool of its own."""
    found = _described_or_not(files)
    if isinstance(found, SchemaError):
        raise SchemaError(*found.parts)
    return found


@lru_cache(maxsize=256)
def _described_or_not(files: tuple[tuple[str, str], ...]) -> Any:
    """The same, or why not: protoc is not asked again and again for what it does not take."""
    try:
        return _describe(files)
    except SchemaError as error:
        return SchemaError(*error.parts)  # without the frames that it came through


def _describe(files: tuple[tuple[str, str], ...]) -> Any:
    _, descriptor_pb2, descriptor_pool, _ = _modules()
    stored = [_stored_descriptor(text) for _, text in files]
    if all(each is not None for each in stored):
        protos = []
        for (name, _), data in zip(files, stored, strict=True):
            proto = descriptor_pb2.FileDescriptorProto.FromString(data)
            proto.name = name
            protos.append(proto)
        protos = [*_standard(protos), *protos]
    elif any(each is not None for each in stored):
        raise SchemaError("its files are .proto texts and descriptors, which do not go together")
    else:
        made = _run_protoc(files)
        protos = list(descriptor_pb2.FileDescriptorSet.FromString(made).file)
    for proto in protos:
        _mark_maps(proto.message_type)
    pool = descriptor_pool.DescriptorPool()
    try:
        for proto in protos:
            pool.Add(proto)
        return pool.FindFileByName(_ROOT)
    except Exception as error:  # upb raises TypeError, and KeyError later
        raise SchemaError(f"no descriptors of a file: {error}") from None


def _mark_maps(messages: Any) -> None:
    """Make entries of maps again of what `_write_proto` wrote for them.

    Some that stand in descriptors are none: Python and ptars do not look, and fail later.
    """
    for each in messages:
        if each.options.no_standard_descriptor_accessor:
            each.options.ClearField("no_standard_descriptor_accessor")
            each.options.MergeFromString(_IS_MAP_ENTRY)
        if each.options.map_entry:
            fields = [(field.name, field.number) for field in each.field]
            if fields != [("key", 1), ("value", 2)]:
                raise SchemaError(f"the map entry {each.name[:100]!r} is not a key and a value")
        _mark_maps(each.nested_type)


def _stored_descriptor(text: str) -> bytes | None:
    """What some clients register instead of a .proto text: base64 of a descriptor."""
    _, descriptor_pb2, _, _ = _modules()
    from google.protobuf import message

    try:
        data = base64.b64decode("".join(text.split()), validate=True)
        found = descriptor_pb2.FileDescriptorProto.FromString(data)
    except (binascii.Error, ValueError, message.DecodeError):
        return None
    return data if found.name or found.message_type else None


def _standard(protos: list[Any]) -> list[Any]:
    """The descriptors that come with Protobuf itself, those first that others need."""
    _, descriptor_pb2, descriptor_pool, _ = _modules()
    there = {proto.name for proto in protos}
    found: dict[str, Any] = {}

    def add(name: str) -> None:
        if name in there or name in found:
            return
        if not name.startswith(("google/protobuf/", "google/type/")):
            raise SchemaError(f"it imports {name[:100]!r}, which no reference names")
        try:
            importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
            proto = descriptor_pb2.FileDescriptorProto()
            descriptor_pool.Default().FindFileByName(name).CopyToProto(proto)
        except (ImportError, KeyError, ValueError):
            raise SchemaError(f"it imports {name[:100]!r}, which is not there") from None
        for each in proto.dependency:
            add(each)
        found[name] = proto

    for proto in protos:
        for each in proto.dependency:
            add(each)
    return list(found.values())


def _run_protoc(files: tuple[tuple[str, str], ...]) -> bytes:
    """The descriptors of files and of all that they import."""
    _, _, _, standard = _modules()
    with tempfile.TemporaryDirectory(prefix="ottla-protoc-") as folder:
        given = {name for name, _ in files}
        known = [(name, text) for name, text in _KNOWN.items() if name not in given]
        for name, text in (*known, *files):
            _write_proto(Path(folder), name, text)
        made = Path(folder, "descriptors")
        child = _CHILD.format(memory=_MEMORY, seconds=_SECONDS)
        command = [sys.executable, "-I", "-c", child, "-I.", f"-I{standard}"]
        command += [f"--{'include_imports'}", "-odescriptors", _ROOT]
        try:
            done = subprocess.run(  # noqa: S603  arguments are ours
                command, cwd=folder, capture_output=True, timeout=_SECONDS, env={}, check=False
            )
        except subprocess.TimeoutExpired:
            raise SchemaError(f"protoc takes longer than {_SECONDS} seconds for it") from None
        if done.returncode or not made.is_file():
            said = done.stderr.decode("utf-8", "replace").strip().splitlines()
            # Its log may come first; what is wrong begins with the name of a file.
            told = [line for line in said if ".proto:" in line] or said or ["it failed"]
            raise SchemaError(f"protoc: {told[0][:200]}")
        return made.read_bytes()


def _write_proto(folder: Path, name: str, text: str) -> None:
    """A file under the name that others import it by, if that is one inside the folder.

    Apicurio and Glue make texts of descriptors, with entries of maps as messages, which protoc
    refuses: such a message gets another option that nobody uses.
    """
    parts = PurePosixPath(name).parts
    odd = name.startswith("/") or ".." in parts or not parts or len(name) > 200
    if odd or not name.isprintable() or "\\" in name:
        raise SchemaError(f"{name[:100]!r} is no name of a .proto file")
    try:
        target = folder.joinpath(*parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_MAP_ENTRY.sub("option no_standard_descriptor_accessor = true;", text))
    except (OSError, ValueError) as error:
        raise SchemaError(f"{name[:100]!r} is no name of a .proto file: {error}") from None


def _message(file: Any, indexes: tuple[int, ...]) -> Any:
    """The descriptor of a message by the numbers of those around it."""
    inside = list(file.message_types_by_name.values())
    found = None
    for index in indexes:
        if not 0 <= index < len(inside):
            raise SchemaError(f"it has no message {indexes}")
        found = inside[index]
        inside = list(found.nested_types)
    return found


def names(version: Version, registry: Registry, indexes: tuple[int, ...]) -> list[str]:
    """The full name of a message of a schema."""
    found = _message(_described(_files(version, registry)), indexes)
    return [found.full_name]


def all_names(version: Version, registry: Registry) -> list[str]:
    """The full names of all messages."""
    waiting = list(_described(_files(version, registry)).message_types_by_name.values())
    found = []
    while waiting:
        one = waiting.pop(0)
        found.append(one.full_name)
        waiting += one.nested_types
    return found


def lost_fields(
    writer: Version,
    reader: Version,
    name: str,
    registry: Registry,
    older: tuple[Version, ...] = (),  # noqa: ARG001
) -> set[str]:
    """Fields of the writer's message that the reader's has no number for, or not for all inside."""
    given, wanted = (_find_message(_files(one, registry), name) for one in (writer, reader))
    lost = set()
    for each in given.fields:
        other = wanted.fields_by_number.get(each.number)
        if other is None or _is_less(other.message_type, each.message_type):
            lost.add(each.name)
    return lost


def _is_less(wanted: Any, given: Any) -> bool:
    """Whether a message lacks a number that another has, at any depth."""
    seen, waiting = set(), [(wanted, given)]
    while waiting:
        one, other = waiting.pop()
        if one is None or other is None or (one.full_name, other.full_name) in seen:
            continue
        seen.add((one.full_name, other.full_name))
        for each in other.fields:
            same = one.fields_by_number.get(each.number)
            if same is None:
                return True
            waiting.append((same.message_type, each.message_type))
    return False


def _find_message(files: tuple[tuple[str, str], ...], name: str) -> Any:
    try:
        return _described(files).pool.FindMessageTypeByName(name)
    except KeyError:
        raise SchemaError(f"it has no message {name[:100]!r}") from None


def decoder(
    writer: Version,  # noqa: ARG001  fields have numbers: messages are read with any schema
    reader: Version,
    name: str,
    registry: Registry,
    wire: WireFormat = WireFormat.CONFLUENT,  # noqa: ARG001
    older: tuple[Version, ...] = (),  # noqa: ARG001
) -> "MessageDecoder":
    """What decodes messages of a name."""
    return _decoder(_files(reader, registry), name)


@lru_cache(maxsize=64)
def _decoder(files: tuple[tuple[str, str], ...], name: str) -> "MessageDecoder":
    return MessageDecoder(_described(files), _find_message(files, name))


class MessageDecoder:
    """Messages as structs, or as JSON where they contain themselves."""

    too_large = _TOO_LARGE

    def __init__(self, file: Any, descriptor: Any) -> None:
        ptars, *_ = _modules()
        self.descriptor = descriptor
        self.handler = None
        self.arrow_type = pa.string()
        if _is_table(descriptor):
            config = ptars.PtarsConfig(
                timestamp_unit="us", duration_unit="us", time_unit="us", enum_repr="string"
            )
            pool = ptars.HandlerPool([file], config=config)
            try:
                self.handler = pool.get_for_message(descriptor)
                self.arrow_type = pa.struct(list(self._read(pa.array([], pa.binary())).schema))
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt | SystemExit):
                    raise
                raise SchemaError(f"ptars does not take it: {error}") from None
            if len(self.arrow_type) != len(descriptor.fields):
                self.handler, self.arrow_type = None, pa.string()  # it passes over odd fields

    def _read(self, payloads: pa.Array) -> pa.RecordBatch:
        assert self.handler is not None
        return self.handler.array_to_record_batch(payloads)

    def decode(self, payloads: pa.Array, max_bytes: int) -> tuple[pa.Array, Faults]:
        """A column, and which rows are no such message, or did not fit any more.

        Few bytes are decoded at once: two may become a struct of a thousand columns.
        """
        convert = self._texts if self.handler is None else self._converted
        faults = np.zeros(len(payloads), np.uint8)
        made: list[pa.Array] = []
        for start, stop in _in_slices(payloads):
            if max_bytes <= 0:
                faults[start:] = _TOO_LARGE
                made.append(pa.nulls(len(payloads) - start, self.arrow_type))
                break
            part = payloads.slice(start, stop - start)
            column, bad = bisect(part, convert, self.arrow_type)
            faults[start:stop] = bad.astype(np.uint8) * _BROKEN
            max_bytes -= column.nbytes
            made.append(column)
        return pa.concat_arrays(made) if made else pa.nulls(0, self.arrow_type), faults

    def _converted(self, payloads: pa.Array) -> pa.Array:
        whole = pa.concat_arrays([payloads.slice(0, 0), payloads])  # ptars knows no offsets
        try:
            found = self._read(whole)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # as above
            raise ValueError(str(error)) from None
        if any(map(_is_saturated, found.columns)):
            raise ValueError("a time has no room in its column")
        return pa.StructArray.from_arrays(found.columns, fields=list(self.arrow_type))

    def _texts(self, payloads: pa.Array) -> pa.Array:
        from google.protobuf import json_format, message, message_factory

        made = message_factory.GetMessageClass(self.descriptor)
        try:
            texts = [
                json_format.MessageToJson(made.FromString(each), indent=None)
                for each in payloads.to_pylist()
            ]
        except (message.DecodeError, json_format.Error, RecursionError) as error:
            raise ValueError(str(error)) from None
        return pa.array(texts, pa.string())

    def say(self, fault: int) -> str:  # noqa: ARG002
        """There is one other fault."""
        return "no such message"


def _is_saturated(column: pa.Array) -> bool:
    """Whether a time is the last or the first: ptars makes these of all that lie beyond them."""
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return bool(pc.any(pc.is_in(column.cast(pa.int64()), _ENDS)).as_py())
    if pa.types.is_struct(kind):
        return any(map(_is_saturated, column.flatten()))
    if pa.types.is_list(kind):
        return _is_saturated(column.flatten())
    return pa.types.is_map(kind) and _is_saturated(column.items)


def _in_slices(payloads: pa.Array) -> Iterator[tuple[int, int]]:
    """Rows of about so many bytes together."""
    _, _, sizes = spans_of(payloads)
    ends = np.cumsum(np.maximum(sizes, 0))
    start = 0
    while start < len(payloads):
        before = int(ends[start - 1]) if start else 0
        stop = int(np.searchsorted(ends, before + _SLICE_BYTES, side="right"))
        stop = max(start + 1, stop)
        yield start, stop
        start = stop


def _is_table(descriptor: Any) -> bool:
    """Whether a message contains neither itself nor too much."""
    count = 0
    waiting: list[tuple[Any, frozenset[str]]] = [(descriptor, frozenset())]
    while waiting:
        one, around = waiting.pop()
        if one.full_name in around:
            return False
        around |= {one.full_name}
        for each in one.fields:
            count += 1
            if count > _MOST_FIELDS:
                return False
            if each.message_type is not None:
                waiting.append((each.message_type, around))
    return bool(descriptor.fields)


def split(
    payloads: pa.Array, named: Named, values: pa.Array, version: Version, registry: Registry
) -> Iterator[MessagePart]:
    """Payloads by the message that they are: its numbers are in front of it, or in a header."""
    if named.writer.wire is WireFormat.APICURIO:
        yield from _by_refs(payloads, _paths(version, registry))
    elif named.writer.wire is WireFormat.GLUE:
        yield from _by_number(payloads, _sorted_paths(version, registry))
    elif named.indexes is not None:
        yield from _by_indexes(payloads, named.indexes)
    elif named.writer.wire is WireFormat.CONFLUENT:
        yield from _by_path(frames.split(values.take(pa.array(named.rows)), _FRAME))
    else:
        yield MessagePart(np.arange(len(payloads)), payloads)


def _by_path(found: frames.WireColumns) -> Iterator[MessagePart]:
    """Most are the first message, which one byte says."""
    sound = found.kinds == frames.WireKind.CONFLUENT_PROTOBUF
    short = sound & (found.starts - found.low == 1)
    paths = _Paths()
    for row in np.flatnonzero(sound & ~short).tolist():
        paths.add(found.message_path(row), row)
    for path, rows in ((_FIRST, np.flatnonzero(short)), (_NONE, np.flatnonzero(~sound))):
        if rows.size:
            yield MessagePart(rows, found.payloads(rows), path)
    for path, chosen in paths.rows.items():
        several = np.array(chosen, np.int64)
        yield MessagePart(several, found.payloads(several), path)


class _Paths:
    """Rows by the numbers of their message. No file has as many as a stranger can name."""

    def __init__(self) -> None:
        self.rows: dict[tuple[int, ...], list[int]] = {}

    def add(self, path: tuple[int, ...], row: int) -> None:
        is_known = path in self.rows or len(self.rows) < _MOST_PATHS
        self.rows.setdefault(path if is_known else _NONE, []).append(row)


def _by_indexes(payloads: pa.Array, indexes: pa.Array) -> Iterator[MessagePart]:
    """By what headers say; it is mostly the same."""
    coded = indexes.dictionary_encode()
    paths = [_path(each) for each in coded.dictionary.to_pylist()]
    found = _Paths()
    for row, code in enumerate(coded.indices.to_pylist()):
        found.add(paths[code], row)
    for path, rows in found.rows.items():
        yield MessagePart(np.array(rows, np.int64), payloads.take(pa.array(rows)), path)


def _path(indexes: bytes) -> tuple[int, ...]:
    """The numbers of a message as a header has them."""
    found = frames.split(pa.array([bytes(5) + indexes], pa.binary()), _FRAME)
    is_sound = found.kinds[0] == frames.WireKind.CONFLUENT_PROTOBUF
    return found.message_path(0) if is_sound else _NONE


def _by_number(payloads: pa.Array, paths: list[tuple[int, ...]]) -> Iterator[MessagePart]:
    """Glue puts the number of a message in front, in the order of all their full names."""
    data, starts, sizes = spans_of(payloads)
    numbers = np.full(len(payloads), -1, np.int64)
    fronts = np.ones(len(payloads), np.int64)
    filled = sizes > 0
    numbers[filled] = data[starts[filled]]
    for row in np.flatnonzero(numbers >= 0x80).tolist():
        front = data[starts[row] : starts[row] + min(sizes[row], 5)].tobytes()
        numbers[row], fronts[row] = _read_size(front, 0)
    for number in np.unique(numbers).tolist():
        rows = np.flatnonzero(numbers == number)
        if 0 <= number < len(paths):
            bodies = binary_of(data, starts[rows] + fronts[rows], sizes[rows] - fronts[rows])
            yield MessagePart(rows, bodies, paths[number])
        else:
            yield MessagePart(rows, payloads.take(pa.array(rows)), _NONE)


def _sorted_paths(version: Version, registry: Registry) -> list[tuple[int, ...]]:
    return [path for _, path in sorted(_full_paths(version, registry).items())]


def _paths(version: Version, registry: Registry) -> dict[str, tuple[int, ...]]:
    """The numbers of all messages by their names, full and short; of two alike the outer one's."""
    full = _full_paths(version, registry)
    found: dict[str, tuple[int, ...]] = {}
    for name, path in full.items():
        found.setdefault(name.rpartition(".")[2], path)
    return found | full


def _full_paths(version: Version, registry: Registry) -> dict[str, tuple[int, ...]]:
    """The numbers of all messages by their full names, outer ones first."""
    try:
        file = _described(_files(version, registry))
    except SchemaError:
        return {}
    tops = file.message_types_by_name.values()
    waiting: list[tuple[tuple[int, ...], Any]] = [((at,), one) for at, one in enumerate(tops)]
    found: dict[str, tuple[int, ...]] = {}
    while waiting:
        path, one = waiting.pop(0)
        found[one.full_name] = path
        waiting += [((*path, at), each) for at, each in enumerate(one.nested_types)]
    return found


def _by_refs(payloads: pa.Array, paths: dict[str, tuple[int, ...]]) -> Iterator[MessagePart]:
    """Apicurio puts a message in front that names the one that follows, with its size."""
    found: dict[tuple[int, ...], tuple[list[int], list[bytes]]] = {}
    for row, payload in enumerate(payloads.to_pylist()):
        name, body = _split_ref(payload)
        rows, bodies = found.setdefault(paths.get(name, _NONE), ([], []))
        rows.append(row)
        bodies.append(body)
    for path, (rows, bodies) in found.items():
        yield MessagePart(np.array(rows, np.int64), pa.array(bodies, pa.binary()), path)


def _split_ref(data: bytes) -> tuple[str, bytes]:
    """The name in a Ref, and what follows it; no name where there is none."""
    size, start = _read_size(data, 0)
    front, body = data[start : start + size], data[start + size :]
    length, at = _read_size(front, 1)
    if front[:1] != _NAME or at + length != len(front) or len(front) != size:
        return "", data
    return front[at:].decode("utf-8", "replace"), body


def _read_size(data: bytes, start: int) -> tuple[int, int]:
    """A varint of few bytes, and where it ends; -1 if it is none."""
    size = 0
    for at, byte in enumerate(data[start : start + 5]):
        size |= (byte & 0x7F) << (7 * at)
        if byte < 0x80:
            return size, start + at + 1
    return -1, start
