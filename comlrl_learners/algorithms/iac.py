"""Independent actor-critic: every agent learns from a critic that reads what the agent itself reads.

Foerster et al. 2018, section 3.1 (independent actor-critic), with completions as actions.
"""

from __future__ import annotations

from dataclasses import dataclass

from comlrl_learners.algorithms.actor_critic import ActorCritic, ActorCriticConfig
from comlrl_learners.critic import Critic, CriticSources, build_critics, critics_on_actors, run_critics
from comlrl_learners.errors import ConfigError
from comlrl_learners.rollout import Node
from comlrl_learners.samples import Prompt
from comlrl_learners.team import learners
from comlrl_learners.trainer import Trainer


@dataclass(kw_only=True)
class IACConfig(ActorCriticConfig):
    """Settings of IAC."""

    use_separate_critic: bool = False
    """Give critics models of their own; otherwise a value head sits on each policy and reads its forward."""

    def __post_init__(self) -> None:
        """Refuse a head on the policy that would have to read what is only then written.

        Raises:
            ConfigError: With the reason and the nearest setting that works.
        """
        super().__post_init__()
        if self.critic_type == "q" and not self.use_separate_critic:
            raise ConfigError(
                "critic_type='q' judges what was written, and a head on the policy reads the prompt alone. Use "
                "use_separate_critic=True, or critic_type='v'."
            )
        self.refuse_idle(
            self.use_separate_critic, "critics with models of their own have a loss of their own", "value_loss_coef"
        )
        if self.critic_devices is not None and not self.use_separate_critic:
            raise ConfigError(
                "critic_devices places critics with models of their own, and a head on the policy lies with it. Use "
                "use_separate_critic=True, or critic_devices=None."
            )


class OwnView:
    """An agent's critic reads the agent's own prompt, and its own reply."""

    shared = False

    def situation(self, critic: Critic, node: Node, agent: str) -> Prompt | None:
        """The agent's prompt; None where it only watches."""
        if agent not in node.acting:
            return None
        return critic.policy.encode(node.messages[agent] if critic.policy.uses_chat else node.prompts[agent])

    def action(self, critic: Critic, node: Node, agent: str, index: tuple[int, ...]) -> Prompt | None:
        """The agent's prompt and reply; None where it only watches."""
        if agent not in node.acting:
            return None
        reply = node.completions[agent][index[node.acting.index(agent)]].text
        if critic.policy.uses_chat:
            return critic.policy.encode([*node.messages[agent], {"role": "assistant", "content": reply}])
        return critic.policy.encode(f"{node.prompts[agent]}\n\n{reply}")


class IACTrainer(Trainer[IACConfig]):
    """Trains a team with IAC."""

    name = "iac"
    config_class = IACConfig

    def _build_algorithm(self, critics: CriticSources | None) -> ActorCritic:
        config, team = self.config, learners(self.team, self.config.frozen)
        if config.use_separate_critic:
            built = build_critics(
                critics if critics is not None else run_critics(self.sources, list(team), shared=False),
                team,
                config,
                shared=False,
                partners=self.team.values(),
            )
        else:
            if critics is not None:
                raise ConfigError(
                    "critics= needs use_separate_critic=True; without it a value head sits on each policy."
                )
            built = critics_on_actors(team, config.value_head_hidden, config.seed)
        return ActorCritic(config, self.playground.game, self.team, self.references, self._executor, built, OwnView())
