"""Judge a folder of cases: ``python tests/rules/judge_cases.py FOLDER``.

A case is a small program; the folder's expected.json says of each:

- ``must``: the findings it must give, each another one: rule, line, ``mentions`` (words of the message) and
  ``not_mentions`` (words that are neither in the message nor in the fix)
- ``must_not``: the rules that must not speak ("*": nothing above info)
- ``compiles``, ``compiles_after_warmup``, ``steps``: how many there are
- ``graphs_kept``: every graph that was compiled has its file; such a program starts from nothing, as a user's does
- ``exit``: its status, when that isn't 0; ``timeout``: it is stopped after so many seconds
- ``args``: its arguments; ``compare_eager``: it is compared with eager PyTorch; ``needs``: a package that it needs

Prints recall and false alarms and exits with 1 when either is not perfect.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from xla_sim.observe.supervise import supervise_script
from xla_sim.rules.judging import judge
from xla_sim.trace import Finding, Trace


def observe(program: Path, expected: dict[str, Any], folder: Path) -> Trace:
    """Run a case as its entry in expected.json says, and judge what was seen."""
    arguments = [str(program), *expected.get("args", [])]
    compare_eager = expected.get("compare_eager", False)
    # what torch_xla reads from the environment, and how it is imported, is settled once a process is warm
    warm = not expected.get("graphs_kept", False)
    timeout = expected.get("timeout", 300)
    return judge(supervise_script(arguments, folder, timeout=timeout, compare_eager=compare_eager, warm=warm))


def matches(finding: Finding, wanted: dict[str, Any]) -> bool:
    """Whether the finding is the one that expected.json describes."""
    if finding.rule != wanted["rule"] or ("line" in wanted and finding.location.line != wanted["line"]):
        return False
    said = f"{finding.message}\n{finding.fix}".lower()
    unwanted = any(word.lower() in said for word in wanted.get("not_mentions", []))
    return not unwanted and all(word in finding.message for word in wanted.get("mentions", []))


def pair(findings: Sequence[Finding], wanted: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is wanted and has no finding, when one finding answers for one wish alone."""
    answered: dict[int, int] = {}  # finding: wish

    def answer(wish: int, tried: set[int]) -> bool:
        for number, finding in enumerate(findings):
            if number not in tried and matches(finding, wanted[wish]):
                tried.add(number)
                if number not in answered or answer(answered[number], tried):
                    answered[number] = wish
                    return True
        return False

    return [one for wish, one in enumerate(wanted) if not answer(wish, set())]


def counts(trace: Trace, expected: dict[str, Any]) -> Iterator[str]:
    """What is wrong in the numbers of steps, compilations and kept graphs."""
    for key, words in (
        ("compiles", "compilations"),
        ("compiles_after_warmup", "compilations after warm-up"),
        ("steps", "steps"),
    ):
        if key in expected and getattr(trace, key) != expected[key]:
            yield f"{getattr(trace, key)} {words}, expected {expected[key]}"
    if expected.get("graphs_kept"):
        kept = sum(bool(graph.hlo) and (trace.directory / graph.hlo).is_file() for graph in trace.graphs)
        if kept < max(len(trace.graphs), 1) or any("compilation" in text for text in trace.unknown):
            yield f"{kept} of {len(trace.graphs)} graphs were kept: {'; '.join(trace.unknown)}"


def compare(trace: Trace, expected: dict[str, Any]) -> tuple[int, list[str]]:
    """How many of the expected findings came, and everything that is wrong in words."""
    missed = pair(trace.findings, expected.get("must", []))
    wrong = [f"missed {json.dumps(wanted)}" for wanted in missed]
    for forbidden in (
        [expected["must_not"]] if isinstance(expected.get("must_not"), str) else expected.get("must_not", [])
    ):
        for finding in trace.findings:
            if finding.rule == forbidden or (forbidden == "*" and finding.severity != "info"):
                wrong.append(f"false alarm {finding.location} {finding.rule}: {finding.message}")
    wrong += counts(trace, expected)
    stopped = "timeout" in expected and "--timeout" in trace.ending
    if not stopped and trace.exit != expected.get("exit", 0):
        wrong.append(f"ended with exit status {trace.exit}, expected {expected.get('exit', 0)}")
    if expected.get("compare_eager") and not any(fact.values["outputs"] for fact in trace.facts_named("compared")):
        wrong.append("XLA and eager PyTorch were not compared: " + "; ".join(trace.unknown))
    if trace.facts_named("bug"):
        wrong.append("a fault of the simulator: " + trace.facts_named("bug")[0].values["traceback"])
    return len(expected.get("must", [])) - len(missed), wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="only these cases")
    parser.add_argument("-v", "--verbose", action="store_true", help="print every finding")
    args = parser.parse_intermixed_args()
    listing = args.folder / "expected.json"
    if not listing.is_file():
        print(f"{args.folder} has no expected.json", file=sys.stderr)
        return 2
    expected = json.loads(listing.read_text(encoding="utf-8"))
    total = hits = alarms = failures = 0
    for name, wanted in expected.items():
        if args.names and name not in args.names:
            continue
        with tempfile.TemporaryDirectory() as folder:
            trace = observe(args.folder / name, wanted, Path(folder))
        found, wrong = compare(trace, wanted)
        total += len(wanted.get("must", []))
        hits += found
        alarms += sum(text.startswith("false alarm") for text in wrong)
        failures += bool(wrong)
        print(
            f"{'ok  ' if not wrong else 'FAIL'} {name}: {', '.join(f.rule for f in trace.findings) or 'no finding'}",
            flush=True,
        )
        for text in wrong:
            print(f"       {text}")
        for finding in trace.findings if args.verbose or wrong else ():
            print(f"       {finding.severity} {finding.location} {finding.rule}: {finding.message}")
    print(f"recall {hits}/{total} = {hits / max(total, 1):.2f}, false alarms {alarms}, cases with a fault {failures}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
