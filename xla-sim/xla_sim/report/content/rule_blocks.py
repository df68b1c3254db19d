"""A rule's page in pieces that a template can show: the little Markdown that the rules' docstrings use, and no more."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

_INLINE = re.compile(r"`([^`\n]+)`|\*\*(.+?)\*\*|\[([^\]]+)\]\((https?://[^)\s]+)\)|(https?://[^\s)>,;]+[^\s)>,;.:])")


@dataclass(frozen=True)
class Piece:
    """A stretch of text within a line."""

    kind: str  # "text", "code", "strong" or "link"
    text: str
    url: str = ""


@dataclass(frozen=True)
class Block:
    """A paragraph, a list or a piece of code."""

    kind: str  # "p", "ul" or "pre"
    lines: tuple[tuple[Piece, ...], ...] = ()  # a paragraph has one, a list one an item
    code: str = ""


def blocks(markdown: str) -> list[Block]:
    """The text's paragraphs, lists and fenced code."""
    found: list[Block] = []
    for number, part in enumerate(re.split(r"^```\w*\n(.*?)^```$", markdown, flags=re.MULTILINE | re.DOTALL)):
        if number % 2:
            found.append(Block("pre", code=part.rstrip("\n")))
            continue
        for paragraph in filter(None, map(str.strip, re.split(r"\n\s*\n", part))):
            items = re.split(r"^[-*] ", paragraph, flags=re.MULTILINE)
            if len(items) > 1 and not items[0].strip():
                found.append(Block("ul", tuple(pieces(item) for item in items[1:])))
            else:
                found.append(Block("p", (pieces(paragraph),)))
    return found


def pieces(text: str) -> tuple[Piece, ...]:
    text, found, at = " ".join(text.split()), [], 0
    for match in _INLINE.finditer(text):
        found.append(Piece("text", text[at : match.start()]))
        code, strong, label, url, bare = match.groups()
        if code:
            found.append(Piece("code", code))
        elif strong:
            found.append(Piece("strong", strong))
        else:
            found.append(Piece("link", label or bare, url or bare))
        at = match.end()
    return tuple(piece for piece in (*found, Piece("text", text[at:])) if piece.text)


def page(name: str) -> dict[str, Any] | None:
    """What the page of the rule of that name holds; None when there is no such rule (any more)."""
    from xla_sim.rules import all_rules

    rule = next((rule for rule in all_rules() if rule.name == name), None)
    if rule is None:
        return None
    return {"name": rule.name, "code": rule.code, "title": rule.title().rstrip("."), "blocks": blocks(rule.page())}
