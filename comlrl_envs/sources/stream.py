"""Rows of the hub as lines of JSON on standard output; run as a process of its own, which can be ended at any time.

``python -m comlrl_envs.sources.stream REPO CONFIG SPLIT COMMIT START STOP``; ``CONFIG``, ``START`` and ``STOP`` may be
empty. Each line is ``{"row": ...}``, or at the end ``{"failure": "..."}``, or ``{"done": true}``.
"""

from __future__ import annotations

import itertools
import json
import os
import sys


def main(repo: str, config: str, split: str, commit: str, start: str, stop: str) -> None:
    """Write the rows, and why there are no more if reading fails."""
    # What the libraries print must not stand among the rows.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="surrogatepass")
    os.dup2(2, 1)
    try:
        import datasets

        # By itself the library tries for many minutes to reach a dead server.
        for name in ("STREAMING_READ_MAX_RETRIES", "STREAMING_OPEN_MAX_RETRIES"):
            if hasattr(datasets.config, name):
                setattr(datasets.config, name, 1)
        stream = datasets.load_dataset(repo, config or None, split=split, revision=commit, streaming=True)
        for row in itertools.islice(stream, int(start) if start else None, int(stop) if stop else None):
            out.write(json.dumps({"row": row}) + "\n")
            out.flush()
        last: dict[str, object] = {"done": True}
    except Exception as failure:
        last = {"failure": f"{type(failure).__name__}: {failure}"}
    out.write(json.dumps(last) + "\n")
    out.flush()
    # Threads of the libraries may still wait for the server, and are not to hold up the end.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
