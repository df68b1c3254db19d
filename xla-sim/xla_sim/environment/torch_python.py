"""Which Python has the user's torch_xla? Programs run in it, wherever this package itself is installed."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PROBE = """
import importlib.metadata, importlib.util, json, sys, sysconfig
paths = sysconfig.get_paths()
try: version = importlib.metadata.version("torch_xla")
except importlib.metadata.PackageNotFoundError: version = ""
print(json.dumps({"executable": sys.executable, "version": "%d.%d.%d" % sys.version_info[:3],
    "prefix": sys.prefix, "has": importlib.util.find_spec("torch_xla") is not None, "torch_xla": version,
    "libraries": sorted({paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")})}))
"""


class NoTorchXla(Exception):
    """No Python with torch_xla was found, or the one that was named has none; the message is a sentence for the user."""


@dataclass(frozen=True)
class TorchPython:
    """A Python that can run the user's program."""

    path: str
    version: str = ""  # of Python; empty for this one
    torch_xla: str = ""
    libraries: tuple[str, ...] = ()  # where its packages and its standard library are

    @property
    def is_this(self) -> bool:
        return self.path == sys.executable

    def __str__(self) -> str:
        here = os.path.relpath(self.path)
        shown = self.path if here.startswith("..") else here
        return f"{shown} (Python {self.version}, torch_xla {self.torch_xla or 'of unknown version'})"


def find_torch_python(asked: str | None, advice: str) -> TorchPython:
    """The Python that ``--python`` or $XLA_SIM_PYTHON names; or this one; or the first of `places` that has torch_xla.

    Raises:
        NoTorchXla: ``advice`` ends its sentence.
    """
    named = asked or os.environ.get("XLA_SIM_PYTHON")
    if named:
        return _named(named, "--python" if asked else "XLA_SIM_PYTHON", advice)
    if importlib.util.find_spec("torch_xla") is not None:
        return TorchPython(sys.executable)
    looked: dict[object, str] = {sys.prefix: sys.executable}
    for place in places():
        found = _probe(place)
        if found is None or found["prefix"] in looked:
            continue
        looked[found["prefix"]] = str(found["executable"])
        if found["has"]:
            return _known(found)
    others = [path for path in looked.values() if path != sys.executable]
    tried = f", nor in {', '.join(others)}" if others else ", and there is no other Python here"
    raise NoTorchXla(f"torch_xla isn't installed in {sys.executable}{tried}: {advice}.")


def places() -> Iterator[str]:
    """Where a user's Python is looked for, in this order; only files that exist."""
    folders = [os.environ.get(name) for name in ("VIRTUAL_ENV", "CONDA_PREFIX")]
    for above in up_to_repository():
        folders += [str(above / name) for name in (".venv", "venv", ".nox/env")]
    candidates = [os.path.join(folder, "bin", "python") for folder in folders if folder]
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        candidates += [os.path.join(folder, name) for name in ("python", "python3") if folder]
    for candidate in dict.fromkeys(candidates):
        if os.access(candidate, os.X_OK) and not os.path.isdir(candidate):
            yield candidate


def up_to_repository() -> list[Path]:
    """This folder and those above it, up to the one that holds the git repository; this one alone outside of any."""
    here = Path.cwd()
    for number, folder in enumerate((here, *here.parents)):
        if (folder / ".git").exists():
            return [here, *here.parents][: number + 1]
    return [here]


def _named(named: str, switch: str, advice: str) -> TorchPython:
    path = os.path.expanduser(named)
    if os.path.isdir(path):  # an environment
        path = os.path.join(path, "bin", "python")
    command = shutil.which(path)
    if command is None:
        raise NoTorchXla(f"{switch} names {named}, and there is no such program: give the path of a Python.")
    found = _probe(os.path.abspath(command))
    if found is None:
        raise NoTorchXla(f"{switch} names {named}, which doesn't start as a Python: give the path of a Python.")
    if not found["has"]:
        raise NoTorchXla(f"{switch} names {named}, and torch_xla isn't installed there: {advice}.")
    return _known(found)


def _known(found: dict[str, object]) -> TorchPython:
    path, libraries = str(found["executable"]), found["libraries"]
    assert isinstance(libraries, list)
    return TorchPython(path, str(found["version"]), str(found["torch_xla"]), tuple(libraries))


def _probe(python: str) -> dict[str, object] | None:
    try:
        done = subprocess.run([python, "-c", _PROBE], check=False, capture_output=True, timeout=60, text=True)
        found: dict[str, object] = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return found
