"""Checkpoints between updates: weights, optimizers and counters, as safetensors and JSON.

Nothing else has a state: every draw is a function of the seed and of what it is for, so a run that goes on from a
checkpoint is the run that never stopped. Written beside its place and renamed, so that what is there is whole;
`state.json` holds a sha256 of every file and of itself, so that what was changed since is not taken for it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from comlrl_learners.optimisation import WeightOptimizer

FORMAT = 2
MEMORY_FILE, STATE_FILE = "memory.json", "state.json"
_NAME = re.compile(r"round-(\d{8})")


@dataclass(frozen=True)
class Counters:
    """Where a run stood.

    Attributes:
        rounds: Rounds done.
        env_steps: Joint actions scored.
        metrics_bytes: Length of `metrics.jsonl`.
    """

    rounds: int
    env_steps: int
    metrics_bytes: int


class Memory(Protocol):
    """Something that later rounds look back on."""

    def remembered(self) -> Any:
        """It as JSON values."""
        ...

    def remember(self, data: Any) -> None:
        """Take up what `remembered` gave."""
        ...


@dataclass(frozen=True)
class Holdings:
    """Everything of a run that learning changes, by name; a name becomes that of a file.

    Attributes:
        modules: Models and value heads.
        optimizers: Their optimizers; every weight of theirs is one of `modules`.
        memory: What else is remembered between rounds, or None.
    """

    modules: Mapping[str, nn.Module]
    optimizers: Mapping[str, WeightOptimizer]
    memory: Memory | None = None

    @property
    def files(self) -> set[str]:
        """The files of a checkpoint, without its `state.json`."""
        names = {module_file(name) for name in self.modules} | {optimizer_file(name) for name in self.optimizers}
        return names if self.memory is None else names | {MEMORY_FILE}

    def trained(self) -> dict[str, list[str]]:
        """By optimizer, the names of the weights that it moves, in its order."""
        names = {
            id(p): f"{module}:{name}" for module, one in self.modules.items() for name, p in one.named_parameters()
        }
        return {name: [names[id(p)] for p in one.parameters] for name, one in self.optimizers.items()}


def write_checkpoint(
    folder: Path, counters: Counters, holdings: Holdings, facts: Mapping[str, Any], *, keep: int
) -> Path:
    """Write `folder/round-N` and remove all but the newest `keep`.

    Args:
        folder: The run's `checkpoints/`.
        counters: Where the run stands.
        holdings: What to write.
        facts: What must be equal when the run goes on, as JSON values.
        keep: How many checkpoints stay, this one included.
    """
    place = folder / checkpoint_name(counters.rounds)
    partial = folder / f".{place.name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        for name, module in holdings.modules.items():
            save_file(module_tensors(module), partial / module_file(name))
        for name, optimizer in holdings.optimizers.items():
            save_file(optimizer_tensors(optimizer), partial / optimizer_file(name))
        if holdings.memory is not None:
            (partial / MEMORY_FILE).write_text(json.dumps(holdings.memory.remembered()), encoding="utf-8")
        state = {
            "format": FORMAT,
            "counters": vars(counters),
            "facts": dict(facts),
            "trained": holdings.trained(),
            "files": {name: file_digest(partial / name) for name in sorted(holdings.files)},
        }
        text = json.dumps({**state, "sha256": state_digest(state)}, indent=1, sort_keys=True)
        (partial / STATE_FILE).write_text(text + "\n", encoding="utf-8")
        _sync(partial)
        if place.exists():
            shutil.rmtree(place)
        partial.rename(place)
        _sync_folder(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    for old in checkpoints(folder)[:-keep]:
        shutil.rmtree(old)
    return place


def checkpoint_name(rounds: int) -> str:
    """Folder name of the checkpoint after so many rounds."""
    return f"round-{rounds:08d}"


def checkpoints(folder: Path) -> list[Path]:
    """Whole checkpoints of a run, the oldest first."""
    found = [entry for entry in folder.glob("round-*") if _NAME.fullmatch(entry.name) and entry.is_dir()]
    return sorted(found, key=lambda entry: entry.name)


def optimizer_tensors(optimizer: WeightOptimizer) -> dict[str, Tensor]:
    """AdamW's moments, step counts and precise copies, by parameter number."""
    found: dict[str, Tensor] = {}
    for number, (parameter, master) in enumerate(zip(optimizer.parameters, optimizer.masters, strict=True)):
        kept = {} if master is parameter else {"master": master}
        for name, value in {**optimizer.adam.state.get(master, {}), **kept}.items():
            found[f"{number}.{name}"] = torch.as_tensor(value).detach().contiguous()
    return found


def load_optimizer(optimizer: WeightOptimizer, tensors: Mapping[str, Tensor]) -> None:
    """Put back what `optimizer_tensors` gave; the optimizer moves as many weights of the same shapes."""
    optimizer.adam.state.clear()
    for key, tensor in tensors.items():
        number, _, name = key.partition(".")
        master = optimizer.masters[int(number)]
        if name == "master":
            master.data.copy_(tensor)
            continue
        # AdamW counts its steps on the CPU; its moments lie where the weights do.
        value = tensor.clone() if name == "step" else tensor.to(master.device)
        optimizer.adam.state[master][name] = value


def module_file(name: str) -> str:
    """File of a model or value head."""
    return f"{name}.weights.safetensors"


def optimizer_file(name: str) -> str:
    """File of an optimizer."""
    # No name of a module makes the same file: its own ends otherwise.
    return f"{name}.optimizer.safetensors"


def file_digest(path: Path) -> str:
    """sha256 of a file."""
    hasher = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(2**20):
            hasher.update(part)
    return hasher.hexdigest()


def as_json(value: Any) -> Any:
    """The value as it is after it was written and read."""
    return json.loads(json.dumps(value))


def state_digest(state: Mapping[str, Any]) -> str:
    """sha256 of the parts of `state.json`."""
    return hashlib.sha256(json.dumps(as_json(state), sort_keys=True).encode()).hexdigest()


def module_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers that are saved, tied ones once."""
    seen: set[int] = set()
    found: dict[str, Tensor] = {}
    for name, tensor in module.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            found[name] = tensor.detach()
    return found


def _sync(folder: Path) -> None:
    for entry in folder.iterdir():
        with entry.open("rb") as file:
            os.fsync(file.fileno())
    _sync_folder(folder)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
