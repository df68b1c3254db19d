"""HLO as the text that XLA's own tools read, printed by the XLA that torch_xla brings, which must be imported."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

SMALL = 1 << 20  # bytes of a module that is always printed: some milliseconds


def text_of(module: bytes) -> str:
    """The text of a serialized HloModuleProto.

    Raises:
        RuntimeError: these bytes are no module, or this torch_xla can't print it.
    """
    xlac = sys.modules["torch_xla"]._XLAC
    try:
        computation = xlac._xla_op_computation_from_module_proto("graph", module)
        return str(xlac._xla_computation_text(computation))
    except AttributeError as error:
        raise RuntimeError(f"this torch_xla can't print HLO: {error}") from error


def keep(module: bytes, target: Path) -> bool:
    """Write the module's text; whether that went well. It must not end the program that is watched."""
    try:
        text = text_of(module)
        target.parent.mkdir(exist_ok=True)
        target.write_text(text, encoding="utf-8")
    except (OSError, RuntimeError, KeyError, ValueError):
        return False
    return True


def add_header(path: Path, line: str) -> None:
    """Put a comment above the text; HLO's comments begin with two slashes."""
    partial = path.with_suffix(".partial")
    with contextlib.suppress(OSError):
        text = path.read_text(encoding="utf-8")
        partial.write_text(f"// {line}\n\n{text}", encoding="utf-8")
        partial.replace(path)
