"""A conda channel on 127.0.0.1, made of the Pythons of this machine, in place of conda-forge.

rattler reads it as a mirror of conda-forge, so the generated repository is used as it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import http.server
import json
import os
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

CONDA_FORGE = "https://conda.anaconda.org/conda-forge"
SKIP = {"__pycache__", "test", "tests", "idlelib", "ensurepip", "turtledemo", "site-packages"}


def find_prefix(version: str) -> Path | None:
    """Where an installed (not a virtual) Python of this version lives, if there is one."""
    from xla_sim.environment.reach import find_python

    found = find_python(version)
    if found is None:
        return None
    command = [found, "-c", "import sys; print(sys.base_prefix)"]
    prefix = Path(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())
    # A distribution's own Python is spread over /usr, which is no prefix that could be packed.
    return prefix if prefix != Path("/usr") and (prefix / "bin" / f"python{version}").exists() else None


def members(prefix: Path) -> Iterator[Path]:
    """The files that make a working Python with pip, without what only its own tests need."""
    for folder in ("bin", "lib"):
        for path in sorted((prefix / folder).rglob("*")):
            inside = path.relative_to(prefix).parts
            is_pip = "site-packages" in inside and len(inside) > 3 and inside[3].startswith("pip")
            needed = (is_pip and "__pycache__" not in inside) or (SKIP.isdisjoint(inside) and path.suffix != ".a")
            if needed and (path.is_symlink() or path.is_file()):
                yield path


def pack(channel: Path, subdir: str, name: str, version: str, files: dict[str, Path], depends: list[str]) -> None:
    """Write one .tar.bz2 as conda expects it: the files, and info/ that lists them."""
    import hashlib
    import io

    folder = channel / subdir
    folder.mkdir(parents=True, exist_ok=True)
    index = {"name": name, "version": version, "build": "0", "build_number": 0, "depends": depends, "subdir": subdir}
    if subdir == "noarch":
        index["noarch"] = "generic"
    paths = []
    for inside, path in files.items():
        entry = {"_path": inside, "path_type": "softlink" if path.is_symlink() else "hardlink"}
        entry["sha256"] = "" if path.is_symlink() else hashlib.sha256(path.read_bytes()).hexdigest()
        entry["size_in_bytes"] = path.lstat().st_size
        paths.append({key: value for key, value in entry.items() if value != ""})
    info = {
        "info/index.json": json.dumps(index),
        "info/paths.json": json.dumps({"paths": paths, "paths_version": 1}),
        "info/files": "\n".join(files),
    }
    with tarfile.open(folder / f"{name}-{version}-0.tar.bz2", "w:bz2", compresslevel=1) as archive:
        for inside, text in info.items():
            member = tarfile.TarInfo(inside)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
        for inside, path in files.items():
            archive.add(path, inside, recursive=False)


def make_channel(channel: Path, versions: list[str]) -> list[str]:
    """Pack the Pythons that are here, and return their versions."""
    from rattler.index import index_fs

    packed = []
    for version in versions:
        prefix = find_prefix(version)
        if prefix is not None:
            files = {str(path.relative_to(prefix)): path for path in members(prefix)}
            pack(channel, "linux-64", "python", f"{version}.0", files, [])
            packed.append(version)
    pack(channel, "noarch", "pip", "99.0", {}, ["python"])  # the Pythons bring pip along
    asyncio.run(index_fs(channel))
    return packed


class Handler(http.server.SimpleHTTPRequestHandler):
    """rattler stops at "304 Not Modified", so the question for it is not heard."""

    def send_head(self):  # type: ignore[no-untyped-def]
        del self.headers["If-Modified-Since"]
        return super().send_head()

    def log_message(self, *arguments: object) -> None:
        pass


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on 127.0.0.1 and give its address."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def variables(home: Path, address: str) -> dict[str, str]:
    """What makes rattler take this address for conda-forge, and keep its cache apart from the person's."""
    config = home / ".config" / "rattler" / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(f'[mirrors]\n"{CONDA_FORGE}" = ["{address}"]\n')
    real_home = Path.home()
    return {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "RATTLER_CACHE_DIR": str(home / "rattler"),
        "UV_CACHE_DIR": os.environ.get("UV_CACHE_DIR", str(real_home / ".cache" / "uv")),
        "PIP_CACHE_DIR": os.environ.get("PIP_CACHE_DIR", str(real_home / ".cache" / "pip")),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "PYENV_ROOT": os.environ.get("PYENV_ROOT", str(real_home / ".pyenv")),
    }
