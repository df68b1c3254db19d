"""torch_xla's metrics report, read: the main metrics and counters, what each says, and their values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from xla_sim.report.content.words import clean, duration, size

SENTENCES = {
    "CompileTime": "XLA compiled a graph; after the warm-up steps that should not happen again.",
    "UncachedCompile": "A graph was new, so it was compiled.",
    "CachedCompile": "A graph was known, so nothing was compiled: what every later step should be.",
    "ExecuteTime": "A graph was handed to the device; once per step is right. The time is the host's, on this machine.",
    "ExecuteComputation": "Graphs handed to the device, counted once more.",
    "MarkStep": "A step mark was reached: torch_xla.sync(), xm.mark_step(), or a loader's next batch.",
    "TensorsGraphSize": "Nodes of the pending graph when it was cut; a number that grows from step to step is a leak.",
    "TransferToDeviceTime": "A tensor was sent to the device: the batches, and constants that the program makes on the host.",
    "OutboundData": "Bytes that the host sent to the device.",
    "TransferFromDeviceTime": "A value was read back, and the host waited for the device each time.",
    "InboundData": "Bytes that came back from the device.",
    "InputOutputAliasCount": "Input buffers, summed over compilations, that XLA may write results over (donation).",
}
READ = "aten::_local_scalar_dense"
ABOUT_READ = "A value was read: item(), float(), print() or an if on a tensor."
ABOUT_FALLBACK = "This op has no lowering to XLA, so it ran on the host, and its inputs and outputs crossed over."
ABOUT_OPS = "Ops that the program called, recorded for a graph and not run one by one."
MOST_FALLBACKS = 20

_ENTRY = re.compile(r"^(Metric|Counter): (\S+)\n((?:[ \t]+.*\n?)*)", re.MULTILINE)
_TIME = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+)s)?(?:(\d+)ms)?(?:([\d.]+)us)?$")
_SECONDS = (86400, 3600, 60, 1, 1e-3, 1e-6)
_BYTES = re.compile(r"([\d.]+)(B|KB|MB|GB|TB)$")
_UNITS = ("B", "KB", "MB", "GB", "TB")


@dataclass(frozen=True)
class Metric:
    """One line of the table."""

    name: str  # "CompileTime"
    value: str  # "2 times, 2 s in all"
    meaning: str  # one sentence


def rows(report: str) -> list[Metric]:
    """The metrics that are worth a look, in the order in which one looks; those that the report lacks are left out."""
    values = {name: dict(_fields(body)) for _, name, body in _ENTRY.findall(report)}
    found = [Metric(name, _value(values[name]), text) for name, text in SENTENCES.items() if name in values]
    on_host = sorted(name for name in values if name.startswith("aten::") and name != READ)
    if READ in values:
        found.append(Metric(READ, _value(values[READ]), ABOUT_READ))
    found += [Metric(clean(name), _value(values[name]), ABOUT_FALLBACK) for name in on_host[:MOST_FALLBACKS]]
    ops = sum(_number(values[name].get("Value", "")) for name in values if name.startswith("xla::"))
    return [*found, Metric("xla::*", f"{ops:,}", ABOUT_OPS)] if ops else found


def _fields(body: str) -> Iterator[tuple[str, str]]:
    for line in body.splitlines():
        name, _, value = line.strip().partition(": ")
        yield name, value


def _value(fields: dict[str, str]) -> str:
    if "Value" in fields:
        return f"{_number(fields['Value']):,}"
    samples, total = _number(fields.get("TotalSamples", "")), fields.get("Accumulator", "")
    scaled, time = _BYTES.match(total), _TIME.match(total)
    if scaled:
        return size(float(scaled[1]) * 1024 ** _UNITS.index(scaled[2]))
    often = f"{samples:,} {'time' if samples == 1 else 'times'}"
    if total and time:
        seconds = sum(float(part or 0) * unit for part, unit in zip(time.groups(), _SECONDS))
        return f"{often}, {duration(seconds)} in all"
    try:
        return f"{often}, {float(total) / samples:,.0f} on average"
    except (ValueError, ZeroDivisionError):
        return often


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0
