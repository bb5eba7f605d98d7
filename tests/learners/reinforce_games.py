"""Small games and trainers of the tests of the REINFORCE family."""

import torch

from comlrl_envs import from_reward
from comlrl_learners import (
    MAGRPOConfig,
    MAGRPOTrainer,
    MAREINFORCEConfig,
    MAREINFORCETrainer,
    MAReMaxConfig,
    MAReMaxTrainer,
    MARLOOConfig,
    MARLOOTrainer,
)
from comlrl_learners.rollout import Visit

from .toy_models import flat_gradient, toy_team

WORDS = ("one", "two", "three", "four")


ROWS = [{"id": f"row-{i}", "prompt": text} for i, text in enumerate(WORDS)]


AGENTS = ("agent_0", "agent_1")


FAMILY = {
    MAGRPOTrainer: MAGRPOConfig, MAREINFORCETrainer: MAREINFORCEConfig,
    MARLOOTrainer: MARLOOConfig, MAReMaxTrainer: MAReMaxConfig,
}  # fmt: skip


RAW = {"baseline": "none", "advantage_norm": "none"}


"""With these, advantages are returns."""


def spread(first, second):
    """A reward that differs between almost all joint actions."""
    return [
        (sum(map(ord, one)) % 101) / 101 + (sum(map(ord, two)) % 97) / 50
        for one, two in zip(first, second, strict=True)
    ]


def constant(first, second):
    return [0.1] * len(first)


def again(prompt, agent_completions, num_agents, **histories):
    return [f"{prompt} {text[:4]}" for text in agent_completions]


def game(turns=1, reward=spread, rows=ROWS):
    return from_reward(rows, reward, feedback=again if turns > 1 else None, max_turns=turns)


def trainer(cls=MAGRPOTrainer, turns=1, policies=None, env=None, references=None, **settings):
    config = FAMILY[cls](**{"output_dir": None, "num_generations": 3, "items_per_rollout": 4, **settings})
    team = policies if policies is not None else toy_team()
    return cls(env=env or game(turns), policies=team, config=config, references=references)


def visits(one, count=4):
    return [Visit(one.playground.tasks[i], 0, one.config.seed, "train") for i in range(count)]


def collect(one, count=4):
    return one.algorithm.collect(visits(one, count))


def gradient(one, batch, agent):
    """The gradient of the agent's mean loss over a batch."""
    member = one.team[agent]
    member.model.zero_grad()
    one.algorithm.actors.sample_losses(member, batch.samples[agent]).mean().backward()
    found = flat_gradient(member)
    member.model.zero_grad()
    return found


def gradient_sums(one):
    """The sum of all gradients that reach each policy's weights from here on, by agent."""
    totals = {}
    for agent, member in one.team.items():
        totals[agent] = {name: torch.zeros_like(p) for name, p in member.model.named_parameters()}
        for name, parameter in member.model.named_parameters():
            parameter.register_hook(totals[agent][name].add_)
    return lambda agent: torch.cat([total.flatten() for total in totals[agent].values()])


def advantages(batch, agent):
    return [sample.advantage for sample in batch.samples[agent]]


def poison(member):
    with torch.no_grad():
        next(iter(member.model.parameters())).fill_(float("nan"))


# Directions of the four algorithms.
