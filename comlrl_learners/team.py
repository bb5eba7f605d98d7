"""Turns what a user gives as `policies=` into one policy per agent."""

from __future__ import annotations

import copy
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias
from urllib.parse import quote

from comlrl_envs.errors import closest
from comlrl_learners.errors import ConfigError, PolicyError
from comlrl_learners.loading import embedded_tokens, move
from comlrl_learners.policy import LLMPolicy, distinct_policies
from comlrl_learners.sampling import SamplingParams

TEAM_FILE = "team.json"
"""By agent, the folder of its policy."""
RESERVED = (TEAM_FILE, "critics")
"""What lies beside the folders of a team."""
MAX_NAME = 100

PolicySource: TypeAlias = "str | os.PathLike[str] | LLMPolicy"
PolicySources: TypeAlias = "PolicySource | Sequence[PolicySource] | Mapping[str, PolicySource]"


@dataclass(frozen=True)
class Loading:
    """How models are loaded.

    Attributes:
        sampling: The distribution of whatever is loaded, and of a loaded policy that was given none.
        dtype: Weights of whatever is loaded.
        devices: By agent, where its model is to lie; None leaves a loaded one where it is and takes the first GPU, or
            the CPU, for others.
        recompute_layers: Keep no activations; see `Backbone.recompute_layers`.
    """

    sampling: SamplingParams
    dtype: str = "float32"
    devices: Mapping[str, str | None] = field(default_factory=dict)
    recompute_layers: bool = False


def build_team(sources: PolicySources, agents: Sequence[str], loading: Loading) -> dict[str, LLMPolicy]:
    """One policy per agent.

    A single name loads a separate copy for each agent; a single loaded policy is shared by all; a list or a mapping
    names them one by one, and the same object twice is shared.

    Args:
        sources: Names, folders, hub ids or loaded policies.
        agents: The team, in order.
        loading: How whatever is not loaded yet is loaded, and where it lies.

    Raises:
        ConfigError: Agents that share a policy are to have it on different devices.
        PolicyError: The number of policies or an agent's name does not fit the team.
    """
    chosen = _one_source_per_agent(sources, agents)
    if (saved := saved_team(sources)) is not None:
        team = _load_saved(saved, agents, loading)
    else:
        team = {agent: _loaded(chosen[agent], agent, loading) for agent in agents}
    for policy, sharing in distinct_policies(team):
        if device := shared_device(loading.devices, sharing):
            move(policy.model, device)
        if loading.recompute_layers:
            policy.backbone.recompute_layers()
    return team


def shared_device(devices: Mapping[str, str | None], agents: Sequence[str]) -> str | None:
    """The device of the model that these agents share.

    Raises:
        ConfigError: They name different ones.
    """
    named = {agent: devices[agent] for agent in agents if devices.get(agent) is not None}
    if len(set(named.values())) > 1:
        raise ConfigError(f"{', '.join(named)} share one model, which cannot lie on {named}. Name one device for them.")
    return next(iter(named.values()), None)


def check_rates(rates: Mapping[str, float] | None, agents: Sequence[str], frozen: Sequence[str]) -> None:
    """Hold the names of single learning rates to the agents that learn.

    Raises:
        ConfigError: One of them is no agent, or frozen.
    """
    for agent in rates or ():
        if agent not in agents:
            raise ConfigError(
                f"learning_rates names the agent {agent!r}, and the team is {list(agents)}.{closest(agent, agents)}"
            )
        if agent in frozen:
            raise ConfigError(f"{agent} is frozen, and learning_rates gives it a rate. Take it out of one of the two.")


def check_agents(agents: Sequence[str]) -> None:
    """Refuse a team of nobody.

    Raises:
        ConfigError: There are no agents.
    """
    if not agents:
        raise ConfigError("The environment has no agents, so there is nobody to train.")


def learners(team: Mapping[str, LLMPolicy], frozen: Sequence[str]) -> dict[str, LLMPolicy]:
    """The part of a team that learns.

    Raises:
        ConfigError: Someone frozen is no agent, nobody is left, or a learner shares the policy of a frozen agent.
    """
    for agent in frozen:
        if agent not in team:
            raise ConfigError(f"frozen names the agent {agent!r}, and the team is {list(team)}.{closest(agent, team)}")
    learning = {agent: policy for agent, policy in team.items() if agent not in frozen}
    if not learning:
        raise ConfigError(
            f"frozen={tuple(frozen)} is the whole team, and nobody would learn. Leave an agent out of it."
        )
    for _, agents in distinct_policies(team):
        if 0 < sum(agent in frozen for agent in agents) < len(agents):
            raise ConfigError(
                f"{', '.join(agents)} share one policy, and only some of them are frozen. Freeze all of them, or load "
                "a copy for each."
            )
    return learning


def _loaded(source: PolicySource, agent: str, loading: Loading) -> LLMPolicy:
    if isinstance(source, LLMPolicy):
        if source.inherits_sampling:
            source.sample_from(loading.sampling)
        return source
    if not isinstance(source, (str, os.PathLike)):
        raise _no_source(f"the policy of {agent}", source)
    return LLMPolicy.load(source, loading.sampling, dtype=loading.dtype, device=loading.devices.get(agent))


def _load_saved(saved: Mapping[str, Path], agents: Sequence[str], loading: Loading) -> dict[str, LLMPolicy]:
    """A team as a run saved it: agents that shared a policy share it again."""
    missing = [agent for agent in agents if agent not in saved]
    if missing:
        raise PolicyError(f"The run holds policies of {list(saved)}, and none for {missing}. Give a dict by agent.")
    owners = {saved[agent]: agent for agent in reversed(agents)}
    loaded = {place: _loaded(place, agent, loading) for place, agent in owners.items()}
    return {agent: loaded[saved[agent]] for agent in agents}


def refuse_shared_weights(team: Mapping[str, LLMPolicy]) -> None:
    """Two policies over the same weights would be moved by two optimizers at once.

    Raises:
        PolicyError: With the agents concerned.
    """
    owners: dict[int, tuple[str, ...]] = {}
    for policy, agents in distinct_policies(team):
        for parameter in policy.model.parameters():
            other = owners.setdefault(id(parameter), agents)
            if parameter.requires_grad and other != agents:
                raise PolicyError(
                    f"The policies of {', '.join(other)} and {', '.join(agents)} hold the same weights in two "
                    "LLMPolicy objects. Give one LLMPolicy to both, or load a copy for each."
                )


def frozen_copies(
    team: Mapping[str, LLMPolicy],
    sampled_from: Mapping[str, LLMPolicy],
    devices: Mapping[str, str | None] | None = None,
) -> dict[str, LLMPolicy]:
    """Copies of policies that no optimizer moves, sharing what the originals share: reference policies.

    Args:
        team: What to copy.
        sampled_from: The team whose completions they will score, under its sampling.
        devices: By agent, where the copies lie; None leaves them beside what they copy.

    Raises:
        PolicyError: A reference embeds fewer tokens than the policy that it will score.
    """
    frozen: dict[str, LLMPolicy] = {}
    for policy, agents in distinct_policies(team):
        model = copy.deepcopy(policy.model).requires_grad_(False)
        scored = sampled_from[agents[0]]
        sizes = [embedded_tokens(one) for one in (model, scored.model)]
        if sizes[0] < sizes[1]:
            raise PolicyError(
                f"The reference of {agents[0]} embeds {sizes[0]} tokens, the policy that it is to score {sizes[1]}. "
                "Use a reference with the policy's own tokenizer."
            )
        if device := shared_device(devices or {}, agents):
            move(model, device)
        if scored.tokenizer is not policy.tokenizer and scored.tokenizer.get_vocab() != policy.tokenizer.get_vocab():
            raise PolicyError(
                f"The reference of {agents[0]} has another vocabulary than the policy that it is to score, and would "
                "score other words. Use a reference with the policy's own tokenizer."
            )
        duplicate = LLMPolicy(model, policy.tokenizer, scored.sampling)
        frozen.update(dict.fromkeys(agents, duplicate))
    return {agent: frozen[agent] for agent in team}


def save_team(team: Mapping[str, LLMPolicy], folder: Path) -> None:
    """Write each policy to `folder/<agent>`, a shared one under the name of its first agent, and who has which."""
    places: dict[str, str] = {}
    for policy, agents in distinct_policies(team):
        places.update(dict.fromkeys(agents, folder_name(agents[0])))
        policy.save(folder / folder_name(agents[0]))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / TEAM_FILE).write_text(json.dumps(places, indent=1) + "\n", encoding="utf-8")


def saved_team(source: object, part: str = "") -> dict[str, Path] | None:
    """By agent, the folders of a team that a run saved; None if `source` names no run.

    Args:
        source: `runs/NAME`, or the folder that `save_team` wrote.
        part: A team within it, such as "critics".
    """
    if not isinstance(source, (str, os.PathLike)):
        return None
    for folder in (Path(source) / "checkpoints" / "final" / part, Path(source) / part):
        if (folder / TEAM_FILE).is_file():
            try:
                places = json.loads((folder / TEAM_FILE).read_text(encoding="utf-8"))
                return {agent: folder / place for agent, place in places.items()}
            except (ValueError, AttributeError, TypeError) as error:
                raise PolicyError(
                    f"{str(folder / TEAM_FILE)!r} does not say which folder is whose. Give the folders themselves: "
                    "policies={agent: folder}."
                ) from error
    return None


def source_names(sources: PolicySources, agents: Sequence[str]) -> dict[str, list[str]]:
    """`policies` as `config.yaml` holds it, in agent order; nothing where a loaded policy has no name."""
    single = isinstance(sources, (str, os.PathLike, LLMPolicy))
    chosen = [sources] if single else list(_one_source_per_agent(sources, agents).values())
    names = [os.fspath(source) for source in chosen if isinstance(source, (str, os.PathLike))]
    return {"policies": names} if len(names) == len(chosen) else {}


def folder_name(agent: str) -> str:
    """The agent's id as the name of one folder: quoted where a path, or this project, would read more into it."""
    quoted = quote(agent, safe=" ", errors="surrogatepass")
    if not quoted.strip(".") or quoted in RESERVED:
        quoted = f"%{ord(quoted[0]):02X}{quoted[1:].replace('.', '%2E')}" if quoted else "%"
    if len(quoted) > MAX_NAME:
        quoted = quoted[:MAX_NAME] + hashlib.sha256(quoted.encode()).hexdigest()[:16]
    return quoted


def _one_source_per_agent(sources: PolicySources, agents: Sequence[str]) -> dict[str, PolicySource]:
    if isinstance(sources, (str, os.PathLike, LLMPolicy)):
        return dict.fromkeys(agents, sources)
    if isinstance(sources, Mapping):
        for name in sources:
            if name not in agents:
                raise PolicyError(
                    f"policies names the agent {name!r}, but the team is {list(agents)}.{closest(name, agents)}"
                )
        missing = [agent for agent in agents if agent not in sources]
        if missing:
            raise PolicyError(f"policies has no entry for {missing}. Give one policy for each of {list(agents)}.")
        return {agent: sources[agent] for agent in agents}
    if not isinstance(sources, Sequence):
        raise _no_source("policies", sources)
    if len(sources) != len(agents):
        raise PolicyError(
            f"policies lists {len(sources)} entries for a team of {len(agents)} ({', '.join(agents)}). Give one per "
            "agent, or a single entry for all."
        )
    return dict(zip(agents, sources, strict=True))


def _no_source(what: str, given: object) -> PolicyError:
    return PolicyError(
        f"{what} is a {type(given).__name__}. Give a name, a folder, an LLMPolicy (a bare model needs its tokenizer: "
        "LLMPolicy(model, tokenizer)), a list of these, or a dict by agent."
    )
