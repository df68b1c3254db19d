"""The caller's side of `worker.py`: start it in the TPU environment's Python, hand it requests, hear what became of them."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from xla_sim import hints

if TYPE_CHECKING:  # typing has it from Python 3.11 on; the TPU environment has no typing_extensions
    from typing_extensions import Self

_PROBE = """
import importlib.metadata as m, json, sys
found = {"python": "%d.%d.%d" % sys.version_info[:3]}
for name in ("jaxlib", "libtpu", "protobuf", "numpy"):
    try: found[name] = m.version(name)
    except m.PackageNotFoundError: pass
print(json.dumps(found))
"""
_NEEDS = "needs Python 3.11 or newer with jax and libtpu on x86-64 Linux"


class TpuUnavailable(RuntimeError):
    """The TPU compiler can't run here; the message is one sentence for the user."""


@dataclass(frozen=True)
class Ended:
    """How one compilation's process ended."""

    number: int
    signal: int = 0
    code: int = 0
    why: str = ""  # "timeout" or "memory": the worker ended it
    rss: int = 0  # bytes at its largest
    seconds: float = 0.0

    @property
    def how(self) -> str:
        if self.signal:
            name = signal.Signals(self.signal).name
            hint = " (out of memory, if nobody else killed it)" if self.signal == signal.SIGKILL else ""
            return f"the compiler's process was ended by {name}{hint}"
        return f"the compiler's process ended with status {self.code} and no answer"


def python() -> str:
    """The interpreter that has jax and libtpu."""
    return os.environ.get("XLA_SIM_TPU_PYTHON") or sys.executable


def probe() -> dict[str, str]:
    """Versions of the TPU environment's Python, jaxlib and libtpu, without importing them.

    Raises:
        TpuUnavailable: when it can't be there.
    """
    system, machine = platform.system(), platform.machine()
    if (system, machine) != ("Linux", "x86_64"):
        raise TpuUnavailable(
            f"the TPU compiler {_NEEDS}, and this is {system} on {machine}: use the dev container, or a Linux machine"
        )
    try:
        done = subprocess.run([python(), "-c", _PROBE], check=False, capture_output=True, timeout=60, text=True)
        found: dict[str, str] = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise TpuUnavailable(f"the TPU compiler {_NEEDS}, and {python()} doesn't start as a Python: {error}") from error
    if tuple(map(int, found["python"].split(".")))[:2] < (3, 11):
        raise TpuUnavailable(
            f"the TPU compiler {_NEEDS}, and this is Python {found['python']}: {hints.compiler_made_by()}"
        )
    missing = [name for name in ("jaxlib", "libtpu", "protobuf", "numpy") if name not in found]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise TpuUnavailable(
            f"the TPU compiler {_NEEDS}; {', '.join(missing)} {verb} not installed in {python()}: {hints.compiler_made_by()}"
        )
    return found


class Pool:
    """A worker; another one takes its place when it dies."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._started: dict[int, float] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def start(self, request: dict[str, Any]) -> None:
        """Have one more compilation done. Raises TpuUnavailable when jaxlib or libtpu can't be loaded."""
        if self._process is None:
            self._process = self._launch()
        self._started[request["id"]] = time.monotonic()
        try:
            _input(self._process).write(json.dumps(request).encode() + b"\n")
            _input(self._process).flush()
        except BrokenPipeError:
            pass  # `wait` sees that it is gone

    def wait(self) -> list[Ended]:
        """Wait until a compilation ended; when the worker itself is gone, all that it had ended with it."""
        assert self._process is not None and self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line)
            if event["event"] == "ended":
                number = event["id"]
                seconds = time.monotonic() - self._started.pop(number)
                return [Ended(number, event["signal"], event["code"], event["why"], event["rss"], seconds)]
        code = self._process.wait()
        self._stop()
        gone = [
            Ended(number, signal=-code if code < 0 else 0, code=max(code, 0), seconds=time.monotonic() - at)
            for number, at in self._started.items()
        ]
        self._started.clear()
        return gone

    def _launch(self) -> subprocess.Popen[bytes]:
        package = str(Path(__file__).resolve().parents[2])
        paths = [package, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        with open(self._log, "ab") as log:
            process = subprocess.Popen(
                [python(), "-P", "-m", "xla_sim.compiler.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                start_new_session=True,  # Ctrl-C is for this process, which ends the worker itself
            )
        assert process.stdout is not None
        line = process.stdout.readline()
        event = json.loads(line) if line else {"event": "unavailable", "message": _last_line(self._log)}
        if event["event"] != "ready":
            process.wait()
            raise TpuUnavailable(f"the TPU compiler can't be loaded: {event['message']} ({hints.compiler_made_by()})")
        return process

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(OSError):
            _input(process).close()
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _input(process: subprocess.Popen[bytes]) -> IO[bytes]:
    assert process.stdin is not None
    return process.stdin


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "it ended without a word"
