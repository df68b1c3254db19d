"""`python -m xla_sim report DIR`, and what the other commands call."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import samples
from xla_sim.cli import report_command as cli
from xla_sim.report import REPORT_FILES, print_terminal, write_reports
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
