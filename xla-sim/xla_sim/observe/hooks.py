"""Hooks on torch and torch_xla: what closes a step, and everything that is noted between two marks.

Nothing is imported for the program: the hooks go in when the program itself imports torch and torch_xla. All of them
work on torch_xla 2.4 to 2.9; `UNKNOWN` says what an older one can't tell.
"""

from __future__ import annotations

import atexit
import collections
import functools
import os
import sys
import threading
from pathlib import Path
from typing import Any

from xla_sim import ownership
from xla_sim.observe import frames
from xla_sim.observe.debuglog import Reader
from xla_sim.observe.recorder import Recorder

WATCHED_STEPS = 4  # steps at which single calls are watched, and again after a fallback that has no line yet
LOSS_DELAY = 2  # steps after which a loss is read: it has been computed by then, so nothing waits for it
PARAMETER_BYTES = 4 << 30  # parameters are checked for NaN at the end, up to this much


def environment(directory: Path, environ: dict[str, str]) -> dict[str, str]:
    """The variables that make torch_xla keep its records, beside those that are set already."""
    flags = (
        f"--xla_dump_to={_quoted(directory / 'dump')} --xla_dump_hlo_as_proto --xla_dump_hlo_as_text=false "
        "--xla_dump_hlo_module_re=.*"  # SyncTensorsGraph, or what the program calls it (torch_xla.compile)
    )
    return {
        "PJRT_DEVICE": environ.get("PJRT_DEVICE", "CPU"),
        "PT_XLA_DEBUG_LEVEL": "2",
        "PT_XLA_DEBUG_FILE": str(directory / "torch_xla.log"),
        "PT_XLA_DEBUG_MAX_FRAME": "64",
        "XLA_IR_DEBUG": "1",
        "XLA_HLO_DEBUG": "1",
        "XLA_FLAGS": f"{environ.get('XLA_FLAGS', '')} {flags}".strip(),
        "TF_CPP_MIN_LOG_LEVEL": environ.get("TF_CPP_MIN_LOG_LEVEL", "1"),
    }


def _quoted(path: Path) -> str:
    """As a flag of XLA's can hold it, which ends at a space unless there are quotes around it."""
    return f'"{path}"' if " " in str(path) else str(path)


class Observer:
    """One observed program. `torch_imported` and `torch_xla_imported` put the hooks in."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.recorder = Recorder(directory)
        self.step = 0  # marks that closed some work
        self.xlac: Any = None
        self.torch: Any = None
        self._log = Reader(str(directory / "torch_xla.log"))
        self._runs: list[tuple[Any, ...]] = []  # of the step, read before its mark
        self._early = 0  # how many of them ran before the step called its first module
        self._loss: Any = None  # weak reference to the loss of the last backward, and its frames
        self._losses: collections.deque[tuple[int, Any, int]] = collections.deque()
        self._backwards = 0
        self._nonfinite = False
        self._watch_until = WATCHED_STEPS
        self._located: set[str] = set()  # fallback ops whose line is known
        self._pickled: set[int] = set()
        self._moved = (0.0, 0.0)
        self._dynamo = False  # the program uses torch.compile
        self._finished = False
        self._lock = threading.RLock()

    # -- installing ------------------------------------------------------------------------------------------------

    def torch_imported(self, torch: Any) -> None:
        from xla_sim.observe.watch.modules import ModuleWatch
        from xla_sim.observe.watch.optimizers import OptimizerWatch

        self.torch = torch
        self.modules = ModuleWatch(self.recorder, self._began)
        self.modules.install()
        self.optimizers = OptimizerWatch(self.recorder, self.modules)
        self.optimizers.install()
        self.comparison = None
        if os.environ.get("XLA_SIM_COMPARE_EAGER"):
            from xla_sim.observe.watch.eager import EagerComparison

            self.comparison = EagerComparison(self.recorder)
            self.comparison.install()
        self._install_backward()
        self._install_tensor()
        self._install_compile()
        self.recorder.emit("stack", torch=str(torch.__version__).split("+")[0], python=sys.version.split()[0])

    def torch_xla_imported(self, torch_xla: Any) -> None:
        from xla_sim.observe.watch.ops import Counters, OpWatch
        from xla_sim.observe.watch.reads import BatchReads

        self.xlac = torch_xla._XLAC
        self.xlac._set_ir_debug(True)
        self.counters = Counters(self.xlac)
        self.ops = OpWatch(self.recorder, self.counters, BatchReads(self.xlac, self.recorder, self.modules))
        self.ops.stopped = self._dynamo
        marker = self.xlac._xla_step_marker

        def watched_marker(*args: Any, **kwargs: Any) -> Any:
            self.recorder.harmless(self.poll)
            result = marker(*args, **kwargs)
            self.recorder.harmless(self.close_step, frames.caller())
            return result

        self.xlac._xla_step_marker = watched_marker
        self.recorder.harmless(self._install_launch)
        version = str(torch_xla.__version__).split("+")[0]
        self.recorder.emit("stack", torch_xla=version, device=os.environ.get("PJRT_DEVICE", ""))
        self.ops.turn(True)
        # registered after torch_xla's own, so it runs before the runtime goes away
        atexit.register(self.finish)

    def _install_backward(self) -> None:
        from torch.utils.weak import TensorWeakRef

        autograd = self.torch.autograd
        backward = autograd.backward

        def watched_backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            if not self.recorder.alive:
                return backward(tensors, *args, **kwargs)
            stack = frames.caller()
            self._backwards += 1
            self.optimizers.backwards += 1
            first = tensors if isinstance(tensors, self.torch.Tensor) else next(iter(tensors), None)
            if first is not None and first.numel() == 1:
                self._loss = (TensorWeakRef(first), stack)
            ops = getattr(self, "ops", None)
            if ops is None:
                return backward(tensors, *args, **kwargs)
            result = backward(tensors, *args, **kwargs)
            self.recorder.harmless(ops.look)
            return result

        autograd.backward = watched_backward

    def _install_tensor(self) -> None:
        tensor = self.torch.Tensor
        reduce = tensor.__reduce_ex__

        def watched_reduce(value: Any, protocol: Any) -> Any:
            if value.device.type == "xla" and self.recorder.alive:
                where = self.recorder.frames(frames.caller())
                if where not in self._pickled:
                    self._pickled.add(where)
                    self.recorder.emit(
                        "fact", name="pickled", step=self.step + 1, at=where, values={"shape": list(value.shape)}
                    )
            return reduce(value, protocol)

        tensor.__reduce_ex__ = watched_reduce

    def _install_compile(self) -> None:
        compile = self.torch.compile

        @functools.wraps(compile)
        def watched_compile(*args: Any, **kwargs: Any) -> Any:
            near = next((f for f in frames.caller() if not ownership.is_torch_file(f[0])), None)
            if near is not None and ownership.is_user_file(near[0]):  # libraries prepare more than the program uses
                self._dynamo = True
                if self.xlac:
                    self.recorder.harmless(self.ops.stop)
            return compile(*args, **kwargs)

        self.torch.compile = watched_compile

    def _install_launch(self) -> None:
        """Let ``torch_xla.launch`` and ``xmp.spawn`` run on the one CPU device in this process, where they are seen."""
        from torch_xla._internal import pjrt

        run = pjrt.run_multiprocess

        @functools.wraps(run)
        def watched_run(function: Any, *args: Any, **kwargs: Any) -> Any:
            alone = (os.environ.get("PJRT_DEVICE"), os.environ.get("CPU_NUM_DEVICES", "1")) == ("CPU", "1")
            if not alone or self.xlac._xla_runtime_is_initialized():
                self.recorder.emit("unseen", what="processes that torch_xla.launch started")
                return run(function, *args, **kwargs)
            kwargs.pop("start_method", None)
            return pjrt._run_singleprocess(function, *args, **kwargs)

        pjrt.run_multiprocess = watched_run

    # -- what happened -----------------------------------------------------------------------------------------------

    def poll(self, marked: bool = False) -> None:
        """Read torch_xla's record so far, and move graphs that were compiled out of XLA's dump.

        ``marked``: a step mark has just run them. torch_xla tells causes by the innermost frame, which is ours here.
        """
        records = self._log.new()
        compiled = [record for record in records if record.compiled]
        if compiled:
            self.recorder.keep_graphs([record.hash for record in compiled])
            for record in compiled:
                self.recorder.emit("graph", hash=record.hash, inputs=record.inputs, outputs=record.outputs)
        for record in records:
            cause = record.cause
            if cause == "read" and marked:
                cause = "loader" if any("parallel_loader" in file for file, _, _ in record.frames) else "sync"
            self._runs.append((record.hash, cause, self.recorder.frames(record.frames), int(record.compiled)))

    def _began(self) -> None:
        """The first module of a step is called."""
        self.poll()
        self._early = len(self._runs)

    def close_step(self, stack: tuple[frames.RawFrame, ...] | None) -> None:
        """A step mark was reached; ``stack`` is None at the end of the program."""
        if not self.recorder.alive or self._finished:
            return
        with self._lock:
            self.poll(marked=stack is not None)
            runs, self._runs = self._runs, []
            early, self._early = self._early, 0
            fallbacks = self.counters.increments() if self.xlac else {}
            calls, stepped = self.modules.take_calls(), self.optimizers.take_steps()
            backwards, self._backwards = self._backwards, 0
            if not (runs or calls or stepped or backwards or fallbacks):
                return
            self.step += 1
            sent, got = self._transfers(bool(runs))
            self.recorder.step(
                {
                    "t": self.recorder.seconds(), "mark": None if stack is None else self.recorder.frames(stack),
                    "runs": runs, "calls": calls, "bwd": backwards, "opt": stepped, "fb": fallbacks,
                    "sent": sent, "got": got, "early": early,
                }
            )  # fmt: skip
            if self.step == 1 or (self.step in (2, 3) and self.optimizers.stepped):
                self.modules.report_ties(self.step)
            if self.step <= WATCHED_STEPS:
                self.modules.report_parameters()
            self._watch_ops(fallbacks)
            self._watch_loss(final=stack is None)

    def _transfers(self, ran: bool) -> tuple[int | None, int | None]:
        """Bytes sent to the device and read back since the last mark; None where that isn't looked at."""
        if self.xlac is None or not ran or (self.step > 64 and self.step % 16 > 1):
            return None, None
        sent, got = (self._metric(name) for name in ("OutboundData", "InboundData"))
        before, self._moved = self._moved, (sent, got)
        if self.step > 64 and self.step % 16 == 0:
            return None, None  # covers many steps: only a baseline for the next
        return int(sent - before[0]), int(got - before[1])

    def _metric(self, name: str) -> float:
        data = self.xlac._xla_metric_data(name)
        return float(data[1]) if data else 0.0

    def _watch_ops(self, fallbacks: dict[str, int]) -> None:
        self._located |= {op for op, _ in self.ops.found} if self.xlac else set()
        if not self.xlac:
            return
        self.ops.report()
        self.ops.reads.marked()
        self.ops.step = self.step
        if set(fallbacks) - self._located and self.step >= self._watch_until:
            self._watch_until = self.step + WATCHED_STEPS
        self.ops.turn(self.step < self._watch_until)

    def _watch_loss(self, final: bool) -> None:
        """Note a loss that is no finite number, some steps late, when reading it costs no waiting."""
        if self._loss is not None and not self._nonfinite and not final:  # without a mark it may not be computed yet
            ref, stack = self._loss
            loss = ref()
            if loss is not None and loss.device.type == "xla" and (self.step < 64 or self.step % 8 == 0):
                self._losses.append((self.step, loss.detach(), self.recorder.frames(stack)))
        self._loss = None
        while self._losses and (final or self._losses[0][0] <= self.step - LOSS_DELAY):
            step, loss, where = self._losses.popleft()
            became = "" if self._nonfinite else self._became(loss)
            if became:
                self._nonfinite = True
                values = {"what": "the loss", "became": became}
                self.recorder.emit("fact", name="nonfinite", step=step, at=where, values=values)

    def _became(self, tensor: Any) -> str:
        """ "NaN", "infinite", or nothing when all is finite; read without leaving a trace in what is measured."""
        on_host = tensor.detach().to("cpu")
        self._moved = (self._metric("OutboundData"), self._metric("InboundData"))
        self._log.new()
        if bool(self.torch.isfinite(on_host).all()):
            return ""
        return "NaN" if bool(self.torch.isnan(on_host).any()) else "infinite"

    # -- the end -----------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Everything that is known only at the end; safe to call twice."""
        if self._finished or not self.recorder.alive:
            return
        self.recorder.harmless(self._finish)
        self._finished = True

    def _finish(self) -> None:
        if self.xlac:
            self.ops.turn(False)
        if self.torch:
            self.optimizers.finish()
            pending = bool(self.optimizers.stepped)  # parameters that wait for an execution are left alone
            self.modules.report_ties(max(self.step, 1))
            self.close_step(None)
        if self.xlac:
            started = self.xlac._xla_runtime_is_initialized()
            self.recorder.emit("runtime", started=bool(started), compile_seconds=self._compile_seconds())
            (self.directory / "metrics.txt").write_text(self.xlac._xla_metrics_report(), encoding="utf-8")
            # what is run from here on is not the program's: to read a sharded parameter, XLA compiles a graph
            if self.torch and self.step and not pending and not self._nonfinite:
                self._check_parameters()
            if self.comparison is not None:  # last: what it runs is not the program's
                self.comparison.finish()

    def _compile_seconds(self) -> list[float]:
        data = self.xlac._xla_metric_data("CompileTime")
        return [round(value / 1e9, 4) for _, value in data[2]] if data else []

    def _check_parameters(self) -> None:
        names = {id(p): name for name, p in self.modules.parameters()}
        seen, total = set(), 0
        for parameter in self.optimizers.tensors():
            total += parameter.numel() * parameter.element_size()
            if id(parameter) in seen or parameter.device.type != "xla" or total > PARAMETER_BYTES:
                continue
            seen.add(id(parameter))
            became = self._became(parameter) if parameter.is_floating_point() else ""
            if became:
                values = {"what": f"parameter {names.get(id(parameter), 'of the optimizer')!r}", "became": became}
                self.recorder.emit("fact", name="nonfinite", step=self.step, at=None, values=values)
                return
