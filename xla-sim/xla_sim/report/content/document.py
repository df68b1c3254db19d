"""The report document: what was seen and found, as the JSON that scripts, renderers and later stages read.

Its shape is published in ``schema/report.schema.json`` (and ``compile.schema.json`` and ``fit.schema.json`` for what
the other stages add under ``compile`` and ``fit``). Bytes are bytes, times are seconds, steps count from 1.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from xla_sim.report.content import graphs, schemas
from xla_sim.report.content import step_rows as steps
from xla_sim.report.content.words import clean
from xla_sim.trace import SCHEMA, SEVERITIES, Finding, Trace

TEXT = "\n\t"  # what may stay in text of several lines


class DocumentError(ValueError):
    """A file is no report document; the message is a sentence for the user."""


def to_document(
    trace: Trace,
    findings: Iterable[Finding],
    base: Mapping[str, Any] | None = None,
    about: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The document of one run.

    Args:
        base: what a baseline file hid: ``{"file": "xla_sim.baseline.json", "known": 3}``.
        about: ``made_at``, ``made_of``, ``command`` and ``next``, as far as they are known; see the schema.
    """
    about = about or {}
    found = sorted(findings, key=lambda finding: -SEVERITIES.index(finding.severity))
    document = {
        "schema": SCHEMA,
        "made_at": about.get("made_at"),
        "made_of": about.get("made_of"),
        "command": about.get("command"),
        "next": about.get("next"),
        "program": {
            "argv": list(trace.argv),
            "exit": trace.exit,
            "ending": trace.ending,
            "seconds": round(trace.seconds, 3),
        },
        "stack": dict(trace.stack),
        "steps": trace.steps,
        "compiles": trace.compiles,
        "compiles_after_warmup": trace.compiles_after_warmup,
        "executions": trace.executions,
        "warmup_steps": trace.warmup_steps,
        "timeline": steps.timeline(trace.timeline),
        "graphs": graphs.describe(trace.graphs, trace.directory, graphs.by_shape(trace.parameters)),
        "fallbacks": [
            {"op": fallback.op, "count": fallback.count, "location": steps.brief(fallback.location)}
            for fallback in trace.fallbacks
        ],
        "optimizers": [
            {
                "name": optimizer.name,
                "steps": optimizer.steps,
                "parameters": optimizer.parameters,
                "without_grad": len(optimizer.without_grad),
                "location": steps.brief(optimizer.created),
            }
            for optimizer in trace.optimizers
        ],
        "facts": [
            {"name": fact.name, "step": fact.step, "location": steps.brief(fact.location), "values": fact.values}
            for fact in trace.facts
        ],
        "unknown": list(trace.unknown),
        "baseline": dict(base) if base else None,
        "metrics": trace.metrics,
        "findings": [finding.as_dict() for finding in found],
    }
    return plain(document)  # type: ignore[no-any-return]


def plain(value: Any) -> Any:
    """The value as strict JSON can hold it: NaN and infinity as words, lone surrogates and control characters written
    out, tuples as lists, anything else as its text."""
    if isinstance(value, str):
        return clean(value.replace("\r\n", "\n"), keep=TEXT)
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {clean(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    return clean(value, keep=TEXT)


def to_json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def empty() -> dict[str, Any]:
    """The document of a directory in which nothing was run: for a ``fit`` or ``compile`` that stands alone."""
    return {"schema": SCHEMA, "program": None, "findings": []}


def load_document(path: Path, kind: str = "report") -> dict[str, Any]:
    """The document in a file, checked against its schema.

    Args:
        kind: ``report``, ``compile`` or ``fit``.

    Raises:
        DocumentError: when the file is missing, torn, or not what `kind` says.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DocumentError(f"{clean(path)} can't be read: {error.strerror or error}") from error
    except ValueError as error:
        raise DocumentError(f"{clean(path)} isn't JSON ({clean(error)}): run the command that made it again") from error
    version = document.get("schema") if isinstance(document, dict) else None
    if isinstance(version, int) and version > SCHEMA:
        raise DocumentError(
            f"{clean(path)} was made by a newer xla_sim (schema {version}; this one reads {SCHEMA}): update xla_sim/, or "
            "run the command that made it again"
        )
    problem = schemas.problem(document, kind)
    if problem:
        raise DocumentError(f"{clean(path)} is no {kind} document of xla_sim: {problem}")
    return document  # type: ignore[no-any-return]


def load_directory(directory: Path) -> dict[str, Any]:
    """Everything that is known in a run directory: its report with ``compile.json`` and ``fit.json`` merged in.

    Raises:
        DocumentError: when there is none of the three, or one of them is torn.
    """
    files = {kind: directory / f"{kind}.json" for kind in ("report", "compile", "fit")}
    present = {kind: path for kind, path in files.items() if path.is_file()}
    if not present:
        raise DocumentError(
            f"{clean(directory)} holds no report.json, compile.json or fit.json: "
            f"make one with python -m xla_sim run --out {clean(directory)} SCRIPT"
        )
    document = load_document(files["report"]) if "report" in present else empty()
    for kind in ("compile", "fit"):
        document.pop(kind, None)
        if kind in present:
            document[kind] = load_document(files[kind], kind)
    if document["program"] is not None and "compile" in document:
        _drop_other_runs(document)
    return document


def _drop_other_runs(document: dict[str, Any]) -> None:
    """Leave out what the compiler said of graphs that the program, as it is now, no longer makes."""
    hashes = {graph["hash"] for graph in document.get("graphs", ())}
    compiled = document["compile"]

    def current(finding: Mapping[str, Any]) -> bool:
        blamed = finding["evidence"].get("graphs")
        return not isinstance(blamed, list) or not blamed or not hashes.isdisjoint(blamed)

    results = [result for result in compiled["results"] if result["graph"] in hashes]
    if results or not compiled["results"]:
        document["compile"] = {**compiled, "results": results, "findings": list(filter(current, compiled["findings"]))}
    else:
        del document["compile"]


def all_findings(document: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """Of the run, of the compilations and of the fit, the worst first.

    A finding of the run that a compilation repeats, with the compiler's figures in it, stands once, as the latter has it.
    """
    later = [finding for kind in ("compile", "fit") for finding in (document.get(kind) or {}).get("findings", ())]
    repeated = {_identity(finding) for finding in later}
    found = [finding for finding in document.get("findings", ()) if _identity(finding) not in repeated] + later
    return sorted(found, key=lambda finding: -SEVERITIES.index(finding["severity"]))


def _identity(finding: Mapping[str, Any]) -> tuple[Any, ...]:
    return finding["rule"], finding["location"]["file"], finding["location"]["line"]
