"""Say in words how a graph differs from its nearest earlier relative."""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from xla_sim.hlo.module import Instruction, Module, torch_op
from xla_sim.ownership import is_user_file

KINDS = ("shape", "dtype", "constant", "bounds", "scalars", "ops", "inputs", "outputs", "nothing")
# what torch_xla makes of a Python number: an input, shared by equal numbers, or a constant where it is 0 or 1
NUMBERS = frozenset({"xla::device_data", "prim::Constant", "aten::expand", "xla::cast"})


@dataclass(frozen=True)
class Difference:
    """``kind`` is the first of KINDS that applies; ``summary`` is a clause; ``details`` are all differences."""

    kind: str
    summary: str
    details: tuple[str, ...] = ()


def nearest(new: Module, earlier: Sequence[Module]) -> Module | None:
    """The earlier graph that differs least: in ops, then in inputs; the most recent of equals."""
    if not earlier:
        return None
    ops = new.ops()

    def distance(old: Module) -> tuple[int, int]:
        theirs = old.ops()
        changed = sum(((ops - theirs) + (theirs - ops)).values())
        shapes = collections.Counter(str(p.shape) for p in new.parameters)
        shapes.subtract(str(p.shape) for p in old.parameters)
        return changed, sum(map(abs, shapes.values()))

    return min(reversed(earlier), key=distance)


def difference(old: Module, new: Module) -> Difference:
    """How ``new`` differs from ``old``."""
    before, after = old.entry.instructions, new.entry.instructions
    same_ops = [(i.opcode, i.op_type) for i in before] == [(i.opcode, i.op_type) for i in after]
    if len(old.parameters) == len(new.parameters):
        found = _inputs(old, new)
        if found is not None and (found.kind == "dtype" or same_ops or _same_kinds(old, new)):
            return found
    if same_ops:
        found = _pairs(before, after)
        if found is not None:
            return found
    appeared, gone = new.ops() - old.ops(), old.ops() - new.ops()
    numbers = [len(m.parameters) - len(_wide_inputs(m)) for m in (old, new)]
    other_numbers = bool(appeared or gone or numbers[0] != numbers[1])
    if other_numbers and not (set(appeared) | set(gone)) - NUMBERS and _wide_inputs(old) == _wide_inputs(new):
        return Difference(
            "scalars",
            f"{numbers[1]} inputs are Python numbers where there were {numbers[0]} (equal numbers are one input, and 0 and "
            "1 may be constants)",
            _all_ops(appeared, gone),
        )
    for counter in (appeared, gone):
        counter.pop("xla::device_data", None)
    if appeared or gone:
        parts = [f"{word} {_list_ops(ops)}" for word, ops in (("new ops:", appeared), ("ops gone:", gone)) if ops]
        lines = _lines_of(new, appeared) or _lines_of(old, gone)
        return Difference("ops", "; ".join(parts) + (f" ({lines})" if lines else ""), _all_ops(appeared, gone))
    if len(old.parameters) != len(new.parameters):
        return Difference("inputs", f"{len(new.parameters)} inputs where there were {len(old.parameters)}")
    if len(old.outputs) != len(new.outputs):
        return Difference("outputs", f"{len(new.outputs)} outputs where there were {len(old.outputs)}")
    return Difference("nothing", "no difference in ops, shapes or constants")


def _same_kinds(old: Module, new: Module) -> bool:
    """Whether both do the same ops, although a shape made the lowering a little different."""
    return set(old.ops()) == set(new.ops())


def _wide_inputs(module: Module) -> list[str]:
    """Shapes of the inputs that are no single number."""
    return sorted(str(p.shape) for p in module.parameters if p.shape.dims)


def _inputs(old: Module, new: Module) -> Difference | None:
    """Inputs that changed shape or dtype; those made on a line of the user's come first."""
    changed = [(a, b) for a, b in zip(old.parameters, new.parameters) if str(a.shape) != str(b.shape)]
    if not changed or collections.Counter(str(p.shape) for p in old.parameters) == collections.Counter(
        str(p.shape) for p in new.parameters
    ):
        return None
    changed.sort(key=lambda pair: (not is_user_file(pair[1].file), -pair[1].shape.elements))
    details = tuple(f"input {name_input(b)}: {a.shape} became {b.shape}" for a, b in changed)
    a, b = changed[0]
    more = (
        f" (and {len(changed) - 1} more inputs)" if len(changed) > 2 else " (and one more input)" * (len(changed) - 1)
    )
    kind = "shape" if a.shape.dims != b.shape.dims else "dtype"
    return Difference(kind, f"input {name_input(b)} was {a.shape} and became {b.shape}{more}", details)


def name_input(parameter: Instruction) -> str:
    """An input as a person knows it: by the line that made it."""
    if parameter.line and is_user_file(parameter.file):
        return f"from {short(parameter)}"
    return f"{parameter.parameter} (made in {short(parameter)})" if parameter.line else str(parameter.parameter)


def short(instruction: Instruction) -> str:
    """``train.py:41``."""
    return f"{Path(instruction.file).name}:{instruction.line}" if instruction.line else ""


def _pairs(before: Sequence[Instruction], after: Sequence[Instruction]) -> Difference | None:
    """Constants and bounds that changed, op by op; those on a line of the user's come first, then constants."""
    looks: tuple[tuple[str, Callable[[Instruction, Instruction], str | None]], ...]
    looks = (("constant", _constant), ("bounds", _bounds))
    found = [(kind, b, text) for kind, look in looks for a, b in zip(before, after) for text in [look(a, b)] if text]
    if not found:
        return None
    found.sort(key=lambda one: not is_user_file(one[1].file))
    details = tuple(
        dict.fromkeys(f"{text}, in {torch_op(i.op_type) or i.opcode} at {short(i) or '?'}" for _, i, text in found)
    )
    more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
    return Difference(found[0][0], details[0] + more, details)


def _constant(a: Instruction, b: Instruction) -> str | None:
    if a.opcode == "constant" and a.constant != b.constant:
        return f"the constant {a.constant} became {b.constant}"
    return None


def _bounds(a: Instruction, b: Instruction) -> str | None:
    if str(a.shape) != str(b.shape):
        return f"{a.opcode} gave {a.shape} and now gives {b.shape}"
    if a.attributes != b.attributes:
        return f"{a.opcode} had bounds {list(a.attributes)} and now has {list(b.attributes)}"
    return None


def _list_ops(ops: dict[str, int]) -> str:
    names = sorted(ops, key=lambda op: -ops[op])
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _all_ops(appeared: dict[str, int], gone: dict[str, int]) -> tuple[str, ...]:
    return tuple([f"+{n} {op}" for op, n in appeared.items()] + [f"-{n} {op}" for op, n in gone.items()])


def _lines_of(module: Module, ops: dict[str, int]) -> str:
    """Up to three lines of the user's that make those ops."""
    lines: list[str] = []
    for instruction in module.entry.instructions:
        if torch_op(instruction.op_type) in ops and is_user_file(instruction.file) and short(instruction) not in lines:
            lines.append(short(instruction))
    return ", ".join(lines[:3])
