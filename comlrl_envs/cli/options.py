"""Keyword arguments of an environment on a command line: `--env.KEY VALUE`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from comlrl_envs.errors import OptionError


def split_env_options(arguments: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Take `--env.KEY VALUE` and `--env.KEY=VALUE` out of a command line; values are read as YAML.

    Returns:
        The keyword arguments, and the words that are left.

    Raises:
        OptionError: A value is no YAML.
    """
    options: dict[str, Any] = {}
    rest: list[str] = []
    words = iter(arguments)
    for word in words:
        if not word.startswith("--env."):
            rest.append(word)
            continue
        name, equals, value = word.removeprefix("--env.").partition("=")
        if not equals:
            value = next(words, "")
        try:
            options[name] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise OptionError(f"--env.{name} {value} is no YAML value. Quote a text: '\"{value}\"'.") from error
    return options, rest
