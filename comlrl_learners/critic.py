"""Critics: a value head on a language model's last hidden state, on the policy itself or on a model of its own."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from comlrl_envs.seeding import derive
from comlrl_learners.errors import ConfigError, PolicyError
from comlrl_learners.loading import Dtype
from comlrl_learners.placement import Devices, place
from comlrl_learners.policy import LLMPolicy, distinct_policies
from comlrl_learners.samples import Prompt
from comlrl_learners.team import Loading, PolicySources, build_team, frozen_copies, save_team, saved_team

HEAD_FILE = "value_head.safetensors"

CriticSources: TypeAlias = PolicySources


class CriticSettings(Protocol):
    """What building critics needs of a configuration."""

    seed: int
    dtype: Dtype
    critic_devices: Devices
    value_head_hidden: int | None
    gradient_checkpointing: bool


class ValueHead(nn.Module):
    """One number per hidden state: linear, or linear-tanh-linear.

    Args:
        width: Size of the hidden states.
        hidden: Size of the layer between, or None for a linear head.
        seed: Decides the start: weights from N(0, 0.02), biases 0.
    """

    def __init__(self, width: int, hidden: int | None = None, seed: int = 0) -> None:
        super().__init__()
        self.hidden = hidden
        sizes = [width, 1] if hidden is None else [width, hidden, 1]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(sizes))
        generator = torch.Generator().manual_seed(derive("value head", seed) % 2**63)
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                if name.endswith("weight"):
                    parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.02)
                else:
                    parameter.zero_()

    def forward(self, hidden: Tensor) -> Tensor:
        """Values (rows,) of hidden states (rows, width)."""
        hidden = hidden.to(next(self.parameters()).dtype)
        for layer in self.layers[:-1]:
            hidden = torch.tanh(layer(hidden))
        value: Tensor = self.layers[-1](hidden)
        return value[:, 0]


class Critic:
    """A value head and the model that it reads.

    Args:
        policy: Model and tokenizer; what it would write is of no interest.
        head: The head.

    Attributes:
        policy: As given.
        head: As given.
    """

    def __init__(self, policy: LLMPolicy, head: ValueHead) -> None:
        self.policy, self.head = policy, head

    def values(self, prompts: Sequence[Prompt]) -> Tensor:
        """Values (n,) read at the last token of each prompt, with gradient unless it is switched off."""
        backbone = self.policy.backbone
        with backbone.hidden_states() as seen:
            backbone.read_prompts([prompt.ids for prompt in prompts], None)
        value: Tensor = self.head(seen[0][:, -1])
        return value

    @torch.no_grad()
    def estimates(self, prompts: Iterable[Prompt], token_budget: int) -> dict[tuple[int, ...], float]:
        """The value of each distinct prompt, by its token ids."""
        found: dict[tuple[int, ...], float] = {}
        for part in in_microbatches({prompt.ids: prompt for prompt in prompts}.values(), token_budget):
            found.update(zip([prompt.ids for prompt in part], self.values(part).tolist(), strict=True))
        return found


def head_for(policy: LLMPolicy, hidden: int | None, seed: int) -> ValueHead:
    """The head that lies beside a loaded policy, or a fresh one that fits its hidden states.

    Raises:
        ConfigError: The head there has another shape.
    """
    width = int(policy.backbone.output_layer.weight.shape[-1])
    dtype = torch.float64 if policy.model.dtype == torch.float64 else torch.float32
    head = ValueHead(width, hidden, seed).to(policy.backbone.device, dtype)
    saved = None if policy.folder is None else policy.folder / HEAD_FILE
    if saved is not None and saved.is_file():
        try:
            head.load_state_dict(load_file(saved))
        except SafetensorError as error:
            raise PolicyError(
                f"The value head {str(saved)!r} cannot be read ({error}). Load another folder."
            ) from error
        except RuntimeError as error:
            raise ConfigError(
                f"The value head {str(saved)!r} has another shape: set value_head_hidden as then."
            ) from error
    return head


def save_head(head: ValueHead, folder: Path) -> None:
    """Write a head into the folder of its policy."""
    save_file({name: value.contiguous() for name, value in head.state_dict().items()}, folder / HEAD_FILE)


def save_critics(critics: Mapping[str, Critic], team: Mapping[str, LLMPolicy], folder: Path) -> None:
    """Beside a saved team: heads of its policies in their folders, critics with models of their own in `critics/`."""
    separate = {agent: critic.policy for agent, critic in critics.items() if critic.policy is not team[agent]}
    if separate:
        save_team(separate, folder / "critics")
    for agent, home in {**(saved_team(folder) or {}), **(saved_team(folder, "critics") or {})}.items():
        if agent in critics:
            save_head(critics[agent].head, home)


def critics_on_actors(team: Mapping[str, LLMPolicy], hidden: int | None, seed: int) -> dict[str, Critic]:
    """A head on each distinct policy; agents that share a policy share its critic."""
    built: dict[str, Critic] = {}
    for policy, agents in distinct_policies(team):
        critic = Critic(policy, head_for(policy, hidden, derive("critic", seed, agents[0])))
        built.update(dict.fromkeys(agents, critic))
    return {agent: built[agent] for agent in team}


def build_critics(
    sources: CriticSources | None,
    team: Mapping[str, LLMPolicy],
    config: CriticSettings,
    *,
    shared: bool,
    partners: Iterable[LLMPolicy] = (),
) -> dict[str, Critic]:
    """Critics with models of their own.

    Args:
        sources: Like `policies=`: names, folders, hub ids or loaded policies; None copies each actor's start.
        team: The actors.
        partners: Policies of agents that do not learn.
        config: Seed, head, dtype and devices of what is loaded.
        shared: One critic for all agents: `sources` then is a single entry.

    Raises:
        ConfigError: A list or dict was given for the one shared critic.
        PolicyError: A source cannot be loaded, or is one of the actors themselves.
    """
    agents = list(team)
    if shared and isinstance(sources, (list, tuple, Mapping)):
        raise ConfigError(f"critics= has {len(sources)} entries, and this algorithm has one critic for all. Give one.")
    owners = agents[:1] if shared else agents
    named = place(config.critic_devices, owners, "critic_devices")
    if sources is None:
        sources = frozen_copies({agent: team[agent] for agent in owners}, sampled_from=team)
        for policy in sources.values():
            policy.model.requires_grad_(True)
    else:
        saved = saved_team(sources, "critics")
        sources = sources if saved is None else _saved_critics(saved, owners)
        named = {agent: device or str(team[agent].backbone.device) for agent, device in named.items()}
    loading = Loading(team[owners[0]].sampling, config.dtype, named, config.gradient_checkpointing)
    models = build_team(sources, owners, loading)
    for agent, policy in models.items():
        policy.read_only()
        if any(policy.model is actor.model for actor in (*team.values(), *partners)):
            raise PolicyError(f"The critic of {agent} is one of the team's own models. Load a copy, or leave it out.")
    built: dict[str, Critic] = {}
    for policy, served in distinct_policies(models):
        head = head_for(policy, config.value_head_hidden, derive("critic", config.seed, served[0]))
        built.update(dict.fromkeys(served, Critic(policy, head)))
    return {agent: built[owners[0] if shared else agent] for agent in agents}


def run_critics(policies: PolicySources, owners: Sequence[str], *, shared: bool) -> PolicySources | None:
    """The run that a team comes from, if it holds critics of these agents, or one for all of them; else None."""
    saved = saved_team(policies, "critics")
    fits = saved is not None and set(saved) >= set(owners) and (not shared or len(set(saved.values())) == 1)
    return policies if fits else None


def _saved_critics(saved: Mapping[str, Path], owners: Sequence[str]) -> dict[str, Path]:
    """The folders of a run's critics, each with its head."""
    if not set(saved) >= set(owners):
        raise ConfigError(
            f"The run holds critics of {list(saved)}, and {list(owners)} are to have one. Leave critics out."
        )
    for agent in owners:
        if not (saved[agent] / HEAD_FILE).is_file():
            raise PolicyError(f"The critic in {str(saved[agent])!r} has lost its {HEAD_FILE}. Leave critics out.")
    return {agent: saved[agent] for agent in owners}


def in_microbatches(prompts: Iterable[Prompt], token_budget: int) -> list[list[Prompt]]:
    """Prompts in order of length, cut into parts of at most `token_budget` padded tokens (one prompt at least)."""
    parts: list[list[Prompt]] = []
    for prompt in sorted(prompts, key=lambda prompt: (len(prompt.ids), prompt.ids)):
        if not parts or (len(parts[-1]) + 1) * len(prompt.ids) > token_budget:
            parts.append([])
        parts[-1].append(prompt)
    return parts


def explained_variance(values: Sequence[float], targets: Sequence[float]) -> float:
    """Share of the targets' variance that the values explain: 1 is perfect, 0 is no better than their mean."""
    mean = math.fsum(targets) / len(targets)
    total = math.fsum((target - mean) ** 2 for target in targets)
    left = [target - value for target, value in zip(targets, values, strict=True)]
    centre = math.fsum(left) / len(left)
    return 1 - math.fsum((error - centre) ** 2 for error in left) / total if total > 0 else 0.0
