"""Bake a stack, build its environment, and break it: what test_default_stack.py and test_older_stacks.py share."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import loopback
import pytest
from conftest import TEMPLATE, run, run_cookiecutter
from test_environments import without_conda
from warm_pytest import run_pytest

STACKS = json.loads((TEMPLATE / "cookiecutter.json").read_text(encoding="utf-8"))["__stacks"]
DEFAULT = next(iter(STACKS))
OLDER = list(STACKS)[1:]
TRAIN, MODEL = "src/toy_tpu_research/train.py", "src/toy_tpu_research/model.py"
Channel = tuple[str, list[str]]  # its address, and the versions of Python that it has


@dataclass(frozen=True)
class Stack:
    """A repository baked for one stack, with its environment built."""

    name: str
    repository: Path
    python: Path


@pytest.fixture(scope="module")
def channel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Channel]:
    """The loopback channel that conda environments are built from."""
    folder = tmp_path_factory.mktemp("channel")
    versions = loopback.make_channel(folder, sorted({stack["python"] for stack in STACKS.values()}))
    with loopback.served(folder) as address:
        yield address, versions


def build(name: str, channel: Channel, factory: pytest.TempPathFactory) -> Stack:
    """The repository and the environment of a stack, made by the first test file that asks: pytest runs files side by side."""
    base = factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with open(shared / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = shared / f"{name}.json"
        if not made.exists():
            made.write_text(json.dumps(_build(name, channel, shared / name)), encoding="utf-8")
    answer = json.loads(made.read_text(encoding="utf-8"))
    if "skip" in answer:
        pytest.skip(answer["skip"])
    repository = Path(answer["repository"])
    return Stack(name, repository, repository / ".nox" / "env" / "bin" / "python")


def _build(name: str, channel: Channel, folder: Path) -> dict[str, str]:
    """Bake a stack and build its environment, with conda where the loopback channel has its Python."""
    repository = run_cookiecutter(folder, {"stack": name, "torch_index": "pypi"}).repository
    address, versions = channel
    variables = {**loopback.variables(folder.with_suffix(".home"), address), "PATH": without_conda()}
    has_conda = STACKS[name]["python"] in versions
    backend = [] if has_conda else ["-fb", "uv"]
    built = run("nox", "--no-color", *backend, "-s", "env", cwd=repository, NOX_SCRIPT_MODE="none", **variables)
    if not has_conda and "There is no Python for these pins" in built.stderr:
        return {"skip": f"{name} needs a Python of {STACKS[name]['pythons']}, and there is none here"}
    assert built.returncode == 0, built.stderr[-3000:]
    expected = "rattler" if has_conda else "uv"
    assert f"built from environment.yml with {expected} in" in built.stderr
    return {"repository": str(repository)}


def check_the_pins(stack: Stack) -> None:
    names = ["torch", "torch_xla", "torchvision"]
    code = f"import importlib.metadata as m; print(*(m.version(name) for name in {names}))"
    shown = subprocess.run([str(stack.python), "-c", code], capture_output=True, text=True, check=True).stdout.split()
    pins = STACKS[stack.name]
    assert shown == [pins["torch"], pins["torch"], pins["torchvision"]]


def check_the_main_job(stack: Stack) -> None:
    """The main job: the tests pass, the simulator finds nothing in train.py, and the reports are there."""
    done = run("nox", "--no-color", "-s", "xla_sim", cwd=stack.repository, NOX_SCRIPT_MODE="none")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    reports = stack.repository / "reports" / "xla_sim"
    report = json.loads((reports / "report.json").read_text(encoding="utf-8"))
    assert (report["schema"], report["program"]["exit"], report["steps"]) == (1, 0, 20)
    assert (report["compiles"], report["compiles_after_warmup"], report["executions"]) == (2, 0, 20)
    assert [finding for finding in report["findings"] if finding["severity"] != "info"] == []
    assert {"report.json", "summary.md", "native.log"} <= {path.name for path in reports.iterdir()}


def check_a_handful_of_rules(stack: Stack) -> None:
    """Whole findings of rules that depend on what torch_xla records and counts, with this stack's Python."""
    rules = "test_graph_recompile or test_missing_step or test_host_sync or test_cpu_fallback or test_wide_dtype"
    command = [stack.python, "-m", "pytest", "-q", TEMPLATE / "tests" / "rules" / "test_rules.py", "-k", rules]
    done = run(*command, cwd=stack.repository, PJRT_DEVICE="CPU")
    assert done.returncode == 0, done.stdout[-3000:]
    assert "5 passed" in done.stdout


@dataclass(frozen=True)
class Mutation:
    """A change that breaks one behaviour, and the test that has to notice."""

    test: str
    file: str
    old: str
    new: str


MUTATIONS = [
    Mutation("test_the_device_is_xla", TRAIN, "return torch_xla.device(),", 'return torch.device("cpu"),'),
    Mutation("test_every_step_ends_with_a_step_mark", TRAIN, "        mark_step()\n", "        step % 2 or mark_step()\n"),
    Mutation("test_nothing_runs_before_the_step_mark", TRAIN, "    loss.backward()\n", "    loss.item()\n    loss.backward()\n"),
    Mutation(
        "test_the_whole_step_runs_at_the_step_mark",
        TRAIN,
        "    optimizer.step()\n",
        "    import torch_xla\n\n    torch_xla.sync()\n    optimizer.step()\n",
    ),
    Mutation(
        "test_without_the_step_mark_nothing_is_executed",
        TRAIN,
        "    optimizer.step()\n",
        "    optimizer.step()\n    import torch_xla\n\n    torch_xla.sync()\n",
    ),
    Mutation("test_nothing_is_compiled_after_warm_up", TRAIN, "place, next(data))", "lambda part: place(part[8 * (step // 3) :]), next(data))"),
    Mutation(
        "test_another_batch_size_compiles_again",
        TRAIN,
        "    optimizer.zero_grad()\n",
        "    optimizer.zero_grad()\n    train_step.rows = getattr(train_step, 'rows', 0) + 1\n"
        "    batch = map_tensors(lambda part: part[: len(part) - train_step.rows], batch)\n",
    ),
    Mutation("test_no_operation_falls_back_to_the_host", MODEL, "self.relu(self.layer1(x))", "nn.functional.glu(self.layer1(x).repeat(1, 2))"),
    Mutation(
        "test_the_metrics_report_counts_what_happened",
        TRAIN,
        "    optimizer.zero_grad()\n",
        "    optimizer.zero_grad()\n    import torch_xla.debug.metrics\n\n    torch_xla.debug.metrics.clear_counters()\n",
    ),
    Mutation(
        "test_memory_figures",
        "tests/conftest.py",
        "torch_xla.device()\n",
        "torch_xla.device()\nimport torch_xla.core.xla_model as xm\n\n"
        "xm.get_memory_info = lambda device: {'bytes_used': 2, 'bytes_limit': 1}\n",
    ),
    Mutation(
        "test_the_tensor_dump_holds_matrix_products",
        MODEL,
        "self.layer2(self.relu(self.layer1(x)))",
        "x[:, :10] * self.layer1.weight.mean() * self.layer2.weight.mean()",
    ),
    Mutation("test_xla_and_eager_pytorch_agree", MODEL, "    x, y = batch\n", "    x, y = batch\n    x = x * 1.01 if x.device.type == 'xla' else x\n"),
    Mutation("test_every_parameter_with_a_gradient_changes", MODEL, "torch.optim.Adam(model.parameters(),", "torch.optim.Adam(list(model.parameters())[:2],"),
    Mutation("test_a_change_of_the_batch_size_is_reported", "pyproject.toml", "warmup-steps = 2", 'ignore = ["graph-recompile"]\nwarmup-steps = 2'),
    Mutation("test_the_batch_fills_the_tiles", TRAIN, "args.batch_size, args.seed, first_step", "args.batch_size + 1, args.seed, first_step"),
]  # fmt: skip


def mutate(stack: Stack, mutation: Mutation, copy: Path) -> None:
    shutil.copytree(stack.repository, copy, ignore=shutil.ignore_patterns(".nox", ".git", "reports", "*cache*"))
    path = copy / mutation.file
    text = path.read_text(encoding="utf-8")
    assert text.count(mutation.old) == 1, f"{mutation.old!r} is not once in {mutation.file}"
    path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")


def simulate(stack: Stack, copy: Path, test: str) -> subprocess.CompletedProcess[str]:
    """Run one test of a copy with the stack's Python, which has torch imported already."""
    variables = {"PYTHONPATH": str(copy / "src"), "PJRT_DEVICE": "CPU", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    return run_pytest(stack.python, copy, "-q", f"tests/test_xla_simulation.py::{test}", **variables)


def check_that_it_is_red(stack: Stack, mutation: Mutation, copy: Path) -> None:
    """The test that the mutation names fails in a copy of the repository."""
    mutate(stack, mutation, copy)
    broken = simulate(stack, copy, mutation.test)
    assert broken.returncode == 1, broken.stdout[-3000:]
    assert f"FAILED tests/test_xla_simulation.py::{mutation.test}" in broken.stdout, broken.stdout[-3000:]
