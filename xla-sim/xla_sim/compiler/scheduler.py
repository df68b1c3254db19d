"""Compile many graphs: two at a time, the longest first, through the cache, in processes with limits, until done or interrupted.

Runs in any Python: the compiler lives in the worker, whose Python is ``$XLA_SIM_TPU_PYTHON`` or else this one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from xla_sim.compiler.cache import Cache
from xla_sim.compiler.chips import find_topology
from xla_sim.compiler.pool import Ended, Pool, probe
from xla_sim.compiler.results import CompileRequest, CompileResult

# What a worker answers a request with; by name, since it stands in a room above this one and runs in another Python.
ANSWER = "xla_sim.verdict.answer:compile_request"
Progress = Callable[[str, int, CompileRequest], None]  # "start", "end" or "cached", index, request
_TAIL = 1500  # characters of a dead compiler's log that a message quotes
_FATAL = re.compile(r"^F\d{4} [\d:.]+ +\d+ (?P<place>\S+:\d+)\] (?P<words>.*)$", re.MULTILINE)  # as absl logs it


@dataclass(frozen=True)
class Limits:
    """Of one compilation. Memory is resident bytes; None: 85 % of the machine's."""

    seconds: float = 1800.0
    memory: int | None = None

    @property
    def bytes(self) -> int:
        if self.memory is not None:
            return self.memory
        return int(0.85 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


@dataclass
class _Run:
    """What is known while a batch is compiled."""

    requests: Sequence[CompileRequest]
    limits: Limits
    cache: Cache | None
    progress: Progress
    versions: Mapping[str, str]
    keys: dict[int, str] = field(default_factory=dict)
    results: dict[int, CompileResult] = field(default_factory=dict)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C; `results` holds what was done by then, with None for the rest."""

    def __init__(self, results: Sequence[CompileResult | None]) -> None:
        super().__init__()
        self.results = results


class DiskFull(OSError):
    """The disk took no more of what a compilation writes; `results` holds what was done by then, with None for the rest."""

    def __init__(self, results: Sequence[CompileResult | None] = ()) -> None:
        words = "no space is left there for what the TPU compiler writes; free some, or set TMPDIR to a folder on another disk"
        super().__init__(errno.ENOSPC, words, tempfile.gettempdir())
        self.results = results


def compile_all(
    requests: Sequence[CompileRequest],
    limits: Limits = Limits(),
    cache: Cache | None = None,
    jobs: int = 2,
    progress: Progress | None = None,
    logs: Path | None = None,
) -> list[CompileResult]:
    """Compile every request; results come in the order of the requests.

    Args:
        progress: called when a compilation starts and ends, or was found in the cache.
        logs: folder for the compiler's own output; by default it is kept only as long as it takes.

    Raises:
        TpuUnavailable: this machine or environment can't run the TPU compiler; the message is a sentence.
        ChipError: a request's topology doesn't exist.
        OSError: a request's graph can't be read.
        DiskFull: the disk of temporary files is full.
        Interrupted: Ctrl-C.
    """
    for request in requests:
        find_topology(request.topology)
    run = _Run(requests, limits, cache, progress or (lambda *_: None), probe())
    for number, request in enumerate(requests):
        if cache is not None:
            run.keys[number] = cache.key(request, run.versions)
            _from_cache(run, number)
        elif not request.hlo.is_file():
            raise FileNotFoundError(2, "No such file", str(request.hlo))
    todo = sorted(
        (number for number in range(len(requests)) if number not in run.results), key=lambda n: -_cost(requests[n])
    )
    try:
        if todo:
            with _scratch() as scratch:
                _compile(run, todo, max(1, jobs), scratch, logs or scratch)
    except KeyboardInterrupt:
        raise Interrupted([run.results.get(number) for number in range(len(requests))]) from None
    except DiskFull:
        raise DiskFull([run.results.get(number) for number in range(len(requests))]) from None
    finally:
        if cache is not None:
            cache.prune()
    return [run.results[number] for number in range(len(requests))]


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    """A folder for what the compilers write: those that are killed clean up nothing. What one of them still writes is no error."""
    folder = Path(tempfile.mkdtemp(prefix="xla_sim_compile_"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _cost(request: CompileRequest) -> float:
    """What orders compilations by length: the graph's size, and sharding makes it worse."""
    return float(request.hlo.stat().st_size * (1 + request.partitions**0.5))


def _from_cache(run: _Run, number: int) -> None:
    assert run.cache is not None
    values = run.cache.get(run.keys[number])
    if values is None:
        return
    try:
        result = CompileResult.from_json(_relative(values))
    except (KeyError, TypeError, ValueError):
        return  # the checksum holds but the shape doesn't: somebody else's file; it is compiled again and overwritten
    run.results[number] = replace(result, graph=run.requests[number].graph, cached=True)
    run.progress("cached", number, run.requests[number])


def _compile(run: _Run, todo: list[int], jobs: int, scratch: Path, logs: Path) -> None:
    logs.mkdir(parents=True, exist_ok=True)
    names = {
        number: f"{run.requests[number].graph[:16]}-{run.requests[number].topology.replace(':', '-')}"
        for number in todo
    }
    with Pool(logs / "worker.log") as pool:
        running: dict[int, Path] = {}
        while todo or running:
            while todo and len(running) < jobs:
                number = todo.pop(0)
                out = scratch / f"{number}.json"
                log = logs / f"{names[number]}{'-narrow' if run.requests[number].narrow else ''}.log"
                log.unlink(missing_ok=True)
                running[number] = log
                pool.start(_message(number, run.requests[number], run.limits, out, log))
                run.progress("start", number, run.requests[number])
            for ended in pool.wait():
                log = running.pop(ended.number)
                _finish(run, ended, scratch / f"{ended.number}.json", log)
                shutil.rmtree(scratch / f"{ended.number}.dump", ignore_errors=True)


def _message(number: int, request: CompileRequest, limits: Limits, out: Path, log: Path) -> dict[str, Any]:
    return {
        "id": number,
        "answer": ANSWER,
        "graph": request.graph,
        "hlo": str(request.hlo.resolve()),
        "topology": request.topology,
        "partitions": request.partitions,
        "narrow": request.narrow,
        "buffers": request.buffers,
        "code": request.code,
        "options": request.options,
        "seconds": limits.seconds,
        "memory": limits.bytes,
        "out": str(out.resolve()),
        "dump": str(out.with_suffix(".dump").resolve()),
        "log": str(log.resolve()),
    }


def _finish(run: _Run, ended: Ended, out: Path, log: Path) -> None:
    request = run.requests[ended.number]
    if out.is_file():
        values = CompileResult.from_json(_read(out)).to_json()
        if run.cache is not None:
            run.cache.put(run.keys[ended.number], {**values, "peak_rss": ended.rss})
        result = replace(CompileResult.from_json(_relative(values)), peak_rss=ended.rss)
        log.unlink(missing_ok=True)  # of interest only where there is no answer
    elif ended.code == errno.ENOSPC:
        raise DiskFull
    else:
        result = _died(request, ended, log, run.limits)
    run.results[ended.number] = result
    run.progress("end", ended.number, request)


def _read(path: Path) -> dict[str, Any]:
    import json

    values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return values


def _died(request: CompileRequest, ended: Ended, log: Path, limits: Limits) -> CompileResult:
    """The result of a compilation that never got to an answer."""
    topology = find_topology(request.topology)
    status = "timeout" if ended.why == "timeout" else "crashed"
    return CompileResult(
        graph=request.graph,
        chip=topology.chip.name,
        topology=topology.name,
        status=status,
        chips=request.partitions,
        seconds=round(ended.seconds, 3),
        message=_epitaph(ended, log, limits),
        peak_rss=ended.rss,
        reproducer=str(request.hlo),
        command=repeat_command(request),
        limit=ended.why,
        narrowed=request.narrow,
    )


def _epitaph(ended: Ended, log: Path, limits: Limits) -> str:
    if ended.why == "timeout":
        return f"no answer within {limits.seconds:g} s"
    if ended.why == "memory":
        return f"the compilation took more than {limits.bytes / 2**30:.1f} GiB of this machine's memory"
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ended.how
    fatal = _FATAL.search(text)
    if fatal is None:
        return f"{ended.how}\n{text[-_TAIL:].strip()}".strip()
    return f"{ended.how}: {fatal['words'].strip()} ({fatal['place']})\n{text[fatal.end() :][:_TAIL].strip()}"


def repeat_command(request: CompileRequest) -> str:
    """What a person types to have this compilation again."""
    return f"python -m xla_sim compile --topology {request.topology} {shlex.quote(str(request.hlo))}"


def _relative(values: Any) -> Any:
    """The result with the files of its locations as people name them: below the working directory without it."""
    if isinstance(values, dict):
        fixed = {key: _relative(value) for key, value in values.items()}
        if "line" in fixed and os.path.isabs(fixed.get("file", "")):
            inside = os.path.relpath(fixed["file"])
            fixed["file"] = fixed["file"] if inside.startswith("..") else inside
        return fixed
    return [_relative(value) for value in values] if isinstance(values, (list, tuple)) else values


__all__: tuple[str, ...] = ("DiskFull", "Interrupted", "Limits", "Progress", "compile_all", "repeat_command")
