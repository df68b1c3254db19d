"""Judge a folder of cases: ``python tests/rules/judge_cases.py FOLDER``.

A case is a small program; the folder's expected.json says of each which findings it must give (rule, line, words of the
message), which it must not give ("*": nothing above info), how often it compiles, and whether it is compared with eager
PyTorch. Prints recall and false alarms and exits with 1 when either is not perfect.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from xla_sim.observe.supervise import supervise_script
from xla_sim.rules.judging import judge
from xla_sim.trace import Finding, Trace


def observe(program: Path, expected: dict[str, Any], folder: Path) -> Trace:
    """Run a case as its entry in expected.json says, and judge what was seen."""
    arguments = [str(program), *expected.get("args", [])]
    compare_eager = expected.get("compare_eager", False)
    return judge(supervise_script(arguments, folder, timeout=300, compare_eager=compare_eager, warm=True))


def matches(finding: Finding, wanted: dict[str, Any]) -> bool:
    """Whether the finding is the one that expected.json describes."""
    if finding.rule != wanted["rule"] or ("line" in wanted and finding.location.line != wanted["line"]):
        return False
    return all(word in finding.message for word in wanted.get("mentions", []))


def compare(trace: Trace, expected: dict[str, Any]) -> tuple[int, list[str]]:
    """How many of the expected findings came, and everything that is wrong in words."""
    wrong, hits = [], 0
    for wanted in expected.get("must", []):
        found = any(matches(finding, wanted) for finding in trace.findings)
        hits += found
        if not found:
            wrong.append(f"missed {json.dumps(wanted)}")
    for forbidden in (
        [expected["must_not"]] if isinstance(expected.get("must_not"), str) else expected.get("must_not", [])
    ):
        for finding in trace.findings:
            if finding.rule == forbidden or (forbidden == "*" and finding.severity != "info"):
                wrong.append(f"false alarm {finding.location} {finding.rule}: {finding.message}")
    if "compiles" in expected and trace.compiles != expected["compiles"]:
        wrong.append(f"{trace.compiles} compilations, expected {expected['compiles']}")
    if trace.exit != expected.get("exit", 0):
        wrong.append(f"ended with exit status {trace.exit}, expected {expected.get('exit', 0)}")
    if expected.get("compare_eager") and not any(fact.values["outputs"] for fact in trace.facts_named("compared")):
        wrong.append("XLA and eager PyTorch were not compared: " + "; ".join(trace.unknown))
    if trace.facts_named("bug"):
        wrong.append("a fault of the simulator: " + trace.facts_named("bug")[0].values["traceback"])
    return hits, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
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
