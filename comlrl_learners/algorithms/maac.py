"""Multi-agent actor-critic with one central critic, which reads what all agents read.

Lowe et al. 2017 and Foerster et al. 2018: central critic, decentralised actors; with completions as actions.
"""

from __future__ import annotations

from dataclasses import dataclass

from comlrl_learners.algorithms.actor_critic import ActorCritic, ActorCriticConfig
from comlrl_learners.critic import Critic, CriticSources, build_critics, run_critics
from comlrl_learners.rollout import Node
from comlrl_learners.samples import Prompt
from comlrl_learners.team import learners
from comlrl_learners.trainer import Trainer


@dataclass(kw_only=True)
class MAACConfig(ActorCriticConfig):
    """Settings of MAAC."""

    def __post_init__(self) -> None:
        """Refuse what only a head on a policy would read.

        Raises:
            ConfigError: With the reason.
        """
        super().__post_init__()
        self.refuse_idle(True, "the central critic has a model and a loss of its own", "value_loss_coef")


class TeamView:
    """The critic reads the joint state, all prompts under the agents' names, and the joint action."""

    shared = True

    def situation(self, critic: Critic, node: Node, agent: str) -> Prompt | None:
        """The joint state."""
        return critic.policy.encode(_state(node))

    def action(self, critic: Critic, node: Node, agent: str, index: tuple[int, ...]) -> Prompt | None:
        """The joint state and the joint action."""
        replies = [
            f"[reply of {name}]\n{node.completions[name][k].text}" for name, k in zip(node.acting, index, strict=True)
        ]
        return critic.policy.encode("\n\n".join([_state(node), *replies]))


class MAACTrainer(Trainer[MAACConfig]):
    """Trains a team with MAAC."""

    name = "maac"
    config_class = MAACConfig

    def _build_algorithm(self, critics: CriticSources | None) -> ActorCritic:
        team = learners(self.team, self.config.frozen)
        chosen = critics if critics is not None else run_critics(self.sources, list(team), shared=True)
        built = build_critics(chosen, team, self.config, shared=True, partners=self.team.values())
        return ActorCritic(
            self.config, self.playground.game, self.team, self.references, self._executor, built, TeamView()
        )


def _state(node: Node) -> str:
    """What `TextEnv.state` shows: all agents' prompts in agent order, each under its name."""
    return "\n\n".join([f"[{name}]\n{text}" for name, text in node.prompts.items()])
