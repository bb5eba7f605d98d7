"""Puts the programs of a worker's processes together, as text, from modules of this package.

A worker is a bare interpreter that sees the standard library and nothing else, so it imports no module of an installed
package: the sources travel to it.
"""

from __future__ import annotations

import json
from importlib import resources

PACKAGE = "comlrl_envs.sandbox"
SERVER = ("wire", "forms", "values", "seccomp", "confine", "candidate", "removal", "server")
JUDGE = (
    *(
        "wire",
        "forms",
        "values",
        "seccomp",
        "confine",
        "link",
        "offered",
        "proxies",
        "remote",
        "trial",
        "cases",
        "judge",
    ),
)
CARETAKER = ("removal", "caretaker")
READ_AND_RUN = "import os;exec(compile(os.pread({source},1<<24,0),'<worker>','exec'))"
"""Program that a command line holds: it runs the one in the open file of the number ``{source}``."""
_START = """
import sys, types
sys.path[:] = [place for place in sys.path if place] + {places}
for name in {packages}:
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = []
for name, source in {sources}:
    module = sys.modules["{package}." + name] = types.ModuleType("{package}." + name)
    setattr(sys.modules["{package}"], name, module)
    exec(compile(source, f"<{{name}}>", "exec", dont_inherit=True), module.__dict__)
"""


def program(modules: tuple[str, ...], call: str, places: list[str]) -> str:
    """Source of a program that defines ``modules``, in order, and then runs the statement ``call``.

    Args:
        modules: Names within this package; each may import those before it.
        call: May use the last module by its name, as ``module``.
        places: Folders that are searched for modules after the standard library.
    """
    folder = resources.files(PACKAGE)
    sources = [[name, (folder / f"{name}.py").read_text(encoding="utf-8")] for name in modules]
    parent, _, _ = PACKAGE.partition(".")
    start = _START.format(
        package=PACKAGE, packages=[parent, PACKAGE], sources=_literal(sources), places=_literal(places)
    )
    return f"{start}\n{call}\n"


def _literal(value: object) -> str:
    return f"__import__('json').loads({json.dumps(value)!r})"
