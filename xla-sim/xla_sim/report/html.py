"""report.html: one file that works offline, on a phone, in the dark, in print and through a screen reader."""

from __future__ import annotations

import base64
import collections
import functools
import json
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from xla_sim.report import chip_table as chips
from xla_sim.report import timeline
from xla_sim.report.content import metric_rows, rule_blocks, summary
from xla_sim.report.content.document import all_findings
from xla_sim.report.content.excerpts import excerpt
from xla_sim.report.content.words import clean, count, duration, flop, memory, place, size, spans, times

Document = Mapping[str, Any]
TEMPLATES = Path(__file__).parent / "templates"
MOST_FINDINGS = 300
MOST_GRAPHS = 40  # with their contents; the others are in report.json
MOST_LISTED = 100  # inputs, outputs or ops of a graph
SHORT_LINE = 100  # columns of JSON
MOST_METRICS = 200_000  # characters of torch_xla's metrics report
EMBEDDED = 64 << 10  # bytes of a graph's text that the page itself carries
ALL_EMBEDDED = 1 << 20  # bytes of all of them; the others are links to their files
SEVERITY = {"error": "error", "warning": "warning", "info": "note"}


@functools.lru_cache(maxsize=1)
def template() -> Any:
    """The page's template, compiled once a process."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(str(TEMPLATES)),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        clean=clean,
        place=place,
        lines=lambda text: clean(text, keep="\n\t"),
        memory=memory,
        size=size,
        duration=duration,
        flop=flop,
    )
    return environment.get_template("report.html.j2")


def render(
    document: Document, root: Path | None = None, directory: Path | None = None, next_step: str | None = None
) -> str:
    """The page.

    Args:
        root: the directory that locations are relative to, for the code excerpts; the working directory by default.
        directory: where the report's files are, for the graphs' texts.
        next_step: the command to run next; what the run named when nothing came after it.
    """
    entries = document.get("timeline") or []
    findings = list(all_findings(document))
    graphs = list(document.get("graphs") or ())
    rules = _rules(findings[:MOST_FINDINGS])
    explained = {rule["name"] for rule in rules}
    page = template().render(
        title=summary.title(document),
        subtitle=summary.subtitle(document),
        level=summary.level(document),
        verdict=summary.verdict(document),
        counted=summary.counted(document),
        facts=summary.facts(document),
        took=summary.took(document),
        command=" ".join(map(clean, (document.get("program") or {}).get("argv", ()))),
        origin=_origin(document),
        repeat=clean(document.get("command") or ""),
        next=clean(next_step or _next(document)),
        stack={clean(name): clean(version) for name, version in (document.get("stack") or {}).items() if version},
        picture=timeline.picture(entries),
        strip=(timeline.WIDTH, timeline.HEIGHT),
        rows=timeline.rows(entries),
        rows_left=timeline.left_out(entries),
        findings=[_finding(one, root or Path.cwd(), explained) for one in findings[:MOST_FINDINGS]],
        findings_left=max(0, len(findings) - MOST_FINDINGS),
        rules=rules,
        chips=_chip_rows(document),
        parts=chips.PARTS,
        compiler=_compiler(document),
        fit=_fit(document.get("fit")),
        graphs=_graphs(graphs[:MOST_GRAPHS], directory),
        graphs_left=max(0, len(graphs) - MOST_GRAPHS),
        metric_rows=metric_rows.rows(document.get("metrics") or ""),
        metrics=clean((document.get("metrics") or "")[:MOST_METRICS], keep="\n\t"),
    )
    return str(page)


def _origin(document: Document) -> str:
    """``2026-12-01 03:29 UTC, of commit 1a2b3c4d5e with changes, program 9f8e7d6c5b (3 files)``."""
    made_of = document.get("made_of") or {}
    at = clean(document.get("made_at") or "")
    parts = [re.sub(r"T(\d\d:\d\d):\d\dZ$", r" \1 UTC", at)]
    if made_of.get("commit"):
        changed = " with changes that aren't committed" if made_of.get("dirty") else ""
        parts.append(f"commit {clean(made_of['commit'])[:12]}{changed}")
    if made_of.get("hash"):
        parts.append(f"program {clean(made_of['hash'])[:12]} ({count(made_of['files'], 'file')})")
    return ", ".join(filter(None, parts))


def _next(document: Document) -> str:
    return "" if document.get("compile") or document.get("fit") else document.get("next") or ""


def _rules(findings: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The pages of the rules that spoke, in the order in which they did."""
    pages = (rule_blocks.page(name) for name in dict.fromkeys(finding["rule"] for finding in findings))
    return [page for page in pages if page]


def _compiler(document: Document) -> str:
    """``jaxlib 0.10.2, libtpu 0.0.42.1``: of what told, the two that make the verdict."""
    versions = (document.get("compile") or {}).get("compiler") or {}
    return ", ".join(f"{name} {clean(versions[name])}" for name in ("jax", "jaxlib", "libtpu") if versions.get(name))


def _finding(finding: Mapping[str, Any], root: Path, explained: Collection[str]) -> dict[str, Any]:
    location = finding["location"]
    return {
        "code": clean(finding["code"]),
        "rule": clean(finding["rule"]),
        "explained": finding["rule"] in explained,
        "severity": finding["severity"],
        "severity_word": SEVERITY[finding["severity"]],
        "message": spans(clean(finding["message"], keep="\n")),
        "fix": spans(clean(finding["fix"], keep="\n")),
        "place": place(location),
        "function": clean(location.get("function") or ""),
        "excerpt": excerpt(location, root),
        "frames": [
            f"{place(frame)} in {clean(frame.get('function') or '?')}" for frame in location.get("frames") or ()
        ],
        "evidence": compact(finding["evidence"]) if finding["evidence"] else "",
    }


def compact(value: Any, indent: int = 0) -> str:
    """JSON in which what fits on a line is on one."""
    line = json.dumps(value, ensure_ascii=False)
    if indent + len(line) <= SHORT_LINE or not isinstance(value, (dict, list)) or not value:
        return line
    pad = " " * (indent + 2)
    if isinstance(value, dict):
        inner = [f"{json.dumps(key, ensure_ascii=False)}: {compact(item, indent + 2)}" for key, item in value.items()]
    else:
        inner = [compact(item, indent + 2) for item in value]
    first, last = "{}" if isinstance(value, dict) else "[]"
    return f"{first}\n{pad}" + f",\n{pad}".join(inner) + f"\n{' ' * indent}{last}"


def _chip_rows(document: Document) -> list[dict[str, Any]]:
    results = (document.get("compile") or {}).get("results", ())
    return [
        {
            "row": row,
            "parts": _parts(row.hbm),
            "collectives": chips.collectives(result),
            "buffers": _buffers(result),
            "flops": result.get("flops"),
            "moved": result.get("bytes_accessed"),
            "seconds": result.get("seconds"),
            "cached": bool(result.get("cached")),
            "command": clean(result.get("command") or ""),
        }
        for row, result in zip(chips.rows(document), results)
    ]


def _parts(bar: chips.Bar | None) -> str:
    return ", ".join(f"{chips.PARTS[key]} {memory(bytes)}" for key, bytes, _ in bar.parts) if bar else ""


def _buffers(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The largest first; those that are alike in all that is shown are one row."""
    rows = collections.Counter(
        (
            clean(one["shape"]),
            clean(chips.PARTS.get(one.get("part"), one.get("part")) or one.get("kind") or one.get("name") or ""),
            memory(one.get("bytes") or one.get("padded")),
            memory(one.get("logical")),
            place(one.get("location")),
        )
        for one in result.get("buffers") or ()
    )
    keys = ("shape", "kind", "size", "logical", "place")
    return [{**dict(zip(keys, row)), "count": number} for row, number in rows.items()]


def _fit(fit: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if not fit:
        return None
    rows = chips.search_rows(fit)
    return {
        "target": clean(fit["target"]),
        "status": fit.get("status") or "",
        "sentence": chips.fit_sentence(fit),
        "bar": chips.bar(fit.get("hbm")),
        "parts": chips.fit_parts(fit),
        "bound": chips.bound(fit.get("bound")),
        "busy": chips.busy(fit.get("bound")),
        "collectives": chips.collectives(fit),
        "buffers": _buffers(fit),
        "notes": [clean(note) for note in fit.get("notes") or ()],
        "message": clean(fit.get("message") or "", keep="\n"),
        "question": clean((fit.get("search") or {}).get("question") or ""),
        "answer": clean((fit.get("search") or {}).get("answer") or ""),
        "search": rows,
        "picture": chips.search_picture(fit),
    }


def _graphs(graphs: Iterable[Mapping[str, Any]], directory: Path | None) -> list[dict[str, Any]]:
    left, shown = ALL_EMBEDDED, []
    for graph in graphs:
        link = _text_link(graph, directory, min(left, EMBEDDED))
        left -= link["size"] if link and link["embedded"] else 0
        shown.append({**_graph(graph), "text": link})
    return shown


def _text_link(graph: Mapping[str, Any], directory: Path | None, room: int) -> dict[str, Any] | None:
    """To a graph's HLO as text: the text itself while there is room for it, so that the page can be sent alone."""
    path = graph.get("text") or ""
    if directory is None or not re.fullmatch(r"hlo/\w+\.txt", path):
        return None
    try:
        size = (directory / path).stat().st_size
        data = (directory / path).read_bytes() if size <= room else None
    except OSError:
        return None
    url = path if data is None else "data:text/plain;charset=utf-8;base64," + base64.b64encode(data).decode()
    return {"url": url, "name": path.removeprefix("hlo/"), "size": size, "embedded": data is not None}


def _graph(graph: Mapping[str, Any]) -> dict[str, Any]:
    listed = {key: (graph.get(key) or [])[:MOST_LISTED] for key in ("inputs", "outputs", "ops", "opcodes")}
    inputs, outputs = graph.get("input_count"), graph.get("output_count")
    sentence = f"compiled {times(graph['compiles'])}, first at step {graph['first_step']}"
    sentence += f"; executed {times(graph['executions'])}"
    if inputs is not None and outputs is not None:
        sentence += f"; {count(inputs, 'input')}, {count(outputs, 'output')}"
    return {
        **listed,
        "hash": clean(graph["hash"]),
        "short": chips.short(graph["hash"]),
        "sentence": sentence,
        "cause": clean(graph["cause"]),
        "place": place(graph["location"]),
        "seconds": graph.get("seconds"),
        "hlo": clean(graph["hlo"]),
        "differences": graph.get("differences"),
        "read": graph.get("inputs") is not None,
        "input_bytes": sum(one["bytes"] for one in graph.get("inputs") or ()),
        "left": {key: max(0, len(graph.get(key) or ()) - MOST_LISTED) for key in listed},
    }
