"""What a disk holds after a crash, at every point of a recorded run: a model of its system calls.

Data of a file is durable after an fsync of the file, names after an fsync of their directory. A
rename replaces at once; until both directories are synced, both names may be there.
"""

import codecs
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

CALLS = (
    "open,openat,creat,write,pwrite64,ftruncate,fsync,fdatasync,rename,renameat,renameat2,link,"
    "linkat,unlink,unlinkat,mkdir,mkdirat,rmdir"
)
_LINE = re.compile(r"^(?:\d+ +)?(\w+)\((.*)\) += (\d+)(?:<.*)?$")
_ARGUMENT = re.compile(r'"((?:[^"\\]|\\.)*)"(\.\.\.)?|([^,\s][^,<"]*)(?:<([^>]*)>)?')


class Kept(Enum):
    """What a crash leaves of what was not synced."""

    NOTHING = "nothing"
    NAMES = "names"
    ALL = "all"


@dataclass(eq=False)
class Node:
    """A file or a directory, as it is and as it is durable."""

    is_folder: bool = False
    names: "dict[str, Node]" = field(default_factory=dict)
    durable_names: "dict[str, Node]" = field(default_factory=dict)
    data: bytes = b""
    durable_data: bytes = b""

    def sync(self) -> None:
        self.durable_names = dict(self.names)
        self.durable_data = self.data


def load(folder: Path) -> Node:
    """What is there before the run, all of it durable."""
    node = Node(is_folder=True)
    for path in folder.iterdir():
        node.names[path.name] = load(path) if path.is_dir() else Node(data=path.read_bytes())
        node.names[path.name].sync()
    node.sync()
    return node


def replay(trace: Path, folder: Path, root: Node) -> Iterator[str]:
    """Do to the model what the trace says, call by call."""
    for line in trace.read_text(encoding="latin-1").splitlines():
        found = _LINE.match(line)
        if found is None or str(folder) not in line:
            continue
        arguments = [_Argument(*each) for each in _ARGUMENT.findall(found[2])]
        if _apply(found[1], arguments, _Tree(root, str(folder))):
            yield line[:200]


class _Argument:
    def __init__(self, text: str, cut: str, word: str, path: str) -> None:
        assert not cut, "strace left a part of a write out"
        self.data = codecs.escape_decode(text.encode("latin-1"))[0]
        assert isinstance(self.data, bytes)
        self.is_text = not word
        self.word = word
        self.path = path


class _Tree:
    def __init__(self, root: Node, folder: str) -> None:
        self.root = root
        self.folder = folder

    def find(self, path: str) -> tuple[Node, str] | None:
        """The directory of a path and the name in it; None outside of the folder."""
        if not path.startswith(self.folder + "/"):
            return None
        *above, name = path.removeprefix(self.folder + "/").split("/")
        node = self.root
        for each in above:
            node = node.names[each]
        return node, name


def _paths(arguments: list[_Argument]) -> list[str]:
    """The paths that a call names, each from the directory before it."""
    found, base = [], ""
    for each in arguments:
        if each.is_text:
            found.append(os.path.join(base, each.data.decode()))
        elif each.path:
            base = each.path
    return found


def _apply(call: str, arguments: list[_Argument], tree: _Tree) -> bool:
    if call in ("write", "pwrite64", "fsync", "fdatasync", "ftruncate"):
        return _change(call, arguments, tree)
    places = [tree.find(path) for path in _paths(arguments)]
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
    if call.startswith("mkdir"):
        folder.names[name] = Node(is_folder=True)
    elif call.startswith(("unlink", "rmdir")):
        del folder.names[name]
    elif call.startswith("link"):
        rest[0][0].names[rest[0][1]] = folder.names[name]
    else:
        _rename(folder, name, *rest[0])
    return True


def _rename(folder: Node, name: str, into: Node, new: str) -> None:
    """Names of one file stay as they are (rename(2))."""
    if into.names.get(new) is not folder.names[name]:
        into.names[new] = folder.names.pop(name)


def _change(call: str, arguments: list[_Argument], tree: _Tree) -> bool:
    path = arguments[0].path
    if path == tree.folder:
        tree.root.sync()
        return True
    place = tree.find(path)
    if place is None or place[1] not in place[0].names:
        return False
    node = place[0].names[place[1]]
    if call in ("fsync", "fdatasync"):
        node.sync()
    elif call == "write":
        node.data += arguments[1].data
    else:
        raise AssertionError(f"the model knows no {call}")
    return True


def build(node: Node, folder: Path, kept: Kept, made: dict[int, Path] | None = None) -> None:
    """The disk after a crash; two names of one file are two names again."""
    made = {} if made is None else made
    folder.mkdir(mode=0o755)
    for name, each in (node.durable_names if kept is Kept.NOTHING else node.names).items():
        path = folder / name
        if each.is_folder:
            build(each, path, kept, made)
        elif id(each) in made:
            os.link(made[id(each)], path)
        else:
            path.write_bytes(each.data if kept is Kept.ALL else each.durable_data)
            made[id(each)] = path
