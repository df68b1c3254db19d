"""SARIF 2.1.0 for code scanning (https://docs.oasis-open.org/sarif/sarif/v2.1.0/)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from xla_sim.report.content.document import all_findings
from xla_sim.report.content.words import clean
from xla_sim.report.github import in_repository

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
LEVELS = {"error": "error", "warning": "warning", "info": "note"}


def render(document: Mapping[str, Any], rules: Sequence[Any] = ()) -> str:
    """The findings as a SARIF log.

    Args:
        rules: the rule classes' instances (`xla_sim.rules.all_rules()`); what they tell becomes the rules' metadata.
    """
    found = list(all_findings(document))
    described = [_rule(rule.code, rule.name, rule.severity, rule.title(), rule.page()) for rule in rules]
    known = {rule["id"] for rule in described}
    for finding in found:
        if finding["code"] not in known:  # a document that another version of the simulator wrote
            known.add(finding["code"])
            described.append(_rule(finding["code"], finding["rule"], finding["severity"], finding["rule"], ""))
    index = {rule["id"]: number for number, rule in enumerate(described)}
    run = {
        "tool": {"driver": {"name": "xla_sim", "rules": described}},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"SRCROOT": {"description": {"text": "the directory in which the program was run"}}},
        "results": [_result(finding, index, document) for finding in found],
    }
    program = document.get("program")
    if program:
        invocation: dict[str, Any] = {
            "executionSuccessful": program["exit"] == 0,
            "arguments": [clean(argument) for argument in program["argv"]],
        }
        if program["exit"] is not None:
            invocation["exitCode"] = program["exit"]
        run["invocations"] = [invocation]
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1, ensure_ascii=False) + "\n"


def _rule(code: str, name: str, severity: str, title: str, page: str) -> dict[str, Any]:
    camel = "".join(part.capitalize() for part in re.split(r"[^0-9A-Za-z]+", name))
    rule: dict[str, Any] = {
        "id": code,
        "name": camel or code,
        "shortDescription": {"text": _sentence(title or name)},
        "fullDescription": {"text": _sentence(title or name)},
        "defaultConfiguration": {"level": LEVELS.get(severity, "warning")},
        "properties": {"tags": ["tpu", "pytorch-xla"], "precision": "high"},
    }
    if page:
        rule["help"] = {"text": page, "markdown": page}
    return rule


def _sentence(text: str) -> str:
    text = clean(text).strip()
    return text if text.endswith((".", "!", "?")) else text + "."


def _result(finding: Mapping[str, Any], index: Mapping[str, int], document: Mapping[str, Any]) -> dict[str, Any]:
    message = _sentence(finding["message"])
    if finding["fix"]:
        message += f" Fix: {_sentence(finding['fix'])}"
    result: dict[str, Any] = {
        "ruleId": finding["code"],
        "ruleIndex": index[finding["code"]],
        "level": LEVELS[finding["severity"]],
        "message": {"text": message},
        "locations": [_location(finding["location"], document)],
        "partialFingerprints": {"xlaSimFinding/v1": _fingerprint(finding)},
    }
    frames = [_frame(frame) for frame in finding["location"].get("frames") or () if frame.get("file")]
    if frames:
        result["stacks"] = [{"message": {"text": "Python frames, innermost first"}, "frames": frames}]
    return result


def _location(location: Mapping[str, Any], document: Mapping[str, Any]) -> dict[str, Any]:
    """Code scanning shows no result without a place: a finding that blames no line stands on the program's first."""
    file, line = location.get("file") or "", location.get("line") or 1
    if not file:
        argv = (document.get("program") or {}).get("argv") or ()
        file, line = (argv[0], 1) if argv and not argv[0].startswith("-") else ("pyproject.toml", 1)
    place: dict[str, Any] = {"physicalLocation": {**_artifact(file), "region": {"startLine": line}}}
    if location.get("function"):
        place["logicalLocations"] = [{"name": clean(location["function"]), "kind": "function"}]
    return place


def _artifact(file: str) -> dict[str, Any]:
    path = file.replace("\\", "/")
    if in_repository(file):
        return {"artifactLocation": {"uri": quote(clean(path)), "uriBaseId": "SRCROOT"}}
    start = "file://" if path.startswith("/") else "file:///" if re.match("[A-Za-z]:/", path) else ""
    return {"artifactLocation": {"uri": start + quote(clean(path), safe="/:" if start == "file:///" else "/")}}


def _frame(frame: Mapping[str, Any]) -> dict[str, Any]:
    physical: dict[str, Any] = _artifact(frame["file"])
    if frame.get("line"):
        physical["region"] = {"startLine": frame["line"]}
    return {
        "location": {
            "physicalLocation": physical,
            "logicalLocations": [{"name": clean(frame.get("function") or "<module>"), "kind": "function"}],
        }
    }


def _fingerprint(finding: Mapping[str, Any]) -> str:
    """The same for the same fault after lines moved or counts changed."""
    parts: list[str] = [
        finding["rule"],
        finding["location"].get("file") or "",
        finding["location"].get("function") or "",
    ]
    parts.append(re.sub(r"\d+", "#", finding["message"]))
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:32]
