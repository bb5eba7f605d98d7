"""Opens models and tokenizers, or says in one paragraph what is wrong and what to give instead."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, cast

import torch
from safetensors import SafetensorError
from torch import nn
from transformers import AutoTokenizer, PreTrainedModel
from transformers.utils import logging as transformers_logging

from comlrl_envs.errors import closest
from comlrl_learners.errors import PolicyError

Dtype = Literal["float32", "bfloat16", "float64", "auto"]
"""Weights that can be trained; "auto" takes the file's."""
DTYPES = ("float32", "bfloat16", "float16", "float64", "auto")


def checked_source(path: str) -> str:
    """The path or hub id, unless it is plainly a slip: a hub is not asked for those.

    Raises:
        PolicyError: A misspelt "tiny", a path that does not exist, or a folder whose subfolders hold the policies.
    """
    if difflib.SequenceMatcher(None, path, "tiny").ratio() > 0.85 and not Path(path).exists():
        raise PolicyError(f"There is no policy {path!r}. Did you mean 'tiny'?")
    if path.startswith((".", "/", "~")) and not Path(path).exists():
        siblings = [entry.name for entry in Path(path).parent.glob("*") if entry.is_dir()]
        raise PolicyError(f"The folder {path!r} does not exist.{closest(Path(path).name, siblings)}")
    inside = sorted(entry.parent.name for entry in Path(path).glob("*/config.json")) if Path(path).is_dir() else []
    if inside and not (Path(path) / "config.json").exists():
        raise PolicyError(f"The folder {path!r} holds no model itself. Give one of its folders: {', '.join(inside)}.")
    return path


def checked_device(device: str | None) -> torch.device:
    """The device of this name, or by default the first GPU, or the CPU.

    Raises:
        PolicyError: torch knows no such device, or this machine has none.
    """
    try:
        place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        torch.empty(0, device=place)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).split("\n")[0]
        raise PolicyError(
            f"device={device!r} cannot be used: {reason}. Give 'cpu', or 'cuda:0' where a GPU is."
        ) from error
    return place


def move(model: PreTrainedModel, device: str) -> None:
    """Bring a model to a device.

    Raises:
        PolicyError: See `checked_device`.
    """
    nn.Module.to(model, checked_device(device))


def load_part(factory: Any, path: str, what: str, **arguments: Any) -> Any:
    """Call `from_pretrained` without its progress bar.

    Raises:
        PolicyError: There is nothing to load; the message says what to give instead.
    """
    try:
        with no_progress_bar():
            return factory.from_pretrained(path, **arguments)
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise _missing(path, what) from error


def load_model(factory: Any, path: str, what: str, *, dtype: str) -> Any:
    """Load a model whose every weight is in the file.

    Raises:
        PolicyError: There is nothing to load, or some weights are missing: random ones would take their place.
    """
    model, report = load_part(factory, path, what, dtype=dtype, output_loading_info=True)
    missing = sorted(report["missing_keys"])
    if missing:
        raise PolicyError(
            f"The {what} in {path!r} lacks {len(missing)} weights ({', '.join(missing[:3])}…), which would be random. "
            "Save the whole model again with save_pretrained."
        )
    return model


def writable(text: str) -> str:
    """The text with lone surrogates, which no tokenizer takes, replaced by U+FFFD."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def embedded_tokens(model: PreTrainedModel) -> int:
    """Number of token ids that a model has an embedding for."""
    return int(cast(torch.nn.Embedding, model.get_input_embeddings()).weight.shape[0])


def load_tokenizer(path: str) -> Any:
    """Load the tokenizer of a folder or hub id.

    Raises:
        PolicyError: There is none; for some model types transformers then makes one that knows no word.
    """
    tokenizer = load_part(AutoTokenizer, path, "tokenizer")
    if len(tokenizer) <= len(tokenizer.all_special_ids):
        raise _missing(path, "tokenizer")
    return tokenizer


def _missing(path: str, what: str) -> PolicyError:
    kind = "folder" if Path(path).is_dir() else "model id"
    if (Path(path) / "checkpoints" / "final").is_dir():
        inside = sorted(place.parent.name for place in (Path(path) / "checkpoints" / "final").glob("*/config.json"))
        return PolicyError(
            f"{path!r} is a run, which holds a policy for each of {', '.join(inside)}. Give one of them: "
            f"{path}/checkpoints/final/{inside[0] if inside else 'AGENT'}."
        )
    if kind == "model id" and Path(path).parts[:1] == ("runs",):
        return PolicyError(f"There is no run {path!r}. Give the folder of a run, or of a model.")
    remedy = (
        f"Save one beside the model: AutoTokenizer.from_pretrained(BASE_MODEL).save_pretrained({path!r})."
        if what == "tokenizer" and kind == "folder"
        else 'Give "tiny", a folder written by save_pretrained, or a hub id that this machine can reach.'
    )
    return PolicyError(f"The {kind} {path!r} holds no {what} that can be loaded. {remedy}")


@contextlib.contextmanager
def no_progress_bar() -> Iterator[None]:
    """Silence transformers' bars over weight files, and leave the setting as it was."""
    shown = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # transformers leaves it untyped
    try:
        yield
    finally:
        if shown:
            transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]  # the same
