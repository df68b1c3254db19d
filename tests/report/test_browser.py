"""report.html in a real browser, at the width of a phone and of a desk; the screenshots are kept for people to look at.

They are written into $XLA_SIM_SCREENSHOTS when it names a directory. Without a Chromium the tests skip and say so.
"""

from __future__ import annotations

import dataclasses
import html
import os
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
import samples
from xla_sim.report.content.document import to_document
from xla_sim.report.html import render

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
QUIET = (
    "--headless",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)


@pytest.fixture(scope="module")
def chromium() -> str:
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if not found:
        pytest.skip("needs a Chromium on PATH or in $CHROMIUM, to take the screenshots")
    return found


def browse(chromium: str, profile: Path, *arguments: str) -> str:
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    command = [chromium, *QUIET, *sandbox, f"--user-data-dir={profile}", *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


METRICS = Path(__file__).with_name("metrics.txt").read_text(encoding="utf-8")


def page(tmp_path: Path) -> str:
    source = tmp_path / "src" / "toy" / "train.py"
    source.parent.mkdir(parents=True)
    source.write_text(
        "".join(f"    running_{line} += float(loss[{line}].item())  # a long line of code\n" for line in range(80))
    )
    trace = dataclasses.replace(samples.rich_trace(tmp_path), metrics=METRICS)
    document = to_document(trace, [samples.host_sync(), samples.recompile()], about=samples.ABOUT)
    long = "/a/very/long/path/without/any/space" * 5 + "/train.py"
    document["findings"][0]["location"]["file"] = long
    document["graphs"][0].update(
        inputs=[
            {
                "number": 0,
                "name": "p0",
                "shape": "f32[65536,8,4]",
                "bytes": 8,
                "donated": True,
                "location": {"file": long, "line": 1},
                "shape_of": ["decoder.layers.0.attention.query.weight"] * 3,
            }
        ],
        outputs=[{"shape": "f32[1]", "bytes": 4}],
        ops=[{"op": "aten::addmm", "count": 2}],
        opcodes=[{"op": "dot", "count": 2}],
    )
    document.update(compile=samples.compiled(), fit=samples.fitted())
    return render(document, tmp_path)


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1280, "light"), (390, "dark"), (1280, "dark")])
def test_screenshots(chromium: str, tmp_path: Path, width: int, scheme: str) -> None:
    (tmp_path / "report.html").write_text(page(tmp_path))
    kept = Path(os.environ.get("XLA_SIM_SCREENSHOTS") or tmp_path)
    kept.mkdir(parents=True, exist_ok=True)
    picture = kept / f"report-{width}-{scheme}.png"
    browse(
        chromium,
        tmp_path / "profile",
        f"--window-size={width},{3200 if width > 1000 else 5600}",
        f"--blink-settings=preferredColorScheme={0 if scheme == 'dark' else 1}",
        f"--screenshot={picture}",
        (tmp_path / "report.html").as_uri(),
    )
    data = picture.read_bytes()
    assert struct.unpack(">II", data[16:24])[0] == width
    assert len(data) > 50_000, "a page with nothing on it is smaller"


# Measures the page in frames of two widths, with everything unfolded, and writes what it saw into the document.
PROBE = """<!DOCTYPE html><meta charset="utf-8"><body><script>
const seen = [];
for (const frame of document.querySelectorAll("iframe")) frame.remove();
</script>%s<script>
onload = () => {
  for (const frame of document.querySelectorAll("iframe")) {
    const page = frame.contentDocument;
    for (const details of page.querySelectorAll("details")) details.open = true;
    const root = page.documentElement;
    const small = [...page.querySelectorAll("summary, a:not(.skip)")]
      .filter(element => element.getBoundingClientRect().height < 24).length;
    const type = [...page.querySelectorAll("p, td, th, li, dd, code")]
      .filter(element => parseFloat(getComputedStyle(element).fontSize) < 12).length;
    seen.push([frame.clientWidth, root.scrollWidth, small, type, page.querySelectorAll("svg rect").length].join(" "));
  }
  document.title = "done";
  document.body.innerHTML = "<pre id=seen>" + seen.join("\\n") + "</pre>";
};
</script>"""


def test_nothing_is_wider_than_the_page(chromium: str, tmp_path: Path) -> None:
    """No sideways scrolling on a phone, nothing too small to read (12 px) or to touch (24 px, WCAG 2.2, 2.5.8)."""
    source = html.escape(page(tmp_path), quote=True)
    frames = "".join(
        f'<iframe width="{width}" height="900" style="border:0" srcdoc="{source}"></iframe>' for width in (360, 1280)
    )
    (tmp_path / "probe.html").write_text(PROBE % frames)
    seen = browse(
        chromium,
        tmp_path / "profile",
        "--window-size=1400,1000",
        "--virtual-time-budget=10000",
        "--dump-dom",
        (tmp_path / "probe.html").as_uri(),
    )
    found = re.search(r'<pre id="seen">(.*?)</pre>', seen, re.DOTALL)
    assert found, seen[-500:]
    measured = [tuple(map(int, line.split())) for line in found.group(1).splitlines()]
    assert [(wide, scrolls, small, tiny) for wide, scrolls, small, tiny, _ in measured] == [
        (360, 360, 0, 0),
        (1280, 1280, 0, 0),
    ]
    assert all(drawn > 50 for *_, drawn in measured), "the pictures must be there"


def test_a_link_to_a_rule_unfolds_what_it_means(chromium: str, tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text(page(tmp_path))
    address = (tmp_path / "report.html").as_uri() + "#rule-host-sync"
    seen = browse(chromium, tmp_path / "profile", "--virtual-time-budget=3000", "--dump-dom", address)
    folds = re.findall(r'<details class="rule"( open="")?>\s*<summary>\w+ ([a-z-]+):', seen)
    assert folds == [("", "graph-recompile"), ("", "hbm-overflow"), (' open=""', "host-sync")]
