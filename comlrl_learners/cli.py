"""`comlrl-train ALGO --env ID --policies MODEL`: the command line of the trainers."""

from __future__ import annotations

import importlib
import inspect
import logging
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import comlrl_learners
from comlrl_envs.cli.options import split_env_options
from comlrl_envs.errors import ComlrlError, MissingExtraError, OptionError, closest

ALGORITHMS = {
    "magrpo": "MAGRPOTrainer",
    "mareinforce": "MAREINFORCETrainer",
    "marloo": "MARLOOTrainer",
    "maremax": "MAReMaxTrainer",
    "iac": "IACTrainer",
    "maac": "MAACTrainer",
    "madpo": "MADPOTrainer",
}
USAGE = """usage: comlrl-train ALGO --env ID|package.module:factory [--env.KEY VALUE ...] --policies MODEL [MODEL ...]
                    [--config run.yaml] [--seeds 0,1,2] [--KEY VALUE ...]
       comlrl-train ALGO --resume runs/NAME [--KEY VALUE ...]

ALGO is one of {algorithms}, or package.module:Trainer. `comlrl-train ALGO --help` lists every setting with its default.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Train as the command line says; returns the exit status (0 done, 1 error, 2 usage, 130 interrupted)."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] in ("-h", "--help"):
        sys.stdout.write(USAGE.format(algorithms=", ".join(ALGORITHMS)))
        return 0 if given else 2
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    _claim_one_thread_per_policy()
    try:
        return _train(given[0], given[1:])
    except ComlrlError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 1
    except OSError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130


def _claim_one_thread_per_policy() -> None:
    """Policies work side by side in Python threads; two of torch's own on each core would only wait for each other."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def _train(algorithm: str, arguments: list[str]) -> int:
    trainer_class = _named_trainer(algorithm)
    resume, arguments = _take_resume(algorithm, arguments)
    env_options, rest = split_env_options(arguments)
    settings = _parse(trainer_class.config_class, algorithm, trainer_class.name, rest)
    env_options = {**(settings.pop("env_options") or {}), **env_options}
    seeds = _seeds(settings.pop("seeds"))
    policies = settings.pop("policies")
    others = {name: _one_or_all(settings.pop(name)) for name in ("critics", "references") if settings[name]}
    env_name = settings.pop("env")
    env = _env_factory(env_name, env_options)
    # A factory's environment is called by its class, which would not open it again from config.yaml.
    described = {"env": env_name} if ":" in env_name else {}
    interrupted = False
    for seed in seeds or [settings["config"].seed]:
        config = settings["config"]
        config.seed = seed
        trainer = trainer_class(env=env(), policies=_one_or_all(policies), config=config, **others)
        named = {name: [given] if isinstance(given, str) else given for name, given in others.items()}
        trainer.describe(**described, env_options=env_options, policies=policies, **named)
        result = trainer.train(resume)
        _report(seed, result)
        if result.interrupted:
            interrupted = True
            break
    return 130 if interrupted else 0


def _one_or_all(names: list[str]) -> str | list[str]:
    return names if len(names) > 1 else names[0]


def _named_trainer(algorithm: str) -> Any:
    """The trainer of this name, or the class `package.module:Trainer` of someone's own."""
    if ":" in algorithm:
        found = _named_object("ALGO", algorithm)
        if not (isinstance(found, type) and {"name", "config_class"} <= set(dir(found))):
            raise OptionError(f"{algorithm} is no trainer. Name a subclass of comlrl_learners.trainer.Trainer.")
        return found
    if algorithm not in ALGORITHMS:
        raise OptionError(
            f"There is no algorithm {algorithm!r}; there are {', '.join(ALGORITHMS)}, and package.module:Trainer for "
            f"one of your own.{closest(algorithm, ALGORITHMS)}"
        )
    return _trainer_class(ALGORITHMS[algorithm])


def _trainer_class(name: str) -> Any:
    """Load a trainer, and with it torch.

    Raises:
        MissingExtraError: The learners' libraries are not installed.
    """
    try:
        return comlrl_learners.__getattr__(name)
    except ModuleNotFoundError as error:
        if str(error.name).startswith("comlrl"):
            raise
        raise MissingExtraError("learners", "Training") from error


def _take_resume(algorithm: str, arguments: list[str]) -> tuple[str | None, list[str]]:
    """Take `--resume RUN` out of the command line; the run's own `config.yaml` comes before what else is said."""
    for place, word in enumerate(arguments):
        name, equals, run = word.partition("=")
        if name != "--resume":
            continue
        run = run if equals else "".join(arguments[place + 1 : place + 2])
        if not (Path(run) / "config.yaml").is_file():
            raise OptionError(f"--resume {run} is no run folder: it holds no config.yaml. Give runs/NAME.")
        _refuse_another_algorithm(algorithm, run)
        rest = arguments[:place] + arguments[place + (1 if equals else 2) :]
        return run, ["--config", str(Path(run) / "config.yaml"), *rest]
    return None, arguments


def _refuse_another_algorithm(algorithm: str, run: str) -> None:
    """Say first that a run is another algorithm's: its settings would be said to be unknown one by one."""
    yaml = importlib.import_module("yaml")
    try:
        settings = yaml.safe_load((Path(run) / "config.yaml").read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return  # Whoever parses it next says what is wrong with it.
    named = settings.get("algorithm") if isinstance(settings, dict) else None
    if named in ALGORITHMS and algorithm in ALGORITHMS and named != algorithm:
        raise OptionError(
            f"The run {run} is a run of {named}, and the command says {algorithm}. Go on with it: comlrl-train {named} "
            f"--resume {run}."
        )


def _parse(config_class: type, algorithm: str, name: str, arguments: Sequence[str]) -> dict[str, Any]:
    """Read the remaining options and the YAML file into the configuration dataclass."""
    jsonargparse = importlib.import_module("jsonargparse")
    jsonargparse.set_parsing_settings(docstring_parse_attribute_docstrings=True)
    parser = jsonargparse.ArgumentParser(prog=f"comlrl-train {algorithm}", exit_on_error=False)
    parser.add_argument("--config", action="config", help="YAML file with any of these settings.")
    parser.add_argument("--algorithm", type=str | None, default=None, help="Checked against ALGO if given.")
    parser.add_argument("--env", type=str, required=True, help="Environment id, or package.module:factory.")
    parser.add_argument("--env_options", type=dict | None, default=None, help="In YAML: what --env.KEY sets.")
    parser.add_argument("--policies", type=str, required=True, nargs="+", help="One model, or one per agent.")
    parser.add_argument("--critics", type=str, nargs="*", default=[], help="Models of critics: one, or one per agent.")
    parser.add_argument("--references", type=str, nargs="*", default=[], help="Policies of the KL term, likewise.")
    parser.add_argument("--seeds", type=list[int] | str | None, default=None, help="Train once per seed: 0,1,2.")
    names = parser.add_class_arguments(config_class, as_group=False)
    parser.set_defaults({"progress": True})
    known = {option for action in parser._actions for option in action.option_strings}
    for word in arguments:
        option = word.partition("=")[0]
        if option.startswith("--") and option not in known:
            raise OptionError(f"There is no option {option}.{closest(option, known)}")
    try:
        parsed = parser.parse_args(_listed(_listed(arguments, "--trackers"), "--frozen"))
    except jsonargparse.ArgumentError as error:
        if "item assignment" in str(error):  # the parser's word for a text where it expects a list
            raise OptionError("policies is a text in the file. Write a list: policies: [tiny].") from error
        raise OptionError(_in_own_words(str(error), known)) from error
    if parsed.algorithm not in (None, algorithm, name):
        raise OptionError(f"The configuration is for {parsed.algorithm!r}, and the command says {algorithm!r}.")
    made = parser.instantiate(parsed)
    config = config_class(**{name: made[name] for name in names})
    return {
        "config": config,
        "env": made.env,
        "env_options": made.env_options,
        "policies": list(made.policies),
        "critics": list(made.critics),
        "references": list(made.references),
        "seeds": made.seeds,
    }


def _listed(arguments: Sequence[str], option: str) -> list[str]:
    """The command line with `OPTION a,b` as the list that the parser expects."""
    words = list(arguments)
    for place, word in enumerate(words):
        if word == option and place + 1 < len(words) and not words[place + 1].startswith("["):
            words[place + 1] = f"[{words[place + 1]}]"
        elif word.startswith(f"{option}=") and not word.startswith(f"{option}=["):
            words[place] = f"{option}=[{word.partition('=')[2]}]"
    return words


def _in_own_words(message: str, known: set[str]) -> str:
    """The parser's complaint as this command would put it, with the nearest setting or word."""
    message = " ".join(message.split())
    if missing := re.search(r"arguments are required: (.*)", message):
        wanted = [f"--{name.strip()}" for name in missing[1].split(",")]
        return f"{' and '.join(wanted)} is missing. For example: --env writing/length_ratio --policies tiny."
    if unknown := re.search(r"(?:Option|Key) '([^']+)' is not accepted", message):
        near = closest(f"--{unknown[1]}", known).replace("--", "")
        return f"The configuration has the unknown setting {unknown[1]!r}.{near}"
    if inner := re.search(r"Group '([^']+)' does not accept option '([^']+)'", message):
        near = closest(f"--{inner[1]}.{inner[2]}", known).replace("--", "")
        return f"The configuration has the unknown setting '{inner[1]}.{inner[2]}'.{near}"
    if wrong := re.search(r'Parser key "([^"]+)": Expected an? (.*?)\.? Got value: (.*)', message):
        key, expected, value = wrong.groups()
        if words := re.findall(r"'([^']+)'", expected) if "Literal" in expected else []:
            return f"--{key} {value} is none of {', '.join(words)}.{closest(value, words)}"
        kind = re.sub(r"<class '(.*)'>", r"\1", expected)
        return f"--{key} {value} is no {kind}."
    return message


def _seeds(given: list[int] | str | None) -> list[int]:
    if given is None:
        return []
    if isinstance(given, str):
        try:
            return [int(part) for part in given.strip("[]").split(",")]
        except ValueError as error:
            raise OptionError(f"--seeds {given} is no list of whole numbers. Write them as 0,1,2.") from error
    return given


def _env_factory(name: str, options: dict[str, Any]) -> Callable[[], Any]:
    """A function that makes the environment: an id, or `package.module:factory` of any ParallelEnv."""
    if ":" not in name and "/" not in name:
        raise OptionError(
            f"--env {name} is no environment id (family/name). If it comes from a config.yaml, that run's environment "
            "was a Python object: give --env package.module:factory that makes it."
        )
    if ":" not in name:
        from comlrl_envs import make

        return lambda: make(name, **options)
    factory = _named_object("--env", name)
    if not callable(factory):
        raise OptionError(f"--env {name} is a {type(factory).__name__}. Name a function or class that makes it.")
    _check_factory_options(name, factory, options)
    return lambda: factory(**options)


def _named_object(option: str, name: str) -> Any:
    """What `package.module:attribute` names; modules in the current folder are found too."""
    module_name, _, attribute = name.partition(":")
    if not (module_name and attribute):
        raise OptionError(f"{option} {name} names nothing. Write it as package.module:name.")
    sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise OptionError(f"{option} {name}: the module {module_name!r} cannot be imported ({error}).") from error
    try:
        return getattr(module, attribute)  # a module may load its names when they are asked for
    except AttributeError as error:
        near = closest(attribute, dir(module))
        raise OptionError(f"{option} {name}: {module_name} has no {attribute!r}.{near}") from error


def _check_factory_options(name: str, factory: Callable[..., Any], options: dict[str, Any]) -> None:
    try:
        parameters = inspect.signature(factory).parameters
    except (TypeError, ValueError):
        return
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    for option in options:
        if option not in parameters:
            takes = f" It takes {', '.join(parameters)}." if parameters else " It takes none."
            raise OptionError(f"{name} takes no keyword {option!r}.{closest(option, parameters)}{takes}")


def _report(seed: int, result: Any) -> None:
    curve = result.curve()
    told = f"seed {seed}: {'interrupted after ' if result.interrupted else ''}{result.env_steps} joint actions"
    if curve and not result.interrupted:
        told += f", held-out reward {curve[0][1]:.3f} -> {curve[-1][1]:.3f}"
    if result.folder is not None:
        told += f", {result.folder}"
        if result.interrupted:
            told += f"; --resume {result.folder} goes on"
    sys.stdout.write(told + "\n")
