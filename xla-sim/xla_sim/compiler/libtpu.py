"""The TPU compiler in libtpu, called without a TPU. The only file that touches an interface of jaxlib or libtpu that is private.

It runs in the worker's processes alone (`worker.py`), in the environment of the extra `compiler`; nothing here is imported by the
command line. `PRIVATE` lists what is used of jaxlib, so that a test can say which release took what away. Model: what
``jax.experimental.topologies`` and MaxText's ``train_compile.py`` do for JAX programs, done for an HLO module of anybody's.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import glob
import importlib
import importlib.metadata
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xla_sim.compiler.chips import find_topology
from xla_sim.hlo.protos import donor_parameters

# Everything private that is used here, as "module:attribute".
PRIVATE = (
    "jaxlib._jax:load_pjrt_plugin",
    "jaxlib._jax:initialize_pjrt_plugin",
    "jaxlib._jax:get_default_c_api_topology",
    "jaxlib._jax:mlir.hlo_to_stablehlo",
    "jaxlib._jax:CompileOptions.executable_build_options",
    "jaxlib._jax:DeviceAssignment.create",
    "jaxlib._jax:DeviceList",
    "jaxlib._jax:CompileOnlyPyClient.compile",
    "jaxlib._jax:Executable.get_compiled_memory_stats",
    "jaxlib._jax:Executable.cost_analysis",
    "jaxlib.mlir.ir:Module.parse",
    "jaxlib.mlir._mlir_libs._jax_mlir_ext:register_dialects",
    "jaxlib.mlir.dialects.mhlo:register_mhlo_dialect",
    "jaxlib.mlir.dialects.stablehlo:register_dialect",
    "jaxlib.mlir.dialects.chlo:register_dialect",
    "jaxlib.mlir.dialects.sdy:register_dialect",
    "libtpu:get_library_path",
)
_DUMP = "--xla_dump_to=/proc/self/fd/{} --xla_dump_hlo_as_proto=true --xla_dump_hlo_as_text=false"
_LAID_OUT = "*.after_optimizations_after_buffer_assignment.hlo.pb"  # the last dump before code is generated
_LOOKS_EVERY, _REFUSES_WITHIN = 0.1, 1.0  # seconds; a program too big for HBM is refused right after it is laid out
_ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "TPU_SKIP_MDS_QUERY": "1",  # ask no metadata server which TPU this machine is
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # two compilations at once, and a lock file that a killed one left behind
    "OPENBLAS_NUM_THREADS": "1",  # numpy's threads would be lost in a fork
}


@dataclass(frozen=True)
class Compiled:
    """What came back, not yet judged."""

    seconds: float  # of the compiler alone
    error: str = ""  # the compiler's own words; empty: accepted
    program: bytes | None = (
        None  # HloProto of the compiled program with its buffer assignment, also of one too big for HBM
    )
    code: int = 0  # bytes
    flops: float | None = None
    bytes_accessed: float | None = None


def missing() -> tuple[str, ...]:
    """The entries of `PRIVATE` that the installed jaxlib and libtpu don't have."""
    gone = []
    for entry in PRIVATE:
        module, _, path = entry.partition(":")
        try:
            found: Any = importlib.import_module(module)
            for name in path.split("."):
                found = getattr(found, name)
        except (ImportError, AttributeError):
            gone.append(entry)
    return tuple(gone)


def load() -> None:
    """Import jaxlib and map libtpu into memory: what every compilation needs and a fork hands on. Starts no thread.

    Raises ImportError when one of the two isn't installed, or isn't the release that this was written for.
    """
    os.environ.update(_ENVIRONMENT)
    import jaxlib._jax as jax
    import jaxlib.mlir.dialects.chlo
    import jaxlib.mlir.dialects.mhlo
    import jaxlib.mlir.dialects.sdy
    import jaxlib.mlir.dialects.stablehlo
    import jaxlib.mlir.ir  # noqa: F401
    import libtpu

    if missing():
        found = " and ".join(f"{name} {version}" for name, version in versions().items())
        raise ImportError(
            f"{found} have no {', '.join(missing())}, and the extra `compiler` of xla-sim names releases that do"
        )
    jax.load_pjrt_plugin("tpu", libtpu.get_library_path(), None)


def compile_graph(
    graph: bytes, topology: str, partitions: int, options: Sequence[tuple[str, str]], dump: str, code: bool = True
) -> Compiled:
    """Compile a serialized HloModuleProto for the first `partitions` devices of a topology.

    `dump` is a folder to be made for what the compiler writes. It is the caller's to remove: a compiler that dies can't.
    Without `code` it hands back the program as soon as the compiler has laid out HBM. That is the same program: of a large one on
    many devices, generating code is nearly all of the time and most of the memory.

    To be called once in a process, after `load`. What the compiler refuses is no exception here; RuntimeError means that the
    graph or the topology never got to the compiler.
    """
    os.makedirs(dump)
    # by its descriptor, since libtpu splits flags at blanks and takes none that isn't UTF-8
    os.environ["XLA_FLAGS"] = _DUMP.format(os.open(dump, os.O_RDONLY))
    call = functools.partial(_compile, graph, topology, partitions, options, dump)
    return call() if code else _until_laid_out(call, dump)


def _compile(graph: bytes, topology: str, partitions: int, options: Sequence[tuple[str, str]], dump: str) -> Compiled:
    import jaxlib._jax as jax
    from jaxlib.mlir import ir

    devices = _devices(topology)[:partitions]
    compile_options = _options(partitions, options)
    with _context():
        started = time.perf_counter()
        try:
            module = ir.Module.parse(jax.mlir.hlo_to_stablehlo(graph))
            _donate(module, donor_parameters(graph))
            executable = devices[0].client.compile(module, jax.DeviceList(tuple(devices)), compile_options)
        except (jax.JaxRuntimeError, ir.MLIRError, ValueError) as error:
            return Compiled(time.perf_counter() - started, str(error) or type(error).__name__, _dumped(dump))
        seconds = time.perf_counter() - started
    costs: dict[str, float] = executable.cost_analysis() or {}
    return Compiled(
        seconds,
        program=_dumped(dump),
        code=executable.get_compiled_memory_stats().generated_code_size_in_bytes,
        flops=costs.get("flops"),
        bytes_accessed=costs.get("bytes accessed"),
    )


def _until_laid_out(call: Callable[[], Compiled], dump: str) -> Compiled:
    """What `call` hands back when that is soon; else the program as it is when the compiler goes on to generating code.

    It runs in a process of its own, which is the only way to stop it. That process's signal is this one's, should it get any.
    """
    started = time.perf_counter()
    answer = os.path.join(dump, "answer.json")
    pid = os.fork()
    if pid == 0:
        _answer_and_exit(call, answer)
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            break
        if glob.glob(os.path.join(dump, _LAID_OUT)):
            _wait_until_written(os.path.join(dump, _LAID_OUT))
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            break
        time.sleep(_LOOKS_EVERY)
    if ended and os.WIFSIGNALED(status):
        os.kill(os.getpid(), os.WTERMSIG(status))
    if ended and os.WEXITSTATUS(status) == errno.ENOSPC:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), dump)
    if ended and not os.path.exists(answer):
        raise RuntimeError("the process that compiles has failed, see above")
    if os.path.exists(answer):
        with open(answer, encoding="utf-8") as file:
            return Compiled(**json.load(file), program=_dumped(dump))
    return Compiled(time.perf_counter() - started, program=_dumped(dump))


def _wait_until_written(pattern: str) -> None:
    """A large program on a slow disk takes longer than a refusal: wait until the dump grows no more."""
    size = -1
    while size != (size := sum(os.path.getsize(path) for path in glob.glob(pattern))):
        time.sleep(_REFUSES_WITHIN)


def _answer_and_exit(call: Callable[[], Compiled], answer: str) -> None:
    code = 1
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: whoever ends the parent ends this one
        compiled = call()
        with open(answer + ".part", "w", encoding="utf-8") as file:
            json.dump({"seconds": compiled.seconds, "error": compiled.error}, file)
        os.replace(answer + ".part", answer)
        code = 0
    except BaseException as error:  # noqa: BLE001 - it belongs in the log, and the process ends here
        code = exit_code(error)
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def exit_code(error: BaseException) -> int:
    """Of a process that this ended: ENOSPC where a disk took no more, which is no fault of the graph's, else 1."""
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    return errno.ENOSPC if full else 1


def _devices(name: str) -> Sequence[Any]:
    import jaxlib._jax as jax

    topology = find_topology(name)
    jax.initialize_pjrt_plugin("tpu")
    options: dict[str, Any] = dict(topology.chip.options)
    if options:
        options["chips_per_host_bounds"] = (2, 2, 1)
    try:
        described = jax.get_default_c_api_topology("tpu", topology.libtpu_name, options)
        devices: Sequence[Any] = described._make_compile_only_devices()
    except jax.JaxRuntimeError as error:
        raise RuntimeError(f"libtpu knows no topology {topology.libtpu_name}: {error}") from error
    return devices


def _context() -> Any:
    """An MLIR context that knows what StableHLO is made of; as jax's own, which lives in a private module of jax."""
    from jaxlib.mlir import ir
    from jaxlib.mlir._mlir_libs import _jax_mlir_ext
    from jaxlib.mlir.dialects import chlo, mhlo, sdy, stablehlo

    context = ir.Context()
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context.append_dialect_registry(registry)
    mhlo.register_mhlo_dialect(context)
    for dialect in (chlo, sdy, stablehlo):
        dialect.register_dialect(context)
    context.load_all_available_dialects()
    return context


def _donate(module: Any, parameters: Sequence[int]) -> None:
    """Say again which arguments are donated: hlo_to_stablehlo keeps HLO's input_output_alias and drops its buffer_donor.

    Without it every parameter and the optimizer's state would be counted twice. Seen with jaxlib 0.10.2.
    """
    from jaxlib.mlir import ir

    if not parameters:
        return
    main = next(op for op in module.body.operations if ir.StringAttr(op.attributes["sym_name"]).value == "main")
    given = ir.ArrayAttr(main.attributes["arg_attrs"]) if "arg_attrs" in main.attributes else None
    attributes = []
    for number, _ in enumerate(main.arguments):
        own = {attribute.name: attribute.attr for attribute in ir.DictAttr(given[number])} if given else {}
        if number in parameters:
            own["jax.buffer_donor"] = ir.BoolAttr.get(True)
        attributes.append(ir.DictAttr.get(own))
    main.attributes["arg_attrs"] = ir.ArrayAttr.get(attributes)


def _options(partitions: int, options: Sequence[tuple[str, str]]) -> Any:
    import jaxlib._jax as jax
    import numpy

    compile_options = jax.CompileOptions()
    build = compile_options.executable_build_options
    compile_options.num_replicas = build.num_replicas = 1
    compile_options.num_partitions = build.num_partitions = partitions
    assignment = jax.DeviceAssignment.create(numpy.arange(partitions).reshape(1, partitions))
    compile_options.device_assignment = build.device_assignment = assignment
    if partitions > 1:
        build.use_spmd_partitioning = True
        build.allow_spmd_sharding_propagation_to_output = [True]
    if options:
        compile_options.env_option_overrides = list(options)
    return compile_options


def _dumped(directory: str) -> bytes | None:
    """The compiled program with its buffer assignment, of which neither the memory statistics nor the executable tell.

    ``serialized_buffer_assignment_proto`` of the statistics is empty with libtpu 0.0.42.1, and ``temp_size_in_bytes`` counts
    more than the compiler's own limit does. A full disk doesn't stop the compiler: it leaves a part of the file, or an empty one.
    """
    files = glob.glob(os.path.join(directory, "*.after_optimizations.hlo.pb"))
    if not files:
        return None
    with open(max(files, key=os.path.getsize), "rb") as file:
        return file.read()


def versions() -> dict[str, str]:
    """jaxlib and libtpu as installed, without importing either."""
    return {name: importlib.metadata.version(name) for name in ("jaxlib", "libtpu")}
