"""`python -m xla_sim report DIR`, and what the other commands call."""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import samples
from xla_sim import ownership
from xla_sim.cli import report_command as cli
from xla_sim.report import REPORT_FILES, print_terminal, write_reports
from xla_sim.report.content import origin
from xla_sim.report.content.document import load_directory, to_document, to_json
from xla_sim.report.files import write_atomic

PROJECT = Path(__file__).parents[2] / "xla-sim"
FIRST = {
    "terminal": "xla_sim · src/toy/train.py · 24 steps · torch_xla 2.9.0 on XLA:CPU",
    "json": "{",
    "html": "<!DOCTYPE html>",
    "github": "::error file=src/toy/model.py,line=23,title=TPU502 hbm-overflow::the step needs 24 GiB of v5e's 15.75 GiB"
    "%0Afix: halve the batch, or shard the model: python -m xla_sim fit",
    "markdown": "## xla_sim: src/toy/train.py",
    "sarif": "{",
}


def main(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    cli.add_parser(parser.add_subparsers())
    args = parser.parse_args(["report", *arguments])
    return int(args.main(args))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    write_reports(tmp_path, to_document(samples.rich_trace(tmp_path), [samples.host_sync()]))
    write_atomic(tmp_path / "compile.json", to_json(samples.compiled()))
    return tmp_path


def test_what_run_writes(directory: Path) -> None:
    assert sorted(os.listdir(directory)) == sorted([*REPORT_FILES, "compile.json"])
    assert load_directory(directory)["compile"] == samples.compiled()


@pytest.mark.parametrize("format", cli.FORMATS)
def test_every_format_goes_to_stdout_or_a_file(
    directory: Path, format: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(str(directory), "--format", format) == 0
    shown = capsys.readouterr().out
    assert shown.splitlines()[0] == FIRST[format]
    output = directory / "sub" / f"out.{format}"
    assert main(str(directory), "--format", format, "--output", str(output)) == 0
    assert output.read_text() == shown
    assert capsys.readouterr().out == ""
    if format in ("json", "sarif"):
        json.loads(shown)


def test_a_directory_without_a_report_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(str(tmp_path / "gone")) == 2
    gone = tmp_path / "gone"
    assert capsys.readouterr().err == (
        f"xla_sim report: {gone} holds no report.json, compile.json or fit.json: "
        f"make one with python -m xla_sim run --out {gone} SCRIPT\n"
    )


def test_an_output_that_cannot_be_written_is_a_sentence(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (directory / "taken").write_text("")
    output = directory / "taken" / "report.html"
    assert main(str(directory), "--format", "html", "--output", str(output)) == 2
    assert capsys.readouterr().err == f"xla_sim report: {output} can't be written: File exists\n"


def test_a_reader_that_leaves_early_is_no_failure(directory: Path) -> None:
    """`report DIR --format html | head -1`, with a report larger than a pipe holds."""
    document = load_directory(directory)
    write_atomic(directory / "report.json", to_json({**document, "metrics": "x" * 100 + "\n" + "line\n" * 100_000}))
    code = (
        "import argparse; from xla_sim.cli import report_command as cli; p = argparse.ArgumentParser();"
        f"cli.add_parser(p.add_subparsers()); a = p.parse_args(['report', {str(directory)!r}, '--format', 'html']);"
        "raise SystemExit(a.main(a))"
    )
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == "<!DOCTYPE html>\n"
        process.stdout.close()
        assert (process.stderr.read(), process.wait(timeout=60)) == ("", 0)


def test_reports_are_printed_for_the_command_that_made_them(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    print_terminal(load_directory(directory), directory, "nox -s tpu_compile")
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"1 error and 1 warning · {directory}/report.html · next: nox -s tpu_compile"


def test_the_package_is_light_to_import() -> None:
    """`python -m xla_sim --help` must not pay for rich, jinja2 or torch."""
    code = "import sys, xla_sim.report, xla_sim.cli.report_command; print([m for m in ('rich', 'jinja2', 'torch') if m in sys.modules])"
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == "[]\n"


def test_a_prepared_process_renders_without_importing(directory: Path) -> None:
    """`run` prepares while the program runs, so that nothing is left to be loaded after its end."""
    code = (
        "import sys, xla_sim.report as report; from pathlib import Path; report.prepare(); before = set(sys.modules);"
        f"from xla_sim.report.content.document import load_directory; d = Path({str(directory)!r}); document = load_directory(d);"
        "report.write_reports(d, document); report.print_terminal(document, d, 'next');"
        "late = [m for m in sys.modules if m not in before and m.split('.')[0] in ('jinja2', 'xla_sim')];"
        "print(late, file=sys.stderr)"
    )
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stderr == "[]\n"


TRAIN = """\
import sys, torch, torch_xla
from sizes import WIDTH

device = torch_xla.device()
model = torch.nn.Linear(16, WIDTH).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    loss = model(torch.randn(8, 16).to(device)).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
"""


def git(folder: Path, *words: str) -> str:
    names = [word for key in ("user.name=Ada", "user.email=ada@example.org") for word in ("-c", key)]
    command = ["git", *names, "-C", str(folder), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of two files in a repository with one commit."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "sizes.py").write_text("WIDTH = 8\n")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "first")
    return tmp_path


def test_a_report_knows_the_commit_it_was_made_of(program: Path) -> None:
    commit = git(program, "rev-parse", "HEAD")
    assert origin.repository(program) == {"commit": commit, "dirty": False}
    (program / "reports").mkdir()
    (program / "reports" / "report.json").write_text("{}")
    assert origin.repository(program) == {"commit": commit, "dirty": False}, "what a run writes changes nothing"
    (program / "sizes.py").write_text("WIDTH = 9\n")
    assert origin.repository(program / "reports") == {"commit": commit, "dirty": True}


def test_without_git_or_a_commit_nothing_is_claimed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = {"commit": None, "dirty": None}
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert origin.repository(tmp_path) == nothing
    git(tmp_path, "init", "--quiet")
    assert origin.repository(tmp_path) == nothing
    monkeypatch.setenv("PATH", str(tmp_path))
    assert origin.repository(tmp_path) == nothing


def test_the_content_hash_is_of_names_and_contents(program: Path) -> None:
    files = [str(program / name) for name in ("train.py", "sizes.py")]
    first = origin.content(files)
    assert first["files"] == 2 and len(first["hash"]) == 64
    assert origin.content([files[1], *files, str(program / "gone.py")]) == first
    (program / "sizes.py").write_text("WIDTH = 9\n")
    assert origin.content(files)["hash"] != first["hash"]
    assert origin.content([]) == {"hash": None, "files": 0}


def test_an_environment_inside_the_project_is_no_code_of_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `.venv` is, next to the script; a script that lies in a library itself is the user's all the same."""
    monkeypatch.setattr(ownership, "_user_roots", [])
    library = tmp_path / ".venv" / "lib" / "python3.12" / "site-packages"

    def whose() -> tuple[bool, bool, bool]:
        ownership.is_user_file.cache_clear()
        names = (tmp_path / "sizes.py", library / "torch_xla" / "xla_model.py", library / "theirs" / "train.py")
        return tuple(ownership.is_user_file(str(name)) for name in names)  # type: ignore[return-value]

    ownership.add_user_root(str(tmp_path))
    assert whose() == (True, False, False)
    ownership.add_user_root(str(library / "theirs"))
    assert whose() == (True, False, True)


@pytest.mark.skipif(importlib.util.find_spec("torch_xla") is None, reason="needs torch_xla to run a program")
@pytest.mark.parametrize("words", [["pkg/train.py"], ["-m", "pkg.train"], ["-m", "pkg"]])
def test_the_programs_own_files_are_those_that_it_imported(program: Path, words: list[str]) -> None:
    """Found for a script and for a module, and when the program goes to another folder."""
    (program / "pkg").mkdir()
    for name in ("__init__", "train", "__main__", "unused"):
        (program / "pkg" / f"{name}.py").write_text("import json, os, rich, jinja2\nos.chdir('/')\n")
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    command = [sys.executable, "-m", "xla_sim", "run", "--out", "out", "--quiet", "--fail-on", "never", *words]
    subprocess.run(command, cwd=program, env=environment, check=True)
    module = {"pkg.train": ["train", "__init__"], "pkg": ["__main__", "__init__"]}.get(words[-1], ["train"])
    made_of = load_directory(program / "out")["made_of"]
    assert made_of["files"] == len(module)
    assert made_of["hash"] == origin.content(f"pkg/{name}.py" for name in module)["hash"]


@pytest.mark.skipif(importlib.util.find_spec("torch_xla") is None, reason="needs torch_xla to run a program")
def test_a_run_says_what_it_was_made_of_and_writes_its_graphs_as_text(program: Path) -> None:
    words = ["--out", "a run", "--fail-on", "never", "--timeout", "300", "--dump-hlo", "train.py", "--lr", "0.1"]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "PJRT_DEVICE": "CPU"}
    command = [sys.executable, "-m", "xla_sim", "run", *words]
    done = subprocess.run(command, cwd=program, env=environment, check=True, capture_output=True, text=True)
    document = load_directory(program / "a run")
    assert done.stderr == "xla_sim: 1 of 1 graph as HLO text: a run/hlo\n"
    assert document["made_of"] == {
        **origin.content(["train.py", "sizes.py"]),
        "commit": git(program, "rev-parse", "HEAD"),
        "dirty": False,
    }
    assert document["command"] == (
        "python -m xla_sim run --out 'a run' --fail-on never --timeout 300 --dump-hlo train.py --lr 0.1"
    )
    made = datetime.datetime.strptime(document["made_at"], "%Y-%m-%dT%H:%M:%S%z")
    assert abs((datetime.datetime.now(datetime.timezone.utc) - made).total_seconds()) < 300
    (graph,) = document["graphs"]
    assert (graph["hlo"], graph["text"]) == (f"graphs/{graph['hash']}.pb", f"hlo/{graph['hash']}.txt")
    named = [(one["shape"], one["shape_of"], one["location"]["line"]) for one in graph["inputs"] if one["bytes"] > 8]
    assert sorted(named) == [
        ("f32[8,16]", ["weight"], 5),
        ("f32[8,16]", ["weight"], 9),
        ("f32[8]", ["bias"], 5),
    ], "the batch has the weight's shape, and comes from its own line"
    header, _, first, *lines = (program / "a run" / graph["text"]).read_text(encoding="utf-8").splitlines()
    assert header == f"// graph {graph['hash']}, first compiled at step 1, at train.py:12 (sync)"
    assert first.startswith("HloModule ")
    (entry,) = (number for number, line in enumerate(lines) if line.startswith("ENTRY "))
    assert len([line for line in lines[entry:] if " parameter(" in line]) == graph["input_count"]
    assert any('source_file="train.py" source_line=9' in line for line in lines), "operations carry their lines"
