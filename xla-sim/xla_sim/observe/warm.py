"""Start programs from a process that has imported torch and torch_xla already: half a second each instead of five.

For tests, which run many small programs. `Warm.start` hands a program to a server of our own (``python -m
xla_sim.observe.warm``), which imports both once and forks for each program; it never uses XLA itself, whose threads
don't survive a fork.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import traceback
from pathlib import Path

ANSWER = 64  # bytes


class Forked:
    """The part of ``subprocess.Popen`` that a supervisor needs, for a program that the server forked."""

    def __init__(self, server: socket.socket) -> None:
        self._server = server
        self.returncode: int | None = None
        self.pid = int(self._answer(300.0))

    def wait(self, timeout: float) -> int:
        """
        Raises:
            subprocess.TimeoutExpired: it runs still.
        """
        if self.returncode is None:
            self.returncode = int(self._answer(timeout))
        return self.returncode

    def _answer(self, timeout: float) -> bytes:
        ready, _, _ = select.select([self._server], [], [], timeout)
        if not ready:
            raise subprocess.TimeoutExpired("program", timeout)
        answer = self._server.recv(ANSWER)
        if not answer:
            raise OSError("the server that starts programs has died")
        return answer


class Warm:
    """The server, started when it is first needed and shared by everything in this process."""

    _socket: socket.socket | None = None
    _owner = 0

    @classmethod
    def start(
        cls, directory: Path, arguments: list[str], environ: dict[str, str], log: int, output: tuple[int, int] = (1, 2)
    ) -> Forked:
        """Run a program as `child` would, with ``output`` for its standard streams and ``log`` for native noise.

        Raises:
            OSError: the server can't be started or has died.
        """
        if cls._socket is None or cls._owner != os.getpid():
            cls._connect(environ)
        assert cls._socket is not None
        request = directory / "request.json"
        request.write_text(json.dumps([str(directory), arguments, environ, os.getcwd()]), encoding="utf-8")
        sys.stdout.flush()
        sys.stderr.flush()
        try:
            socket.send_fds(cls._socket, [os.fsencode(request)], [*output, log])
            return Forked(cls._socket)
        except OSError:
            cls._socket = None
            raise

    @classmethod
    def _connect(cls, environ: dict[str, str]) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-m", "xla_sim.observe.warm", str(theirs.fileno())]
            # a session of its own: Ctrl-C is for the programs, and reaches them through their supervisor
            server = subprocess.Popen(command, env=environ, pass_fds=(theirs.fileno(),), start_new_session=True)
        atexit.register(server.wait)
        atexit.register(ours.close)
        cls._socket, cls._owner = ours, os.getpid()


def serve(descriptor: int) -> None:
    """Fork for each request until the other side is gone. Answers with the child's pid, then with its exit status."""
    import torch
    import torch_xla

    with socket.socket(fileno=descriptor) as client:
        while True:
            data, streams, _, _ = socket.recv_fds(client, 4096, 3)
            if not data:
                return
            pid = os.fork()
            if not pid:
                client.close()
                _become(Path(os.fsdecode(data)), streams, [torch, torch_xla])
            for stream in streams:
                os.close(stream)
            client.send(b"%d" % pid)
            client.send(b"%d" % _status(pid, client))


def _status(pid: int, client: socket.socket) -> int:
    """The exit status of the child as ``subprocess`` tells it; the child is killed when nobody waits any more."""
    poller = select.poll()
    poller.register(client, select.POLLHUP)
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
        if poller.poll(0):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)


def _become(request: Path, streams: list[int], imported: list[object]) -> None:
    """Turn this fork into the program."""
    status, directory = 1, str(request.parent)
    try:
        directory, arguments, environ, folder = json.loads(request.read_text(encoding="utf-8"))
        os.chdir(folder)
        os.dup2(streams[0], 1)
        os.dup2(streams[1], 2)
        os.environ.clear()
        os.environ.update(environ, XLA_SIM_NATIVE_LOG=str(streams[2]))
        imported[0].set_num_threads(1)  # type: ignore[attr-defined]  # OpenMP's threads don't survive a fork
        from xla_sim.observe import child

        sys.path[0] = folder
        status = child.run(Path(directory), arguments, imported)
    except Exception:  # noqa: BLE001 (a fault of ours, which nobody would see: this process ends here)
        Path(directory, "error.txt").write_text(traceback.format_exc(), encoding="utf-8")
    finally:
        os._exit(status)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
