"""The rooms of xla_sim: imports run downward, no room is a warehouse, and one name means one thing."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import xla_sim

PACKAGE = Path(xla_sim.__file__).parent
DOORS = ("__main__", "api", "cli", "config", "notebook", "pytest_plugin", "__init__")
# From the front doors down; what stands further down knows nothing of what stands above it.
ORDER = ("doors", "fit", "report", "rules", "predict", "verdict", "compiler", "observe", "hlo", "base")
BASE = ("trace", "ownership", "hints")  # the data that every room hands on, whose file is whose, what to type next
ALONE = (
    "environment",
)  # read by nox before anything is installed: it imports no other room, and front doors import it


def room(module: str) -> str:
    first = module.split(".")[0]
    return "doors" if first in DOORS or not first else "base" if first in BASE else first


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield ".".join(path.relative_to(PACKAGE).with_suffix("").parts), path


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Modules of xla_sim that a file imports anywhere in it, dotted below the package."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
            if node.module == "xla_sim":
                yield from ((node.lineno, name.name) for name in node.names if name.name != "__version__")
            elif (node.module or "").startswith("xla_sim."):
                yield node.lineno, (node.module or "").removeprefix("xla_sim.")
        elif isinstance(node, ast.Import):
            yield from (
                (node.lineno, name.name.removeprefix("xla_sim."))
                for name in node.names
                if name.name.startswith("xla_sim.")
            )


def test_every_module_is_in_a_room() -> None:
    assert {room(name) for name, _ in modules()} <= {*ORDER, *ALONE}


def test_no_import_runs_upward() -> None:
    wrong = []
    for name, path in modules():
        here = room(name)
        for line, other in imported(path):
            there = room(other)
            alone = here in ALONE or there in ALONE
            fine = (
                here == there or (here == "doors" and there in ALONE)
                if alone
                else ORDER.index(here) <= ORDER.index(there)
            )
            if not fine:
                wrong.append(f"{name}:{line} imports {other}")
    assert wrong == []


def test_no_room_holds_more_than_a_quarter_or_sixteen_files() -> None:
    lines: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for name, path in modules():
        lines[room(name)] += len(path.read_text(encoding="utf-8").splitlines())
        files[str(path.parent)] += 1
    assert [name for name, count in lines.items() if count > sum(lines.values()) / 4] == []
    assert [name for name, count in files.items() if count > 16] == []


def test_a_name_is_used_once() -> None:
    names = Counter(name.split(".")[-1] for name, _ in modules() if not name.endswith("__init__"))
    assert [name for name, count in names.items() if count > 1] == []


def test_each_room_says_what_it_answers() -> None:
    for folder in (path.parent for path in PACKAGE.rglob("__init__.py")):
        assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))), folder
