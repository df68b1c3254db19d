"""Results of compilations on disk, by content: graph, chip, topology, options, compiler and this package.

An entry is one JSON file with a checksum, written beside its place and moved there, so that two runs at once can only write the same
thing twice. What can't be read back is deleted and compiled again. A full or read-only disk costs the cache, never the run.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xla_sim.compiler.results import CompileRequest

_KEEP = 2000  # entries
_PACKAGE = (
    "compiler/chips.py", "compiler/libtpu.py", "compiler/narrow.py", "compiler/results.py", "hlo/loops.py", "hlo/program.py",
    "hlo/protos.py", "verdict/answer.py", "verdict/donation.py", "verdict/memory.py", "verdict/traffic.py",
)  # fmt: skip
KEPT = ("ok", "oom", "rejected")  # verdicts of the compiler; what a limit or a signal ended is tried again


def default_directory() -> Path:
    """``$XLA_SIM_CACHE``, or ``xla_sim/compile`` in the user's cache folder."""
    given = os.environ.get("XLA_SIM_CACHE")
    if given:
        return Path(given).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "xla_sim" / "compile"


@dataclass
class Cache:
    """A folder of results."""

    directory: Path
    problem: str = ""  # why nothing could be written, as a sentence; the run goes on without

    def key(self, request: CompileRequest, versions: Mapping[str, str]) -> str:
        """Of everything that the result depends on. Raises OSError when the graph can't be read."""
        digest = hashlib.sha256(request.hlo.read_bytes())
        options = [
            request.topology,
            request.partitions,
            request.narrow,
            request.buffers,
            request.code,
            list(request.options),
        ]
        environment = os.environ.get("LIBTPU_INIT_ARGS", "")
        digest.update(json.dumps([options, environment, sorted(versions.items()), _package_digest()]).encode())
        return digest.hexdigest()

    def get(self, key: str) -> dict[str, Any] | None:
        """The result of that key, as JSON values; None when there is none that is whole."""
        path = self._path(key)
        try:
            entry = json.loads(path.read_text(encoding="utf-8"))
            if entry["checksum"] != _checksum(entry["result"]):
                raise ValueError("torn")
            os.utime(path)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError):
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        result: dict[str, Any] = entry["result"]
        return result

    def put(self, key: str, result: Mapping[str, Any]) -> None:
        """Keep a result; a disk that won't take it is noted in `problem`."""
        if result["status"] not in KEPT:
            return
        path = self._path(key)
        part = ""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, part = tempfile.mkstemp(prefix=".part-", dir=path.parent)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump({"checksum": _checksum(result), "result": result}, file)
            os.replace(part, path)
        except OSError as error:
            self.problem = f"the cache in {self.directory} took no more results: {error.strerror or error}"
            if part and os.path.exists(part):
                os.unlink(part)

    def prune(self) -> None:
        """Drop the entries that were not used for longest, and parts that a killed run left."""
        try:
            entries = [(path.stat().st_mtime, path) for path in self.directory.glob("??/*.json")]
            newest = max((age for age, _ in entries), default=0.0)
            stale = [path for path in self.directory.glob("??/.part-*") if path.stat().st_mtime < newest - 3600]
            for path in [path for _, path in sorted(entries)[:-_KEEP]] + stale:
                path.unlink()
        except OSError:
            pass  # another run is pruning, or the folder is read-only

    def _path(self, key: str) -> Path:
        return self.directory / key[:2] / f"{key[2:]}.json"


def _checksum(result: Any) -> str:
    return hashlib.sha256(json.dumps(result, sort_keys=True).encode()).hexdigest()


@functools.lru_cache(maxsize=1)
def _package_digest() -> str:
    """Of the files that make a result: an update of this package is as good as another compiler."""
    digest = hashlib.sha256()
    for name in sorted(_PACKAGE):
        digest.update((Path(__file__).parents[1] / name).read_bytes())
    return digest.hexdigest()
