"""Checkpoints between updates: weights, optimizers and counters, as safetensors and JSON.

Nothing else has a state: every draw is a function of the seed and of what it is for, so a run that goes on from a
checkpoint is the run that never stopped. Written beside its place and renamed, so that what is there is whole.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from comlrl_learners.errors import ConfigError
from comlrl_learners.optimisation import WeightOptimizer

FORMAT = 1
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
    """Everything of a run that learning changes, by name.

    Attributes:
        modules: Models and value heads.
        optimizers: Their optimizers.
        memory: What else is remembered between rounds, or None.
    """

    modules: Mapping[str, nn.Module]
    optimizers: Mapping[str, WeightOptimizer]
    memory: Memory | None = None


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
            save_file(_tensors(module), partial / f"{name}.safetensors")
        for name, optimizer in holdings.optimizers.items():
            save_file(optimizer_tensors(optimizer), partial / f"{name}.optimizer.safetensors")
        if holdings.memory is not None:
            (partial / "memory.json").write_text(json.dumps(holdings.memory.remembered()), encoding="utf-8")
        state = {"format": FORMAT, "counters": vars(counters), "facts": dict(facts)}
        (partial / "state.json").write_text(json.dumps(state, indent=1, sort_keys=True) + "\n", encoding="utf-8")
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


def read_checkpoint(place: Path, holdings: Holdings, facts: Mapping[str, Any]) -> Counters:
    """Load a checkpoint into models and optimizers; nothing is changed unless everything fits.

    Raises:
        ConfigError: It is damaged, or of another run: the message names what differs.
    """
    try:
        state = json.loads((place / "state.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _unreadable(place, error) from error
    if state["format"] != FORMAT:
        raise ConfigError(f"The checkpoint {str(place)!r} has format {state['format']}; this version reads {FORMAT}.")
    if changed := list(_differences(state["facts"], facts)):
        raise ConfigError(
            f"The checkpoint {str(place)!r} is of another run: {'; '.join(changed)}. Use what that run was started "
            "with, or start a new one."
        )
    try:
        modules = {name: load_file(place / f"{name}.safetensors") for name in holdings.modules}
        moments = {name: load_file(place / f"{name}.optimizer.safetensors") for name in holdings.optimizers}
        memory = None if holdings.memory is None else json.loads((place / "memory.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, SafetensorError) as error:
        raise _unreadable(place, error) from error
    for name, module in holdings.modules.items():
        _check_shapes(place / name, _tensors(module), modules[name])
    for name, module in holdings.modules.items():
        with torch.no_grad():
            for key, tensor in _tensors(module).items():
                tensor.copy_(modules[name][key])
    for name, optimizer in holdings.optimizers.items():
        load_optimizer(optimizer, moments[name])
    if holdings.memory is not None:
        holdings.memory.remember(memory)
    return Counters(**state["counters"])


def optimizer_tensors(optimizer: WeightOptimizer) -> dict[str, Tensor]:
    """AdamW's moments, step counts and precise copies, by parameter number."""
    found: dict[str, Tensor] = {}
    for number, (parameter, master) in enumerate(zip(optimizer.parameters, optimizer.masters, strict=True)):
        kept = {} if master is parameter else {"master": master}
        for name, value in {**optimizer.adam.state.get(master, {}), **kept}.items():
            found[f"{number}.{name}"] = torch.as_tensor(value).detach().contiguous()
    return found


def load_optimizer(optimizer: WeightOptimizer, tensors: Mapping[str, Tensor]) -> None:
    """Put back what `optimizer_tensors` gave."""
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


def _unreadable(place: Path, error: Exception) -> ConfigError:
    return ConfigError(
        f"The checkpoint {str(place)!r} cannot be read ({error}). Remove it to resume from an older one."
    )


def _tensors(module: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers that are saved, tied ones once."""
    seen: set[int] = set()
    found: dict[str, Tensor] = {}
    for name, tensor in module.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            found[name] = tensor.detach()
    return found


def _check_shapes(what: Path, here: Mapping[str, Tensor], there: Mapping[str, Tensor]) -> None:
    if here.keys() != there.keys():
        odd = sorted(here.keys() ^ there.keys())[:3]
        raise ConfigError(f"{str(what)!r} is of another architecture: it differs in {', '.join(odd)}…")
    for name, tensor in here.items():
        if tensor.shape != there[name].shape or tensor.dtype != there[name].dtype:
            raise ConfigError(
                f"{str(what)!r} is of another size or kind: {name} is {tuple(there[name].shape)} {there[name].dtype} "
                f"there, {tuple(tensor.shape)} {tensor.dtype} here."
            )


def _differences(there: Any, here: Any, path: str = "") -> Iterator[str]:
    if isinstance(there, dict) and isinstance(here, Mapping):
        for key in dict.fromkeys([*there, *here]):
            yield from _differences(there.get(key), here.get(key), f"{path}.{key}" if path else str(key))
    elif there != here:
        yield f"{path} was {there!r} and is {here!r}"


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
