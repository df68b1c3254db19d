"""Which command does the user type next? One that exists where it is told: a nox session, the console script, or this Python.

Every room says so somewhere, so it stands below all of them, and imports nothing of them.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from importlib import metadata
from pathlib import Path

RUN_DIRECTORY = Path("reports/xla_sim")  # where `run` writes and the nox sessions read


def has_session(name: str) -> bool:
    """Whether the noxfile of the current folder has this session of ours; nox looks in no other folder by itself."""
    try:
        text = Path("noxfile.py").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False
    return "xla_sim" in text and re.search(rf"^def {name}\(", text, re.MULTILINE) is not None


def command() -> str:
    """How this program is called from the user's shell, which may not be how it was started."""
    if _is_transient():
        source = _source()
        return f"uvx --from {shlex.quote(source)} xla-sim" if source else "uvx xla-sim"
    script = shutil.which("xla-sim")
    if (
        script is not None
        and Path(script).parent == Path(sys.executable).parent
        and Path(sys.argv[0]).name == "xla-sim"
    ):
        return "xla-sim"
    if Path(sys.argv[0]).name == "xla-sim":  # started by its path, from an environment that isn't active
        return shlex.quote(os.path.relpath(sys.argv[0]) if os.path.isabs(sys.argv[0]) else sys.argv[0])
    return "python -m xla_sim"


def compile_next(directory: Path = RUN_DIRECTORY) -> str:
    """The command that hands the graphs of this run to the TPU compiler."""
    if directory == RUN_DIRECTORY:
        return "nox -s tpu_compile" if has_session("tpu_compile") else f"{command()} compile"
    return f"{command()} compile {shlex.quote(str(directory))}"


def fit_next() -> str:
    """The command that asks about the full-size model."""
    return "nox -s tpu_fit" if has_session("tpu_fit") else f"{command()} fit --help"


def simulation_made_by() -> str:
    """How to get an environment with torch_xla, as the end of a sentence."""
    if has_session("xla_sim"):
        return "run it through `nox -s xla_sim`, which installs it"
    return "pip install torch torch_xla into the Python of your program, or name that Python with --python"


def compiler_made_by() -> str:
    """How to get the TPU compiler's environment, as the end of a sentence."""
    if has_session("tpu_compiler"):
        return "`nox -s tpu_compiler` makes that environment"
    return f"`{command()} compile` makes that environment where XLA_SIM_TPU_PYTHON isn't set"


def _is_transient() -> bool:
    """Whether uvx made the environment that this runs in: its commands are on nobody's path afterwards."""
    return re.search(r"/uv[^/]*/(?:.*/)?(?:archive|environments|builds)-v\d+/", sys.prefix + "/") is not None


def _source() -> str:
    """Where this package was installed from, as pip takes it; nothing when that was an index."""
    try:
        found = json.loads(metadata.distribution("xla-sim").read_text("direct_url.json") or "{}")
    except (metadata.PackageNotFoundError, ValueError):
        return ""
    url, version = found.get("url", ""), found.get("vcs_info")
    if not url:
        return ""
    if version:
        asked = version.get("requested_revision")
        url = f"{version['vcs']}+{url}" + (f"@{asked}" if asked else "")
    subdirectory = found.get("subdirectory")
    return f"xla-sim @ {url}" + (f"#subdirectory={subdirectory}" if subdirectory else "")
