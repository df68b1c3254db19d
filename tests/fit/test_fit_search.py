"""The search itself, over a memory law that is known: what it tries and what it concludes."""

from __future__ import annotations

from xla_sim.tpu.chips import Topology, find_chip, find_topology
from xla_sim.tpu.fit import PARTS, Answer, Question
from xla_sim.tpu.fit_plan import Plan
from xla_sim.tpu.fit_search import fits, largest_batch, smallest_topology, stretch
from xla_sim.tpu.results import CompileResult
from xla_sim.tpu.sharding import Mesh, parse_mesh

GIB = 2**30


def law(held: float, example: float) -> tuple[list[tuple[str, int]], object]:
    """Attempts that need `held` GiB over all chips and `example` GiB for each example of the batch."""
    tried: list[tuple[str, int]] = []

    def attempt(topology: Topology, mesh: Mesh, batch_size: int) -> Answer:
        tried.append((topology.name, batch_size))
        plan = Plan("x:plan", batch_size, (), (), 0, ())
        need = int((held + example * batch_size) * GIB / topology.chips)
        status = "ok" if need <= topology.chip.capacity else "oom"
        result = CompileResult("graph", topology.chip.name, topology.name, status)
        return Answer(
            Question(plan, b"", topology, mesh), result, {**dict.fromkeys(PARTS, 0), "parameters": need}, {}, ()
        )

    return tried, attempt


def test_the_mesh_stretches_by_its_fsdp_axis() -> None:
    assert str(stretch(parse_mesh("data=2,fsdp=4,tensor=2"), 64)) == "data=2,fsdp=16,tensor=2"
    assert stretch(parse_mesh("data=2,fsdp=4,tensor=2"), 2) is None
    assert str(stretch(None, 8)) == "fsdp=8"


def test_the_smallest_slice_is_found_with_few_compilations() -> None:
    tried, attempt = law(held=300, example=0)  # 15.75 GiB a chip: 20 chips, so 32
    found = smallest_topology(find_chip("v5e"), None, 256, attempt)  # type: ignore[arg-type]
    assert found.best is not None
    assert found.best.question.topology.chips == 32
    assert found.conclusion == f"{found.best.question.topology.name} with --mesh fsdp=32"
    chips = [find_topology(name).chips for name, _ in tried]
    assert 16 in chips
    assert len(chips) <= 6


def test_a_model_that_fits_nowhere_is_told_so() -> None:
    _, attempt = law(held=1e6, example=0)
    found = smallest_topology(find_chip("v5e"), None, 256, attempt)  # type: ignore[arg-type]
    assert found.best is None
    assert found.conclusion.startswith("no v5e slice up to v5e:")


def test_the_largest_batch_is_found_to_an_eighth() -> None:
    tried, attempt = law(held=16, example=0.5)  # 4 chips of 15.75 GiB: 94 examples, and 4 is what the batch is made of
    mesh = parse_mesh("fsdp=4")
    found = largest_batch(find_topology("v5e:2x2"), mesh, attempt)  # type: ignore[arg-type]
    assert found.best is not None
    assert fits(found.best)
    assert 94 * 7 // 8 <= found.best.question.plan.batch_size <= 94
    assert found.best.question.plan.batch_size % 4 == 0
    assert len(tried) <= 10
    rows = found.to_json()["rows"]
    assert [row["batch_size"] for row in rows] == sorted(size for _, size in tried)


def test_not_even_one_example_a_chip_fits() -> None:
    _, attempt = law(held=100, example=1)
    found = largest_batch(find_topology("v5e:2x2"), parse_mesh("fsdp=4"), attempt)  # type: ignore[arg-type]
    assert found.best is None
    assert found.conclusion == "not even a batch of 4 fits on v5e:2x2 with --mesh fsdp=4"
