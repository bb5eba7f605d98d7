"""Keyword arguments of an environment on a command line: `--env.KEY VALUE`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from comlrl_envs.errors import OptionError

_TEXT = r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)\""""
"""A text as ``repr`` writes it."""


def split_env_options(arguments: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Take `--env.KEY VALUE` and `--env.KEY=VALUE` out of a command line.

    Values are read as YAML; that of `prompts` is a template, unless it is quoted, null, a list of texts in brackets
    or a mapping to texts in braces.

    Returns:
        The keyword arguments, and the words that are left.

    Raises:
        OptionError: A value is missing, or is no YAML.
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
            following = next(words, None)
            if following is None:
                raise OptionError(f"--env.{name} needs a value.")
            value = following
        options[name] = _template(value) if name == "prompts" else _yaml(name, value)
    return options, rest


def in_shell_words(message: str, options: Mapping[str, str]) -> str:
    """``message`` with Python's keyword arguments written as options of a command line.

    Args:
        message: Such as "source='demo' plays the shipped rows."
        options: Names of keyword arguments to the options that give them.

    >>> in_shell_words("k=0; pass tasks= or source='demo'.", {"k": "--k", "source": "--env.source"})
    '--k 0; pass tasks= or --env.source demo.'
    """
    if not options:
        return message
    names = "|".join(map(re.escape, sorted(options, key=len, reverse=True)))

    def option(found: re.Match[str]) -> str:
        name, one, other, value_follows = found.groups()
        text = one if other is None else other
        if text is not None:
            return f"{options[name]} {shlex.quote(text)}"
        return options[name] + (" " if value_follows else "")

    return re.sub(rf"(?<![\w.?&'\"-])({names})=(?:{_TEXT}|(?=([^\s.,;:)`])?))", option, message)


def _yaml(name: str, value: str) -> Any:
    try:
        return yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise OptionError(f"--env.{name} {value} is no YAML value. Quote a text: '\"{value}\"'.") from error


def _template(value: str) -> Any:
    """``value`` unless it is clearly YAML: a template's braces, colons and dashes mean something there too."""
    first = value.lstrip()[:1]
    try:
        read = yaml.safe_load(value)
    except yaml.YAMLError:
        return value
    if isinstance(read, dict) and first == "{":
        clear = all(isinstance(part, str) for pair in read.items() for part in pair)
    elif isinstance(read, list) and first == "[":
        clear = all(isinstance(part, str) for part in read)
    elif isinstance(read, str):
        clear = first in ("'", '"')
    else:
        clear = value.strip() in ("null", "~")
    return read if clear else value
