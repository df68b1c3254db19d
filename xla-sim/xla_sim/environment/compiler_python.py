"""The Python that has the TPU compiler: one that is there already, or one that is made once in the user's cache folder."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from xla_sim.environment.compiler_requirements import compiler_requirements
from xla_sim.environment.reach import find_uv
from xla_sim.environment.torch_python import up_to_repository

OLDEST, NEWEST = (3, 11), (3, 14)  # Pythons that jax and libtpu have wheels for


class CannotMake(Exception):
    """There is no TPU compiler's environment, and none could be made; the message is a sentence for the user."""


def find_compiler_python() -> str | None:
    """The Python with jax and libtpu: $XLA_SIM_TPU_PYTHON, this one, this repository's, or that of the cache folder."""
    named = os.environ.get("XLA_SIM_TPU_PYTHON")
    if named:
        return named
    here = all(importlib.util.find_spec(name) is not None for name in ("jaxlib", "libtpu"))
    if here and sys.version_info[:2] >= OLDEST:
        return sys.executable
    folders = [above / ".nox" / "tpu_compiler" for above in up_to_repository()]
    for folder in folders:
        if list(folder.glob("*.json")) and (folder / "bin" / "python").exists():  # nox_env's stamp: it is finished
            return str(folder / "bin" / "python")
    kept = cache_folder() / "bin" / "python"
    return str(kept) if kept.exists() else None


def compiler_python(install: bool, tell: Callable[[str], None]) -> str | None:
    """`find_compiler_python`, or the one that is made now; None where no TPU compiler can be at all.

    Args:
        install: whether it may be made.
        tell: is given a line before it is made, and one after.

    Raises:
        CannotMake: it may not or can't be made.
    """
    found = find_compiler_python()
    if found is not None:
        return found
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        return None  # the compiler itself says so
    folder = cache_folder()
    if not install or os.environ.get("XLA_SIM_NO_INSTALL", "0") not in ("", "0"):
        raise CannotMake(
            f"there is no environment with the TPU compiler (jax and libtpu), and --no-install or XLA_SIM_NO_INSTALL "
            f"forbids to make one. By hand: {by_hand(folder)}"
        )
    return _make(folder, tell)


def cache_folder() -> Path:
    """Where the environment is kept; the name changes with the requirements."""
    root = os.environ.get("XLA_SIM_CACHE")
    base = Path(root).expanduser().absolute() if root else _home() / "xla_sim"
    digest = hashlib.sha256("\n".join(compiler_requirements()).encode()).hexdigest()
    return base / f"compiler-{digest[:12]}"


def by_hand(folder: Path) -> str:
    """The commands that make the same environment."""
    wanted = " ".join(
        shlex.quote(line.partition(";")[0].strip()) for line in compiler_requirements() if "tomli" not in line
    )
    return f"python3.12 -m venv {shlex.quote(str(folder))} && {shlex.quote(str(folder))}/bin/pip install {wanted}"


def _home() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _make(folder: Path, tell: Callable[[str], None]) -> str:
    """Build beside the folder and rename, so that there is a whole one or none, whatever ends this process."""
    started = time.monotonic()
    python = str(folder / "bin" / "python")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _alone(folder, tell):
            if Path(python).exists():  # another process made it while this one waited
                return python
            for torn in folder.parent.glob(f"{folder.name}.*.partial"):  # of a process that was killed
                shutil.rmtree(torn, ignore_errors=True)
            tell(f"making the TPU compiler's environment in {folder} (once, about 1 GB)")
            partial = folder.with_name(f"{folder.name}.{os.getpid()}.partial")
            try:
                _build(partial)
                shutil.rmtree(folder, ignore_errors=True)  # no Python in it
                partial.rename(folder)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    except OSError as error:
        raise CannotMake(
            f"the TPU compiler's environment can't be made in {folder.parent}: {error.strerror or error}. "
            "XLA_SIM_CACHE names another folder."
        ) from error
    tell(f"made it in {time.monotonic() - started:.0f} s")
    return python


def _build(folder: Path) -> None:
    uv, python = find_uv(), _python()
    if uv is not None:
        asked = python or f">={OLDEST[0]}.{OLDEST[1]},<{NEWEST[0]}.{NEWEST[1] + 1}"
        _run([uv, "venv", "--quiet", "--no-project", "--python", asked, str(folder)])
        installer = [uv, "pip", "install", "--quiet", "--python", str(folder / "bin" / "python")]
    elif python is not None:
        _run([python, "-m", "venv", str(folder)])
        installer = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    else:
        raise CannotMake(
            "the TPU compiler needs Python 3.11 or newer, and there is none on this machine's path: "
            "install one, or uv, which brings one (pip install uv), and run the command again"
        )
    _run([*installer, *compiler_requirements()])


def _run(command: list[str]) -> None:
    """
    Raises:
        CannotMake: it failed; its last words are in the message.
    """
    done = subprocess.run(command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        said = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise CannotMake(
            f"the TPU compiler's environment can't be made: {' '.join(said[-4:]) or 'no word of why'} "
            f"({os.path.basename(command[0])} ended with {done.returncode}). By hand: {by_hand(cache_folder())}"
        )


def _python() -> str | None:
    """A Python that the compiler has wheels for: this one, one on the path, or one that pyenv keeps."""
    if OLDEST <= sys.version_info[:2] <= NEWEST:
        return sys.executable
    root = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    for minor in range(NEWEST[1], OLDEST[1] - 1, -1):
        name = f"python3.{minor}"
        kept = [str(path) for path in sorted(root.glob(f"versions/3.{minor}.*/bin/{name}"))]
        for found in (*filter(None, [shutil.which(name)]), *kept):
            # a shim of pyenv is there for versions that aren't in use, and fails
            if subprocess.run([found, "-c", ""], check=False, capture_output=True).returncode == 0:
                return found
    return None


@contextlib.contextmanager
def _alone(folder: Path, tell: Callable[[str], None]) -> Iterator[None]:
    """Hold the folder's lock, which the system takes back from a process that dies."""
    import fcntl

    with open(folder.with_name(f"{folder.name}.lock"), "a", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell("another process makes the TPU compiler's environment: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError:  # a file system without locks: the rename alone has to do
            pass
        yield
