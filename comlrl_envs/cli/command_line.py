"""`comlrl-envs COMMAND`: the command line of the environments.

A command is a module of this folder with a function `command`: its signature gives the options, its docstring the
help. One that takes `env_options` accepts `--env.KEY VALUE`, the keyword arguments of the environment.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from comlrl_envs import __version__
from comlrl_envs.assemble import BASE
from comlrl_envs.cli.options import in_shell_words, split_env_options
from comlrl_envs.errors import ComlrlError, OptionError, closest

COMMANDS = {
    "list": "name the environments",
    "describe": "show an environment's rules, keyword arguments and data",
    "play": "play an episode yourself, or watch policies play one",
    "eval": "measure policies on an environment",
    "report": "show what an evaluation measured",
    "validate": "prove that an environment keeps its promises",
    "fetch": "download an environment's data",
    "new": "start a plug-in package with an environment of your own",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status (0 done, 1 error, 2 usage, 130 interrupted)."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] in ("-h", "--help"):
        sys.stdout.write(_usage())
        return 0 if given else 2
    if given[0] == "--version":
        sys.stdout.write(f"comlrl-envs {__version__}\n")
        return 0
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    try:
        return _run(given[0], given[1:])
    except ComlrlError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader went away, as `head` does; whatever is still buffered has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _usage() -> str:
    lines = "\n".join(f"  {name:<10}{purpose}" for name, purpose in COMMANDS.items())
    return f"usage: comlrl-envs COMMAND ... | --version\n\n{lines}\n\n`comlrl-envs COMMAND --help` lists its options.\n"


def _run(name: str, arguments: list[str]) -> int:
    if name not in COMMANDS:
        raise OptionError(f"There is no command {name!r}; there are {', '.join(COMMANDS)}.{closest(name, COMMANDS)}")
    command: Callable[..., int] = importlib.import_module(f"comlrl_envs.cli.{name}").command
    arguments = _first_named(command, arguments)
    takes_env = "env_options" in inspect.signature(command).parameters
    env_options, rest = split_env_options(arguments) if takes_env else ({}, arguments)
    settings = _parse(name, command, rest, takes_env)
    if takes_env:
        settings["env_options"] = env_options
    try:
        return command(**settings)
    except OptionError as error:
        # Messages name keyword arguments as Python writes them.
        message = in_shell_words(str(error), _options(command, arguments, takes_env))
        raise OptionError(message) from error


def _parse(name: str, command: Callable[..., int], arguments: list[str], takes_env: bool) -> dict[str, Any]:
    jsonargparse = importlib.import_module("jsonargparse")
    parser = jsonargparse.ArgumentParser(prog=f"comlrl-envs {name}", exit_on_error=False, description=_purpose(command))
    several = [name for name, given in inspect.signature(command).parameters.items() if given.annotation == "list[str]"]
    parser.add_function_arguments(command, as_group=False, as_positional=True, skip={"env_options", *several})
    for argument in several:
        parser.add_argument(argument, nargs="+")
    if takes_env:
        parser.epilog = "--env.KEY VALUE gives the environment a keyword argument; `describe` lists them."
    arguments = _switched_on(command, arguments)
    known = {option for action in parser._actions for option in action.option_strings}
    for word in arguments:
        option = word.partition("=")[0]
        if option.startswith("--") and option != "--" and option not in known:
            raise OptionError(f"{name} has no option {option}.{_nearest_option(option, known, arguments, takes_env)}")
    try:
        parsed = parser.parse_args(arguments)
    except jsonargparse.ArgumentError as error:
        raise OptionError(_in_own_words(name, str(error))) from error
    return dict(parser.instantiate(parsed).as_dict())


def _nearest_option(option: str, known: Iterable[str], arguments: list[str], takes_env: bool) -> str:
    """Suffix that names the option that was meant, keyword arguments of the environment among them."""
    by_env = [f"--env.{name}" for name in _env_keywords(arguments)] if takes_env else []
    meant = f"--env.{option.removeprefix('--')}"
    return f" Did you mean {meant!r}?" if meant in by_env else closest(option, sorted([*known, *by_env]))


def _options(command: Callable[..., int], arguments: list[str], takes_env: bool) -> dict[str, str]:
    """Keyword arguments that messages may name, to the options that give them; the command's own come first."""
    parameters = inspect.signature(command).parameters.values()
    own = {given.name: f"--{given.name}" for given in parameters if given.default is not given.empty}
    return {**({name: f"--env.{name}" for name in _env_keywords(arguments)} if takes_env else {}), **own}


def _env_keywords(arguments: list[str]) -> list[str]:
    """Keyword arguments of the environment that a command line names; without one, those that every id accepts."""
    from comlrl_envs.description import keyword_names

    for word in arguments:
        if "/" in word and not word.startswith("-"):
            try:
                return keyword_names(word)
            except ComlrlError:
                continue
    return list(BASE)


def _first_named(command: Callable[..., int], arguments: list[str]) -> list[str]:
    """The command line with the name of the first option, where a command takes options alone and that one has none."""
    parameters = list(inspect.signature(command).parameters.values())
    options_alone = all(given.default is not given.empty for given in parameters)
    if options_alone and arguments and not arguments[0].startswith("-"):
        return [f"--{parameters[0].name}", *arguments]
    return arguments


def _switched_on(command: Callable[..., int], arguments: list[str]) -> list[str]:
    """The command line with a value for each switch that stands alone: the parser wants one."""
    switches = {f"--{name}" for name, given in inspect.signature(command).parameters.items() if given.default is False}
    words: list[str] = []
    for place, word in enumerate(arguments):
        alone = word in switches and arguments[place + 1 : place + 2] not in (["true"], ["false"])
        words.append(f"{word}=true" if alone else word)
    return words


def _purpose(command: Callable[..., int]) -> str:
    return (inspect.getdoc(command) or "").partition("\n")[0]


def _in_own_words(name: str, message: str) -> str:
    message = " ".join(message.split())
    if missing := re.search(r"arguments are required: (.*)", message):
        return f"{name} needs {missing[1]}. `comlrl-envs {name} --help` shows how."
    if wrong := re.search(r'Parser key "([^"]+)": Expected an? (.*?)\.? Got value: (.*)', message):
        key, expected, value = wrong.groups()
        kind = re.sub(r"<class '(.*)'>", r"\1", expected)
        return f"--{key} {value} is no {kind}."
    return f"{name}: {message}"
