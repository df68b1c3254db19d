"""Which answers are refused, and that every other one arrives unharmed in every file."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from conftest import TEMPLATE, Bake, run
from markdown_it import MarkdownIt

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

REFUSED = [
    ("project_name", "   ", "is empty"),
    ("project_name", "two\nlines", "holds a line break"),
    ("project_name", "bell\x07", "holds the control character U+0007"),
    ("project_name", "right\u202eleft", "holds the invisible direction mark U+202E"),
    ("project_name", "a\u2028b", "holds a line break"),
    ("project_slug", "my project", "is no folder name"),
    ("project_slug", "-toy", "is no folder name"),
    ("project_slug", "toy!", "is no folder name"),
    ("project_slug", "toy\nrus", "holds a line break"),
    ("package_name", "2fast", "is no Python identifier"),
    ("package_name", "my-package", "is no Python identifier"),
    ("package_name", "über", "is no Python identifier"),
    ("package_name", "", "is empty"),
    ("package_name", "class", "is a keyword of Python"),
    ("package_name", "match", "is a keyword of Python"),
    ("package_name", "json", "is a module of Python's standard library"),
    ("package_name", "torch", "is a package that the generated repository needs"),
    ("package_name", "torch_xla", "is a package that the generated repository needs"),
    ("package_name", "xla_sim", "is a package that the generated repository needs"),
    ("package_name", "tests", "is a package that the generated repository needs"),
    ("package_name", "../toy", "is no Python identifier"),
    ("description", "", "is empty"),
    ("description", "x" * 501, "has 501 characters, and 500 is the most"),
    ("author", "\t", "is empty"),
    ("author", "a\x00b".replace("\x00", "\x01"), "holds the control character U+0001"),
    ("email", "ada", "is no e-mail address with a domain"),
    ("email", "ada@", "is no e-mail address with a domain"),
    ("email", "ada@localhost", "is no e-mail address with a domain"),
    ("email", 'ada"@example.org', "is no e-mail address with a domain"),
    ("github_owner", "two words", "is no GitHub user or organisation"),
    ("github_owner", "../../etc", "is no GitHub user or organisation"),
]


@pytest.mark.parametrize(("field", "answer", "problem"), REFUSED, ids=[f"{f}={a[:12]!r}" for f, a, _ in REFUSED])
def test_a_bad_answer_is_refused_by_a_sentence(bake: Bake, field: str, answer: str, problem: str) -> None:
    """The sentence names the answer and a valid one, and nothing is left behind."""
    baked = bake(**{field: answer})
    assert baked.returncode != 0
    (sentence,) = [line for line in baked.stderr.split("\n") if line.startswith(f"{field} ")]
    assert problem in sentence
    assert "; a valid one is '" in sentence
    assert list(baked.output.iterdir()) == []


@pytest.mark.parametrize("slug", ["a/b", "../up", "..", ".", "/tmp/elsewhere", "a\\b", "s" * 101, "  "])
def test_a_slug_that_leaves_the_folder_is_refused_before_a_folder_is_made(bake: Bake, slug: str) -> None:
    baked = bake(project_slug=slug)
    assert baked.returncode != 0
    assert "project_slug is the name of one folder" in baked.stderr
    assert "for example toy-tpu-research" in baked.stderr
    assert list(baked.output.iterdir()) == []
    assert not (baked.output.parent / "up").exists()


def test_all_bad_answers_are_told_at_once(bake: Bake) -> None:
    baked = bake(package_name="class", email="nowhere", author=" ")
    refused = [line.split()[0] for line in baked.stderr.splitlines() if "; a valid one is" in line]
    assert refused == ["package_name", "author", "email"]


AWKWARD = {
    "quotes": """She said "it's ok" and 'fine' with \"\"\"three\"\"\" and '''more'''""",
    "ends with a quote": 'a "quoted"',
    "backslashes": r"C:\new\table \\ \u0041 \x41 ends in \ ",
    "ends with a backslash": "path\\",
    "yaml": "- a: b # no comment, [x], {y: z}, & anchor * alias ! tag | > % @ `",
    "html": "<b>bold</b> & <!-- comment --> &amp;",
    "jinja": "{{ cookiecutter.author }} {% raw %} {# #} ${{ github.token }} %s %(x)s $HOME $(id)",
    "less and greater": "a < b > c <- d ->",
    "markdown": "# *not* _emphasis_ `code` [link](url) ![image](x) ~~struck~~ | table | 1. list",
    "emoji": "🚀 rockets 👩‍🔬 science",
    "chinese": "张量处理单元研究",
    "right to left": "مشروع بحثي",
    "combining": "Zoë Ångström n\u0303",
    "long": "long " * 39 + "words",
    "starts with a dash": "- dash",
    "looks like another type": "null",
    "number": "1e3",
    "starts with a hash": "#% if true",
    "starts with a percent sign": "%% 100 %",
}


def texts_in_markdown(path: Path) -> list[str]:
    """The text of every heading and paragraph, as a reader sees it."""
    tokens = MarkdownIt("commonmark").enable("table").parse(path.read_text(encoding="utf-8"))
    lines = []
    for token in tokens:
        if token.type == "inline":
            shown = ("text", "text_special", "code_inline", "softbreak")
            parts = [child for child in token.children or [] if child.type in shown]
            lines.append("".join(" " if part.type == "softbreak" else part.content for part in parts))
    return lines


@pytest.mark.parametrize("text", AWKWARD.values(), ids=AWKWARD.keys())
def test_an_awkward_answer_arrives_unharmed(bake: Bake, text: str) -> None:
    repository = bake(project_name=text, description=text, author=text).repository
    shown = text.strip()

    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["description"] == shown
    assert project["authors"] == [{"name": shown, "email": "ada@example.org"}]

    package = repository / "src" / (repository / "src").iterdir().__next__().name
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8")), clean=False)
    assert docstring == shown

    for name, end in (("README.md", f"© {shown}. The folder"), ("README.zh-CN.md", f"© {shown}。")):
        readme = texts_in_markdown(repository / name)
        assert readme[:2] == [shown, shown]
        assert end in readme[-1]

    assert shown in (repository / "LICENSE").read_text(encoding="utf-8")
    for path in [*repository.rglob("*.yml"), *repository.rglob("*.yaml")]:
        yaml.safe_load(path.read_text(encoding="utf-8"))
    for path in repository.rglob("*.py"):
        ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    for path in (repository / ".devcontainer").glob("*.json"):
        json.loads(path.read_text(encoding="utf-8"))

    for command in (["ruff", "check"], ["ruff", "format", "--check"]):
        checked = run(*command, "--no-cache", "src", "tests", "noxfile.py", cwd=repository)
        assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize(
    ("name", "slug", "package"),
    [
        ("Toy TPU Research", "toy-tpu-research", "toy_tpu_research"),
        ("3D Vision", "3d-vision", "p3d_vision"),
        ("Torch", "torch", "torch_project"),
        ("Test", "test", "test_project"),
        ("张量", "zhang-liang", "zhang_liang"),
        ("🚀🚀", "tpu-research", "tpu_research"),
        ("x" * 200, "x" * 60, "x" * 60),
    ],
)
def test_slug_and_package_follow_from_the_name(bake: Bake, name: str, slug: str, package: str) -> None:
    repository = bake(project_name=name).repository
    assert repository.name == slug
    assert [path.name for path in (repository / "src").iterdir()] == [package]


def test_an_answer_with_the_templates_own_marks_is_refused(bake: Bake) -> None:
    """Given on the command line, cookiecutter itself would run "<<" as a template; nothing is written either way."""
    baked = bake(description="shift left << by two")
    assert baked.returncode != 0
    assert list(baked.output.iterdir()) == []


def test_every_question_has_a_sentence_and_every_choice_a_line() -> None:
    questions = json.loads((TEMPLATE / "cookiecutter.json").read_text(encoding="utf-8"))
    prompts = questions["__prompts__"]
    asked = {name: default for name, default in questions.items() if not name.startswith("_")}
    assert prompts.keys() == asked.keys()
    for name, default in asked.items():
        if isinstance(default, list):
            assert prompts[name]["__prompt__"].endswith("?")
            assert [choice for choice in default if not prompts[name][choice].startswith(choice.split("-")[0])] in (
                [],
                ["cpu", "pypi"],
                [choice for choice in default if choice.startswith("py")],
            )
        else:
            assert prompts[name].endswith("?")


@pytest.mark.parametrize(
    ("license_name", "first_words"),
    [("Apache-2.0", "Apache License"), ("MIT", "MIT License"), ("BSD-3-Clause", "BSD 3-Clause License")],
)
def test_the_license_is_the_chosen_one(bake: Bake, license_name: str, first_words: str) -> None:
    repository = bake(license=license_name, author="Grace Hopper").repository
    text = (repository / "LICENSE").read_text(encoding="utf-8")
    assert text.split("\n")[0].strip() == first_words
    assert re.search(r"Copyright (\(c\) )?20\d\d,? Grace Hopper\n", text)
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["license"] == license_name


def test_the_questions_can_be_answered_at_a_terminal(tmp_path: Path) -> None:
    """Return for each question takes the default, and each is asked with its sentence."""
    questions = json.loads((TEMPLATE / "cookiecutter.json").read_text(encoding="utf-8"))
    asked = [name for name in questions if not name.startswith("_")]
    from conftest import BIN

    process = subprocess.run(
        [str(BIN / "cookiecutter"), str(TEMPLATE), "--output-dir", str(tmp_path)],
        input="\n" * len(asked),
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    said = " ".join(process.stdout.split())
    for name in asked:
        prompt = questions["__prompts__"][name]
        sentence = prompt if isinstance(prompt, str) else prompt["__prompt__"]
        assert " ".join(sentence.split()) in said
    assert (tmp_path / "toy-tpu-research" / "noxfile.py").exists()
