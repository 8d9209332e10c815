"""A name means one thing: no two classes of the package share one."""

import ast
from collections import defaultdict
from pathlib import Path

import ottla


def test_no_two_classes_have_the_same_name() -> None:
    places = defaultdict(list)
    package = Path(ottla.__file__).parent
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name.lstrip("_")].append(str(path.relative_to(package)))
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}
