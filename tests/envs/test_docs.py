import doctest
import importlib
import pkgutil

import pytest

import comlrl_envs

MODULES = ["comlrl_envs", *(found.name for found in pkgutil.walk_packages(comlrl_envs.__path__, "comlrl_envs."))]


@pytest.mark.parametrize("name", [name for name in MODULES if not name.endswith("__main__")])
def test_examples_in_docstrings(name):
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0


def test_there_are_examples():
    parser = doctest.DocTestFinder()
    examples = [
        case
        for name in ("comlrl_envs", "comlrl_envs.from_reward")
        for case in parser.find(importlib.import_module(name))
    ]
    assert sum(len(case.examples) for case in examples) > 5
