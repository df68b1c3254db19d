"""A real notebook in a real kernel: `%load_ext xla_sim`, cells that are simulated, and functions that cells define."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

nbformat: Any = pytest.importorskip("nbformat")
nbclient: Any = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

CELLS = (
    "import os\nos.environ['PJRT_DEVICE'] = 'TPU'  # as on a TPU's machine\n%load_ext xla_sim",
    """import torch
import torch_xla
from dataclasses import dataclass

@dataclass
class Config:
    width: int = 16

config, offset = Config(), 0
data = torch.ones(8, config.width)
lines = (n for n in range(3))  # no pickle holds a generator

def loss_of(model, x):
    loss = model(x).square().mean() + offset
    loss.item()
    return loss
""",
    """%%xla_sim --select host-sync --warmup-steps 3
offset = 1
model = torch.nn.Linear(config.width, 4).to(torch_xla.device())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    loss = loss_of(model, data.to(torch_xla.device()))
    loss.item()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
print("offset", offset, os.environ["PJRT_DEVICE"])
""",
    "print(offset)  # what the simulated cell changes stays there",
    "%%xla_sim\n\nprint(next(lines))",
    "%%xla_sim\nx = torch.ones(2)\nloss_of(None, x)",
    "%%xla_sim --warmup 3\nx = 1",
    """def outer(lock):
    def inner(n):
        return n * config.width, lock is None
    return inner

import xla_sim
trace = xla_sim.run(outer(None), 3)
print(trace.result)
trace""",
    """import threading
try:
    xla_sim.run(outer(threading.Lock()), 3)
except xla_sim.api.CannotRun as error:
    print(error)""",
    "%%xla_sim\nx = 1\ny = (",
)


def text_of(cell: Any, kind: str = "text") -> str:
    """What a cell printed, or the other forms of what it showed."""
    if kind == "text":
        return "".join(output.text for output in cell.outputs if output.output_type == "stream")
    return "".join(output.data.get(kind, "") for output in cell.outputs if "data" in output)


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS])
    folder: Path = tmp_path_factory.mktemp("notebook")
    client = nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": folder}}
    )
    done: list[Any] = client.execute().cells
    return done


def test_a_cell_is_simulated_with_what_earlier_cells_define(cells: list[Any]) -> None:
    assert text_of(cells[2]) == "offset 1 CPU\n"
    assert text_of(cells[3]) == "0\n"


def test_findings_name_the_cell_and_its_line(cells: list[Any]) -> None:
    plain = text_of(cells[2], "text/plain")
    assert "In[2]:15" in plain.split() and "In[3]:8" in plain.split()
    assert plain.startswith("xla_sim: In[3], 2 warnings")
    page = text_of(cells[2], "text/html")
    assert "<iframe srcdoc=" in page and "def loss_of(model, x):" in page  # the lines around the finding


def test_errors_name_the_cell_and_show_its_line(cells: list[Any]) -> None:
    said = text_of(cells[5])
    assert 'File "In[6]", line 3, in <module>\n    loss_of(None, x)' in said
    assert 'File "In[2]", line 14, in loss_of\n    loss = model(x).square().mean() + offset' in said
    assert "TypeError: 'NoneType' object is not callable" in said
    assert "xla_sim/" not in said
    assert 'File "In[10]", line 3\n    y = (' in text_of(cells[9])


def test_what_cannot_be_carried_is_told_when_the_cell_misses_it(cells: list[Any]) -> None:
    said = text_of(cells[4])
    assert 'File "In[5]", line 3' in said and "NameError: name 'lines' is not defined" in said
    assert "xla_sim: lines can't be handed to the simulation's process (TypeError: cannot pickle 'generator'" in said
    assert said.endswith("make it inside this cell.\n")


def test_an_option_that_does_not_exist_is_a_sentence(cells: list[Any]) -> None:
    assert text_of(cells[6]) == (
        "xla_sim: %%xla_sim: unrecognized arguments: --warmup 3. It takes --fail-on, --select, --ignore, "
        "--warmup-steps, --timeout, --out, --compare-eager.\n"
    )


def test_a_local_function_runs_and_its_trace_shows_itself(cells: list[Any]) -> None:
    assert text_of(cells[7]) == "(48, True)\n"
    assert "outer.<locals>.inner, 0 steps, 0 compilations" in text_of(cells[7], "text/plain")
    assert "<b>__main__:outer.&lt;locals&gt;.inner" in text_of(cells[7], "text/html")
    assert text_of(cells[8]).startswith("lock, which inner uses, can't be handed to another process (TypeError: ")
