"""How often the loops of a captured graph turn, for the counters: the compiled program no longer says so."""

from __future__ import annotations

from xla_sim.hlo.program import Instruction, Program


def trip_counts(given: Program, program: Program) -> dict[int, int]:
    """Turns of each while instruction of the compiled program, by id, where the captured graph tells them.

    Loops are matched by the op name that both carry, in order; where their number changed nothing is said.
    """
    before, after = _by_name(given), _by_name(program)
    counts: dict[int, int] = {}
    for name, loops in after.items():
        originals = before.get(name, [])
        if len(originals) == len(loops):
            for original, loop in zip(originals, loops):
                turns = _turns(given, original)
                if turns is not None:
                    counts[loop.id] = turns
    return counts


def _by_name(program: Program) -> dict[str, list[Instruction]]:
    found: dict[str, list[Instruction]] = {}
    for instruction in program.by_id.values():
        if instruction.opcode == "while":
            found.setdefault(instruction.raw.metadata.op_name, []).append(instruction)
    return found


def _turns(given: Program, loop: Instruction) -> int | None:
    """Of a loop that counts up by a constant until a constant; None for any other."""
    body, condition = (given.by_id[given.roots[number]] for number in loop.called[:2])
    if (
        condition.opcode != "compare"
        or condition.raw.comparison_direction not in ("LT", "LE")
        or body.opcode != "tuple"
    ):
        return None
    counter, limit = (given.by_id[number] for number in condition.operands)
    if counter.opcode != "get-tuple-element":
        return None
    position = counter.raw.tuple_index
    start, end = _initial(given, loop, position), _constant(given, loop, limit)
    step = _step(given, given.by_id[body.operands[position]], position, loop)
    if start is None or end is None or not step:
        return None
    last = end if condition.raw.comparison_direction == "LT" else end + 1
    return max(0, -(-(last - start) // step))


def _initial(given: Program, loop: Instruction, position: int) -> int | None:
    state = given.by_id[loop.operands[0]]
    return _constant(given, loop, given.by_id[state.operands[position]]) if state.opcode == "tuple" else None


def _step(given: Program, following: Instruction, position: int, loop: Instruction) -> int | None:
    if following.opcode != "add":
        return None
    sides = [given.by_id[number] for number in following.operands]
    own = [one for one in sides if one.opcode == "get-tuple-element" and one.raw.tuple_index == position]
    steps = [one for one in sides if one not in own]
    return _constant(given, loop, steps[0]) if len(own) == 1 == len(steps) else None


def _constant(given: Program, loop: Instruction, instruction: Instruction) -> int | None:
    """The value of a scalar integer constant, be it carried into the loop unchanged."""
    if instruction.opcode in ("copy", "convert", "bitcast") and instruction.operands:
        return _constant(given, loop, given.by_id[instruction.operands[0]])
    if instruction.opcode == "get-tuple-element":
        state = given.by_id[loop.operands[0]]
        carried = given.by_id[state.operands[instruction.raw.tuple_index]] if state.opcode == "tuple" else None
        return _constant(given, loop, carried) if carried is not None and carried.opcode == "constant" else None
    literal = instruction.raw.literal
    values = [*literal.s32s, *literal.s64s, *literal.u32s, *literal.u64s] if instruction.opcode == "constant" else []
    return int(values[0]) if len(values) == 1 else None
