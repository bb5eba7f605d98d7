"""A function in a fresh interpreter, under another hash seed.

The caller's main module is not imported there, as ``multiprocessing`` would: a script without a guard may check its
environment too.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable
from typing import Any

from comlrl_envs.testing.subject import fail

_PROGRAM = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer);"
    "from comlrl_envs.testing.child import serve; serve()"
)

_MENDS = {
    "unpickling": "What is pickled must be importable there: no __main__, no closures.",
    "running": "It runs in this process: look for what only this one has imported, registered, set or opened.",
}


def in_fresh_process(function: Callable[..., Any], *arguments: Any, hash_seed: int, timeout: float = 300.0) -> Any:
    """What a function of a module returns there.

    Args:
        function: Imported there by its name.
        arguments: Pickled.
        hash_seed: Value of ``PYTHONHASHSEED``.
        timeout: Seconds after which the process is ended.

    Raises:
        CheckError: The function raised, gave no answer in time, or the process died.
    """
    payload = pickle.dumps(sys.path) + pickle.dumps((function, arguments))
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    command = [sys.executable, "-c", _PROGRAM]
    try:
        ran = subprocess.run(command, input=payload, capture_output=True, env=environment, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        fail(f"A fresh process gave no answer in {timeout:g} s.", "Look for a deadlock, or for work at import.")
    if ran.returncode != 0:
        shown = ran.stderr.decode(errors="replace")[-2000:]
        fail(f"A fresh process died with status {ran.returncode}: {shown}", "Mend what it says.")
    stage, value = pickle.loads(ran.stdout)
    if stage != "done":
        fail(f"In a fresh process:\n{value}", _MENDS[stage])
    return value


def serve() -> None:
    """The child's side: read the call, make it, write the result."""
    # What the function prints must not get among the result's bytes.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    stage = "unpickling"
    try:
        function, arguments = pickle.load(sys.stdin.buffer)
        stage = "running"
        answer = ("done", function(*arguments))
    except Exception:
        answer = (stage, traceback.format_exc())
    pickle.dump(answer, out)
    out.close()
