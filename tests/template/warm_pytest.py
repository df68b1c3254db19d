"""pytest in processes that have imported torch already: importing it is most of what running one small test costs.

Run as a script it is the process in the stack's own Python: it reads a job a line, forks, and runs pytest in the child, as
``python -m pytest`` would in a fresh interpreter. Nothing touches a device before the fork, so each child has its own runtime.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import traceback
from pathlib import Path

_started: dict[str, subprocess.Popen[str]] = {}


def run_pytest(python: Path, folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """What ``python -m pytest ARGUMENTS`` in the folder does, with its output and exit code."""
    key = str(python)
    if key not in _started:
        command = [key, str(Path(__file__))]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        _started[key] = subprocess.Popen(command, text=True, env={**os.environ, "PJRT_DEVICE": "CPU"}, **pipes)  # type: ignore[call-overload]
        atexit.register(_started[key].kill)
    process = _started[key]
    assert process.stdin is not None
    assert process.stdout is not None
    log = folder / "warm_pytest.log"
    job = {"folder": str(folder), "arguments": arguments, "variables": variables, "log": str(log)}
    process.stdin.write(json.dumps(job) + "\n")
    process.stdin.flush()
    code = int(process.stdout.readline())
    return subprocess.CompletedProcess([key, *arguments], code, log.read_text(encoding="utf-8", errors="replace"), "")


def _serve() -> None:
    import numpy  # noqa: F401
    import pytest  # noqa: F401
    import torch  # noqa: F401
    import torch_xla
    import torch_xla.core.xla_model  # noqa: F401

    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if child == 0:
            _run(job)
        _, status = os.waitpid(child, 0)
        print(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status), flush=True)


def _run(job: dict[str, str]) -> None:
    code = 70
    try:
        log = os.open(job["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.chdir(job["folder"])
        os.environ.update(job["variables"])
        sys.path[:0] = [job["folder"], *filter(None, job["variables"].get("PYTHONPATH", "").split(os.pathsep))]
        import pytest

        code = int(pytest.main(list(job["arguments"])))
    except BaseException:  # noqa: BLE001 - whatever it is belongs in the log, and the process ends here
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    sys.path.pop(0)  # this folder: its conftest.py is another one's
    _serve()
