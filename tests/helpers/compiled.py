"""What the fixture `compiled` of conftest.py is: compile programs of tpu_programs.py by name."""

from __future__ import annotations

from typing import Any, Protocol

from xla_sim.compiler.results import CompileResult


class Compile(Protocol):
    def __call__(self, *names: str, topology: str = ..., **request: Any) -> list[CompileResult]: ...
