"""Workflow commands that put each finding on its line of the pull request.

The escapes are those that GitHub's own toolkit applies (actions/toolkit, packages/core/src/command.ts).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from xla_sim.report.content.document import all_findings
from xla_sim.report.content.words import clean, place

COMMANDS = {"error": "error", "warning": "warning", "info": "notice"}


def render(document: Mapping[str, Any]) -> str:
    """One command a finding, the worst first: GitHub shows ten errors and ten warnings of a step."""
    return "".join(line + "\n" for line in map(_command, all_findings(document)))


def _command(finding: Mapping[str, Any]) -> str:
    location = finding["location"]
    properties: list[str] = []
    message = str(finding["message"])
    if in_repository(location.get("file") or ""):
        properties.append(f"file={_property(location['file'])}")
        if location.get("line"):
            properties.append(f"line={location['line']}")
    elif location.get("file"):
        message = f"{place(location)}: {message}"
    properties.append(f"title={_property(finding['code'] + ' ' + finding['rule'])}")
    if finding["fix"]:
        message += f"\nfix: {finding['fix']}"
    return f"::{COMMANDS[finding['severity']]} {','.join(properties)}::{_data(message)}"


def in_repository(file: str) -> bool:
    """Whether GitHub could know the file: below the working directory."""
    if not file or PurePosixPath(file).is_absolute() or PureWindowsPath(file).is_absolute():
        return False
    return ".." not in PurePosixPath(file).parts and not file.startswith("<")


def _data(text: str) -> str:
    text = clean(text.replace("\r\n", "\n"), keep="\n")
    return text.replace("%", "%25").replace("\n", "%0A")


def _property(text: str) -> str:
    text = clean(text)
    return text.replace("%", "%25").replace(":", "%3A").replace(",", "%2C")
