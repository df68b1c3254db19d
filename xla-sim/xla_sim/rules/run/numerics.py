"""Rules about number formats and the agreement of XLA with eager PyTorch."""

from __future__ import annotations

import collections
from collections import Counter
from collections.abc import Iterable
from typing import Any

from xla_sim.hlo.module import Instruction, Module, torch_op
from xla_sim.ownership import is_user_file
from xla_sim.rules.base import Rule
from xla_sim.rules.run.contexts import load
from xla_sim.trace import Finding, Location, Trace

WIDE = ("f64", "c128")
# ops that compute; the others only move or make values
ARITHMETIC = frozenset(
    [
        "add",
        "subtract",
        "multiply",
        "divide",
        "remainder",
        "power",
        "dot",
        "convolution",
        "exponential",
        "log",
        "tanh",
        "sine",
        "cosine",
        "sqrt",
        "rsqrt",
        "reduce",
        "maximum",
        "minimum",
        "negate",
        "abs",
        "sort",
        "fft",
        "cholesky",
        "triangular-solve",
    ]
)
# torch ops whose integer arithmetic is addressing, which XLA writes and nobody can change
ADDRESSING = frozenset(
    {"aten::nll_loss", "aten::nll_loss_backward", "aten::gather", "aten::index", "aten::embedding", "aten::scatter",
     "aten::embedding_dense_backward", "aten::index_select", "aten::nll_loss2d", "aten::one_hot"}
)  # fmt: skip
MANY = 1024  # elements from which 64-bit integers are worth a word


class WideDtype(Rule):
    """float64, int64 arithmetic or complex128 in the graph."""

    code = "XLA401"
    name = "wide-dtype"
    severity = "warning"

    def check(self, trace: Trace) -> Iterable[Finding]:
        """
        A TPU has no 64-bit units: float64 and complex128 are emulated with several narrower operations, and 64-bit integers
        with pairs of 32-bit ones. A matrix product of 64-bit integers isn't emulated: the TPU compiler refuses the graph.

        **Why a TPU cares.** Each such operation costs many times its float32 twin and twice the memory.

        **Bad**

        ```python
        weight = torch.from_numpy(numpy.random.randn(64, 64))          # float64, as numpy makes it
        ```

        **Good**

        ```python
        weight = torch.from_numpy(numpy.random.randn(64, 64)).float()
        ```

        **Source.** The dtypes of the captured HLO; of integer products the TPU compiler's own verdict (libtpu 0.0.42.1,
        https://github.com/pytorch/xla/issues/6700). Labels and indices in int64 are as they should be and aren't reported;
        what the wide type costs on a chip is measured by `compile`.
        """
        floats: Counter[tuple[str, int]] = collections.Counter()
        integers: Counter[tuple[str, int]] = collections.Counter()
        examples: dict[Any, Any] = {}
        products: dict[tuple[str, int], tuple[Instruction, bool, Location]] = {}
        for graph in trace.graphs:
            module = load(trace, graph.hash)
            for instruction in module.entry.instructions if module else ():
                dtype = _wide(module, instruction) if module else None
                if dtype is None:
                    continue
                place = (instruction.file, instruction.line) if is_user_file(instruction.file) else ("", 0)
                if instruction.opcode == "dot" and dtype not in WIDE:
                    products.setdefault(place, (instruction, _of_vectors(module, instruction), graph.location))
                    continue
                (floats if dtype in WIDE else integers)[place] += 1
                examples.setdefault((dtype in WIDE, place), (instruction, dtype, graph.location))
        for counter, severity in ((floats, "warning"), (integers, "info")):
            if counter:
                yield self._finding(counter, examples, severity)
        for place, (instruction, vectors, mark) in products.items():
            yield self._product(instruction, vectors, Location(*_relative(place)) if place[1] else mark)

    def check_compiled(self, results: Any, trace: Any) -> Iterable[Finding]:
        from xla_sim.rules.chip.figures import price_of_width

        return price_of_width(self, results, trace)

    def _product(self, instruction: Instruction, vectors: bool, location: Location) -> Finding:
        """A product of integers of 64 bits, which libtpu 0.0.42.1 refuses: pytorch/xla issue 6700 and pull request 6708."""
        op = torch_op(instruction.op_type) or instruction.opcode
        return self.finding(
            f"{op} multiplies int64 vectors, which torch_xla does on the host when the device is a TPU"
            if vectors
            else f"{op} on {instruction.shape} is a matrix product in int64: the TPU compiler refuses a graph that has one",
            "convert both to float32, or to int32 where the range allows it, before the product",
            location,
            "info" if vectors else "warning",
            operations=1,
            dtype="int64",
            example=str(instruction.shape),
        )

    def _finding(self, counter: Counter[tuple[str, int]], examples: dict[Any, Any], severity: str) -> Finding:
        places = sorted(counter, key=lambda place: (not place[1], -counter[place]))
        instruction, dtype, mark = examples[severity == "warning", places[0]]
        location = Location(*_relative(places[0])) if places[0][1] else mark
        total = sum(counter.values())
        names = {"f64": "float64", "c128": "complex128", "s64": "int64", "u64": "int64"}
        return self.finding(
            f"{total} operation{'s compute' if total > 1 else ' computes'} in {names[dtype]}, such as {torch_op(instruction.op_type) or instruction.opcode} "
            f"on {instruction.shape}",
            "convert to float32 (complex64) where the tensor is made"
            if severity == "warning"
            else "use torch.int32 where the range allows it",
            location,
            severity,
            operations=total,
            dtype=names[dtype],
            example=str(instruction.shape),
        )


def _relative(place: tuple[str, int]) -> tuple[str, int]:
    from xla_sim.observe.assemble import relative

    return relative(place[0]), place[1]


def _wide(module: Module, instruction: Instruction) -> str | None:
    """The wide dtype that the instruction computes in."""
    if instruction.opcode not in ARITHMETIC:
        return None
    shapes = [instruction.shape, *(module.by_id[i].shape for i in instruction.operands if i in module.by_id)]
    for shape in shapes:
        if shape.dtype in WIDE and shape.elements > 1:
            return shape.dtype
    if instruction.opcode == "dot" and instruction.shape.dtype in ("s64", "u64"):
        return instruction.shape.dtype
    wide = [s for s in shapes if s.dtype in ("s64", "u64") and s.elements >= MANY]
    if wide and torch_op(instruction.op_type) not in ADDRESSING and instruction.shape.dtype == wide[0].dtype:
        return wide[0].dtype
    return None


def _of_vectors(module: Module | None, dot: Instruction) -> bool:
    """Whether both operands have one dimension."""
    return module is not None and all(len(module.by_id[i].shape.dims) == 1 for i in dot.operands if i in module.by_id)


class HostMismatch(Rule):
    """XLA's result and eager PyTorch's differ by more than rounding explains."""

    code = "XLA402"
    name = "host-mismatch"
    severity = "error"

    def check(self, trace: Trace) -> Iterable[Finding]:
        """
        With `--compare-eager` the forward and the backward pass of the program's model are repeated on XLA and in eager
        PyTorch on the CPU from the same state and inputs; the outputs are compared module by module, then the gradients.
        The first module whose output leaves the tolerance is named; those after it only inherit the difference.

        **Why a TPU cares.** A lowering that computes something else ruins a run without an error.

        **Bad**

        ```python
        if x.device.type == "xla":                          # another computation on the device
            x = fast_approximation(x)
        ```

        **Good**

        ```python
        x = exact(x)                                        # one computation everywhere
        ```

        **Tolerances.** Relative to the largest value of the output: 1e-4 for float32 (sums of thousands of terms in another
        order), 2e-2 for bfloat16 (8 bits of precision), 4e-3 for float16 (11 bits), 1e-6 for float64. Where eager PyTorch
        itself is further than a quarter of that from the same computation in float64, four times its distance is the limit.

        **Source.** The outputs of both, for the first training step.
        """
        for fact in trace.facts_named("mismatch"):
            values = fact.values
            yield self.finding(
                f"module {values['module'] or 'the model'} ({values['type']}) gives another result on XLA than in eager "
                f"PyTorch: {values['difference']:.3g} of the largest value apart, where {values['tolerance']:g} is the limit",
                "compare the module alone; if its ops are deterministic, report it to pytorch/xla with the module's code",
                fact.location,
                **values,
            )
