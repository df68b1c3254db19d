"""Every hint names a command that exists where it is told."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from xla_sim import hints

NOXFILE = "from xla_sim.environment import nox_env\n\n\ndef tpu_compile(session):\n    pass\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["/somewhere/xla_sim/__main__.py"])
    return tmp_path


def test_a_generated_repository_has_the_session(here: Path) -> None:
    (here / "noxfile.py").write_text(NOXFILE)
    assert hints.compile_next() == "nox -s tpu_compile"
    assert hints.fit_next() == "python -m xla_sim fit --help"  # this noxfile has no tpu_fit


def test_a_session_reads_the_usual_run_directory_only(here: Path) -> None:
    (here / "noxfile.py").write_text(NOXFILE)
    assert hints.compile_next(Path("other runs")) == "python -m xla_sim compile 'other runs'"


def test_somebody_elses_noxfile_is_none_of_ours(here: Path) -> None:
    (here / "noxfile.py").write_text("def tpu_compile(session):\n    pass\n")
    assert hints.compile_next() == "python -m xla_sim compile"
    assert hints.compiler_made_by() == (
        "`python -m xla_sim compile` makes that environment where XLA_SIM_TPU_PYTHON isn't set"
    )


def test_uvx_is_named_with_where_the_package_came_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", "/home/me/.cache/uv/archive-v0/abc")
    monkeypatch.setattr(hints, "_source", lambda: "xla-sim @ git+https://example.org/it.git#subdirectory=xla-sim")
    assert hints.compile_next() == (
        "uvx --from 'xla-sim @ git+https://example.org/it.git#subdirectory=xla-sim' xla-sim compile"
    )
