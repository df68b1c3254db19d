"""What libtpu.py uses of jaxlib and libtpu is there. When this fails, a release took it away: mend libtpu.py, nothing else."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import xla_sim
from xla_sim.compiler.pool import probe
from xla_sim.environment.compiler_requirements import compiler_requirements

PACKAGE = Path(xla_sim.__file__).parent
PINS = dict(re.findall(r"^(jax|libtpu)(?:\[tpu\])?==([\w.]+)", "\n".join(compiler_requirements()), re.MULTILINE))
QUESTION = "import json; from xla_sim.compiler import libtpu; print(json.dumps(libtpu.missing()))"


def test_the_private_interface_is_all_there(tpu_python: str) -> None:
    done = subprocess.run(
        [tpu_python, "-c", QUESTION],
        check=False,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(PACKAGE.parent), "PATH": ""},
    )
    versions = probe()
    release = f"jaxlib {versions['jaxlib']} or libtpu {versions['libtpu']}"
    assert json.loads(done.stdout) == [], (
        f"{release} took away what xla_sim/compiler/libtpu.py uses: {done.stdout}{done.stderr}"
    )


def test_the_installed_pair_is_the_pinned_one(tpu_python: str) -> None:
    versions = probe()
    assert {"jax": versions["jaxlib"], "libtpu": versions["libtpu"]} == PINS, (
        "xla_sim is tested with the pair in xla-sim/pyproject.toml; run its tests before you move the pins"
    )


def test_only_one_file_touches_it() -> None:
    touching = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if re.search(r"^\s*(import|from) (jax|jaxlib|libtpu)\b", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert touching == {"compiler/libtpu.py"}


def test_the_command_line_imports_none_of_it() -> None:
    code = "import sys, xla_sim.cli.compile_command, xla_sim.compiler.scheduler; print([m for m in ('jax', 'jaxlib', 'libtpu', 'torch') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(PACKAGE.parent)},
    )
    assert done.stdout == "[]\n", done.stderr
