"""``%load_ext xla_sim``, then ``%%xla_sim`` above a cell: simulate that cell, and show the report below it.

The cell runs in a process of its own with copies of what it uses of the notebook: variables, functions, classes,
imports. What it changes stays there. Cells are files to the simulator: line 4 of the third one is ``In[3]:4``.
"""

from __future__ import annotations

import argparse
import contextlib
import html
import importlib
import io
import linecache
import os
import pickle
import re
import shlex
import shutil
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NoReturn

from xla_sim.config import Config, load_config, with_options
from xla_sim.observe.supervise import CannotRun, supervise_call
from xla_sim.rules.judging import judge
from xla_sim.rules.selection import FAIL_ON, ConfigError, fails
from xla_sim.trace import Trace

HEIGHT = 620  # pixels of the report below the cell


def carry(value: Any, shared: Mapping[int, dict[str, Any]] | None = None) -> bytes:
    """Pickle what a plain import can't find: closures, lambdas, and what notebook cells define.

    Args:
        shared: namespaces of functions, by id, and the dictionary that each is in the other process.

    Raises:
        CannotRun: cloudpickle isn't here, or something can't be handed to another process.
    """
    try:
        cloudpickle: Any = importlib.import_module("cloudpickle")
    except ImportError as error:
        raise CannotRun(
            "a function that no import finds needs cloudpickle to reach the simulation's process: "
            "install it with `pip install cloudpickle`, or define the function at the top of a module, with `def`."
        ) from error
    known: dict[str, list[str]] = {}

    def reduce_code(code: CodeType) -> Any:
        name = cell_name(code.co_filename)
        if name != code.co_filename:
            known[name] = linecache.getlines(code.co_filename)
            remember(name, known[name])
        make, args = reduce(code.replace(co_filename=name))  # cloudpickle 3.1 puts "<dynamic-code>" for the file's name
        return make, tuple(name if isinstance(one, str) and one == "<dynamic-code>" else one for one in args)

    stream = io.BytesIO()
    table = cloudpickle.CloudPickler.dispatch_table
    reduce = table[CodeType]
    # a class of its own, since the pickler reads the table when it is made
    kind = type("Pickler", (cloudpickle.CloudPickler,), {"dispatch_table": table.new_child({CodeType: reduce_code})})
    pickler: Any = kind(stream)
    pickler.globals_ref.update(shared or {})
    try:
        pickler.dump(value)
    except Exception as error:  # whatever the value's own __reduce__ raises
        raise CannotRun(f"{type(error).__name__}: {error}") from error
    return pickle.dumps((list(sys.path), known, stream.getvalue()))


def carry_call(function: Callable[..., Any], args: tuple[Any, ...]) -> bytes:
    """`carry` a function and what it is called with.

    Raises:
        CannotRun: with the name of the variable that can't be handed on.
    """
    try:
        return carry((function, args))
    except CannotRun as error:
        name = getattr(function, "__name__", "the function")
        culprit = _culprit(function)
        what = f"{culprit}, which {name} uses," if culprit else f"{name} or what it is called with"
        if "cloudpickle" in str(error) and "pip install" in str(error):
            raise
        raise CannotRun(f"{what} can't be handed to another process ({error}): make it inside {name}.") from error


def _culprit(function: Any) -> str:
    """The variable of a function that can't be carried, or ""."""
    if not isinstance(function, FunctionType):
        return ""
    used = {name: function.__globals__[name] for name in names(function.__code__) if name in function.__globals__}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        with contextlib.suppress(ValueError):  # it isn't bound yet
            used[name] = cell.cell_contents
    return next((name for name, value in used.items() if value is not function and not _carried(value)), "")


def _carried(value: Any, shared: Mapping[int, dict[str, Any]] | None = None) -> str | bytes:
    try:
        return carry(value, shared)
    except CannotRun:
        return ""


def names(code: CodeType) -> set[str]:
    """Global names that code uses, in the functions inside it too."""
    inner = [names(const) for const in code.co_consts if isinstance(const, CodeType)]
    return set(code.co_names).union(*inner)


def cell_name(file: str) -> str:
    """``In[3]`` for the name that IPython gives a cell's code; any other name as it is."""
    shell = _shell()
    if shell is None or os.path.isfile(file) or file not in linecache.cache:
        return file
    text = "".join(linecache.getlines(file)).rstrip("\n")
    history = [cell.rstrip("\n") for cell in shell.history_manager.input_hist_parsed]
    number = len(history) - 1 - history[::-1].index(text) if text in history else None
    if number is None:
        number = getattr(shell.compile, "_filename_map", {}).get(file)  # IPython 8 and newer
    match = re.match(r"<ipython-input-(\d+)-", file)
    if number is None and match:
        number = int(match[1])
    return file if number is None else f"In[{number}]"


def _shell() -> Any:
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


def remember(name: str, lines: list[str]) -> None:
    """Let tracebacks, rules and reports read the lines of a file that is on no disk."""
    linecache.cache[name] = (sum(map(len, lines)), None, lines, name)


def run_cell(source: str, name: str, namespace: dict[str, Any]) -> None:
    """In the simulation's process: run the cell."""
    remember(name, source.splitlines(keepends=True))
    exec(compile(source, name, "exec"), namespace)  # noqa: S102 (running the person's own cell is what was asked for)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"%%xla_sim: {message}. It takes {', '.join(OPTIONS)}.")


OPTIONS = ("--fail-on", "--select", "--ignore", "--warmup-steps", "--timeout", "--out", "--compare-eager")


def _options(line: str) -> argparse.Namespace:
    """
    Raises:
        ConfigError: there is no such option, or its value can't be read.
    """
    from xla_sim.cli.options import seconds, whole, words

    parser = _Parser(prog="%%xla_sim", add_help=False, allow_abbrev=False)
    parser.add_argument("--fail-on", choices=FAIL_ON)
    parser.add_argument("--select", type=words)
    parser.add_argument("--ignore", type=words)
    parser.add_argument("--warmup-steps", type=whole)
    parser.add_argument("--timeout", type=seconds)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--compare-eager", action="store_true")
    try:
        return parser.parse_args(shlex.split(line))
    except ValueError as error:  # of shlex: a quote that is not closed
        raise ConfigError(f"%%xla_sim: {line!r} can't be read: {error}.") from error


class CellReport:
    """What the notebook shows below a simulated cell."""

    def __init__(self, summary: str, text: str, page: str) -> None:
        self.summary, self.text, self.page = summary, text, page

    def __repr__(self) -> str:
        return f"{self.summary}\n{self.text}"

    def _repr_html_(self) -> str:
        page = html.escape(self.page, quote=True)
        frame = (
            f'<iframe srcdoc="{page}" sandbox="allow-scripts" style="width:100%;height:{HEIGHT}px;border:0"></iframe>'
        )
        return f"<p><b>{html.escape(self.summary)}</b></p>{frame}"


def magic(line: str, cell: str | None = None) -> None:
    """Simulate a cell, or with one ``%`` the statement after the options' ``--``."""
    try:
        if cell is None:
            line, _, cell = line.partition(" -- ") if " -- " in line else ("", "", line)
            source = cell + "\n"
        else:
            source = "\n" + cell  # so that lines are the cell's own, of which the first is the magic's
        args = _options(line)
        config = with_options(
            load_config(),
            fail_on=args.fail_on,
            select=args.select,
            ignore=args.ignore,
            warmup_steps=args.warmup_steps,
            timeout=args.timeout,
        )
        _simulate(source, args, config)
    except (ConfigError, CannotRun) as error:
        print(f"xla_sim: {error}", file=sys.stderr)


def _simulate(source: str, args: argparse.Namespace, config: Config) -> None:
    from IPython.display import display

    shell = _shell()
    name = f"In[{len(shell.history_manager.input_hist_parsed) - 1}]"  # execution_count may be the next cell's already
    remember(name, source.splitlines(keepends=True))
    try:
        code = compile(source, name, "exec")
    except SyntaxError as error:
        if re.search(r"^\s*[%!]", source, re.MULTILINE):
            raise CannotRun(
                "a simulated cell is plain Python: put its lines with % or ! in a cell before it."
            ) from error
        sys.stderr.write("".join(traceback.format_exception_only(type(error), error)))
        return
    payload, left = _with_namespace(source, name, code, shell.user_ns)
    directory = args.out or Path(tempfile.mkdtemp(prefix="xla_sim-"))
    with _shown() as output:
        trace = supervise_call(
            run_cell, (), directory, config.timeout, config.warmup_steps, payload, name, args.compare_eager, output
        )
    trace = judge(trace, config.names())
    _tell_left(trace, left)
    report = _report(trace, config, directory)
    display(report)
    if args.out is None:
        shutil.rmtree(directory, ignore_errors=True)


def _with_namespace(source: str, name: str, code: CodeType, namespace: dict[str, Any]) -> tuple[bytes, dict[str, str]]:
    """The cell and what it uses of the notebook, pickled; and why the rest of what it uses stays behind."""
    used = {key: namespace[key] for key in sorted(names(code)) if key in namespace and key != "__name__"}

    def carried(values: dict[str, Any]) -> bytes:
        shared: dict[str, Any] = {"__name__": "__main__", **values}
        return carry((run_cell, (source, name, shared)), {id(namespace): shared})

    left: dict[str, str] = {}
    try:
        return carried(used), left
    except CannotRun:
        for key, value in list(used.items()):
            try:
                carried({key: value})
            except CannotRun as error:
                culprit = _culprit(value)
                left[key] = f"{f'it uses {culprit}: ' if culprit else ''}{error}"
                del used[key]
    return carried(used), left


def _tell_left(trace: Trace, left: Mapping[str, str]) -> None:
    log = trace.directory / "error.txt"
    told = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    for key, why in left.items():
        if f"name '{key}' is not defined" in told:
            print(
                f"xla_sim: {key} can't be handed to the simulation's process ({why}): make it inside this cell.",
                file=sys.stderr,
            )


def _report(trace: Trace, config: Config, directory: Path) -> CellReport:
    from xla_sim.report import write_reports
    from xla_sim.report.content import origin, summary
    from xla_sim.report.content.document import to_document
    from xla_sim.report.terminal import render

    about = {"made_at": origin.now(), "made_of": {"hash": None, "files": 0, "commit": None, "dirty": None}}
    document = to_document(trace, trace.findings, None, about)
    write_reports(directory, document)
    line = f"xla_sim: {trace.argv[0]}, {summary.verdict(document)}"
    if fails(list(trace.findings), config.fail_on):
        line += f" (at or above {config.fail_on})"
    page = (directory / "report.html").read_text(encoding="utf-8")
    return CellReport(line, render(document), page)


@contextlib.contextmanager
def _shown() -> Iterator[tuple[int, int]]:
    """Descriptors for the program's output; in a kernel, whose own aren't the notebook's, what is written is shown."""
    if not type(sys.stdout).__module__.startswith("ipykernel"):
        yield 1, 2
        return
    threads, ends = [], []
    for stream in (sys.stdout, sys.stderr):
        reading, writing = os.pipe()
        thread = threading.Thread(target=_copy, args=(reading, stream), daemon=True)
        thread.start()
        threads.append(thread)
        ends.append(writing)
    try:
        yield ends[0], ends[1]
    finally:
        for end in ends:
            os.close(end)
        for thread in threads:
            thread.join(2)
        sys.stdout.flush()
        sys.stderr.flush()


def _copy(descriptor: int, stream: Any) -> None:
    with open(descriptor, encoding="utf-8", errors="replace", buffering=1) as source:
        for line in source:
            stream.write(line)


def load(shell: Any) -> None:
    """Give the notebook its magics."""
    shell.register_magic_function(magic, "line_cell", "xla_sim")
