"""Run a script, a module or a callable under observation, and hand back a Trace even if it crashes.

The program runs in a process of its own; only files pass between the two, so whatever ends the program (an exception,
a signal, the kernel, a time limit, Ctrl-C) leaves a Trace of what was seen until then.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Union

from xla_sim import hints, ownership
from xla_sim.observe import isolated
from xla_sim.observe.assemble import build
from xla_sim.observe.hooks import environment
from xla_sim.observe.warm import Forked, Warm
from xla_sim.trace import Trace

OURS = (
    "events.jsonl",
    "torch_xla.log",
    "metrics.txt",
    "native.log",
    "error.txt",
    "result.pkl",
    "request.json",
    "graphs",
    "dump",
    "hlo",
)
LOG_BYTES = 4 << 20  # of native noise that is kept: the first half and the last
GRACE = 10.0  # seconds between asking a program to stop and making it


Child = Union["subprocess.Popen[bytes]", Forked]


class CannotRun(Exception):
    """The environment can't run the program; the message is a sentence for the user."""


def supervise_script(
    arguments: Sequence[str],
    directory: Path,
    timeout: float | None = None,
    warmup_steps: int = 2,
    compare_eager: bool = False,
    warm: bool = False,
    progress: Callable[[], None] | None = None,
    dump_hlo: bool = False,
    python: str = sys.executable,
) -> Trace:
    """Run ``SCRIPT [ARGS…]`` or ``-m MODULE [ARGS…]`` with its files in ``directory``.

    Args:
        timeout: seconds after which the program is stopped.
        warmup_steps: steps that may compile.
        compare_eager: repeat the first training step's forward pass in eager PyTorch.
        warm: start it from a process that has imported torch_xla already; see `observe.warm`.
        progress: called some times a second while it runs.
        dump_hlo: write every graph as text, however large.
        python: what runs it; another one than this needs torch_xla and nothing of ours.

    Raises:
        CannotRun: torch_xla isn't installed, or the directory can't be written.
    """
    _know_user_files(arguments)
    extra = {"XLA_SIM_COMPARE_EAGER": "1"} if compare_eager else {}
    if dump_hlo:
        extra["XLA_SIM_DUMP_HLO"] = "1"
    return _supervise(list(arguments), list(arguments), directory, timeout, warmup_steps, extra, warm, progress, python)


def importable(function: Callable[..., Any]) -> bool:
    """Whether another process finds the function by its module's name or file."""
    name = getattr(function, "__qualname__", "<")
    file = getattr(sys.modules.get(getattr(function, "__module__", ""), None), "__file__", None)
    return file is not None and "<" not in name


def supervise_call(
    function: Callable[..., Any],
    args: Sequence[Any],
    directory: Path,
    timeout: float | None = None,
    warmup_steps: int = 2,
    carried: bytes | None = None,
    name: str = "",
    compare_eager: bool = False,
    output: tuple[int, int] = (1, 2),
) -> Trace:
    """Run ``function(*args)`` likewise; what it returns is pickled to ``result.pkl`` in ``directory``.

    Args:
        carried: the function and its arguments as `notebook.carry` pickled them; None: it is imported there.
        name: what reports call it.
        output: descriptors for what it prints and for its errors.

    Raises:
        CannotRun: also when the function can't be imported by another process.
    """
    directory = directory.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    call = directory / "call.pkl"
    called = getattr(function, "__qualname__", repr(function))
    module = sys.modules.get(getattr(function, "__module__", ""), None)
    if carried is None:
        if module is None or not importable(function):
            raise CannotRun(
                f"{called} can't be run in a process of its own: define it at the top of a module, with `def`."
            )
        file = os.path.abspath(str(module.__file__))
        try:
            carried = pickle.dumps((file, module.__name__, called, tuple(args), list(sys.path)))
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            raise CannotRun(f"the arguments of {called} can't be handed to another process: {error}.") from error
    call.write_bytes(carried)
    extra = {"XLA_SIM_COMPARE_EAGER": "1"} if compare_eager else {}
    if os.environ.get("PJRT_DEVICE", "").upper() == "TPU":
        extra["PJRT_DEVICE"] = "CPU"  # the notebook's process holds the TPU, and the simulation needs none
    name = name or f"{getattr(module, '__name__', '__main__')}:{called}"
    return _supervise(["--call", str(call)], [name], directory, timeout, warmup_steps, extra, warm=True, output=output)


def check_environment(python: str = sys.executable) -> None:
    """Whether programs can run in this Python; one that was found elsewhere was asked when it was found.

    Raises:
        CannotRun: when torch_xla can't be here, or isn't.
    """
    import importlib.util
    import platform

    if python != sys.executable or importlib.util.find_spec("torch_xla") is not None:
        return
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise CannotRun(
            "torch_xla has wheels for x86-64 Linux only, and this is "
            f"{platform.system()} on {platform.machine()}: work in a linux/amd64 container (a generated repository has .devcontainer/)."
        )
    raise CannotRun(f"torch_xla isn't installed in {sys.executable}: {hints.simulation_made_by()}.")


def prepare(directory: Path) -> Path:
    """An empty run directory; only files that a run writes are removed from it.

    Raises:
        CannotRun: when it can't be written.
    """
    directory = directory.resolve()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name in OURS:
            path = directory / name
            if path.is_dir():
                shutil.rmtree(path)
            elif path.exists():
                path.unlink()
        (directory / "dump").mkdir()
        (directory / "events.jsonl").write_bytes(b"")
    except OSError as error:
        raise CannotRun(
            f"can't write the run directory {directory}: {error.strerror}. Choose another with --out."
        ) from error
    return directory


def _know_user_files(arguments: Sequence[str]) -> None:
    import importlib.util

    if arguments[0] != "-m":
        ownership.add_user_root(os.path.dirname(os.path.abspath(arguments[0])))
        return
    sys.path.insert(0, os.getcwd())
    with contextlib.suppress(ImportError, ValueError):
        spec = importlib.util.find_spec(arguments[1].partition(".")[0])
        if spec is not None and spec.origin:
            ownership.add_user_root(os.path.dirname(spec.origin))


def _supervise(
    arguments: list[str],
    argv: list[str],
    directory: Path,
    timeout: float | None,
    warmup_steps: int,
    extra: dict[str, str],
    warm: bool,
    progress: Callable[[], None] | None = None,
    python: str = sys.executable,
    output: tuple[int, int] = (1, 2),
) -> Trace:
    """Run the program to its end, whatever that is, and build its Trace."""
    check_environment(python)
    directory = prepare(directory)
    reading, writing = os.pipe()
    environ = {**os.environ, **environment(directory, dict(os.environ)), **extra, "XLA_SIM_NATIVE_LOG": str(writing)}
    if python == sys.executable:
        package = str(Path(__file__).resolve().parents[2])
        environ["PYTHONPATH"] = os.pathsep.join(filter(None, [environ.get("PYTHONPATH", ""), package]))
        command = [python, "-m", "xla_sim.observe.child", str(directory), *arguments]
    else:
        command = isolated.command(python, "xla_sim.observe.child", str(directory), *arguments)
    started = time.perf_counter()
    with _stoppable() as stopped:
        child: Child = (
            Warm.start(directory, arguments, environ, writing, output)
            if warm
            else subprocess.Popen(command, env=environ, pass_fds=(writing,))
        )
        os.close(writing)
        log = threading.Thread(target=_drain, args=(reading, directory / "native.log"), daemon=True)
        log.start()
        ending = _wait(child, timeout, stopped, progress)
    seconds = time.perf_counter() - started
    log.join(2)
    status = child.returncode or 0
    if not ending and status < 0:
        ending = f"was killed by {_signal_name(status)}"
        if status == -signal.SIGKILL:
            ending += " (most often the kernel's answer to a process that takes all memory)"
    trace = build(directory, argv, status, ending, seconds, warmup_steps)
    shutil.rmtree(directory / "dump", ignore_errors=True)
    if not ending:
        (directory / "torch_xla.log").unlink(missing_ok=True)  # every record is in the event log
    return trace


def _wait(
    child: Child, timeout: float | None, stopped: threading.Event, progress: Callable[[], None] | None = None
) -> str:
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(0.2)
            return "was interrupted" if stopped.is_set() else ""
        if progress is not None:
            progress()
        if stopped.is_set():
            _stop(child)
            return "was interrupted"
        if deadline is not None and time.monotonic() > deadline:
            _stop(child)
            return f"was stopped after {timeout:g} s (--timeout)"


def _stop(child: Child) -> None:
    """Ask the program and its children to stop, then make them."""
    family = [child.pid, *_descendants(child.pid)]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        for pid in family:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(GRACE / 2)
            break
    for pid in family[1:]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _descendants(root: int) -> list[int]:
    """Processes that ``root`` started, and theirs."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            parent = int(entry.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.parent.name))
    found: list[int] = []
    pending = [root]
    while pending:
        below = children.get(pending.pop(), [])
        found += below
        pending += below
    return found


@contextlib.contextmanager
def _stoppable() -> Iterator[threading.Event]:
    """Turn Ctrl-C and SIGTERM into an event, so that a report is still written."""
    stopped = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stopped
        return

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _drain(descriptor: int, path: Path) -> None:
    """Write what native libraries say to a file: the first and the last of it, at most LOG_BYTES."""
    head, tail, kept = LOG_BYTES // 2, b"", 0
    with (
        contextlib.suppress(OSError),
        open(descriptor, "rb", buffering=0) as source,
        open(path, "wb", buffering=0) as log,
    ):
        while True:
            data = source.read(1 << 16)
            if not data:
                break
            if kept < head:
                log.write(data)
                kept += len(data)
            else:
                tail = (tail + data)[-head:]
        if tail:
            log.write(b"\n[...]\n" + tail)


def _signal_name(status: int) -> str:
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"
