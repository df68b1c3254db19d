"""Each stack from baking to the verdict; and every test of the simulation is red where what it names is broken."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import loopback
import pytest
from conftest import TEMPLATE, run, run_cookiecutter
from test_environments import without_conda

pytestmark = pytest.mark.slow

STACKS = json.loads((TEMPLATE / "cookiecutter.json").read_text(encoding="utf-8"))["__stacks"]
DEFAULT = next(iter(STACKS))
TRAIN, MODEL = "src/toy_tpu_research/train.py", "src/toy_tpu_research/model.py"


@dataclass(frozen=True)
class Stack:
    """A repository baked for one stack, with its environment built."""

    repository: Path
    python: Path
    backend: str
    output: str


@pytest.fixture(scope="session")
def stacks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Stack]]:
    """The stacks that were built so far, and the loopback channel that they are built from."""
    yield {}


@pytest.fixture(scope="session")
def channel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[str]]]:
    folder = tmp_path_factory.mktemp("channel")
    versions = loopback.make_channel(folder, sorted({stack["python"] for stack in STACKS.values()}))
    with loopback.served(folder) as address:
        yield address, versions


# One process for the default stack, which has most to do, and one for the older ones (pytest -n 2 --dist loadgroup).
GROUPS = {name: "default" if name == DEFAULT else "older" for name in STACKS}


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.xdist_group(group)) for name, group in GROUPS.items()])
def stack(
    request: pytest.FixtureRequest,
    stacks: dict[str, Stack],
    channel: tuple[str, list[str]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Stack:
    name = request.param
    if name not in stacks:
        stacks[name] = build(name, channel, tmp_path_factory.mktemp(name))
    return stacks[name]


def build(name: str, channel: tuple[str, list[str]], folder: Path) -> Stack:
    """Bake a stack and build its environment, with conda where the loopback channel has its Python."""
    repository = run_cookiecutter(folder, {"stack": name, "torch_index": "pypi"}).repository
    address, versions = channel
    variables = {**loopback.variables(folder.with_suffix(".home"), address), "PATH": without_conda()}
    has_conda = STACKS[name]["python"] in versions
    backend = [] if has_conda else ["-fb", "uv"]
    built = run("nox", "--no-color", *backend, "-s", "env", cwd=repository, NOX_SCRIPT_MODE="none", **variables)
    if not has_conda and "There is no Python for these pins" in built.stderr:
        pytest.skip(f"{name} needs a Python of {STACKS[name]['pythons']}, and there is none here")
    assert built.returncode == 0, built.stderr[-3000:]
    expected = "rattler" if has_conda else "uv"
    assert f"built from environment.yml with {expected} in" in built.stderr
    return Stack(repository, repository / ".nox" / "env" / "bin" / "python", expected, built.stderr)


def test_the_environment_has_the_pinned_versions(stack: Stack) -> None:
    names = ["torch", "torch_xla", "torchvision"]
    code = f"import importlib.metadata as m; print(*(m.version(name) for name in {names}))"
    shown = subprocess.run([str(stack.python), "-c", code], capture_output=True, text=True, check=True).stdout.split()
    pins = next(pins for name, pins in STACKS.items() if f"torch=={pins['torch']}\n" in environment_of(stack))
    assert shown == [pins["torch"], pins["torch"], pins["torchvision"]]


def environment_of(stack: Stack) -> str:
    return (stack.repository / "environment.yml").read_text(encoding="utf-8")


def test_nox_xla_sim_is_green_and_writes_its_reports(stack: Stack) -> None:
    """The main job: the tests pass, the simulator finds nothing in train.py, and the reports are there."""
    done = run("nox", "--no-color", "-s", "xla_sim", cwd=stack.repository, NOX_SCRIPT_MODE="none")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    reports = stack.repository / "reports" / "xla_sim"
    report = json.loads((reports / "report.json").read_text(encoding="utf-8"))
    assert (report["schema"], report["program"]["exit"], report["steps"]) == (1, 0, 20)
    assert (report["compiles"], report["compiles_after_warmup"], report["executions"]) == (2, 0, 20)
    assert [finding for finding in report["findings"] if finding["severity"] != "info"] == []
    assert {"report.json", "summary.md", "native.log"} <= {path.name for path in reports.iterdir()}


def is_default(stack: Stack) -> bool:
    return f"torch=={STACKS[DEFAULT]['torch']}\n" in environment_of(stack)


def only_on_the_default(stack: Stack) -> None:
    if not is_default(stack):
        pytest.skip("the same on every stack, so it is tried on the default one")


def session(stack: Stack, *names: str, options: tuple[str, ...] = ()) -> str:
    """Run sessions of the repository, and return what they printed."""
    done = run("nox", "--no-color", *options, "-s", *names, cwd=stack.repository, NOX_SCRIPT_MODE="none")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout + done.stderr


def test_the_simulation_tests_run_as_a_script(stack: Stack) -> None:
    """python tests/test_xla_simulation.py, as CI of the original write-up does it."""
    only_on_the_default(stack)
    command = [str(stack.python), "tests/test_xla_simulation.py", "-k", "device or step_mark"]
    done = subprocess.run(command, cwd=stack.repository, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "test_the_device_is_xla PASSED" in done.stdout


def test_lint_and_tests_are_green(stack: Stack) -> None:
    """With xla_sim, that is all that nox does without arguments."""
    only_on_the_default(stack)
    session(stack, "lint", "tests")


def test_the_tpu_compiler_accepts_the_training_step(stack: Stack) -> None:
    """nox -s tpu_compile, in an environment of its own, on what nox -s xla_sim left."""
    only_on_the_default(stack)
    session(stack, "tpu_compile")
    results = json.loads((stack.repository / "reports" / "xla_sim" / "compile.json").read_text(encoding="utf-8"))[
        "results"
    ]
    assert {(result["chip"], result["status"]) for result in results} == {("v5e", "ok"), ("v6e", "ok")}


def test_the_toy_model_fits_on_a_slice(stack: Stack) -> None:
    """nox -s tpu_fit with what pyproject.toml says."""
    only_on_the_default(stack)
    session(stack, "tpu_fit")
    fit = json.loads((stack.repository / "reports" / "xla_fit" / "fit.json").read_text(encoding="utf-8"))
    assert (fit["status"], fit["topology"], fit["chips"]) == ("ok", "v5e:2x4", 8)


def test_stacks_puts_the_versions_side_by_side(stack: Stack, channel: tuple[str, list[str]]) -> None:
    only_on_the_default(stack)
    missing = {pins["python"] for pins in STACKS.values()} - set(channel[1])
    if missing:
        pytest.skip(f"needs Python {', '.join(sorted(missing))} on this machine to build all three")
    printed = session(stack, "stacks", options=("-fb", "uv")).splitlines()
    table = {line[:13].strip(): line[13:].split() for line in printed}
    assert table["torch_xla"] == [pins["torch"] for pins in STACKS.values()]
    assert table["compilations"] == ["2", "2", "2"]
    assert table["executions"] == ["20", "20", "20"]
    assert table["findings"] == ["none", "none", "none"]


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
    Mutation("test_two_compilations_and_none_after_warm_up", TRAIN, "x, y = next(data)", "x, y = (part[8 * (step % 2) :] for part in next(data))"),
    Mutation(
        "test_another_batch_size_compiles_again",
        TRAIN,
        "    optimizer.zero_grad()\n",
        "    optimizer.zero_grad()\n    train_step.rows = getattr(train_step, 'rows', 0) + 1\n"
        "    x, y = x[: len(x) - train_step.rows], y[: len(y) - train_step.rows]\n",
    ),
    Mutation("test_no_operation_falls_back_to_the_host", MODEL, "self.relu(self.layer1(x))", "nn.functional.glu(self.layer1(x).repeat(1, 2))"),
    Mutation("test_the_metrics_report_counts_what_happened", TRAIN, "x, y = next(data)", "x, y = (part[8 * (step % 2) :] for part in next(data))"),
    Mutation(
        "test_memory_figures",
        "tests/conftest.py",
        "torch_xla.device()\n",
        "torch_xla.device()\nimport torch_xla.core.xla_model as xm\n\n"
        "xm.get_memory_info = lambda device: {'bytes_used': 2, 'bytes_limit': 1}\n",
    ),
    Mutation("test_the_tensor_dump_holds_the_matrix_products", MODEL, "self.layer2(self.relu(self.layer1(x)))", "self.relu(self.layer1(x))[:, :10]"),
    Mutation("test_xla_and_eager_pytorch_agree", TRAIN, "    optimizer.zero_grad()\n", "    optimizer.zero_grad()\n    x = x * 1.01 if x.device.type == 'xla' else x\n"),
    Mutation("test_every_parameter_changes", MODEL, "        self.relu = nn.ReLU()\n", "        self.relu = nn.ReLU()\n        self.layer1.requires_grad_(False)\n"),
    Mutation("test_the_loss_falls", TRAIN, "    optimizer.step()\n", ""),
    Mutation("test_a_change_of_the_batch_size_is_reported", "pyproject.toml", "warmup-steps = 2", 'warmup-steps = 2\nignore = ["graph-recompile"]'),
    Mutation("test_only_a_batch_of_65_is_reported[65-True]", "pyproject.toml", "warmup-steps = 2", 'warmup-steps = 2\nignore = ["unaligned-batch"]'),
    Mutation("test_only_a_batch_of_65_is_reported[64-False]", TRAIN, "args.batch_size, args.seed, first_step", "args.batch_size + 1, args.seed, first_step"),
]  # fmt: skip


def mutate(stack: Stack, mutation: Mutation, copy: Path) -> None:
    shutil.copytree(stack.repository, copy, ignore=shutil.ignore_patterns(".nox", ".git", "reports", "*cache*"))
    path = copy / mutation.file
    text = path.read_text(encoding="utf-8")
    assert text.count(mutation.old) == 1, f"{mutation.old!r} is not once in {mutation.file}"
    path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")


def simulate(stack: Stack, copy: Path, test: str) -> subprocess.CompletedProcess[str]:
    """Run one test of a copy with the stack's Python."""
    variables = {"PYTHONPATH": f"{copy / 'src'}:{copy}", "PJRT_DEVICE": "CPU", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    return run(stack.python, "-m", "pytest", "-q", f"tests/test_xla_simulation.py::{test}", cwd=copy, **variables)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.test.removeprefix("test_"))
def test_each_test_is_red_where_its_behaviour_is_broken(stack: Stack, mutation: Mutation, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    mutate(stack, mutation, copy)
    broken = simulate(stack, copy, mutation.test)
    assert broken.returncode == 1, broken.stdout[-3000:]
    assert f"FAILED tests/test_xla_simulation.py::{mutation.test}" in broken.stdout, broken.stdout[-3000:]


def test_there_is_a_mutation_for_every_test() -> None:
    source = (TEMPLATE / "<<cookiecutter.project_slug>>" / "tests" / "test_xla_simulation.py").read_text(
        encoding="utf-8"
    )
    tests = {line.split("(")[0].removeprefix("def ") for line in source.splitlines() if line.startswith("def test_")}
    assert {mutation.test.split("[")[0] for mutation in MUTATIONS} == tests
