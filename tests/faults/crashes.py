"""What a disk holds after a crash, at every point of a recorded run: a model of its system calls.

Data of a file is durable after an fsync of the file, names after an fsync of their directory: what
was there when that call began, for other threads go on meanwhile. A rename replaces at once; until
both directories are synced, both names may be there. A file that is mapped for writing holds
anything until its msync.
"""

import codecs
import copy
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import NamedTuple

# All that can change a file or a name: one that the model does not know is an error.
CALLS = (
    "open,openat,creat,write,writev,pwrite64,pwritev,pwritev2,truncate,ftruncate,fallocate,"
    "copy_file_range,sendfile,splice,mmap,msync,fsync,fdatasync,rename,renameat,renameat2,"
    "link,linkat,symlink,symlinkat,unlink,unlinkat,mkdir,mkdirat,rmdir"
)
_CALL = re.compile(r"^(\w+)\((.*)\) += (\d+|0x[0-9a-f]+)(?:<.*)?$")
_BEGUN = re.compile(r"^f(?:data)?sync\(\d+<([^>]*)>")
_ARGUMENT = re.compile(r'"((?:[^"\\]|\\.)*)"(\.\.\.)?|([^,\s][^,<"]*)(?:<([^>]*)>)?')
_UNFINISHED = " <unfinished ...>"
_RESUMED = " resumed>"


class Kept(Enum):
    """What a crash leaves of what was not synced."""

    NOTHING = "nothing"
    NAMES = "names"
    ALL = "all"


class State(NamedTuple):
    """What a file or a directory held at a moment."""

    moment: int
    names: "dict[str, Node]"
    data: bytes


@dataclass(eq=False)
class Node:
    """A file or a directory, as it is and as it is durable."""

    is_folder: bool = False
    names: "dict[str, Node]" = field(default_factory=dict)
    data: bytes = b""
    durable: State = field(default_factory=lambda: State(-1, {}, b""))

    def state(self, moment: int) -> State:
        return State(moment, dict(self.names), self.data)

    def sync(self, state: State) -> None:
        """Of two syncs the one that began later counts, whichever ends first."""
        if state.moment >= self.durable.moment:
            self.durable = state


def load(folder: Path) -> Node:
    """What is there before the run, all of it durable."""
    node = Node(is_folder=True)
    for path in folder.iterdir():
        inner = load(path) if path.is_dir() else Node(data=path.read_bytes())
        inner.sync(inner.state(0))
        node.names[path.name] = inner
    node.sync(node.state(0))
    return node


def replay(trace: Path, folder: Path, root: Node) -> Iterator[str]:
    """Do to the model what the trace says, call by call, in the order in which calls ended."""
    trial = _Run(copy.deepcopy(root), str(folder))
    for _ in trial.steps(trace):
        pass
    # What went through a mapping is in no call: it is what the file holds when all is done.
    yield from _Run(root, str(folder), trial.read_mapped(folder)).steps(trace)


class _Argument:
    def __init__(self, text: str, cut: str, word: str, path: str) -> None:
        assert not cut, "strace left a part of a write out"
        self.data = codecs.escape_decode(text.encode("latin-1"))[0]
        assert isinstance(self.data, bytes)
        self.is_text = not word
        self.word = word
        self.path = path


class _Run:
    """A run as far as it was replayed."""

    def __init__(self, root: Node, folder: str, mapped: dict[str, bytes] | None = None) -> None:
        self.root = root
        self.folder = folder
        self.mapped = mapped
        self.moment = 0
        self.maps: dict[str, tuple[str, Node]] = {}  # path and file by address
        self.begun: dict[str, str] = {}  # calls of threads that others interrupted
        self.syncs: dict[str, State] = {}  # what was there when they began

    def steps(self, trace: Path) -> Iterator[str]:
        """Every call that changed something, when it is done."""
        for line in trace.read_text(encoding="latin-1").splitlines():
            thread, _, text = line.partition(" ")
            text = text.lstrip()
            self.moment += 1
            if text.endswith(_UNFINISHED):
                self.begun[thread] = text.removesuffix(_UNFINISHED)
                self._begin_sync(thread, text)
                continue
            if text.startswith("<... ") and _RESUMED in text:
                text = self.begun.pop(thread) + text.partition(_RESUMED)[2]
            else:
                self._begin_sync(thread, text)
            if self._do(text, thread):
                yield text[:200]

    def read_mapped(self, folder: Path) -> dict[str, bytes]:
        """What the files that were mapped hold on the disk at the end of the run."""
        places = dict(_files(self.root))
        return {path: (folder / places[node]).read_bytes() for path, node in self.maps.values()}

    def find(self, path: str) -> tuple[Node, str] | None:
        """The directory of a path and the name in it; None outside of the folder.

        A folder may be used by one thread before the call of the other that made it has returned.
        """
        if not path.startswith(self.folder + "/"):
            return None
        *above, name = path.removeprefix(self.folder + "/").split("/")
        node = self.root
        for each in above:
            node = node.names.setdefault(each, Node(is_folder=True))
        return node, name

    def find_open(self, path: str) -> Node | None:
        """What a descriptor is of, unless it has no name any more."""
        if path == self.folder:
            return self.root
        place = self.find(path)
        return place[0].names.get(place[1]) if place else None

    def _begin_sync(self, thread: str, text: str) -> None:
        found = _BEGUN.match(text)
        node = self.find_open(found[1]) if found else None
        if node is not None:
            self.syncs[thread] = node.state(self.moment)

    def _do(self, text: str, thread: str) -> bool:
        found = _CALL.match(text)
        if found is None or (self.folder not in text and found[1] != "msync"):
            return False
        call, result = found[1], found[3]
        arguments = [_Argument(*each) for each in _ARGUMENT.findall(found[2])]
        if call in ("fsync", "fdatasync"):
            node = self.find_open(arguments[0].path)
            if node is not None:
                node.sync(self.syncs.pop(thread))
            return node is not None
        if call in ("mmap", "msync"):
            return self._map(arguments, result)
        if call == "write":
            return self._write(arguments, int(result))
        return self._name(call, arguments)

    def _write(self, arguments: list[_Argument], count: int) -> bool:
        node = self.find_open(arguments[0].path)
        if node is not None:
            node.data += arguments[1].data[:count]
        return node is not None

    def _map(self, arguments: list[_Argument], result: str) -> bool:
        """Zeros stand for what is written through a mapping in whatever order the kernel likes."""
        words = [each.word for each in arguments]
        if len(words) == 3:  # msync
            path, node = self.maps.get(words[0], ("", None))
            if node is None:
                return False
            node.data = self.mapped[path] if self.mapped is not None else node.data
            node.sync(node.state(self.moment))
            return True
        node = self.find_open(arguments[4].path)
        if node is None or "MAP_SHARED" not in words[3] or "PROT_WRITE" not in words[2]:
            return False
        node.data = bytes(len(node.data))
        node.sync(node.state(self.moment))
        self.maps[result] = (arguments[4].path, node)
        return True

    def _name(self, call: str, arguments: list[_Argument]) -> bool:
        places = [self.find(path) for path in _paths(arguments)]
        if not places or any(place is None for place in places):
            assert not [place for place in places if place is not None], arguments
            return False
        (folder, name), *rest = [place for place in places if place is not None]
        if call in ("open", "openat", "creat"):
            flags = " ".join(each.word for each in arguments)
            if "O_CREAT" in flags and name not in folder.names:
                folder.names[name] = Node()
            elif "O_TRUNC" in flags:
                folder.names[name].data = b""
            return "O_CREAT" in flags or "O_TRUNC" in flags
        if call in ("mkdir", "mkdirat"):
            folder.names.setdefault(name, Node(is_folder=True))
        elif call in ("unlink", "unlinkat", "rmdir"):
            del folder.names[name]
        elif call in ("link", "linkat"):
            rest[0][0].names[rest[0][1]] = folder.names[name]
        elif call in ("rename", "renameat", "renameat2"):
            _rename(folder, name, *rest[0])
        else:
            raise AssertionError(f"the model knows no {call}")
        return True


def _paths(arguments: list[_Argument]) -> list[str]:
    """The paths that a call names, each from the directory before it."""
    found, base = [], ""
    for each in arguments:
        if each.is_text:
            found.append(os.path.join(base, each.data.decode()))
        elif each.path:
            base = each.path
    return found


def _rename(folder: Node, name: str, into: Node, new: str) -> None:
    """Names of one file stay as they are (rename(2))."""
    if into.names.get(new) is not folder.names[name]:
        into.names[new] = folder.names.pop(name)


def _files(node: Node, path: str = "") -> Iterator[tuple[Node, str]]:
    for name, each in node.names.items():
        if each.is_folder:
            yield from _files(each, f"{path}{name}/")
        else:
            yield each, path + name


class Left(NamedTuple):
    """A name on the disk after a crash; files that are one have one `node`."""

    path: str
    data: bytes | None
    node: int


def look(root: Node, kept: Kept, path: str = "") -> Iterator[Left]:
    """What a crash leaves, folders before what is in them."""
    for name, each in sorted((root.durable.names if kept is Kept.NOTHING else root.names).items()):
        if each.is_folder:
            yield Left(path + name, None, 0)
            yield from look(each, kept, f"{path}{name}/")
        else:
            yield Left(path + name, each.data if kept is Kept.ALL else each.durable.data, id(each))


def build(left: tuple[Left, ...], folder: Path) -> None:
    """The disk after a crash; two names of one file are two names again."""
    made: dict[int, Path] = {}
    folder.mkdir(mode=0o755)
    for path, data, node in left:
        if data is None:
            (folder / path).mkdir(mode=0o755)
        elif node in made:
            os.link(made[node], folder / path)
        else:
            (folder / path).write_bytes(data)
            made[node] = folder / path
