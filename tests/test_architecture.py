"""What docs/architecture.md names is there."""

import ast
import re
from pathlib import Path

import ottla

SOURCE = Path(ottla.__file__).parent
TEXT = (Path(__file__).parent.parent / "docs" / "architecture.md").read_text()
NAMED = sorted(set(re.findall(r"`([\w/]+\.py):([\w.]+)`", TEXT)))
FOLDERS = re.findall(r"^\| `(\w+)` \|", TEXT, re.MULTILINE)


def names_of(path: Path) -> set[str]:
    """Functions, classes and methods of a module."""
    names = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = [one.name for one in node.body if isinstance(one, ast.FunctionDef)]
            names |= {f"{node.name}.{method}" for method in methods}
    return names


def test_every_function_that_a_walk_names_exists() -> None:
    assert len(NAMED) > 50
    missing = [f"{file}:{name}" for file, name in NAMED if name not in names_of(SOURCE / file)]
    assert missing == []


def test_the_file_map_has_every_folder_and_no_other() -> None:
    there = {path.stem for path in SOURCE.iterdir() if not path.name.startswith("_")}
    assert set(FOLDERS) == there - {"py", "version"}  # py.typed
