"""Refuse answers that can't work, before any file is written, in a sentence that names the answer and a valid example.

cookiecutter renders this file and runs it in the new, still empty folder, which it removes again when this fails.
"""

from __future__ import annotations

import json
import keyword
import re
import sys
import unicodedata

# The answers as JSON inside a Python string, so that no answer can break out of either.
ANSWERS: dict[str, str] = json.loads(
    "<< cookiecutter | jsonify(indent=0) | replace('\\', '\\\\') | replace('\x22', '\\\x22') | replace('\n', ' ') >>"
)

EXAMPLES = {
    "project_name": "Toy TPU Research",
    "project_slug": "toy-tpu-research",
    "package_name": "toy_tpu_research",
    "description": "A training step that is ready for a TPU",
    "author": "Ada Lovelace",
    "email": "ada@example.org",
    "github_owner": "ada-lovelace",
}

# Names that the generated repository itself imports, or that mean a folder it already has.
RESERVED = {
    "accelerate", "google", "jax", "jaxlib", "libtpu", "nox", "numpy", "pip", "pytest", "rich", "src", "tests",
    "torch", "torch_xla", "torchvision", "transformers", "xla_sim", "yaml", "jinja2", "setuptools", "hatchling",
}  # fmt: skip

BIDI = set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f")


def unprintable(text: str) -> str | None:
    """Say which character of the text no file can carry, if there is one."""
    for character in text:
        if character in "\n\r\u2028\u2029\u0085":
            return "a line break"
        if unicodedata.category(character) == "Cc":
            return f"the control character U+{ord(character):04X}"
        if character in BIDI:
            return f"the invisible direction mark U+{ord(character):04X}"
        if unicodedata.category(character) == "Cs" or ord(character) & 0xFFFE == 0xFFFE or character == "\ufeff":
            return f"U+{ord(character):04X}, which is no character"
    return None


def problem_with_text(text: str) -> str | None:
    """What keeps a free text from being carried into every file."""
    if not text.strip():
        return "is empty"
    if (found := unprintable(text)) is not None:
        return f"holds {found}"
    if "<<" in text or ">>" in text:
        return 'holds "<<" or ">>", which mark the template\'s own variables'
    if len(text) > 500:
        return f"has {len(text)} characters, and 500 is the most"
    return None


def problem_with_slug(slug: str) -> str | None:
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", slug):
        return 'is no folder name of letters, digits, "-", "_" and ".", starting and ending with a letter or a digit'
    return None


def problem_with_package(package: str) -> str | None:
    if not (package.isascii() and package.isidentifier()):
        return "is no Python identifier of plain letters, digits and underscores"
    if keyword.iskeyword(package) or keyword.issoftkeyword(package):
        return "is a keyword of Python"
    if package in sys.stdlib_module_names:
        return "is a module of Python's standard library, which it would hide"
    if package.lower() in RESERVED:
        return "is a package that the generated repository needs, which it would hide"
    return None


def problem_with_email(email: str) -> str | None:
    if not re.fullmatch(r"[^@\s<>,;\"\\]+@[^@\s<>,;\"\\.]+(\.[^@\s<>,;\"\\.]+)+", email):
        return "is no e-mail address with a domain"
    return None


def problem_with_owner(owner: str) -> str | None:
    if not re.fullmatch(r"[A-Za-z0-9](-?[A-Za-z0-9]){0,38}", owner):
        return "is no GitHub user or organisation (letters, digits and single hyphens, at most 39)"
    return None


CHECKS = {
    "project_slug": problem_with_slug,
    "package_name": problem_with_package,
    "email": problem_with_email,
    "github_owner": problem_with_owner,
}


def complaints(answers: dict[str, str]) -> list[str]:
    """One sentence for each answer that can't work."""
    found = []
    for field, example in EXAMPLES.items():
        answer = answers[field]
        problem = problem_with_text(answer)
        if problem is None and field in CHECKS:
            problem = CHECKS[field](answer)
        if problem is not None:
            shown = answer if len(answer) <= 60 else answer[:57] + "..."
            found.append(f"{field} {json.dumps(shown, ensure_ascii=False)} {problem}; a valid one is {example!r}.")
    return found


if __name__ == "__main__":
    sentences = complaints(ANSWERS)
    # A surrogate or an old terminal must not turn the sentence into a traceback.
    for sentence in sentences:
        print(sentence.encode("utf-8", "backslashreplace").decode("utf-8"), file=sys.stderr)
    sys.exit(1 if sentences else 0)
