"""The leaderboard's own checker of single calls, from its wheel, without the vendors' packages that it asks for."""

import importlib
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

_REGISTRY = "bfcl_eval.constants.model_config"


class _Models(dict[str, Any]):
    def __missing__(self, name: str) -> Any:
        return types.SimpleNamespace(underscore_to_dot=False)


def official_checker(wheel: Path) -> Callable[[Sequence[Any], Sequence[Mapping[str, Any]], Sequence[Any], str], Any]:
    """A function of documents, calls as ``{name: arguments}``, gold and category; its result has ``valid``."""
    registry = types.ModuleType(_REGISTRY)
    registry.MODEL_CONFIG_MAPPING = _Models()  # type: ignore[attr-defined]
    before = set(sys.modules)
    sys.path.insert(0, str(wheel))
    sys.modules[_REGISTRY] = registry
    try:
        checker = importlib.import_module("bfcl_eval.eval_checker.ast_eval.ast_checker")
        python = importlib.import_module("bfcl_eval.constants.enums").Language.PYTHON
    finally:
        sys.path.remove(str(wheel))
        for name in set(sys.modules) - before:
            if name.startswith("bfcl_eval"):
                del sys.modules[name]
    return lambda documents, calls, gold, category: checker.ast_checker(
        documents, calls, gold, python, category, "any-model"
    )
