"""Policies by name: ``"random"``, ``"openai:MODEL?temperature=0.7"``, ``"hf:PATH"``, or a plug-in's own."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from typing import Any
from urllib.parse import parse_qsl

from comlrl_envs.errors import MissingExtraError, OptionError, closest
from comlrl_envs.policies.asking import is_policy
from comlrl_envs.policies.protocol import Policy
from comlrl_envs.policies.scripted import EchoPolicy, EmptyPolicy, OraclePolicy, RandomPolicy

GROUP = "comlrl_envs.policies"
SCRIPTED: Mapping[str, Callable[[], Policy]] = {
    "random": RandomPolicy,
    "echo": EchoPolicy,
    "empty": EmptyPolicy,
    "oracle": OraclePolicy,
}
NAMES = (*SCRIPTED, "human")


def build_policy(spec: str) -> Policy:
    """The policy of this name.

    Args:
        spec: ``random``, ``echo``, ``empty``, ``oracle`` or ``human``; or ``scheme:rest``: ``openai:MODEL`` (see
            ``OpenAIPolicy``), or a scheme of the entry-point group ``comlrl_envs.policies``, such as ``hf:PATH``,
            whose function is called with the rest. Settings follow a question mark:
            ``openai:MODEL?temperature=0.7&max_tokens=256``.

    Raises:
        OptionError: Nothing has this name; the closest is named.
        MissingExtraError: What stands behind the name is not installed.
    """
    if not isinstance(spec, str):
        raise OptionError(f"A policy's name is a {type(spec).__name__}; expected a str such as 'random'.")
    scheme, colon, rest = spec.partition(":")
    if not colon:
        return _named(spec)
    if scheme == "openai":
        from comlrl_envs.policies.openai import openai_policy

        return openai_policy(rest)
    return _plugged(scheme, rest)


def parse_policies(text: str, agents: Sequence[str]) -> str | list[str] | dict[str, str]:
    """What a command line says of its policies: one name, names in the order of the agents, or names by agent.

    Args:
        text: ``random``, ``random,oracle`` or ``summarizer=random,elaborator=oracle``.
        agents: The environment's agents, in its order.

    Returns:
        The names in the form ``evaluate`` takes. Whether they exist and are as many as the agents is not checked here.

    Raises:
        OptionError: The text is empty, or gives a policy to an agent that there is not.
    """
    if not text.strip():
        raise OptionError("--policies is empty; expected such as random, random,oracle or openai:MODEL.")
    parts = [part.strip() for part in text.split(",")]
    pairs = [part.partition("=") for part in parts]
    if all(name in agents and equals for name, equals, _ in pairs):
        return {name: policy for name, _, policy in pairs}
    for name, equals, policy in pairs:
        near = closest(name, agents)
        if equals and near and "?" not in name and ":" not in name:
            raise OptionError(f"--policies names {name!r} for {policy!r}; the agents are {', '.join(agents)}.{near}")
    return parts if len(parts) > 1 else parts[0]


def split_settings(rest: str, known: Mapping[str, type]) -> tuple[str, dict[str, Any]]:
    """``"NAME?key=value&..."`` as name and settings, for authors of schemes.

    Args:
        rest: What follows the scheme.
        known: The settings' names and types: ``str``, ``int``, ``float`` or ``bool``.

    Raises:
        OptionError: A setting is unknown, has a value of another type, or follows no question mark. The value of an
            unknown one is not repeated: it may be a key that somebody put there.
    """
    name, _, query = rest.partition("?")
    for slip in re.findall(r"&(\w+)=", name):
        if slip in known or closest(slip, known):
            model = name.partition("&")[0]
            raise OptionError(
                f"{model!r} is followed by '&{slip}='; settings begin with '?', and '&' stands between them: "
                f"{model}?{slip}=..."
            )
    settings: dict[str, Any] = {}
    for key, text in parse_qsl(query, keep_blank_values=True):
        if key not in known:
            raise OptionError(f"{name!r} takes no setting {key!r}.{closest(key, known)} It takes {', '.join(known)}.")
        settings[key] = _typed(key, text, known[key])
    return name, settings


def _typed(key: str, text: str, kind: type) -> Any:
    try:
        return {"true": True, "false": False}[text.lower()] if kind is bool else kind(text)
    except (KeyError, ValueError) as bad:
        raise OptionError(f"{key}={text!r}; expected a value of type {kind.__name__}.") from bad


def _named(name: str) -> Policy:
    if name in SCRIPTED:
        return SCRIPTED[name]()
    if name == "human":
        from comlrl_envs.policies.human import HumanPolicy

        return HumanPolicy()
    schemes = _schemes()
    if name in schemes:
        raise OptionError(f"The policy {name!r} needs to know which model: {name}:MODEL.")
    raise OptionError(
        f"There is no policy {name!r}.{closest(name, NAMES)} There are {', '.join(NAMES)}, and "
        f"{', '.join(f'{scheme}:...' for scheme in schemes)}."
    )


def _schemes() -> list[str]:
    return sorted({"openai", *(point.name for point in metadata.entry_points(group=GROUP))})


def _plugged(scheme: str, rest: str) -> Policy:
    points = list(metadata.entry_points(group=GROUP, name=scheme))
    if not points:
        schemes = _schemes()
        raise OptionError(f"No policy has the scheme {scheme!r}.{closest(scheme, schemes)} There are {schemes}.")
    try:
        factory = points[0].load()
    except ImportError as missing:
        if scheme == "hf":
            raise MissingExtraError("learners", f"The policy 'hf:{rest}'") from missing
        raise OptionError(f"The policy scheme {scheme!r} ({points[0].value}) cannot be loaded: {missing}") from missing
    policy: Policy = factory(rest)
    if not is_policy(policy):
        raise OptionError(f"The policy scheme {scheme!r} gave a {type(policy).__name__}, which is no policy.")
    return policy
