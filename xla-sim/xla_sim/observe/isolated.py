"""Run a module of this package in another Python, which has the user's torch_xla and nothing of ours.

Its import path stays as it is: a package of our environment there (numpy, say, for another Python) would break the program,
or hide that the program lacks one. So this package alone is handed to it, as a folder.
"""

from __future__ import annotations

import os

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_START = """\
import importlib.util, sys
folder, module = sys.argv[1:3]
spec = importlib.util.spec_from_file_location("xla_sim", folder + "/__init__.py", submodule_search_locations=[folder])
sys.modules["xla_sim"] = package = importlib.util.module_from_spec(spec)
spec.loader.exec_module(package)
sys.exit(importlib.import_module(module).main(sys.argv[3:]))
"""


def command(python: str, module: str, *arguments: str) -> list[str]:
    """What calls ``main(arguments)`` of a module of this package in ``python``."""
    return [python, "-c", _START, _PACKAGE, module, *arguments]
