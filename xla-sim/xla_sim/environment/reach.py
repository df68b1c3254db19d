"""What this machine has and what it can reach: conda, uv, Pythons, channels and package indexes."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import threading
import urllib.error
import urllib.request
from pathlib import Path

CONDA_BACKENDS = ("mamba", "micromamba", "conda", "rattler")
CONDA_HOST = "https://conda.anaconda.org"
DEFAULTS_CHANNEL = "https://repo.anaconda.com/pkgs/main"


def channel_url(channel: str) -> str:
    """The address of a channel, as conda derives it from the name (and from channel_alias in .condarc)."""
    if "://" in channel:
        return channel.rstrip("/")
    if channel == "defaults":
        return DEFAULTS_CHANNEL
    return f"{conda_alias()}/{channel}"


def conda_alias() -> str:
    """Where channels live: conda's public host, unless the user's .condarc names a mirror."""
    import yaml

    for place in (os.environ.get("CONDARC"), "~/.condarc", "~/.config/conda/.condarc", "~/.mambarc"):
        path = Path(place).expanduser() if place else None
        if path is not None and path.is_file():
            try:
                settings = yaml.safe_load(path.read_text(encoding="utf-8"))
            except yaml.YAMLError:
                continue  # conda reads it too, and says what is wrong with it
            if isinstance(settings, dict) and settings.get("channel_alias"):
                return str(settings["channel_alias"]).rstrip("/")
    return CONDA_HOST


def rattler_mirrors() -> dict[str, list[str]]:
    """The mirrors in rattler's own configuration: channel address to the addresses used in its place."""
    import rattler

    config = rattler.Config.load_from_default_locations("rattler")
    return {
        str(address).rstrip("/"): [str(mirror) for mirror in mirrors] for address, mirrors in config.mirrors.items()
    }


def unreachable(url: str) -> str | None:
    """Ask for an address and read no more than its headers; return why it can't be reached, or None when it answers.

    A name lookup can take longer than any socket timeout, so the question is asked in a thread that is not waited for.
    It is a GET, because what stands behind channels and indexes may refuse a HEAD.
    """
    seconds = float(os.environ.get("XLA_SIM_TIMEOUT", "3"))
    answer: list[str | None] = [f"no answer in {seconds:g} seconds"]

    def ask() -> None:
        try:
            request = urllib.request.Request(url, headers={"User-Agent": "xla_sim"})
            with urllib.request.urlopen(request, timeout=2 * seconds):  # the wait below is over first
                answer[0] = None
        except urllib.error.HTTPError as error:
            answer[0] = f"it answers {error.code} {error.reason}"
        except urllib.error.URLError as error:
            # Certificates are the installer's business: it may know one that Python does not.
            certificate = "CERTIFICATE" in str(error.reason).upper()
            answer[0] = None if certificate else str(getattr(error.reason, "strerror", None) or error.reason)
        except (OSError, ValueError) as error:
            answer[0] = str(error)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(seconds)
    return answer[0]


def channel_unreachable(channel: str, backend: str) -> str | None:
    """Return why a conda channel can't be reached through this backend, or None when it can."""
    url = channel_url(channel)
    addresses = rattler_mirrors().get(url, [url]) if backend == "rattler" else [url]
    reasons = [unreachable(f"{address.rstrip('/')}/noarch/repodata.json") for address in addresses]
    return None if None in reasons else reasons[0]


def find_backend() -> str | None:
    """The first conda that is present; rattler comes with nox[rattler]."""
    for backend in CONDA_BACKENDS[:-1]:
        if shutil.which(backend):
            return backend
    return "rattler" if importlib.util.find_spec("rattler") else None


def find_uv() -> str | None:
    """Where uv is: on the path, or as the package that comes with nox[uv]."""
    found = shutil.which("uv")
    if found is None and importlib.util.find_spec("uv"):
        import uv

        found = str(uv.find_uv_bin())
    return found


def find_python(version: str) -> str | None:
    """Where a Python of this version is, or None: on the path, as nox itself looks for it, or kept by pyenv."""
    from python_discovery import get_interpreter

    found = get_interpreter(version)
    if found is not None:
        return str(found.executable)
    root = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    kept = sorted(root.glob(f"versions/{version}.*/bin/python{version}"))
    return str(kept[-1]) if kept else None


def fetch_python(version: str) -> bool:
    """Let uv fetch a Python of this version, if it can."""
    uv = find_uv()
    if uv is None or ("UV_PYTHON_INSTALL_MIRROR" not in os.environ and unreachable("https://github.com")):
        return False
    command = [uv, "python", "install", "--quiet", version]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
