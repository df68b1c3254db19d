"""Start programs from a process that has imported torch and torch_xla already: 0.5 s each instead of 5.

For judging many small programs. It works as long as XLA itself wasn't used in this process, since its threads don't
survive a fork.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def can_fork() -> bool:
    """Whether XLA is still untouched in this process."""
    import torch_xla

    return not torch_xla._XLAC._xla_runtime_is_initialized()


class Forked:
    """The part of ``subprocess.Popen`` that a supervisor needs, for a forked child that runs a program."""

    def __init__(self, directory: Path, arguments: list[str], environ: dict[str, str], log: int) -> None:
        import torch
        import torch_xla

        self.returncode: int | None = None
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid:
            return
        status = 1
        try:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
            os.environ.update(environ, XLA_SIM_NATIVE_LOG=str(log))
            torch.set_num_threads(1)  # OpenMP's threads don't survive a fork either
            from xla_sim.observe import child

            status = child.run(directory, arguments, [torch, torch_xla])
        finally:
            os._exit(status)

    def wait(self, timeout: float) -> int:
        """
        Raises:
            subprocess.TimeoutExpired: it runs still.
        """
        end = time.monotonic() + timeout
        while self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
            elif time.monotonic() > end:
                raise subprocess.TimeoutExpired("program", timeout)
            else:
                time.sleep(0.005)
        return self.returncode
