"""What holds for every test: one thread, no network, and skips for what a machine lacks.

The variables are set before anything imports torch or a Hugging Face library: they read them once, at import.
"""

import importlib.util
import os
from pathlib import Path

import hypothesis
import pytest

for name, value in {
    "OMP_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "passive",
    "HF_HUB_OFFLINE": "1",
    "WANDB_MODE": "offline",
    "TOKENIZERS_PARALLELISM": "false",
    "MPLBACKEND": "Agg",
}.items():
    os.environ.setdefault(name, value)

# A busy machine is slow, not wrong; and a change is judged by the same examples each time CI runs it.
hypothesis.settings.register_profile("project", deadline=None, derandomize="CI" in os.environ)
hypothesis.settings.load_profile("project")

HAS_TORCH = importlib.util.find_spec("torch") is not None
if HAS_TORCH:
    import torch

    torch.set_num_threads(1)


def data_problem(names: tuple[str, ...]) -> str | None:
    """Say what is missing for a test that needs ``names`` in the data folder, or None if all is there."""
    folder = os.environ.get("COMLRL_DATA_DIR")
    if not folder:
        return "COMLRL_DATA_DIR is not set"
    missing = [name for name in ("", *names) if not (Path(folder) / name).exists()]
    return f"COMLRL_DATA_DIR lacks {', '.join(name or 'itself' for name in missing)}" if missing else None


def pytest_runtest_setup(item: pytest.Item) -> None:
    names = tuple(str(name) for mark in item.iter_markers("needs_data") for name in mark.args)
    if item.get_closest_marker("needs_data") and (problem := data_problem(names)):
        pytest.skip(problem)
    if item.get_closest_marker("gpu") and not (HAS_TORCH and torch.cuda.is_available()):
        pytest.skip("no accelerator")


@pytest.fixture
def data_dir() -> Path:
    """The folder with the real data sets; a test that asks for it is skipped where there is none."""
    if problem := data_problem(()):
        pytest.skip(problem)
    return Path(os.environ["COMLRL_DATA_DIR"])
