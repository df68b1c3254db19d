"""The published JSON Schemas, and a check against them that needs no package.

The check understands the part of JSON Schema that the files in ``schema/`` use: type, enum, const, minimum, required,
properties, additionalProperties, items, anyOf and references into ``$defs``. The tests hold it against the `jsonschema`
package, with which anyone else can check a report.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "schema"
KINDS = ("report", "compile", "fit")
_TYPES = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
    "number": (int, float),
    "integer": (int,),
}


@functools.cache
def schema(kind: str) -> dict[str, Any]:
    """The JSON Schema of ``report``, ``compile`` or ``fit`` documents."""
    return json.loads((FOLDER / f"{kind}.schema.json").read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def problem(document: Any, kind: str) -> str | None:
    """The first thing that is wrong with the document, as part of a sentence; None when it is right."""
    return next(iter(problems(document, kind)), None)


def problems(document: Any, kind: str) -> list[str]:
    """All of them."""
    return _check(document, schema(kind), kind, "the document")


def _check(value: Any, rule: Mapping[str, Any], kind: str, where: str) -> list[str]:
    if "$ref" in rule:
        file, _, name = rule["$ref"].partition("#/$defs/")
        kind = file.split(".")[0] if file else kind
        return _check(value, schema(kind)["$defs"][name] if name else schema(kind), kind, where)
    if "anyOf" in rule:
        tried = [_check(value, choice, kind, where) for choice in rule["anyOf"]]
        return [] if any(not found for found in tried) else max(tried, key=lambda found: len(found[0]))
    wanted = rule.get("type", [])
    wanted = [wanted] if isinstance(wanted, str) else wanted
    if wanted and not any(_is(value, name) for name in wanted):
        return [f"{where} is {_shown(value)}, but must be of type {' or '.join(wanted)}"]
    found = []
    if "const" in rule and (value != rule["const"] or isinstance(value, bool) != isinstance(rule["const"], bool)):
        found.append(f"{where} is {_shown(value)}, but must be {rule['const']}")
    if "enum" in rule and value not in rule["enum"]:
        found.append(f"{where} is {_shown(value)}, but must be one of {', '.join(map(str, rule['enum']))}")
    if "minimum" in rule and _is(value, "number") and value < rule["minimum"]:
        found.append(f"{where} is {_shown(value)}, but must be at least {rule['minimum']}")
    if isinstance(value, dict):
        found += _check_object(value, rule, kind, where)
    if isinstance(value, list) and "items" in rule:
        for number, item in enumerate(value):
            found += _check(item, rule["items"], kind, f"{where}[{number}]")
    return found


def _check_object(value: Mapping[str, Any], rule: Mapping[str, Any], kind: str, where: str) -> list[str]:
    found = [f"{where} has no {name!r}" for name in rule.get("required", ()) if name not in value]
    known = rule.get("properties", {})
    others = rule.get("additionalProperties", True)
    for name, item in value.items():
        inner = name if where == "the document" else f"{where}.{name}"
        if name in known:
            found += _check(item, known[name], kind, inner)
        elif others is False:
            found.append(f"{where} has an unknown {name!r}")
        elif isinstance(others, dict):
            found += _check(item, others, kind, inner)
    return found


def _is(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[name])


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
