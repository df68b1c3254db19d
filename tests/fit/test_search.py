"""The search itself, over a memory law that is known: what it tries and what it concludes."""

from __future__ import annotations

import signal

import pytest
from xla_sim.compiler.chips import Topology, find_chip, find_topology
from xla_sim.compiler.results import CompileResult
from xla_sim.fit import interruption
from xla_sim.fit.plan import Plan
from xla_sim.fit.question import PARTS, Answer, Question
from xla_sim.fit.search import LIMIT, NoVerdict, Tries, fits, largest_batch, smallest_topology, stretch
from xla_sim.fit.sharding import Mesh, ShardingError, parse_mesh

GIB = 2**30


def law(held: float, example: float, dies_at: int = 0) -> tuple[list[tuple[str, int]], Tries]:
    """Attempts that need `held` GiB over all chips and `example` GiB for each example of the batch; from `dies_at` on no verdict."""
    tried: list[tuple[str, int]] = []

    def attempt(topology: Topology, mesh: Mesh, batch_size: int) -> Answer:
        tried.append((topology.name, batch_size))
        plan = Plan("x:plan", batch_size, (), (), 0, ())
        need = int((held + example * batch_size) * GIB / topology.chips)
        status = "ok" if need <= topology.chip.capacity else "oom"
        if dies_at and batch_size >= dies_at:
            status = "timeout"
        result = CompileResult("graph", topology.chip.name, topology.name, status)
        return Answer(
            Question(plan, b"", topology, mesh), result, {**dict.fromkeys(PARTS, 0), "parameters": need}, {}, ()
        )

    return tried, Tries(attempt)


def test_the_mesh_stretches_by_its_fsdp_axis() -> None:
    assert str(stretch(parse_mesh("data=2,fsdp=4,tensor=2"), 64)) == "data=2,fsdp=16,tensor=2"
    assert stretch(parse_mesh("data=2,fsdp=4,tensor=2"), 2) is None
    assert str(stretch(None, 8)) == "fsdp=8"


def test_the_smallest_slice_is_found_with_few_compilations() -> None:
    tried, tries = law(held=300, example=0)  # 15.75 GiB a chip: 20 chips, so 32
    found = smallest_topology(find_chip("v5e"), None, 256, tries)
    assert found.best is not None
    assert found.best.question.topology.chips == 32
    assert found.conclusion == (
        f"the smallest v5e slice that fits a batch of 256 is {found.best.question.topology.name}, with --mesh fsdp=32"
    )
    chips = [find_topology(name).chips for name, _ in tried]
    assert 16 in chips
    assert len(chips) <= 6


def test_a_model_that_fits_nowhere_is_told_so() -> None:
    _, tries = law(held=1e6, example=0)
    found = smallest_topology(find_chip("v5e"), None, 256, tries)
    assert found.best is None
    assert found.conclusion == "no v5e slice up to v5e:16x16 fits a batch of 256"


def test_a_batch_that_divides_over_no_more_chips_is_named_as_the_reason() -> None:
    _, tries = law(held=1e6, example=0)
    found = smallest_topology(find_chip("v5e"), None, 24, tries)
    assert found.conclusion == (
        "no v5e slice up to v5e:2x4 fits a batch of 24, which --mesh fsdp=8 can't divide over more chips: "
        "a larger --batch-size could, or an axis tensor=N"
    )
    with pytest.raises(ShardingError, match="a batch of 6 can't be divided over any v5e slice with the mesh fsdp"):
        smallest_topology(find_chip("v5e"), None, 6, tries)


def test_a_slice_that_the_shardings_do_not_suit_is_left_out() -> None:
    tried, tries = law(held=1, example=0)

    def check(mesh: Mesh) -> None:
        if mesh.size < 16:
            raise ShardingError(f"{mesh} doesn't suit")

    found = smallest_topology(find_chip("v5e"), None, 256, tries, check)
    assert tried == [("v5e:4x4", 256)]
    assert found.conclusion.endswith("is v5e:4x4, with --mesh fsdp=16")
    with pytest.raises(ShardingError, match="fsdp=4 doesn't suit"):
        smallest_topology(find_chip("v5e"), None, 8, tries, check)


def test_the_largest_batch_is_found_to_an_eighth() -> None:
    tried, tries = law(held=16, example=0.5)  # 4 chips of 15.75 GiB: 94 examples, and 4 is what the batch is made of
    mesh = parse_mesh("fsdp=4")
    found = largest_batch(find_topology("v5e:2x2"), mesh, tries)
    assert found.best is not None
    assert fits(found.best)
    assert 94 * 7 // 8 <= found.best.question.plan.batch_size <= 94
    assert found.best.question.plan.batch_size % 4 == 0
    assert len(tried) <= 10
    best = found.best.question.plan.batch_size
    above = min(size for _, size in tried if size > best)
    assert (
        found.conclusion
        == f"a batch of {best} fits on v5e:2x2 ({best // 4} for each of 4 parts of the batch), {above} doesn't"
    )
    rows = found.to_json()["rows"]
    assert [row["batch_size"] for row in rows] == sorted(size for _, size in tried)


def test_not_even_one_example_a_chip_fits() -> None:
    _, tries = law(held=100, example=1)
    found = largest_batch(find_topology("v5e:2x2"), parse_mesh("fsdp=4"), tries)
    assert found.best is None
    assert found.conclusion == "not even a batch of 4 fits on v5e:2x2 with --mesh fsdp=4"


def test_where_everything_fits_no_maximum_is_claimed() -> None:
    tried, tries = law(held=0, example=0)
    found = largest_batch(find_topology("v5e:2x2"), parse_mesh("fsdp=4"), tries, start=128)
    assert max(size for _, size in tried) == 4 * LIMIT
    assert found.conclusion == (
        f"a batch of at least {4 * LIMIT} fits on v5e:2x2 ({LIMIT} for each of 4 parts of the batch): "
        "larger ones weren't tried, --max-batch says how far to go"
    )


def test_a_search_goes_well_beyond_where_it_begins() -> None:
    tried, tries = law(held=0, example=0)
    largest_batch(find_topology("v5e:2x2"), parse_mesh("fsdp=4"), tries, start=1 << 20)
    assert [size for _, size in tried] == [1 << power for power in range(20, 27)]


def test_no_batch_above_the_users_bound_is_tried() -> None:
    tried, tries = law(held=0, example=0)
    found = largest_batch(find_topology("v5e:2x2"), parse_mesh("fsdp=4"), tries, limit=50)
    assert [size for _, size in tried] == [4, 8, 16, 32, 48]
    assert (
        found.conclusion
        == "a batch of 48 fits on v5e:2x2 (12 for each of 4 parts of the batch), as large as --max-batch allows"
    )
    with pytest.raises(
        ShardingError, match="--max-batch 3: the mesh fsdp=4 divides the batch into 4 parts, so 4 is the least"
    ):
        largest_batch(find_topology("v5e:2x2"), parse_mesh("fsdp=4"), tries, limit=3)


def test_a_search_begins_where_it_is_told_and_goes_either_way() -> None:
    for start in (4, 64, 512):
        tried, tries = law(held=16, example=0.5)
        found = largest_batch(find_topology("v5e:2x2"), parse_mesh("fsdp=4"), tries, start)
        assert tried[0] == ("v5e:2x2", start)
        assert found.best is not None
        assert 94 * 7 // 8 <= found.best.question.plan.batch_size <= 94


def test_a_compilation_without_a_verdict_is_no_answer() -> None:
    _, tries = law(held=16, example=0.5, dies_at=32)
    with pytest.raises(NoVerdict) as caught:
        largest_batch(find_topology("v5e:2x2"), parse_mesh("fsdp=4"), tries)
    assert caught.value.answer.question.plan.batch_size == 32
    assert [one.question.plan.batch_size for one in tries.made] == [4, 8, 16, 32]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_ctrl_c_that_a_finalizer_swallowed_is_found_at_the_next_step() -> None:
    """What an exception in a finalizer does: Python prints "Exception ignored in", and goes on."""

    class Finalizer:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    with interruption.noted():
        finalizer = Finalizer()
        del finalizer
        with pytest.raises(KeyboardInterrupt):
            interruption.check()
        interruption.check()  # once is enough
