"""The report on the terminal, whole, at several widths."""

from __future__ import annotations

import dataclasses
import io
import re
from pathlib import Path

import pytest
import samples
from rich.cells import cell_len
from xla_sim.report.content.document import empty, to_document
from xla_sim.report.terminal import print_text, render
from xla_sim.trace import Location

DIRECTORY = Path("reports/xla_sim")
AWKWARD = dataclasses.replace(
    samples.host_sync(),
    message="[red]loud[/red] :smile: \x1b[31mred\x07 \u202eolleh",
    fix="[link=https://example.org]click[/link]\r\nand more",
    location=Location("src/[bold]a\x1b]0;title\x07\n.py", 3),
)


def test_a_pipe_gets_one_line_a_finding_and_one_for_its_fix(tmp_path: Path) -> None:
    document = to_document(samples.trace(tmp_path), [samples.host_sync()])
    assert render(document, None, False, DIRECTORY, "nox -s tpu_compile") == (
        "xla_sim · src/toy/train.py · 20 steps · torch_xla 2.9.0 on XLA:CPU\n"
        "\n"
        "  compiled   2 graphs (step 1), none after warm-up\n"
        "  executed   40, 2 per step                                  expected 1 per step\n"
        "  moved      16.4 kB to the device and 4 B back per step\n"
        "\n"
        "  src/toy/train.py:41   XLA201 host-sync   warning   loss.item() reads a value inside the step, 20 times: each"
        " cuts the graph and waits\n"
        "                                                     fix: read it after torch_xla.sync(), every N steps, or in"
        " xm.add_step_closure\n"
        "\n"
        "1 warning · reports/xla_sim/report.html · next: nox -s tpu_compile\n"
    )


def test_nothing_found_is_short(tmp_path: Path) -> None:
    steps = tuple(samples.step(index, samples.run(samples.GRAPH_A, compiled=index == 1)) for index in range(1, 9))
    trace = samples.trace(tmp_path, timeline=steps, graphs=(samples.graph(samples.GRAPH_A, 1, 8),))
    assert render(to_document(trace, []), 100) == (
        "xla_sim · src/toy/train.py · 8 steps · torch_xla 2.9.0 on XLA:CPU\n"
        "\n"
        "  compiled   1 graph (step 1), none after warm-up\n"
        "  executed   8, 1 per step\n"
        "  moved      16.4 kB to the device and 4 B back per step\n"
        "\n"
        "no findings\n"
    )


def test_a_program_that_failed_says_so_first(tmp_path: Path) -> None:
    trace = samples.trace(tmp_path, exit=-9, ending="was killed by SIGKILL", timeline=(), graphs=())
    assert render(to_document(trace, []), 100) == (
        "xla_sim · src/toy/train.py · 0 steps · torch_xla 2.9.0 on XLA:CPU\n"
        "\n"
        "  failed     the program was killed by SIGKILL; what was seen until then follows\n"
        "  compiled   nothing\n"
        "  executed   nothing on an XLA device\n"
        "  moved      unknown\n"
        "\n"
        "no findings\n"
    )


def test_the_chip_table() -> None:
    document = {**empty(), "compile": {**samples.compiled(), "findings": []}}
    assert render(document, None) == (
        "xla_sim · graphs\n"
        "\n"
        "  graph      chip   verdict    HBM                                padding   takes at least    MXU at best\n"
        "  a1a1a1a1   v5e    accepted   ███░░░░░░░░░░░░░ 3 of 15.75 GiB    1.06×     1.3 ms (memory)   12 %\n"
        "  b2b2b2b2   v5e    too big    ██████████▒▒▒▒▒▒ 24 of 15.75 GiB   –         –                 –\n"
        "  c3c3c3c3   v5e    refused    –                                  –         –                 –\n"
        "\n"
        "  a1a1a1a1 on v5e exchanges\n"
        "    4 all-reduces, 52 MB; the largest 13 B\n"
        "\n"
        "no findings\n"
    )


def test_the_fit_and_its_search() -> None:
    document = {**empty(), "fit": samples.fitted()}
    assert render(document, 78) == (
        "xla_sim · toy.model:fit_plan\n"
        "\n"
        "  6.7B parameters, batch 64, fsdp=64 on v5e:8x8 (64 chips): fits, 7.82 of\n"
        "  15.75 GiB a chip\n"
        "\n"
        "  parameters              210 MiB\n"
        "  gradients               210 MiB\n"
        "  optimizer state         420 MiB\n"
        "  activations             6 GiB\n"
        "  temporaries             1 GiB\n"
        "  a step takes at least   210 ms (compute)\n"
        "  MXU busy at best        60 %\n"
        "  exchanges               64 all-gathers, 13.4 GB; the largest 90 MB\n"
        "                          (src/toy/model.py:23)\n"
        "\n"
        "  v5e:2x2 batch 64 too big\n"
        "    HBM 60 of 15.75 GiB\n"
        "\n"
        "  v5e:4x4 batch 64 too big\n"
        "    HBM 18 of 15.75 GiB\n"
        "\n"
        "  v5e:8x8 batch 64 fits\n"
        "    HBM 8 of 15.75 GiB\n"
        "    a step takes at least 200 ms\n"
        "\n"
        "  v5e:8x8 is the smallest that fits\n"
        "\n"
        "no findings\n"
    )


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 200])
def test_no_line_is_wider_than_the_terminal(tmp_path: Path, width: int) -> None:
    document = to_document(samples.rich_trace(tmp_path), [samples.host_sync(), samples.recompile(), AWKWARD])
    document.update(compile=samples.compiled(), fit=samples.fitted())
    lines = render(document, width).splitlines()
    assert max(cell_len(line) for line in lines) <= width
    words = " ".join(" ".join(lines).split())
    for text in ("XLA201 host-sync", "drop_last=True", "15.75 GiB", "v5e:8x8 is the smallest"):
        assert text in words, f"{text!r} must survive a terminal of {width} columns"


def test_markup_escapes_and_control_characters_are_shown_as_they_are(tmp_path: Path) -> None:
    document = to_document(samples.trace(tmp_path), [AWKWARD])
    text = render(document, None, color=False)
    assert "[red]loud[/red] :smile: \\x1b[31mred\\x07 \\u202eolleh" in text
    assert "fix: [link=https://example.org]click[/link] and more" in text
    assert "src/[bold]a\\x1b]0;title\\x07\\n.py:3" in text
    assert not re.search(r"[^\n -~·…–→×█▒░µ]", text)


def test_colour_changes_nothing_but_colour(tmp_path: Path) -> None:
    document = to_document(samples.rich_trace(tmp_path), [samples.host_sync(), samples.recompile(), AWKWARD])
    document.update(compile=samples.compiled())
    coloured = render(document, 130, True)
    assert "\x1b[33mwarning" in coloured
    assert "\x1b[1;31merror" in coloured
    stripped = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert [line.rstrip() for line in stripped.splitlines()] == render(document, 130, False).splitlines()


def test_an_output_that_knows_only_ascii(tmp_path: Path) -> None:
    document = to_document(samples.trace(tmp_path), [samples.host_sync()])
    document["compile"] = samples.compiled()
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    print_text(render(document, None, False, Path("reports/模型")), stream)
    text = raw.getvalue().decode("ascii")
    assert "xla_sim - src/toy/train.py - 20 steps" in text
    assert "##########====== 24 of 15.75 GiB" in text
    assert "reports/\\u6a21\\u578b/report.html" in text
