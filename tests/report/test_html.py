"""report.html: that it is whole, offline, escaped, small, and in an order that a screen reader can follow."""

from __future__ import annotations

import base64
import dataclasses
import html.parser
import itertools
import re
from pathlib import Path
from typing import Any

import pytest
import samples
from xla_sim.report import chip_table as chips
from xla_sim.report import timeline
from xla_sim.report.content import metric_rows, rule_blocks
from xla_sim.report.content.document import empty, to_document
from xla_sim.report.html import EMBEDDED, TEMPLATES, render
from xla_sim.rules import all_rules, find_rule
from xla_sim.trace import Location

VOID = {"meta", "link", "br", "img", "hr", "input"}


class Page(html.parser.HTMLParser):
    """Elements in reading order; fails on a page whose tags don't match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[tuple[str, str]] = []  # innermost element, text
        self.feed(text)
        self.close()
        assert self.open == [], f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self.open[-1] if self.open else "", " ".join(data.split())))

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def headings(self) -> list[int]:
        return [int(name[1]) for name, _ in self.elements if re.fullmatch("h[1-6]", name)]

    @property
    def text(self) -> str:
        return " ".join(text for element, text in self.texts if element != "style")


def everything(tmp_path: Path) -> str:
    document = to_document(
        samples.rich_trace(tmp_path),
        [samples.host_sync(), samples.recompile()],
        {"file": "base.json", "known": 2},
        samples.ABOUT,
    )
    document.update(compile=samples.compiled(), fit=samples.fitted())
    return render(document, tmp_path)


def source(tmp_path: Path, text: str, file: str = "src/toy/train.py") -> None:
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_bytes(text.encode())


def test_the_page_reads_from_the_verdict_down(tmp_path: Path) -> None:
    page = Page(everything(tmp_path))
    assert page.all("html") == [{"lang": "en"}]
    order = [
        "xla_sim · src/toy/train.py",
        "24 steps · torch_xla 2.9.0 on XLA:CPU",
        "2 errors and 1 warning to look at",
        "3 graphs (steps 1 and 12), 1 after warm-up",
        "Timeline",
        "Findings",
        "XLA101 graph-recompile",
        "TPU502 hbm-overflow",
        "XLA201 host-sync",
        "On the chips",
        "Does it fit",
        "Graphs",
        "Metrics report",
    ]
    places = [page.text.index(text) for text in order]
    assert places == sorted(places)
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    labelled = [attributes["aria-labelledby"] for _, attributes in page.elements if "aria-labelledby" in attributes]
    assert labelled and set(labelled) <= set(ids)


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, "Nothing found in 20 steps that a TPU would punish"),
        ({"unknown": ("bytes",)}, "Nothing found in 20 steps that a TPU would punish; 1 thing could not be told"),
        ({"exit": 3}, "The program failed with exit status 3; this is what was seen until then"),
        ({"exit": -11}, "The program was killed by signal 11; this is what was seen until then"),
        ({"exit": None}, "The program's end was not seen; this is what was seen until then"),
        ({"ending": "timed out after 60 s"}, "The program timed out after 60 s; this is what was seen until then"),
    ],
)
def test_the_verdict(tmp_path: Path, changes: dict[str, Any], verdict: str) -> None:
    page = render(to_document(samples.trace(tmp_path, **changes), []))
    assert re.findall('<p class="verdict [a-z]+">(.*?)</p>', page) == [verdict.replace("'", "&#39;")]


@pytest.mark.parametrize("what", ["everything", "nothing", "failed", "fit", "compile"])
def test_every_page_is_well_formed_with_headings_in_order(tmp_path: Path, what: str) -> None:
    text = {
        "everything": lambda: everything(tmp_path),
        "nothing": lambda: render(to_document(samples.trace(tmp_path, metrics=""), [])),
        "failed": lambda: render(to_document(samples.trace(tmp_path, exit=None, timeline=(), graphs=()), [])),
        "fit": lambda: render({**empty(), "fit": samples.fitted()}),
        "compile": lambda: render({**empty(), "compile": samples.compiled()}),
    }[what]()
    page = Page(text)
    levels = page.headings()
    assert levels.count(1) == 1 and levels[0] == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels)), levels
    assert page.all("main") and page.all("h2")


def test_a_part_of_hbm_has_one_name_on_the_page(tmp_path: Path) -> None:
    fit = samples.fitted()
    fit["hbm"]["weights"] = samples.GIB
    fit["buffers"] = [{"shape": "bf16[4096,4096]{1,0:T(8,128)(2,1)}", "part": "weights", "bytes": 1, "logical": 1}]
    page = Page(render({**empty(), "fit": fit}, tmp_path))
    cells = [shown for element, shown in page.texts if element in ("th", "td")]
    assert cells.count("gathered weights") == 2
    assert "weights" not in cells


def test_pictures_and_tables_speak(tmp_path: Path) -> None:
    page = Page(everything(tmp_path))
    pictures = [svg for svg in page.all("svg") if svg.get("aria-hidden") != "true"]
    assert [svg["aria-label"] for svg in pictures][:6] == [
        "compilations from step 1 to step 25: 3, at most 2 in a step",
        "executions from step 1 to step 25: 44, at most 2 in a step",
        "cuts (a value was read) from step 1 to step 25: 19, at most 1 in a step",
        "ops on the host from step 1 to step 25: 1, at most 1 in a step",
        "moved to the device from step 1 to step 25: at most 100 MB in a step, measured at 17 of 25 steps",
        "moved back to the host from step 1 to step 25: at most 4 B in a step",
    ]
    assert all(svg["role"] == "img" for svg in pictures)
    assert len(page.all("caption")) == len(page.all("table")) > 0
    assert all(header.get("scope") in ("col", "row") for header in page.all("th"))
    for tag, attributes in page.elements:
        if attributes.get("tabindex") == "0":
            assert attributes.get("role") in ("region", "group") and attributes.get("aria-label"), tag


def test_buffers_that_are_alike_are_one_row(tmp_path: Path) -> None:
    page = Page(everything(tmp_path))
    place = page.text.index("f32[65536,8,4]{2,1,0:T(8,128)}")
    assert page.text[place - 4 :].startswith(
        "2 × f32[65536,8,4]{2,1,0:T(8,128)} fusion.12 256 MiB 8 MiB src/toy/model.py:23"
    )


def test_the_page_asks_for_nothing(tmp_path: Path) -> None:
    text = everything(tmp_path)
    page = Page(text)
    policy = next(meta["content"] for meta in page.all("meta") if "http-equiv" in meta)
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert not page.all("script") and not page.all("img") and not page.all("iframe")
    links = [attributes[name] for _, attributes in page.elements for name in ("src", "href") if name in attributes]
    explained = ["graph-recompile", "hbm-overflow", "host-sync"]
    assert sorted(links) == ["#main", *(f"#rule-{name}" for name in explained), "data:,"]
    assert not re.search(r"url\(|@import|https?://", text)


EVIL = "</pre><script>alert(1)</script>\"'<img src=x onerror=alert(1)>{{ 7*7 }}\x1b[31m\u202e"


def test_nothing_from_the_program_becomes_markup(tmp_path: Path) -> None:
    """Every text that a program can choose, in every place of the page."""
    evil_file = "src/<img src=x>&'\".py"
    source(tmp_path, f"first\r\n# {EVIL}\r\nlast\r\n", evil_file)
    finding = dataclasses.replace(
        samples.host_sync(),
        message=EVIL,
        fix=EVIL,
        location=Location(evil_file, 2, EVIL, samples.HERE.frames),
        evidence={EVIL: EVIL},
    )
    trace = samples.trace(
        tmp_path,
        argv=(EVIL, EVIL),
        stack={"torch_xla": EVIL, "device": EVIL, EVIL: EVIL},
        metrics=EVIL,
        unknown=(EVIL,),
        ending=EVIL,
        timeline=(samples.step(1, samples.run(EVIL), fallbacks={EVIL: 1}),),
        graphs=(dataclasses.replace(samples.graph(EVIL, 1, 1, EVIL), cause=EVIL, location=Location(EVIL, 1, EVIL)),),
    )
    document = to_document(trace, [finding], {"file": EVIL, "known": 1})
    document["graphs"][0]["differences"] = {"from": EVIL, "changes": [EVIL]}
    tensor = {"shape": EVIL, "bytes": 1, "shape_of": [EVIL], "location": {"file": EVIL, "line": 1}}
    document["graphs"][0].update(inputs=[tensor], outputs=[], opcodes=[{"op": EVIL, "count": 1}], text=EVIL)
    document.update(
        command=EVIL, next=EVIL, made_at=EVIL, made_of={"hash": EVIL, "files": 1, "commit": EVIL, "dirty": True}
    )
    compiled, fitted = samples.compiled(), samples.fitted()
    compiled["compiler"] = {"libtpu": EVIL}
    compiled["results"][1].update(graph=EVIL, chip=EVIL, message=EVIL, command=EVIL)
    compiled["results"][1]["buffers"][0].update(shape=EVIL, name=EVIL, location={"file": EVIL, "line": 1})
    compiled["results"][0]["collectives"][0]["kind"] = EVIL
    fitted.update(target=EVIL, topology=EVIL, message=EVIL, notes=[EVIL], mesh={EVIL: 8})
    fitted["search"].update(question=EVIL, answer=EVIL)
    fitted["search"]["rows"][0]["topology"] = EVIL
    text = render({**document, "compile": compiled, "fit": fitted}, tmp_path)
    page = Page(text)
    assert not page.all("script") and not page.all("img")
    assert "\x1b" not in text and "\u202e" not in text and "\r" not in text
    assert page.text.count("{{ 7*7 }}") > 25, "what the program chose is shown, everywhere"
    assert "49" not in re.sub(r"[^a-z0-9 ]", " ", page.text).split()
    line = "# </pre><script>alert(1)</script>\"'<img src=x onerror=alert(1)>{{ 7*7 }}\\x1b[31m\\u202e"
    assert any(line in shown for element, shown in page.texts if element == "span"), "the excerpt holds the line"


def test_the_excerpt_marks_the_line(tmp_path: Path) -> None:
    source(tmp_path, "".join(f"line {number}\r\n" for number in range(1, 101)))
    text = render(to_document(samples.trace(tmp_path), [samples.host_sync()]), tmp_path)
    spans = re.findall(r'<span class="(at|near)"><span class="number">\s*(\d+)  </span>(.*?)</span>', text)
    assert spans == [("at" if number == 41 else "near", str(number), f"line {number}") for number in range(38, 45)]


@pytest.mark.parametrize("file", ["secret.txt", "gone.py", "folder.py", "short.py", "a\0b.py"])
def test_no_excerpt_where_there_is_no_source(tmp_path: Path, file: str) -> None:
    """Only Python sources are opened, and only where the line is still there."""
    (tmp_path / "secret.txt").write_text("secret\n" * 100)
    (tmp_path / "short.py").write_text("secret\n" * 3)
    (tmp_path / "folder.py").mkdir()
    finding = dataclasses.replace(samples.host_sync(), location=Location(file, 41, "f"))
    assert "secret\n" not in render(to_document(samples.trace(tmp_path), [finding]), tmp_path)


def test_a_thousand_steps_stay_small(tmp_path: Path) -> None:
    """Alike or all different, the page keeps its size and the picture its columns."""
    sizes = {}
    for name, number in (("short", 20), ("long", 1000), ("longer", 20_000)):
        steps = [
            samples.step(index, samples.run(f"{index % 7:032x}"), to_device=index) for index in range(1, number + 1)
        ]
        document = to_document(samples.trace(tmp_path, timeline=tuple(steps)), [])
        picture = timeline.picture(document["timeline"])
        assert picture is not None
        assert all(len(strip.rects) <= timeline.MOST_COLUMNS for strip in picture.strips)
        assert (picture.first, picture.last) == (1, number)
        sizes[name] = len(render(document))
    assert sizes["long"] < 200_000
    assert sizes["longer"] < 1.1 * sizes["long"]


def test_a_thousand_graphs_stay_small(tmp_path: Path) -> None:
    graphs = tuple(samples.graph(f"{index:032x}", index, 1) for index in range(1000))
    text = render(to_document(samples.trace(tmp_path, graphs=graphs), []))
    assert "960 more in report.json." in text
    assert len(text) < 100_000


def test_columns_stand_for_the_steps_they_cover(tmp_path: Path) -> None:
    """1000 steps in 112 columns of 9: the one that compiled at step 500 is where it belongs, averaged over its column."""
    steps = [samples.step(index, samples.run("g", compiled=index == 500)) for index in range(1, 1001)]
    document = to_document(samples.trace(tmp_path, timeline=tuple(steps)), [])
    picture = timeline.picture(document["timeline"])
    assert picture is not None and picture.per_column == 9
    compiled, executed = picture.strips[0], picture.strips[1]
    assert [rect.title for rect in compiled.rects] == ["steps 496 to 504: 0.1 per step"]
    assert [rect.title for rect in executed.rects][:1] == ["steps 1 to 9: 1 per step"]
    assert len(executed.rects) == 112
    assert (compiled.summary, executed.summary) == ("1, at most 1 in a step", "1,000, at most 1 in a step")


def test_what_was_not_measured_is_drawn_as_such(tmp_path: Path) -> None:
    steps = (samples.step(1, samples.run("a"), to_device=None), samples.step(2, samples.run("b"), to_device=0))
    picture = timeline.picture(to_document(samples.trace(tmp_path, timeline=steps), [])["timeline"])
    assert picture is not None
    there = next(strip for strip in picture.strips if strip.key == "there")
    assert [(rect.title, rect.unknown) for rect in there.rects] == [("step 1: not measured", True)]


def _colors() -> list[dict[str, str]]:
    style = (TEMPLATES / "style.css").read_text()
    blocks = re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    light, dark = (dict(re.findall(r"--([a-z]+): (#[0-9a-f]{6})", block)) for block in blocks)
    assert set(light) == set(dark)
    return [light, dark]


def _contrast(one: str, other: str) -> float:
    """WCAG 2.2, "contrast ratio"."""

    def luminance(color: str) -> float:
        parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


FIT_PARTS = (
    "parameters",
    "gradients",
    "optimizer",
    "activations",
    "weights",
    "batch",
    "temporaries",
    "codebytes",
    "other",
)
COMPILE_PARTS = ("arguments", "outputs", "temporaries", "codebytes", "other")


def test_every_part_of_memory_has_a_colour_of_its_own() -> None:
    style = (TEMPLATES / "style.css").read_text()
    assert {*FIT_PARTS, *COMPILE_PARTS} == {"codebytes" if key == "code" else key for key in chips.PARTS}
    for parts in (FIT_PARTS, COMPILE_PARTS):
        assert all(f".{part} {{ fill: var(--{part}); }}" in style for part in parts)
        for colors in _colors():
            assert len({colors[part] for part in parts}) == len(parts)


def test_contrast_in_light_and_dark() -> None:
    """4.5 for text, 3 for the parts of pictures (WCAG 2.2, 1.4.3 and 1.4.11)."""
    for colors in _colors():
        for text in ("text", "muted", "link", "error", "warning", "info", "ok"):
            for ground in ("page", "panel"):
                assert _contrast(colors[text], colors[ground]) >= 4.5, (text, ground)
        assert _contrast(colors["text"], colors["marked"]) >= 4.5
        drawn = set(colors) - {"page", "panel", "line", "marked"}
        for part in drawn:
            for ground in ("page", "panel"):
                assert _contrast(colors[part], colors[ground]) >= 3, (part, ground)


def test_the_page_says_what_it_was_made_of_and_how_to_repeat_it(tmp_path: Path) -> None:
    document = to_document(samples.trace(tmp_path), [], about=samples.ABOUT)

    def facts(**changes: Any) -> dict[str, str]:
        made_of = {**samples.ABOUT["made_of"], **changes.pop("made_of", {})}
        text = render({**document, "made_of": made_of, **changes})
        return dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", text))

    assert (
        facts()["repeat it"] == "<code>python -m xla_sim run --out reports/xla_sim src/toy/train.py --steps 20</code>"
    )
    assert facts()["made"] == (
        "2026-12-01 03:29 UTC, commit 1a1a1a1a1a1a with changes that aren&#39;t committed, program 9f9f9f9f9f9f (3 files)"
    )
    assert facts(made_of={"dirty": False, "files": 1})["made"] == (
        "2026-12-01 03:29 UTC, commit 1a1a1a1a1a1a, program 9f9f9f9f9f9f (1 file)"
    )
    assert facts(made_of={"commit": None, "dirty": None, "hash": None})["made"] == "2026-12-01 03:29 UTC"
    assert "made" not in facts(made_at=None, made_of={"commit": None, "hash": None})


def test_the_next_step_is_that_of_the_last_command(tmp_path: Path) -> None:
    document = to_document(samples.trace(tmp_path), [], about=samples.ABOUT)

    def named(document: Any, next_step: str | None = None) -> list[str]:
        return re.findall('<p class="next">Next: <code>(.*?)</code></p>', render(document, next_step=next_step))

    assert named(document) == ["nox -s tpu_compile"]
    assert named({**document, "compile": samples.compiled()}) == []
    assert named({**document, "compile": samples.compiled()}, "nox -s tpu_fit") == ["nox -s tpu_fit"]
    assert named({**document, "next": None}) == []


def test_each_finding_leads_to_what_its_rule_means(tmp_path: Path) -> None:
    """Folded in the page itself; a link to it unfolds it."""
    unknown = dataclasses.replace(samples.recompile(), rule="of-a-newer-version", code="XLA199")
    page = Page(
        render(to_document(samples.trace(tmp_path), [samples.host_sync(), samples.host_sync(), unknown]), tmp_path)
    )
    assert [link["href"] for link in page.all("a")][1:] == ["#rule-host-sync", "#rule-host-sync"]
    assert [one["id"] for one in page.all("div") if one.get("id", "").startswith("rule-")] == ["rule-host-sync"]
    begin = page.text.index("What the rules mean")
    explained = page.text[begin : page.text.index("# xla-sim: ignore[host-sync]")]
    for part in (
        find_rule("host-sync").title().rstrip("."),
        "Why a TPU cares.",
        "Bad",
        "Good",
        "running += loss.detach()",
        "Source.",
    ):
        assert part in explained


def test_every_rule_can_be_explained_in_the_page() -> None:
    """Nothing of Markdown is left over in what is shown, and no code is taken for prose."""
    for rule in all_rules():
        page = rule_blocks.page(rule.name)
        assert page is not None
        shown = [piece for block in page["blocks"] for line in block.lines for piece in line]
        assert [piece.text for piece in shown if piece.kind != "code" and re.search(r"`|\*\*|\]\(", piece.text)] == []
        assert rule.page().count("```") == 2 * sum(block.kind == "pre" for block in page["blocks"])


def test_the_markdown_of_a_rule() -> None:
    text = "One `line`\nand **Why.** See [a page](https://a.b/c) or https://d.e/f.\n\n```python\nx = 1\n\ny = 2\n```\n\n- first\n  more\n- `second`"
    piece, block = rule_blocks.Piece, rule_blocks.Block
    assert rule_blocks.blocks(text) == [
        block(
            "p",
            (
                (
                    piece("text", "One "), piece("code", "line"), piece("text", " and "), piece("strong", "Why."),
                    piece("text", " See "), piece("link", "a page", "https://a.b/c"), piece("text", " or "),
                    piece("link", "https://d.e/f", "https://d.e/f"), piece("text", "."),
                ),
            ),
        ),
        block("pre", code="x = 1\n\ny = 2"),
        block("ul", ((piece("text", "first more"),), (piece("code", "second"),))),
    ]  # fmt: skip


METRICS = (Path(__file__).parent / "metrics.txt").read_text(encoding="utf-8")


def test_the_metrics_are_explained() -> None:
    """From a real report of torch_xla 2.9: 40 steps, each of which reads the loss after its mark."""
    extra = "Counter: aten::glu_backward\n  Value: 3\nMetric: Odd\n  TotalSamples: 0\n"
    assert [(row.name, row.value) for row in metric_rows.rows(METRICS + extra)] == [
        ("CompileTime", "2 times, 3.71 s in all"),
        ("UncachedCompile", "2"),
        ("CachedCompile", "38"),
        ("ExecuteTime", "40 times, 208 ms in all"),
        ("ExecuteComputation", "40"),
        ("MarkStep", "40"),
        ("TensorsGraphSize", "40 times, 57 on average"),
        ("TransferToDeviceTime", "128 times, 3.57 ms in all"),
        ("OutboundData", "21.5 kB"),
        ("TransferFromDeviceTime", "78 times, 11.5 ms in all"),
        ("InboundData", "312 B"),
        ("InputOutputAliasCount", "2 times, 4 on average"),
        ("aten::_local_scalar_dense", "40"),
        ("aten::glu_backward", "3"),
        ("xla::*", "2,174"),
    ]
    assert [row.meaning for row in metric_rows.rows(METRICS + extra)][-3:] == [
        metric_rows.ABOUT_READ,
        metric_rows.ABOUT_FALLBACK,
        metric_rows.ABOUT_OPS,
    ]
    assert metric_rows.rows("") == metric_rows.rows("nothing of the kind") == []


@pytest.mark.parametrize(
    ("told", "meant"),
    [
        ("02s027ms036.051us", "1 time, 2.03 s in all"),
        ("114.208us", "1 time, 114 µs in all"),
        ("01m30s000ms000.000us", "1 time, 1 min 30 s in all"),
        ("01h00m00s000ms000.000us", "1 time, 60 min in all"),
        ("2.00GB", "2.15 GB"),
        ("57.00", "1 time, 57 on average"),
        ("?", "1 time"),
    ],
)
def test_torch_xlas_units(told: str, meant: str) -> None:
    report = f"Metric: CompileTime\n  TotalSamples: 1\n  Accumulator: {told}\n"
    assert [row.value for row in metric_rows.rows(report)] == [meant]


def test_hlo_can_be_taken_along_as_text(tmp_path: Path) -> None:
    """Small texts are in the page itself, so that it can be sent alone; for the others there is a link."""
    small, large, strange = samples.GRAPH_A, samples.GRAPH_B, samples.GRAPH_C
    (tmp_path / "hlo").mkdir()
    (tmp_path / "hlo" / f"{small}.txt").write_text("HloModule é\n", encoding="utf-8")
    (tmp_path / "hlo" / f"{large}.txt").write_text("x" * (EMBEDDED + 1))
    graphs = tuple(samples.graph(hash, 1, 1, f"graphs/{hash}.pb") for hash in (small, large, strange))
    document = to_document(samples.trace(tmp_path, graphs=graphs), [])
    assert [graph["text"] for graph in document["graphs"]] == [f"hlo/{small}.txt", f"hlo/{large}.txt", ""]
    document["graphs"][2]["text"] = "../../etc/passwd"

    def links(directory: Path | None) -> list[dict[str, str]]:
        return [link for link in Page(render(document, tmp_path, directory)).all("a") if "download" in link]

    data = base64.b64encode("HloModule é\n".encode()).decode()
    assert links(tmp_path) == [
        {"href": f"data:text/plain;charset=utf-8;base64,{data}", "download": f"{small}.txt"},
        {"href": f"hlo/{large}.txt", "download": f"{large}.txt"},
    ]
    assert links(None) == []
