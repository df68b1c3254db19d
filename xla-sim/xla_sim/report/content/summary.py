"""What the document says in a few lines, shared by the renderers that people read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xla_sim.report import chip_table as chips
from xla_sim.report.content.document import all_findings
from xla_sim.report.content.words import clean, count, duration, listed, ranges, size, typical

Document = Mapping[str, Any]
_ABOUT_EXECUTIONS = (
    "host-sync",
    "cpu-fallback",
    "missing-step",
)  # findings that say the step runs in more pieces than it should


@dataclass(frozen=True)
class Fact:
    """One line of the summary."""

    label: str  # "executed"
    text: str  # "40, 2 per step"
    note: str = ""  # "expected 1 per step"


def title(document: Document) -> str:
    """What was run: ``src/toy/train.py``, ``-m toy.train`` or the target of a fit."""
    program, fit = document.get("program"), document.get("fit")
    if program:
        argv = [clean(argument) for argument in program["argv"]]
        return " ".join(argv[:2]) if argv[:1] == ["-m"] else (argv[0] if argv else "program")
    if fit:
        return clean(fit["target"])
    return "graphs"


def subtitle(document: Document) -> list[str]:
    """The rest of the headline: steps and stack."""
    parts = []
    stack = document.get("stack") or {}
    if document.get("program"):
        parts.append(count(document.get("steps", 0), "step"))
    if stack.get("torch_xla"):
        device = f" on {_device(clean(stack['device']))}" if stack.get("device") else ""
        parts.append(f"torch_xla {clean(stack['torch_xla'])}{device}")
    return parts


def _device(name: str) -> str:
    return f"XLA:{name}" if name in ("CPU", "TPU", "CUDA") else name


def counts(document: Document) -> dict[str, int]:
    """Findings by severity, the worst first."""
    found = [finding["severity"] for finding in all_findings(document)]
    return {severity: found.count(severity) for severity in ("error", "warning", "info")}


def counted(document: Document) -> str:
    """``1 error and 2 warnings``, or ``no findings``."""
    nouns = {"error": ("error", "errors"), "warning": ("warning", "warnings"), "info": ("note", "notes")}
    parts = [count(number, *nouns[severity]) for severity, number in counts(document).items() if number]
    return listed(parts) or "no findings"


def failure(document: Document) -> str:
    """How the program ended when it didn't end well; empty otherwise."""
    program = document.get("program")
    if not program:
        return ""
    if program.get("ending"):
        return f"the program {_after_subject(clean(program['ending']))}"
    if program["exit"] is None:
        return "the program's end was not seen"
    if program["exit"] < 0:
        return f"the program was killed by signal {-program['exit']}"
    return f"the program failed with exit status {program['exit']}" if program["exit"] else ""


def _after_subject(ending: str) -> str:
    for subject in ("the program ", "The program "):
        ending = ending.removeprefix(subject)
    return ending.rstrip(".")


def level(document: Document) -> str:
    """``failed``, ``error``, ``warning`` or ``ok``: the class and colour of the verdict."""
    found = counts(document)
    if failure(document):
        return "failed"
    refused = (document.get("fit") or {}).get("status", "ok") != "ok"
    return "error" if found["error"] or refused else "warning" if found["warning"] else "ok"


def verdict(document: Document) -> str:
    """One sentence for the top of the page."""
    failed = failure(document)
    if failed:
        return f"{failed[0].upper()}{failed[1:]}; this is what was seen until then"
    found = counts(document)
    if found["error"] or found["warning"]:
        return f"{counted(document)} to look at"
    fit = document.get("fit")
    if fit and fit.get("status") and not document.get("program"):
        told = chips.bar(fit.get("hbm"))
        answer = "It fits" if fit["status"] == "ok" else f"It doesn't fit: {chips.FIT_VERDICTS[fit['status']]}"
        return f"{answer}, {told.text} a chip" if told else answer
    if document.get("program"):
        seen = f"in {count(document.get('steps', 0), 'step')}"
        unknown = len(document.get("unknown", ()))
        untold = f"; {count(unknown, 'thing')} could not be told" if unknown else ""
        return f"Nothing found {seen} that a TPU would punish{untold}"
    return "Nothing found that a TPU would punish"


def facts(document: Document) -> list[Fact]:
    """The lines below the headline."""
    if not document.get("program"):
        return []
    lines = [_compiled(document), _executed(document), _moved(document)]
    known = (document.get("baseline") or {}).get("known")
    if known:
        file = clean(document["baseline"]["file"])
        lines.append(Fact("known", f"{count(known, 'finding')} in {file} {'is' if known == 1 else 'are'} not shown"))
    lines.extend(Fact("unknown", clean(text)) for text in document.get("unknown", ()))
    return lines


def _compiled(document: Document) -> Fact:
    compiles, graphs = document.get("compiles", 0), len(document.get("graphs", ()))
    if not compiles:
        return Fact("compiled", "nothing")
    at = [
        step
        for entry in document.get("timeline", ())
        if entry["compiled"]
        for step in range(entry["first"], entry["last"] + 1)
    ]
    what = count(graphs, "graph") if compiles == graphs else f"{count(graphs, 'graph')} {compiles:,} times"
    where = f" ({'step' if len(set(at)) == 1 else 'steps'} {ranges(at)})" if at else ""
    late = document.get("compiles_after_warmup", 0)
    return Fact("compiled", f"{what}{where}, {f'{late:,}' if late else 'none'} after warm-up")


def _executed(document: Document) -> Fact:
    total = document.get("executions", 0)
    if not total:
        return Fact("executed", "nothing on an XLA device")
    usual = per_step(document, "executed")
    if usual is None:
        return Fact("executed", f"{total:,}, with no step mark")
    blamed = any(finding["rule"] in _ABOUT_EXECUTIONS for finding in all_findings(document))
    return Fact("executed", f"{total:,}, {usual:,.0f} per step", "expected 1 per step" if blamed and usual > 1 else "")


def _moved(document: Document) -> Fact:
    there, back = per_step(document, "to_device"), per_step(document, "to_host")
    if there is None and back is None:
        return Fact("moved", "unknown")
    return Fact("moved", f"{size(there)} to the device and {size(back)} back per step")


def per_step(document: Document, key: str) -> Any:
    """The median over the marked steps after warm-up (over all marked steps when there are no later ones)."""
    entries = [entry for entry in document.get("timeline", ()) if entry["marked"]]
    later = [entry for entry in entries if entry["last"] > document.get("warmup_steps", 0)]
    values: list[tuple[float, int]] = []
    for entry in later or entries:
        steps = entry["last"] - entry["first"] + 1
        value = entry[key]
        if value is not None:
            values.append((value / steps if key in ("executed", "compiled", "cuts") else value, steps))
    return typical(values)


def took(document: Document) -> str:
    """Wall time of the program, or empty."""
    seconds = (document.get("program") or {}).get("seconds")
    return duration(seconds) if seconds else ""
