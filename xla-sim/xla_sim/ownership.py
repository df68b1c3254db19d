"""Whose file is it: the user's, a library's, torch's, or the simulator's? Every room asks, so it stands below all of them."""

from __future__ import annotations

import functools
import os
import sysconfig
from collections.abc import Iterable

_OURS = os.path.dirname(os.path.abspath(__file__))
_libraries: tuple[str, ...] = tuple(
    {os.path.realpath(sysconfig.get_paths()[key]) + os.sep for key in ("stdlib", "platstdlib", "purelib", "platlib")}
)
_user_roots: list[str] = []  # folders that count as the user's although they lie inside a library folder


def add_user_root(folder: str) -> None:
    """Count ``folder`` as the user's: the folder of the script, or of the package that ``-m`` names."""
    _user_roots.append(os.path.realpath(folder) + os.sep)
    is_user_file.cache_clear()


def add_libraries(folders: Iterable[str]) -> None:
    """Count these folders as libraries too: those of another Python, which runs the program."""
    global _libraries
    _libraries += tuple(os.path.realpath(folder) + os.sep for folder in folders)
    is_user_file.cache_clear()


@functools.lru_cache(maxsize=4096)
def is_user_file(file: str) -> bool:
    """Whether a person would look for their fault in that file: no library's, not the interpreter's, not ours."""
    if not file or file.startswith("<"):
        return False
    path = os.path.realpath(file)
    if path.startswith(_OURS + os.sep):
        return False
    if _in_library(path):  # a root above a library says nothing: many a project holds its environment, .venv
        return any(path.startswith(root) for root in _user_roots if _in_library(root))
    return True


def _in_library(path: str) -> bool:
    return "site-packages" in path or "dist-packages" in path or path.startswith(_libraries)


@functools.lru_cache(maxsize=4096)
def is_ours(file: str) -> bool:
    """Whether the file belongs to the simulator or to what starts the program."""
    return file.startswith(_OURS) or file == "<frozen runpy>" or os.path.basename(file) == "runpy.py"


@functools.lru_cache(maxsize=4096)
def is_torch_file(file: str) -> bool:
    """Whether the file is PyTorch's or torch_xla's own."""
    return "/torch/" in file or "/torch_xla/" in file or file.startswith("<")
