"""The process that the program runs in: ``python -m xla_sim.observe.child RUN_DIR [-m] PROGRAM [ARGS…]``.

The program's own output goes where it always went; what native libraries write to the standard error stream goes to
the parent through a pipe of its own, since it is noise there.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import io
import linecache
import os
import pickle
import runpy
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from xla_sim import ownership
from xla_sim.observe.hooks import Observer, environment


class _AfterImport(importlib.abc.MetaPathFinder):
    """Calls back when the program imports a module."""

    def __init__(self, before: dict[str, Callable[[], None]], after: dict[str, Callable[[ModuleType], None]]) -> None:
        self.before = before
        self.after = after

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in self.after:
            return None
        callback = self.after.pop(name)
        self.before.pop(name, lambda: None)()
        spec = importlib.util.find_spec(name)
        loader: Any = spec and spec.loader
        if loader is None:
            return spec
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            callback(module)

        loader.exec_module = exec_module
        return spec


def watch_imports(observer: Observer) -> None:
    """Put the hooks in as soon as the program imports torch and torch_xla."""

    def set_flags() -> None:  # again: the program may have set XLA_FLAGS of its own
        if "xla_dump_to" not in os.environ.get("XLA_FLAGS", ""):
            os.environ.update(environment(observer.directory, dict(os.environ)))

    finder = _AfterImport(
        {"torch_xla": set_flags},
        {"torch": observer.torch_imported, "torch_xla": observer.torch_xla_imported},
    )
    sys.meta_path.insert(0, finder)


def split_stderr() -> None:
    """Keep Python's sys.stderr where it was; give file descriptor 2 to the parent's log."""
    log = int(os.environ.pop("XLA_SIM_NATIVE_LOG", "-1"))
    if log < 0:
        return
    mine = os.dup(2)
    os.set_inheritable(mine, False)
    sys.stderr = io.TextIOWrapper(
        io.FileIO(mine, "wb"),
        encoding="utf-8",
        errors="backslashreplace",
        line_buffering=True,
        write_through=True,
    )
    sys.__stderr__ = sys.stderr  # type: ignore[misc]
    os.dup2(log, 2)
    os.close(log)


def run_program(arguments: list[str], directory: Path) -> int:
    """Run a script or ``-m`` module as ``__main__`` and return its exit status; its traceback is shown."""
    try:
        if arguments[0] == "--call":
            _call(Path(arguments[1]))
        elif arguments[0] == "-m":
            sys.argv = arguments[1:]
            sys.path[0] = os.getcwd()
            _module_is_user(arguments[1])
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = arguments
            sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
            ownership.add_user_root(sys.path[0])
            runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return (stop.code or 0) & 0xFF
        print(stop.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("KeyboardInterrupt", file=sys.stderr)
        return 130
    except BaseException as error:  # noqa: BLE001 (the program may raise anything; this is its outermost frame)
        text = traceback_of(error)
        sys.stderr.write(text)
        (directory / "error.txt").write_text(text, encoding="utf-8", errors="backslashreplace")
        return 1
    return 0


def _call(path: Path) -> None:
    """Import a function by its module's name, as the process that asks has it, and call it.

    One that `notebook.carry` pickled comes whole, with the lines of the notebook's cells.
    """
    request = pickle.loads(path.read_bytes())
    if len(request) == 3:
        sys.path[:], cells, carried = request
        for cell, lines in cells.items():
            linecache.cache[cell] = (sum(map(len, lines)), None, lines, cell)
        function, args = pickle.loads(carried)
        cloudpickle = importlib.import_module("cloudpickle")
        path.with_name("result.pkl").write_bytes(cloudpickle.dumps(function(*args)))
        return
    file, module, name, args, sys_path = request
    sys.path[:] = sys_path
    ownership.add_user_root(os.path.dirname(file))
    try:
        found = importlib.import_module(module)
        if os.path.abspath(str(found.__file__)) != file:
            raise ImportError
    except ImportError:  # a test module, or __main__: no name leads to it
        spec = importlib.util.spec_from_file_location(module if module != "__main__" else "_called", file)
        assert spec is not None and spec.loader is not None
        found = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = found
        spec.loader.exec_module(found)
    function = found
    for part in name.split("."):
        function = getattr(function, part)
    result = function(*args)
    path.with_name("result.pkl").write_bytes(pickle.dumps(result))


def _sources(arguments: list[str]) -> list[str]:
    """The files of the program's own code: its script, and what it imported that is no library's."""
    names = [name for name in sys.modules if name != "_remote_module_non_scriptable"]  # which torch writes for itself
    files = {getattr(sys.modules[name], "__dict__", {}).get("__file__") or "" for name in names} | {arguments[0]}
    for name in (arguments[1], f"{arguments[1]}.__main__") if arguments[0] == "-m" else ():
        with contextlib.suppress(ImportError):  # what ran as __main__ has left sys.modules
            files.add(getattr(importlib.util.find_spec(name), "origin", None) or "")
    return sorted(file for file in files if os.path.isfile(file) and ownership.is_user_file(file))


def _module_is_user(name: str) -> None:
    spec = importlib.util.find_spec(name.partition(".")[0])
    if spec is not None and spec.origin:
        ownership.add_user_root(os.path.dirname(spec.origin))


def traceback_of(error: BaseException) -> str:
    """Without the frames of the simulator and of runpy."""
    trace = error.__traceback__
    while trace is not None and (ownership.is_ours(trace.tb_frame.f_code.co_filename)):
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace or error.__traceback__))


def run(directory: Path, arguments: list[str], imported: Sequence[Any] = ()) -> int:
    """Observe one program from start to end; ``imported``: torch and torch_xla, when they are here already."""
    split_stderr()
    observer = Observer(directory)
    if imported:
        torch, torch_xla = imported
        observer.torch_imported(torch)
        observer.torch_xla_imported(torch_xla)
    else:
        watch_imports(observer)
    status = run_program(arguments, directory)
    observer.recorder.harmless(lambda: observer.recorder.emit("sources", files=_sources(arguments)))
    observer.recorder.emit("exit", status=status)
    observer.finish()
    sys.stdout.flush()
    sys.stderr.flush()
    return status


def main(arguments: list[str]) -> int:
    """RUN_DIR [-m] PROGRAM [ARGS…]."""
    return run(Path(arguments[0]), arguments[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
