"""Which arguments a step updates without being given their memory, so that both the old and the new value are held."""

from __future__ import annotations

from collections.abc import Sequence

from xla_sim.compiler.results import Buffer
from xla_sim.hlo.program import Instruction, Program, Shape

_ELEMENTWISE = {
    "add", "subtract", "multiply", "divide", "maximum", "minimum", "select", "clamp", "convert", "copy", "abs", "sqrt", "rsqrt",
    "negate", "power", "exponential", "tanh", "sign", "and", "or", "xor", "not", "floor", "ceil", "round-nearest-even",
}  # fmt: skip
_IN_PLACE = {"dynamic-update-slice", "scatter"}  # their first operand lives on in the result


def held_twice(given: Program, arguments: Sequence[Buffer]) -> tuple[Buffer, ...]:
    """Arguments whose updated value is an output in memory of its own.

    An output is an argument's new value when elementwise arithmetic alone leads from the argument to it, in the argument's own
    shape: ``p - lr * g``. An argument is given its memory by HLO's buffer_donor or input_output_alias.
    """
    donated = {entry.parameter_number for entry in given.module.buffer_donor.entries}
    donated |= {entry.parameter_number for entry in given.module.input_output_alias.entries}
    root = given.by_id[given.roots[given.entry]]
    outputs = [given.by_id[number] for number in root.operands] if root.opcode == "tuple" else [root]
    updated: dict[int, Instruction] = {}
    for output in outputs:
        for number, instruction in _updated_by(given, output):
            updated.setdefault(number, instruction)
    return tuple(one for one in arguments if one.parameter in updated and one.parameter not in donated)


def _updated_by(given: Program, output: Instruction) -> list[tuple[int, Instruction]]:
    """The argument that this output is the new value of: the one nearest to it, and none when two are as near."""
    level: list[Instruction] = [output]
    seen = {output.id}
    while level:
        found = [one for one in level if one.opcode == "parameter"]
        if found:
            unchanged = level == [output]
            return [] if unchanged or len(found) > 1 else [(found[0].raw.parameter_number, output)]
        following: list[Instruction] = []
        for one in level:
            for operand in _same_shape(given, one, output.shape):
                if operand.id not in seen:
                    seen.add(operand.id)
                    following.append(operand)
        level = following
    return []


def _same_shape(given: Program, instruction: Instruction, shape: Shape) -> list[Instruction]:
    if instruction.opcode in _IN_PLACE:
        sources: tuple[int, ...] = instruction.operands[:1]
    elif instruction.opcode in _ELEMENTWISE or instruction.raw.custom_call_target == "Sharding":
        sources = instruction.operands
    elif instruction.opcode == "get-tuple-element":
        inner = _through_tuple(given, instruction)
        return [inner] if inner is not None and inner.shape.dims == shape.dims else []
    else:
        return []
    operands = [given.by_id[number] for number in sources if number in given.by_id]
    return [one for one in operands if one.shape.dims == shape.dims and one.opcode != "broadcast"]


def _through_tuple(given: Program, instruction: Instruction) -> Instruction | None:
    source = given.by_id[instruction.operands[0]]
    if source.opcode == "opt-barrier" and source.operands:
        source = given.by_id[source.operands[0]]
    return given.by_id[source.operands[instruction.raw.tuple_index]] if source.opcode == "tuple" else None
