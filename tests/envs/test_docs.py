import doctest
import importlib

import pytest


@pytest.mark.parametrize(
    "name",
    ["comlrl_envs", "comlrl_envs.errors", "comlrl_envs.from_reward", "comlrl_envs.writing.length_ratio"],
)
def test_examples_in_docstrings(name):
    failed, tried = doctest.testmod(importlib.import_module(name))
    assert tried > 0 and failed == 0
