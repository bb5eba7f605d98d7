"""Checkpoints read back: everything is held to what is to take it up before anything is changed."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from comlrl_learners.checkpoint import (
    FORMAT,
    MEMORY_FILE,
    STATE_FILE,
    Counters,
    Holdings,
    as_json,
    checkpoints,
    file_digest,
    load_optimizer,
    module_file,
    module_tensors,
    optimizer_file,
    state_digest,
)
from comlrl_learners.errors import ConfigError
from comlrl_learners.optimisation import WeightOptimizer

_MOMENTS = ("exp_avg", "exp_avg_sq", "step")
_MOST_DIFFERENCES = 6


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was read and fits.

    Attributes:
        place: Its folder.
        counters: Where the run stood.
        modules: Tensors of each model and value head.
        moments: Tensors of each optimizer.
        memory: What else was remembered, as JSON values.
    """

    place: Path
    counters: Counters
    modules: Mapping[str, Mapping[str, Tensor]]
    moments: Mapping[str, Mapping[str, Tensor]]
    memory: Any

    def load_into(self, holdings: Holdings) -> None:
        """Put everything where it belongs.

        Raises:
            ConfigError: What was remembered cannot be understood; nothing was changed.
        """
        if holdings.memory is not None:
            try:
                holdings.memory.remember(self.memory)
            except (TypeError, KeyError, ValueError, IndexError, AttributeError) as error:
                raise _damaged(self.place, f"{MEMORY_FILE} is none of this run's: {error!r}") from error
        for name, module in holdings.modules.items():
            with torch.no_grad():
                for key, tensor in module_tensors(module).items():
                    tensor.copy_(self.modules[name][key])
        for name, optimizer in holdings.optimizers.items():
            load_optimizer(optimizer, self.moments[name])


def read_checkpoint(place: Path, holdings: Holdings, facts: Mapping[str, Any]) -> Checkpoint:
    """Read a checkpoint and hold it to what is to take it up; nothing is changed.

    Args:
        place: Its folder.
        holdings: What it is to be loaded into.
        facts: What must be equal.

    Raises:
        ConfigError: It is damaged, or of another run: the message names what differs.
    """
    state = _read_state(place)
    _refuse_another_run(place, state, facts, holdings)
    for name, written in state["files"].items():
        try:
            found = file_digest(place / name)
        except OSError as error:
            raise _damaged(place, f"{name} cannot be read ({error})") from error
        if found != written:
            raise _damaged(place, f"{name} is not what was written")
    try:
        modules = {name: load_file(place / module_file(name)) for name in holdings.modules}
        moments = {name: load_file(place / optimizer_file(name)) for name in holdings.optimizers}
        memory = None if holdings.memory is None else json.loads((place / MEMORY_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, SafetensorError) as error:
        raise _damaged(place, str(error)) from error
    for name, module in holdings.modules.items():
        _check_shapes(place / module_file(name), module_tensors(module), modules[name])
    for name, optimizer in holdings.optimizers.items():
        _check_moments(place, optimizer_file(name), optimizer, moments[name])
    return Checkpoint(place, Counters(**state["counters"]), modules, moments, memory)


def _read_state(place: Path) -> dict[str, Any]:
    """`state.json`, whose parts are of the kinds that were written.

    Raises:
        ConfigError: It is damaged, or another version's.
    """
    try:
        state = json.loads((place / STATE_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(place, f"{STATE_FILE} cannot be read ({error})") from error
    if not isinstance(state, dict) or type(state.get("format")) is not int:
        raise _damaged(place, f"{STATE_FILE} names no format")
    if state["format"] != FORMAT:
        raise ConfigError(
            f"The checkpoint {str(place)!r} has format {state['format']}, this version reads {FORMAT}. Go on with the "
            f"version that wrote it, or start a new run from its policies: policies={str(place.parent.parent)!r}."
        )
    parts = {"format", "counters", "facts", "trained", "files"}
    if state.keys() != {*parts, "sha256"} or state["sha256"] != state_digest({name: state[name] for name in parts}):
        raise _damaged(place, f"{STATE_FILE} is not what was written")
    counters = state["counters"]
    names = {field.name for field in dataclasses.fields(Counters)}
    if not all(isinstance(state[name], dict) for name in parts - {"format"}) or counters.keys() != names:
        raise _damaged(place, f"{STATE_FILE} lacks a part")
    if not all(type(value) is int and value >= 0 for value in counters.values()):
        raise _damaged(place, f"{STATE_FILE} counts {counters}")
    return state


def _refuse_another_run(place: Path, state: Mapping[str, Any], facts: Mapping[str, Any], holdings: Holdings) -> None:
    """Refuse a checkpoint whose facts, trained weights or files are not those of the run that is to go on.

    Raises:
        ConfigError: With what differs.
    """
    changed = list(_differences(state["facts"], as_json(facts)))
    if changed:
        more = len(changed) - _MOST_DIFFERENCES
        named = "; ".join(changed[:_MOST_DIFFERENCES]) + (f"; and {more} more" if more > 0 else "")
        raise ConfigError(
            f"The checkpoint {str(place)!r} is of another run: {named}. Use what that run was started with, or start a "
            "new one."
        )
    for name in dict.fromkeys([*state["trained"], *holdings.optimizers]):
        then, now = state["trained"].get(name), holdings.trained().get(name)
        if then != now:
            odd = sorted({*(then or ())} ^ {*(now or ())})
            raise ConfigError(
                f"The checkpoint {str(place)!r} is of a run that trained other weights of {name}: it differs in "
                f"{', '.join(odd[:3]) or 'their order'}{'…' if len(odd) > 3 else ''}. Set requires_grad as then, or "
                "start a new run."
            )
    if odd := sorted(state["files"].keys() ^ holdings.files):
        raise ConfigError(
            f"The checkpoint {str(place)!r} is of a run with other parts: it differs in {', '.join(odd[:3])}. Use what "
            "that run was started with, or start a new one."
        )


def _damaged(place: Path, reason: str) -> ConfigError:
    older = [other.name for other in checkpoints(place.parent) if other.name < place.name]
    way = f"move it elsewhere to go on from {older[-1]}" if older else "start a new run"
    return ConfigError(f"The checkpoint {str(place)!r} is damaged: {reason}. Restore it from a copy, or {way}.")


def _check_shapes(what: Path, here: Mapping[str, Tensor], there: Mapping[str, Tensor]) -> None:
    if here.keys() != there.keys():
        odd = sorted(here.keys() ^ there.keys())[:3]
        raise ConfigError(
            f"{str(what)!r} is of another architecture: it differs in {', '.join(odd)}…. Use the models that the run "
            "was started with, or start a new run."
        )
    for name, tensor in here.items():
        if tensor.shape != there[name].shape or tensor.dtype != there[name].dtype:
            raise ConfigError(
                f"{str(what)!r} is of another size or kind: {name} is {tuple(there[name].shape)} {there[name].dtype} "
                f"there, {tuple(tensor.shape)} {tensor.dtype} here. Use the models that the run was started with, or "
                "start a new run."
            )


def _check_moments(place: Path, file: str, optimizer: WeightOptimizer, tensors: Mapping[str, Tensor]) -> None:
    """Hold what an optimizer is to take up to its weights: of each, all moments or, if it never moved, none.

    Raises:
        ConfigError: Something is missing, left over, or of another shape or kind.
    """
    expected: dict[str, tuple[torch.Size, torch.dtype]] = {}
    for number, (parameter, master) in enumerate(zip(optimizer.parameters, optimizer.masters, strict=True)):
        if master is not parameter:
            expected[f"{number}.master"] = master.shape, master.dtype
        if any(f"{number}.{name}" in tensors for name in _MOMENTS):
            expected.update({f"{number}.{name}": (master.shape, master.dtype) for name in _MOMENTS[:2]})
            expected[f"{number}.step"] = torch.Size(()), torch.float32
    found = {key: (tensor.shape, tensor.dtype) for key, tensor in tensors.items()}
    for key in sorted(itertools.chain(expected.keys() ^ found.keys(), expected.keys() & found.keys())):
        if expected.get(key) != found.get(key):
            raise _damaged(place, f"{file} holds {found.get(key)} as {key}, and {expected.get(key)} is expected")


def _differences(there: Any, here: Any, path: str = "") -> Iterator[str]:
    if isinstance(there, dict) and isinstance(here, Mapping):
        for key in dict.fromkeys([*there, *here]):
            yield from _differences(there.get(key), here.get(key), f"{path}.{key}" if path else str(key))
    elif there != here:
        yield f"{path} was {there!r} and is {here!r}"
