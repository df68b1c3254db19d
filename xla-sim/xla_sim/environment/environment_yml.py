"""Read environment.yml, THE list of what the simulation needs: conda specs, pip requirements, channels and indexes.

nox's conda backends take specs and channels alone, so the file is read here. Nothing but the standard library and PyYAML.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from pathlib import Path

from xla_sim.environment.compiler_requirements import project_table

_EDITABLE = ("-e", "--editable")


class EnvironmentFileError(Exception):
    """environment.yml can't be used; the message says where and why."""


@dataclass(frozen=True)
class Environment:
    """What environment.yml asks for."""

    channels: tuple[str, ...]
    python: str  # the version, such as "3.12"
    conda: tuple[str, ...]  # conda specs besides python and pip
    pip_options: tuple[str, ...]  # such as --extra-index-url URL, in two items
    pip: tuple[str, ...]  # requirements, and "-e ." in two items
    digest: str  # changes whenever any of the above does, or what the editable projects depend on
    base: str = ""  # changes with all but the pip requirements
    name: str = ""

    def pin_of(self, package: str) -> str | None:
        """The version that a package is pinned to, if it is."""
        return next((line.split("==")[1] for line in self.pip if line.startswith(f"{package}==")), None)

    @property
    def indexes(self) -> tuple[str, ...]:
        """The package indexes named besides the installer's own."""
        return tuple(
            value for option, value in zip(self.pip_options, self.pip_options[1:]) if option.endswith("index-url")
        )


def read_environment(path: Path) -> Environment:
    """Read environment.yml with a YAML parser.

    Raises EnvironmentFileError when the file is missing, no YAML, or names no Python version.
    """
    import yaml

    try:
        content = path.read_bytes()
        document = yaml.safe_load(content)
    except OSError as error:
        raise EnvironmentFileError(f"{path} can't be read: {error.strerror}.") from error
    except yaml.YAMLError as error:
        raise EnvironmentFileError(f"{path} is no valid YAML: {' '.join(str(error).split())}.") from error
    entries = document.get("dependencies") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise EnvironmentFileError(f'{path} needs a list called "dependencies", as conda env create expects it.')
    specs = [entry.replace(" ", "") for entry in entries if isinstance(entry, str)]
    python = next((match[1] for spec in specs if (match := re.match(r"python=+(\d+\.\d+)", spec))), None)
    if python is None:
        raise EnvironmentFileError(f'{path} needs a Python version among its dependencies, such as "python=3.12".')
    pip_lines = [line for entry in entries if isinstance(entry, dict) for line in entry.get("pip") or []]
    options: list[str] = []
    requirements: list[str] = []
    for line in pip_lines:
        words = line.split(None, 1)
        if line.startswith("-") and words[0] not in _EDITABLE:
            options += words
        else:
            requirements += words if line.startswith("-") else [line]
    projects = [path.parent / folder for word, folder in zip(requirements, requirements[1:]) if word in _EDITABLE]
    depends = [project_table(project / "pyproject.toml").get("dependencies", []) for project in projects]
    return Environment(
        channels=tuple(document.get("channels") or ("conda-forge",)),
        python=python,
        conda=tuple(spec for spec in specs if not re.match(r"(python|pip)([=<>!]|$)", spec)),
        pip_options=tuple(options),
        pip=tuple(requirements),
        digest=_digest(content, depends),
        base=_digest(document.get("channels"), specs, options),
        name=str(document.get("name") or ""),
    )


def with_pins(environment: Environment, python: str, pins: dict[str, str]) -> Environment:
    """Return the environment with other versions: the Python, and requirement by package name."""

    def pinned(requirement: str) -> str:
        name = re.split(r"[<>=!~;\[ ]", requirement, maxsplit=1)[0]
        return pins.get(name.replace("-", "_"), requirement)

    requirements = tuple(pinned(requirement) for requirement in environment.pip)
    digest, base = _digest(environment.digest, python, requirements), _digest(environment.base, python)
    return replace(environment, python=python, pip=requirements, digest=digest, base=base)


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()
