"""The environments of the noxfile: what environment.yml asks for, built with what this machine has and can reach.

The noxfile says what to run; this module decides where. It reads environment.yml, takes the first of mamba, micromamba,
conda and rattler that is present, and falls back to uv or virtualenv with the same pins where the conda channel can't be
reached. It is imported by nox itself, so it needs nothing but the standard library, PyYAML and nox.

Two environment variables change what it does:

XLA_SIM_STRICT=1    a fallback is an error (for CI, where a slower or larger environment should not go unnoticed)
XLA_SIM_TIMEOUT=3   how many seconds a channel or an index may take to answer before it counts as unreachable
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xla_sim.environment.compiler_requirements import compiler_requirements
from xla_sim.environment.environment_yml import Environment, EnvironmentFileError, read_environment, with_pins
from xla_sim.environment.reach import (
    CONDA_BACKENDS,
    channel_unreachable,
    channel_url,
    fetch_python,
    find_backend,
    find_python,
    find_uv,
    unreachable,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import nox

STAMP = "xla_sim_environment.json"


@dataclass(frozen=True)
class Plan:
    """How one environment will be built, decided before nox builds anything."""

    environment: Environment
    backend: str
    python: str  # a version for conda, a version or a path for uv and virtualenv
    notes: tuple[str, ...] = ()  # one line for each thing that is not as environment.yml has it
    error: str | None = None  # why no environment can be built, and what to do
    reuse: bool = False

    @property
    def torch(self) -> str:
        """The version of torch and torch_xla that is pinned."""
        return self.environment.pin_of("torch_xla") or "any version"

    @property
    def session_options(self) -> dict[str, Any]:
        """What nox.session takes to build this environment."""
        if self.error is not None:
            return {"python": False}
        options: dict[str, Any] = {"venv_backend": self.backend, "reuse_venv": self.reuse, "python": self.python}
        if self.backend in CONDA_BACKENDS:
            options["venv_params"] = channel_arguments(self.environment.channels, self.backend)
        return options


def unsupported(system: str, machine: str) -> str | None:
    """Say why the simulation can't run on this kind of machine, or None where it can."""
    if system == "Linux" and machine in ("x86_64", "AMD64"):
        return None
    name = {"Darwin": "macOS"}.get(system, system)
    way = "work in WSL2, or open" if system == "Windows" else "open"
    return (
        f"torch_xla and libtpu exist for x86-64 Linux only, and this is {name} on {machine}: {way} this folder in its "
        "dev container (.devcontainer/, linux/amd64), and run the same command there."
    )


def channel_arguments(channels: tuple[str, ...], backend: str) -> list[str]:
    """Name the channels as this backend takes them."""
    if backend == "rattler":  # knows no "defaults"
        return [word for name in channels for word in ("-c", channel_url(name) if name == "defaults" else name)]
    return ["--override-channels", *(word for channel in channels for word in ("-c", channel))]


def option(*names: str) -> str | None:
    """The value of an option on nox's command line, which nox doesn't share with the noxfile while it is read."""
    for word, following in zip(sys.argv, [*sys.argv[1:], ""]):
        if word in names:
            return following
        if word.partition("=")[0] in names:
            return word.partition("=")[2]
    return None


def only_tells() -> bool:
    """Whether nox was asked to tell something (its sessions, say), so that nothing will be built."""
    return not {"-l", "--list", "--list-sessions", "--json", "--usage", "-h", "--help", "--version"}.isdisjoint(
        sys.argv
    )


def plan(name: str, project: dict[str, Any], file: str = "environment.yml") -> Plan:
    """Decide how session NAME gets its environment from environment.yml; project is the content of pyproject.toml."""
    try:
        environment = read_environment(Path(file))
    except EnvironmentFileError as error:
        return Plan(Environment((), "", (), (), (), ""), "none", "", error=str(error))
    version = environment.pin_of("torch_xla")
    pythons = [stack["pythons"] for stack in stacks_of(project).values() if stack["torch"] == version]
    return make_plan(environment, env_folder() / name, tuple(pythons[0]) if pythons else ())


def stack_plans(project: dict[str, Any], file: str = "environment.yml") -> dict[str, Plan]:
    """Decide the same for every stack in pyproject.toml: environment.yml with that stack's versions."""
    try:
        environment = read_environment(Path(file))
    except EnvironmentFileError:
        return {}  # session env says why
    plans = {}
    for name, stack in stacks_of(project).items():
        pins = {"torch": stack["torch"], "torch_xla": stack["torch"], "torchvision": stack["torchvision"]}
        requirements = {package: f"{package}=={version}" for package, version in pins.items()}
        asked = with_pins(environment, stack["python"], {**requirements, "numpy": stack["numpy"]})
        if {"stacks", name} & set(sys.argv):
            plans[name] = make_plan(asked, env_folder() / name, tuple(stack["pythons"]))
        else:  # nothing will be built, so nothing is asked of the network
            plans[name] = Plan(asked, "uv", stack["python"])
    return plans


def stacks_of(project: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The versions that were tested together, by the name of their environment."""
    table: dict[str, dict[str, Any]] = project.get("tool", {}).get("tpu_stacks", {})
    return table


def env_folder() -> Path:
    """Where nox keeps its environments."""
    return Path(option("--envdir") or os.environ.get("NOX_ENVDIR") or ".nox")


def python(session: nox.Session, name: str) -> str:
    """The absolute path of the Python in the environment of another session: a program may change directory."""
    return str(Path(session.cache_dir).absolute().parent / name / "bin" / "python")


def make_plan(environment: Environment, location: Path, other_pythons: tuple[str, ...] = ()) -> Plan:
    """Decide how to build the environment in this folder, or to reuse what is there."""
    forced = option("-fb", "--force-venv-backend") or os.environ.get("NOX_FORCE_VENV_BACKEND")
    reason = unsupported(platform.system(), platform.machine())
    if reason is not None:
        return Plan(environment, "none", environment.python, error=reason)
    built = read_stamp(location)
    if built is not None and built["digest"] == environment.digest and forced in (None, built["backend"]):
        return Plan(environment, built["backend"], built["python"], reuse=True)
    grows = built is not None and forced in (None, built["backend"]) and can_grow(built, environment)
    if only_tells():
        return Plan(environment, forced or "uv", environment.python)
    if grows and built is not None:
        environment, note = choose_index(environment)
        return Plan(environment, built["backend"], built["python"], (note,) if note else (), reuse=True)
    backend, notes = (forced, []) if forced else choose_backend(environment)
    python = environment.python
    if backend not in CONDA_BACKENDS:
        python, note = choose_python(environment.python, other_pythons)
        notes += [note] if note else []
        if not python:
            return Plan(environment, "none", environment.python, error=note)
    environment, note = choose_index(environment)
    notes += [note] if note else []
    if notes and os.environ.get("XLA_SIM_STRICT", "0") not in ("", "0"):
        refusal = f"{' '.join(notes)} XLA_SIM_STRICT is set, so this is an error."
        return Plan(environment, "none", python, error=refusal)
    return Plan(environment, backend, python, tuple(notes))


def choose_backend(environment: Environment) -> tuple[str, list[str]]:
    """Return conda's backend if its channels can be reached, or else uv or virtualenv and a line that says why."""
    plain = "uv" if find_uv() else "virtualenv"
    backend = find_backend()
    if backend is None:
        missing = "There is no mamba, micromamba, conda or rattler here (pip install 'nox[rattler]' brings one)"
        return plain, [f"{missing}: building with {plain} and the same pins."]
    for channel in environment.channels:
        reason = channel_unreachable(channel, backend)
        if reason is not None:
            return plain, [f"{channel} can't be reached ({reason}): building with {plain} and the same pins."]
    return backend, []


def choose_python(version: str, others: tuple[str, ...]) -> tuple[str, str | None]:
    """Return a Python for uv or virtualenv: this version, or the nearest other one that the pins allow."""
    found = find_python(version)
    if found is not None:
        return found, None
    if fetch_python(version):
        return version, None
    newest_first = sorted(others, key=lambda other: [-int(part) for part in other.split(".")])
    for other in newest_first:
        found = find_python(other)
        if found is not None:
            return (
                found,
                f"Python {version} is not here and can't be fetched: using Python {other}, which the pins allow.",
            )
    allowed = ", ".join(sorted({version, *others}, key=lambda other: [int(part) for part in other.split(".")]))
    return "", (
        f"There is no Python for these pins ({allowed}) on this machine, and none can be fetched: install one of them, "
        "or conda (Miniforge brings it), and run the command again."
    )


def choose_index(environment: Environment) -> tuple[Environment, str | None]:
    """Leave out package indexes that can't be reached, with a line that says so."""
    for url in environment.indexes:
        reason = unreachable(f"{url.rstrip('/')}/torch/")
        if reason is not None:
            line = f"{url} can't be reached ({reason}): taking PyPI's torch, a CUDA build and an environment of 7 GB."
            return replace(environment, pip_options=()), line
    return environment, None


def read_stamp(location: Path) -> dict[str, Any] | None:
    """Return what a finished environment was built from, or None when there is no finished one."""
    try:
        stamp = json.loads((location / STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    complete = isinstance(stamp, dict) and {"digest", "backend", "python"} <= set(stamp)
    return stamp if complete and (location / "bin" / "python").exists() else None


def write_stamp(location: Path, digest: str, backend: str, python: str, **more: Any) -> None:
    """Mark the environment as finished, so that the next run can use it as it is, or add to it."""
    stamp = {"digest": digest, "backend": backend, "python": python, **more}
    (location / STAMP).write_text(json.dumps(stamp) + "\n", encoding="utf-8")


def build(session: nox.Session, plan: Plan) -> None:
    """Install what the plan says into the session's environment, or what is missing there, and say how to activate it."""
    if plan.error is not None:
        session.error(plan.error.rstrip("."))
    location = Path(session.virtualenv.location)
    stamp = read_stamp(location)
    if stamp is None or stamp["digest"] != plan.environment.digest:
        for note in plan.notes:
            session.warn(note)
        started = time.monotonic()
        if stamp is None and plan.environment.conda and session.venv_backend in CONDA_BACKENDS:
            session.conda_install(*plan.environment.conda, channel=list(plan.environment.channels))
        (location / STAMP).unlink(missing_ok=True)  # half of a difference is no finished environment
        install_with_pip(session, location / "bin" / "python", plan.environment)
        write_stamp(
            location, plan.environment.digest, session.venv_backend, plan.python,
            base=plan.environment.base, pip=plan.environment.pip,
        )  # fmt: skip
        done = "built from" if stamp is None else "brought up to"
        session.log(f"{done} environment.yml with {session.venv_backend} in {time.monotonic() - started:.0f} s")
    session.log(f"to work in it: {activation(Path(os.path.relpath(location)), session.venv_backend)}")
    if session.venv_backend in CONDA_BACKENDS:
        session.log(
            f"it goes by its folder: conda knows by a name ({plan.environment.name}) only what lies in its own envs folder, "
            "where `conda env create -f environment.yml` makes one"
        )


def can_grow(stamp: dict[str, Any], environment: Environment) -> bool:
    """Whether an environment lacks no more than packages: its Python, conda part and indexes stay, and no pip line went away."""
    return stamp.get("base") == environment.base and set(stamp.get("pip", "?")) <= set(environment.pip)


def build_tpu(session: nox.Session) -> None:
    """Install the TPU compiler (jax and libtpu) into the session's environment, unless it is there."""
    reason = unsupported(platform.system(), platform.machine())
    if reason is not None:
        session.error(reason.rstrip("."))
    location = Path(session.virtualenv.location)
    wanted = compiler_requirements()
    digest = hashlib.sha256("\n".join(wanted).encode()).hexdigest()
    stamp = read_stamp(location)
    if stamp is None or stamp["digest"] != digest:
        session.install(*wanted)
        write_stamp(location, digest, session.venv_backend, "")


def install_with_pip(session: nox.Session, python: Path, environment: Environment) -> None:
    """Install the pip list, with uv where there is one: it links files from its cache where pip copies them."""
    uv = find_uv()
    if uv is None:
        installer = [str(python), "-m", "pip", "install"]
    else:
        # As pip does, and as uv by itself does not: look at all indexes and take the best version (2.9.0+cpu over 2.9.0).
        installer = [uv, "pip", "install", "--python", str(python), "--index-strategy", "unsafe-best-match"]
        if (
            sys.flags.dont_write_bytecode
        ):  # containers: each import of torch_xla would compile its source again, for 10 s
            installer.append("--compile-bytecode")
    loud = not {"-v", "--verbose"}.isdisjoint(sys.argv)  # else fifty lines of packages, which are told when it fails
    session.run_install(*installer, *environment.pip_options, *environment.pip, external=True, silent=not loud)


def activation(location: Path, backend: str) -> str:
    """The command that puts the environment on a shell's path."""
    if backend in ("mamba", "micromamba", "conda"):
        return f"{backend} activate ./{location}"
    if backend == "rattler":
        return f'export PATH="$PWD/{location}/bin:$PATH"'
    return f"source {location}/bin/activate"


def side_by_side(reports: dict[str, Path]) -> str:
    """Put the figures of several runs into one table, a column for each."""
    columns = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in reports.items()}
    rows: dict[str, Callable[[Any], Any]] = {
        "python": lambda report: report["stack"]["python"],
        "torch_xla": lambda report: report["stack"]["torch_xla"],
        "steps": lambda report: report["steps"],
        "compilations": lambda report: report["compiles"],
        "after warm-up": lambda report: report["compiles_after_warmup"],
        "executions": lambda report: report["executions"],
        "findings": lambda report: ", ".join(sorted({found["rule"] for found in report["findings"]})) or "none",
    }
    cells = [["", *columns]]
    cells += [[title, *(str(value(report)) for report in columns.values())] for title, value in rows.items()]
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in cells)
